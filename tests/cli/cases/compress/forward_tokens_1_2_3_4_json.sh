#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 4 --out whole >/dev/null 2>&1 &&
  crosshead forward whole --tokens 1,2,3,4 --json >a &&
  crosshead forward $DATA/TinyStories-656K --tokens 1,2,3,4 --json >b && cmp a b && echo same

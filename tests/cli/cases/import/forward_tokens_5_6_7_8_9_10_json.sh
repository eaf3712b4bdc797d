#!/bin/bash
crosshead absorb $DATA/reference/gpt_oss --out a && crosshead forward a --tokens 5,6,7,8,9,10 --json >b &&
  crosshead forward $DATA/reference/gpt_oss --tokens 5,6,7,8,9,10 --json | cmp - b

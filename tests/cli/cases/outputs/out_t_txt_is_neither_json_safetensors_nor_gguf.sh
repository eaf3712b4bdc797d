#!/bin/bash
echo mine >t.txt
crosshead forward $DATA/TinyStories-656K --tokens 1,2 --out t.txt --force

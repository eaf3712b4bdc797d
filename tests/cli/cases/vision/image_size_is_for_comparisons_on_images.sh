#!/bin/bash
crosshead compare --data $DATA/README.md --image-size 64 --mechanisms mha --out side

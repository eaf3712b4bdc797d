#!/bin/bash
crosshead compare --data text.txt --num-gpus=8 --out out

#!/bin/bash
printf '5\n512\n' | crosshead tokenize $DATA/text/bytelevel.json - --decode

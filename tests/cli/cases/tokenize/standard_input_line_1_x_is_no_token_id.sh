#!/bin/bash
echo '5 x' | crosshead tokenize $DATA/text/bytelevel.json - --decode

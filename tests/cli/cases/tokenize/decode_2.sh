#!/bin/bash
echo '5,6	7' | crosshead tokenize $DATA/text/bytelevel.json - --decode

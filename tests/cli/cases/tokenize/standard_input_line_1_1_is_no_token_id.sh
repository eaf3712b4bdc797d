#!/bin/bash
echo '-1' | crosshead tokenize $DATA/text/bytelevel.json - --decode

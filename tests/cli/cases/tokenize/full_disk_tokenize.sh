#!/bin/bash
echo 'Hello world' | crosshead tokenize $DATA/text/bytelevel.json - >/dev/full

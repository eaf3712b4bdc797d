#!/bin/bash
printf 'a<|endoftext|>b' | crosshead tokenize $DATA/text/bytelevel.json - --no-special

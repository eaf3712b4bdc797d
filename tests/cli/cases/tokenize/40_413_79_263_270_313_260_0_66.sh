#!/bin/bash
printf 'Hello world\n\n a<|endoftext|>b' | crosshead tokenize $DATA/text/bytelevel.json -

#!/bin/bash
cp $DATA/formats/split-0000*.gguf .
chmod u+w *
sed -i 's/blk.0.ffn_up/blk.0.ffn_xp/' split-00002-of-00002.gguf
crosshead import split-00001-of-00002.gguf --out m

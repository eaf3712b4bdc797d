#!/bin/bash
# A text that validates: the other trains whole. The same run without it, and one that is resumed,
# have what they were made from.
head -c 40000 $DATA/../../data/tinyshakespeare.txt >a.txt
tail -c 9000 $DATA/../../data/tinyshakespeare.txt >v.txt
t() {
  crosshead train $DATA/../../configs/tiny-gqa.json --tokenizer $DATA/TinyStories-656K --data a.txt \
      --batch 2 --seq 16 --runs none "$@" 2>&1
}
t --steps 2 --schedule constant --validation v.txt --out o | grep -c 'validation loss'
python3 -c '
import struct
h = struct.unpack("<QQQ", open("o/data.tokens", "rb").read(128)[24:48])
print("parts", h[0] > 15000, 3000 < h[1] < 5000, h[2])
'
t --steps 3 --schedule constant --validation v.txt --out o --resume | grep -c 'validation loss'
t --steps 3 --schedule constant --out o --resume
t --out p --validation a.txt
t --out p --validation 0.7
t --out p --validation o/data.tokens
crosshead train --out o --resume --validation v.txt

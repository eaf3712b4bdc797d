#!/bin/bash
head -c 40000 $DATA/../../data/tinyshakespeare.txt >a.txt
tail -c 9000 $DATA/../../data/tinyshakespeare.txt >v.txt
V="--data a.txt --validation v.txt --mechanisms mqa --params 40k --vocab 300 --tokens 1k --seq 16 --batch 4"
crosshead compare $V --out compare >/dev/null 2>&1
crosshead sweep $V --out sweep >/dev/null 2>&1
cmp compare/data.tokens sweep/data.tokens && python3 -c '
import struct
h = struct.unpack("<QQQ", open("sweep/data.tokens", "rb").read(128)[24:48])
print("parts", h[0] > 20000, 5000 < h[1] < 8000, h[2])
'

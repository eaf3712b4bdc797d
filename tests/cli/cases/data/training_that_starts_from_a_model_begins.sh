#!/bin/bash
# Training that starts from a model begins documents as generate and eval do.
head -c 20000 $DATA/../../data/tinyshakespeare.txt | sed 's/^$/<|endoftext|>/' >d.txt
t() {
  crosshead train --data d.txt --steps 1 --batch 2 --seq 16 --runs none "$@" >/dev/null 2>&1
}
t --init-from $DATA/TinyStories-656K --out i
t $DATA/../../configs/tiny-gqa.json --tokenizer $DATA/TinyStories-656K --out c
python3 -c '
import struct
read = lambda d: open(d + "/data.tokens", "rb").read()
ids = lambda d: list(struct.unpack("<%dH" % (len(read(d)) // 2 - 64), read(d)[128:]))
documents = struct.unpack("<Q", read("i")[40:48])[0]
end = struct.unpack("<i", read("i")[80:84])[0]
i, c = ids("i"), ids("c")
print(documents > 100, documents <= i.count(1) <= documents + 8, all(b == 1 for a, b in zip(i, i[1:]) if a == end), [x for x in i if x != 1] == [x for x in c if x != 1], c.count(1))
'

#!/bin/bash
python3 -c '
import json, random
r = random.Random(1)
t = open("'$DATA'/../../data/tinyshakespeare.txt").read()
d = [t[i:i + r.randrange(60, 900)] for i in range(0, 60000, 900)]
open("d.jsonl", "w").write("".join(json.dumps({"id": 10 ** 30, "text": x}) + "\n" for x in d))
open("lines.txt", "w").write("\n\n".join(json.dumps({"text": x}, ensure_ascii=False) for x in d))
open("d.txt", "w").write("<|endoftext|>".join(d))
'
t() {
  crosshead train $DATA/../../configs/tiny-gqa.json --tokenizer $DATA/TinyStories-656K --steps 2 --batch 2 \
      --seq 16 --runs none "$@" >/dev/null 2>&1
}
for f in d.jsonl lines.txt d.txt; do
  t --data $f --out $f.model || echo failed
  cmp $f.model/data.tokens d.jsonl.model/data.tokens || echo other tokens
  crosshead eval $DATA/TinyStories-656K --text $f --json | grep -v seconds | sha256sum
done | sort | uniq -c

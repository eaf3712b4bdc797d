#!/bin/bash
# Tokens that fill windows up are none of the text, nor a load of experts; a resumed run goes on
# counting.
python3 -c '
t = open("'$DATA'/../../data/tinyshakespeare.txt").read()
open("d.txt", "w").write("<|endoftext|>".join(t[i:i + 33] for i in range(0, 33000, 33)))
'
cat >m.json <<'END'
{"model_type": "crosshead", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 128,
 "moe": {"experts": 4, "active": 2, "expert_intermediate_size": 16, "balance": "aux"}}
END
t() {
  crosshead train m.json --data d.txt --documents --seq 64 --batch 8 --runs none \
      --schedule constant "$@" >/dev/null 2>&1
}
t --steps 4 --out o
t --steps 2 --out r
t --steps 4 --out r --resume
t --tokens 2000 --out n
python3 -c '
import json
steps = lambda d: [r for r in map(json.loads, open(d + "/log.jsonl")) if r["event"] == "step"]
o, r, n = steps("o"), steps("r"), steps("n")
print("loads", [2 * (b["tokens"] - a["tokens"]) == sum(map(sum, b["expert_load"])) < 2 * 8 * 64 for a, b in zip([{"tokens": 0}] + o, o)])
print("resumed", r[-1]["tokens"] == o[-1]["tokens"], "steps", len(n), n[-2]["tokens"] < 2000 <= n[-1]["tokens"] + 60)
'

#!/bin/bash
cp $DATA/reference/llama_gqa/config.json c.json
crosshead bench c.json --prompt 4 --depth 4 --tokens 2 --repeat 1 --profile --json >p.json
grep -o '"profile": .{.*' p.json | head -1 | grep -o '"[a-z_]*":' | head -8 | tr -d '"\n'
echo
grep -o '"matrix"' p.json | head -1

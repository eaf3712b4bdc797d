#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead compare --data t.txt --mechanisms mqa,egmla --params 60k --vocab 300 --tokens 1k --seq 16 \
    --batch 4 --eval-tokens 64 --hidden 32 --layers 2 --heads 4 --match active --tolerance 50 --seeds 2 \
    --runs kept --out side --json &&
  crosshead runs config.hidden_size=32 --runs kept --sort=-seed --limit 1 &&
  crosshead runs name=mqa seed=1 --curves --json --runs kept &&
  crosshead runs show kind=compare --runs kept --sort=-seed --limit 1 &&
  crosshead runs compare kind=compare --runs kept --sort id --limit 2 --json

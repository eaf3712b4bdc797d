#!/bin/bash
m=$DATA/TinyStories-656K
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
export OMP_DISPLAY_AFFINITY=TRUE OMP_AFFINITY_FORMAT='team of %N'
three() {
  "$@" --threads 3 >out 2>&1 || cat out
  grep -q '^team of 3$' out || echo "not three: $*"
}
three crosshead quantize $m --type q8_0 --out q
three crosshead generate $m --prompt "Once upon a time" --max-tokens 2
three crosshead forward $m --tokens 1,2,3,4,5,6,7,8
three crosshead eval $m --text t.txt --separator none
three crosshead tokenizer train --data t.txt --vocab 300
three crosshead train $DATA/../../configs/tiny-gqa.json --data t.txt --tokenizer $m --steps 1 --batch 2 \
    --seq 16 --eval-tokens 64 --out r
three crosshead compare --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 500 --seq 16 \
    --batch 4 --eval-tokens 64 --compute f32 --out j
three crosshead compress $m --method svd --ratio 0.2 --out c
echo end

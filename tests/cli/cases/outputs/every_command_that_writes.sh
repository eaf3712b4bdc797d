#!/bin/bash
# Every command that writes: the second time it is refused with status 2 and changes nothing; with
# --force it succeeds.
m=$DATA/TinyStories-656K
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
twice() {
  local out=$1
  shift
  "$@" >/dev/null 2>&1 || echo "first: $*"
  ls -lR --time-style=full-iso $out >before
  "$@" >/dev/null 2>err
  [ $? -eq 2 ] && grep -q -- 'already.*--force replaces it' err || {
    echo "again: $*"
    cat err
  }
  ls -lR --time-style=full-iso $out | cmp - before
  "$@" --force >/dev/null 2>err || {
    echo "force: $*"
    cat err
  }
  ls -d $out.* 2>/dev/null
}
twice q crosshead quantize $m --type q8_0 --out q
twice a crosshead absorb $m --out a
twice c crosshead compress $m --method mea --component-heads 2 --out c
twice i crosshead import $m --out i
twice e crosshead export $m --format safetensors --out e
twice g crosshead export $m --format gguf --out g
twice f crosshead forward $m --tokens 1,2 --out f
twice s crosshead eval $m --task hellaswag --task-file $DATA/tasks/hellaswag.jsonl --limit 1 --log-samples s
twice n crosshead generate $m --max-tokens 2 --trace n
twice b crosshead bench $m --prompt 4 --depth 0 --tokens 2 --repeat 1 --trace b
twice k crosshead tokenizer train --data t.txt --vocab 300 --out k
twice r crosshead train $DATA/../../configs/tiny-gqa.json --data t.txt --tokenizer $m --steps 1 --batch 2 \
    --seq 16 --eval-tokens 64 --out r
ls
echo end

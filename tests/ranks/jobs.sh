#!/bin/bash
# Tests training over MPI as users start it: jobs.sh PROGRAM SOURCE PART [ROUNDS]. PART is one of `bits`, `failures` and `input`.
# Exit status 77 means skipped: no MPI.
set -eu
part=$3 rounds=${4:-1}
. "$(dirname "$0")/common.sh" "$1" "$2" yes

# Tensors of a safetensors file, without its header, which holds the seconds that training took.
tensors() { tail -c +$(($(od -An -tu8 -N8 "$1") + 9)) "$1" | cksum; }
losses() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([^,]*\),"lr".*"grad_norm":\([^,]*\).*/\1 \2 \3/p' "$1/log.jsonl"; }
steps_of() { if [ -f "$1/log.jsonl" ]; then grep -c '"event":"step"' "$1/log.jsonl" || true; else echo 0; fi; }
same() { # two directories of runs
  cmp "$1/model.safetensors" "$2/model.safetensors" || fail "the models of $1 and $2 differ"
  [ "$(tensors "$1/checkpoint.safetensors")" = "$(tensors "$2/checkpoint.safetensors")" ] || fail "the checkpoints of $1 and $2 differ"
  [ -n "$(losses "$1")" ] && [ "$(losses "$1")" = "$(losses "$2")" ] || fail "the losses of $1 and $2 differ"
}

config() { # config NAME 'members of JSON'
  cat >"$1.json" <<END
{"model_type": "crosshead", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 64, $2}
END
}
config gqa '"tie_word_embeddings": true, "attention": {"type": "gqa"}'
options="--data text --seq 32 --batch 12 --micro-batch 1 --steps 4 --eval-every 2 --eval-tokens 700"

case $part in
bits)
  config mla '"attention": {"type": "mla", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}'
  config masa '"attention": {"type": "gqa"}, "sharing": {"type": "masa", "projections": ["q", "k", "v", "o"], "atoms": 2}'
  config egmla '"attention": {"type": "mla", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "gate_embedding_dim": 10}'
  config moe '"attention": {"type": "gqa"}, "moe": {"experts": 4, "active": 2, "expert_intermediate_size": 16, "balance": "aux"}'
  # Every mechanism over every number of ranks is in tests/train/test_over_ranks.c; here over MPI.
  for run in "gqa f32 2 3 4" "gqa bf16 2" "mla f32 3" "egmla f32 4" "egmla bf16 3" "masa bf16 2" "moe f32 3"; do
    set -- $run
    config=$1 type=$2
    shift 2
    alone train "$config.json" $options --dtype "$type" --out "$config-$type" || { show; fail "$config alone"; }
    for n in "$@"; do
      rm -f trace
      over "$n" train "$config.json" $options --dtype "$type" --out "$config-$type-$n" --trace trace ||
        { show; fail "$config over $n ranks"; }
      same "$config-$type" "$config-$type-$n"
      # A lane of each rank.
      for ((r = 0; r < n; r++)); do
        grep -q "\"args\":{\"name\":\"rank $r\"}" trace || fail "the trace has no lane of rank $r"
        [ "$(grep -c "\"name\":\"receive_gradients\",.*\"pid\":$((r + 1))," trace)" -gt 0 ] || fail "rank $r receives nothing"
      done
    done
  done
  # Interrupted again and again, and resumed on other numbers of ranks.
  alone train gqa.json $options --steps 120 --checkpoint-every 4 --out whole || { show; fail "the whole run"; }
  first="gqa.json $options --steps 120 --checkpoint-every 4"
  for n in 2 4 3 1 2; do
    "$MPIRUN" -n $n "$program" train $first --out parts >out 2>err &
    job=$!
    first=--resume
    before=$(steps_of parts)
    for ((i = 0; i < 1500; i++)); do
      [ "$(steps_of parts)" -lt $((before + 3)) ] && kill -0 $job 2>/dev/null || break
      sleep 0.02
    done
    kill -USR1 $job 2>/dev/null || true
    wait $job || true
  done
  over 3 train --out parts --resume || { show; fail "the last part"; }
  same whole parts
  ;;
failures)
  alone train gqa.json $options --steps 150 --checkpoint-every 5 --out whole || { show; fail "the whole run"; }
  started() { # waits for the job's first checkpoint
    for ((i = 0; i < 600; i++)); do [ -f "$1/checkpoint.safetensors" ] && return; sleep 0.05; done
    show
    fail "the job does not begin"
  }
  # A signal to one rank, or to mpirun, is for all: a checkpoint, one sentence, one exit status.
  for signal in TERM USR1; do
    timeout 120 "$MPIRUN" -n 3 "$program" train gqa.json $options --steps 150 --checkpoint-every 5 --out $signal >out 2>err &
    job=$!
    started $signal
    pids=$(pgrep -f "$program train.* --out $signal\$" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$program" ] && echo "$p"; done)
    kill -$signal "$(echo "$pids" | shuf -n 1)"
    status=0
    wait $job || status=$?
    [ $status = $((128 + $(kill -l $signal))) ] || { show; fail "SIG$signal ends with $status"; }
    once "of 150; \`crosshead train --out $signal --resume\` continues"
    over 2 train --out $signal --resume || { show; fail "resuming after SIG$signal"; }
    same whole $signal
  done
  # A rank that is killed takes the others with it; the last checkpoint is whole.
  for ((round = 0; round < rounds; round++)); do
    rm -rf killed
    timeout 120 "$MPIRUN" -n 3 "$program" train gqa.json $options --steps 150 --checkpoint-every 5 --out killed >out 2>err &
    job=$!
    started killed
    sleep "0.$((RANDOM % 10))"
    pids=$(pgrep -f "$program train.* --out killed\$" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$program" ] && echo "$p"; done || true)
    victim=$(echo "$pids" | shuf -n 1)
    [ -z "$victim" ] || kill -KILL "$victim"
    begin=$SECONDS status=0
    wait $job || status=$?
    [ $((SECONDS - begin)) -le 30 ] || fail "the job ends $((SECONDS - begin)) s after a rank was killed"
    [ -z "$victim" ] || [ $status != 0 ] || [ -f killed/model.safetensors ] || fail "the job ends well without a rank"
    over 2 train --out killed --resume || { show; fail "resuming after a rank was killed"; }
    same whole killed
  done
  ;;
input)
  # Every sentence comes once, and every job ends.
  over 3 train gqa.json $options --batch 4 --out a && fail "4 micro-batches over 3 ranks"
  once "3 ranks cannot share the 4 sequences of a step evenly"
  over 2 train gqa.json $options --micro-batch 12 --out a && fail "one micro-batch over 2 ranks"
  once "--micro-batch 6 makes 2 of them"
  over 2 train gqa.json $options --bogus --out a && fail "an option that is not there"
  once "bogus"
  over 2 train none.json $options --out a && fail "a config that is not there"
  once "none.json"
  [ ! -e a ] || fail "what was refused has left a directory"
  usual=$(words "$program" train gqa.json $options --out a)
  differ() { # differ SENTENCE MORE...: rank 1 has more options
    local sentence=$1
    shift
    unequal "$usual" "$usual $(words "$@")" && fail "ranks that differ: $*"
    once "$sentence"
  }
  differ "rank 1 has other options than rank 0" --lr 0.5
  differ "rank 1 has another number of threads than rank 0" --threads 2
  cp text other
  differ "rank 1 has other names of files than rank 0" --data other
  config gqa '"attention": {"type": "gqa"}'
  unequal "$usual" "env CROSSHEAD_ISA=plain $usual" && fail "ranks with other instructions"
  once "rank 1 has another set of instructions"
  cp "$program" another && printf ' ' >>another && cp "$(dirname "$program")/crosshead-mpi.so" .
  unequal "$usual" "$(words ./another train gqa.json $options --out a)" && fail "ranks with other programs"
  once "rank 1 has another program than rank 0"
  # A directory in which another job trains.
  timeout 100 "$MPIRUN" -n 2 "$program" train gqa.json $options --steps 3000 --checkpoint-every 5 --out busy >first 2>&1 &
  job=$!
  for ((i = 0; i < 600; i++)); do [ -f busy/checkpoint.safetensors ] && break; sleep 0.05; done
  over 2 train --out busy --resume && fail "resuming what another job trains"
  once "another run is training in its directory"
  kill -TERM $job
  wait $job || true
  # No MPI: the module is not there.
  CROSSHEAD_MPI=$work/none.so timeout 60 "$MPIRUN" -n 2 "$program" train gqa.json $options --out a >out 2>err && fail "ranks without MPI"
  once "crosshead train: 2 processes were started together" # MPICH lets the others say so too, with "rank 1:" before it
  unequal "$usual" "env CROSSHEAD_MPI=$work/none.so $usual" && fail "one rank without MPI"
  once "rank 1: 2 processes were started together"
  ;;
*) fail "no such part" ;;
esac

#!/bin/bash
# Training over MPI as users start it: jobs.sh PROGRAM SOURCE PART [ROUNDS]. PART is one of `bits`, `failures` and `input`.
# Exit status 77 means skipped: no MPI.
set -eu
program=$1 source=$2 part=$3 rounds=${4:-1}
[ -f "$(dirname "$program")/crosshead-mpi.so" ] || { echo "skipped: this build has no MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1 CROSSHEAD_RUNS=none
# Open MPI: root is allowed, and messages go through memory and the loopback alone.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
head -c 60000 "$source/data/tinyshakespeare.txt" >text

fail() { echo "FAILED: $*"; exit 1; }
over() { # over N ARGUMENTS...: a minute is enough for every job here
  local n=$1
  shift
  timeout 120 mpirun -n "$n" "$program" "$@" >out 2>&1
}
# Tensors of a safetensors file, without its header, which holds the seconds that training took.
tensors() { tail -c +$(($(od -An -tu8 -N8 "$1") + 9)) "$1" | cksum; }
losses() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([^,]*\),"lr".*"grad_norm":\([^,]*\).*/\1 \2 \3/p' "$1/log.jsonl"; }
steps_of() { if [ -f "$1/log.jsonl" ]; then grep -c '"event":"step"' "$1/log.jsonl" || true; else echo 0; fi; }
same() { # two directories of runs
  cmp "$1/model.safetensors" "$2/model.safetensors" || fail "the models of $1 and $2 differ"
  [ "$(tensors "$1/checkpoint.safetensors")" = "$(tensors "$2/checkpoint.safetensors")" ] || fail "the checkpoints of $1 and $2 differ"
  [ -n "$(losses "$1")" ] && [ "$(losses "$1")" = "$(losses "$2")" ] || fail "the losses of $1 and $2 differ"
}
says() { grep -qF -- "$1" out || { cat out; fail "it does not say: $1"; }; }
once() { [ "$(grep -cF -- "$1" out)" = 1 ] || { cat out; fail "it does not say once: $1"; }; }

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
  for run in "gqa f32" "gqa bf16" "mla f32" "egmla f32" "egmla bf16" "masa bf16" "moe f32"; do
    set -- $run
    "$program" train "$1.json" $options --dtype "$2" --out "$1-$2" >out 2>&1 || { cat out; fail "$1 alone"; }
    for n in 2 3 4; do
      over $n train "$1.json" $options --dtype "$2" --out "$1-$2-$n" || { cat out; fail "$1 over $n ranks"; }
      same "$1-$2" "$1-$2-$n"
    done
  done
  # Interrupted again and again, and resumed on other numbers of ranks.
  "$program" train gqa.json $options --steps 40 --checkpoint-every 4 --out whole >out 2>&1 || { cat out; fail "the whole run"; }
  first="gqa.json $options --steps 40 --checkpoint-every 4"
  for n in 2 4 3 1 2; do
    mpirun -n $n "$program" train $first --out parts >out 2>&1 &
    job=$!
    first=--resume
    before=$(steps_of parts)
    for ((i = 0; i < 300; i++)); do
      [ "$(steps_of parts)" -lt $((before + 3)) ] || break
      sleep 0.1
    done
    kill -USR1 $job 2>/dev/null || true
    wait $job || true
  done
  over 3 train --out parts --resume || { cat out; fail "the last part"; }
  same whole parts
  ;;
failures)
  "$program" train gqa.json $options --steps 150 --checkpoint-every 5 --out whole >out 2>&1 || { cat out; fail "the whole run"; }
  started() { # waits for the job's first checkpoint
    for ((i = 0; i < 600; i++)); do [ -f "$1/checkpoint.safetensors" ] && return; sleep 0.05; done
    cat out
    fail "the job does not begin"
  }
  # A signal to one rank, or to mpirun, is for all: a checkpoint, one sentence, one exit status.
  for signal in TERM USR1; do
    timeout 120 mpirun -n 3 "$program" train gqa.json $options --steps 150 --checkpoint-every 5 --out $signal >out 2>&1 &
    job=$!
    started $signal
    pids=$(pgrep -f "$program train.* --out $signal\$" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$program" ] && echo "$p"; done)
    kill -$signal "$(echo "$pids" | shuf -n 1)"
    status=0
    wait $job || status=$?
    [ $status = $((128 + $(kill -l $signal))) ] || { cat out; fail "SIG$signal ends with $status"; }
    once "of 150; \`crosshead train --out $signal --resume\` continues"
    over 2 train --out $signal --resume || { cat out; fail "resuming after SIG$signal"; }
    same whole $signal
  done
  # A rank that is killed takes the others with it; the last checkpoint is whole.
  for ((round = 0; round < rounds; round++)); do
    rm -rf killed
    timeout 120 mpirun -n 3 "$program" train gqa.json $options --steps 150 --checkpoint-every 5 --out killed >out 2>&1 &
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
    over 2 train --out killed --resume || { cat out; fail "resuming after a rank was killed"; }
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
  differ() { # differ SENTENCE MORE...: rank 1 has more options
    local sentence=$1
    shift
    timeout 60 mpirun -n 1 "$program" train gqa.json $options --out a : -n 1 "$program" train gqa.json $options --out a "$@" >out 2>&1 &&
      fail "ranks that differ: $*"
    once "$sentence"
  }
  differ "rank 1 has other options than rank 0" --lr 0.5
  differ "rank 1 has another number of threads than rank 0" --threads 2
  cp text other
  differ "rank 1 has other names of files than rank 0" --data other
  config gqa '"attention": {"type": "gqa"}'
  timeout 60 mpirun -n 1 "$program" train gqa.json $options --out a : -n 1 --wdir "$work" env CROSSHEAD_ISA=plain "$program" train gqa.json $options --out a >out 2>&1 &&
    fail "ranks with other instructions"
  once "rank 1 has another set of instructions"
  cp "$program" another && printf ' ' >>another && cp "$(dirname "$program")/crosshead-mpi.so" .
  timeout 60 mpirun -n 1 "$program" train gqa.json $options --out a : -n 1 ./another train gqa.json $options --out a >out 2>&1 &&
    fail "ranks with other programs"
  once "rank 1 has another program than rank 0"
  # A directory in which another job trains.
  timeout 100 mpirun -n 2 "$program" train gqa.json $options --steps 3000 --checkpoint-every 5 --out busy >first 2>&1 &
  job=$!
  for ((i = 0; i < 600; i++)); do [ -f busy/checkpoint.safetensors ] && break; sleep 0.05; done
  over 2 train --out busy --resume && fail "resuming what another job trains"
  once "another run trains in its directory"
  kill -TERM $job
  wait $job || true
  # No MPI: the module is not there.
  CROSSHEAD_MPI=$work/none.so timeout 60 mpirun -n 2 "$program" train gqa.json $options --out a >out 2>&1 && fail "ranks without MPI"
  once "2 processes were started to work together"
  ;;
*) fail "no such part" ;;
esac

#!/bin/bash
# shellcheck disable=SC2086 # options are several words
# Tests comparisons and sweeps over ranks, and in shares, against one process: runs.sh PROGRAM SOURCE PART. PART is one of `ranks`, `shares`,
# `failures` and `sweep`. Exit status 77 means skipped: no MPI.
set -eu
part=$3
needed=yes
[ "$part" != shares ] || needed=no
. "$(dirname "$0")/common.sh" "$1" "$2" $needed

# results.json without what is measured on a clock, and what was typed.
figures() {
  sed -e '/"decode_curve": \[/,/^ *\]/d' -e '/_per_second": {/,/^ *}/d' "$1/results.json" |
    grep -vE '"(command|created|sentence|jobs)"|seconds|_per_second|unsteady|timing'
}
same() { # two directories of comparisons
  [ "$(figures "$1" | wc -l)" -gt 100 ] || fail "$1 has no results"
  [ "$(figures "$1")" = "$(figures "$2")" ] || { diff <(figures "$1") <(figures "$2"); fail "the results of $1 and $2 differ"; }
  [ -s "$2/report.html" ] || fail "$2 has no report"
}
options="--data text --mechanisms mha,gqa:2,mqa --params 60k --tokens 6k --seq 32 --batch 4 --vocab 300"

case $part in
ranks)
  alone compare $options --seeds 2 --out one || { show; fail "one process"; }
  over 2 compare $options --seeds 2 --out over-2 || { show; fail "two ranks"; }
  same one over-2
  alone compare $options --micro-batch 2 --out pairs-alone || { show; fail "one process, with micro-batches"; }
  over 4 compare $options --micro-batch 2 --ranks-per-run 2 --out pairs || { show; fail "pairs of ranks"; }
  same pairs-alone pairs
  # The rates that are tried, and runs of a comparison that has some already.
  alone compare $options --tune --out tuned-alone || { show; fail "one process tunes"; }
  over 2 compare $options --tune --out tuned || { show; fail "two ranks tune"; }
  same tuned-alone tuned
  # One file of runs, written by one rank.
  CROSSHEAD_RUNS=$work/runs.sqlite over 4 compare $options --seeds 2 --out over-4 || { show; fail "four ranks"; }
  same one over-4
  [ "$("$program" runs list --runs runs.sqlite --json 2>/dev/null | grep -c '"name"')" = 6 ] ||
    [ "$("$program" runs --runs runs.sqlite 2>/dev/null | grep -cE '\b(mha|gqa:2|mqa)\b')" = 6 ] || fail "six runs are not kept"
  rm -r over-4/mqa over-4/seed-2/mha
  alone compare $options --seeds 2 --out over-4 || { show; fail "one process goes on"; }
  same one over-4
  ;;
shares)
  alone compare $options --seeds 2 --out one || { show; fail "one process"; }
  # Tasks that start at the same time.
  for i in 1 2 3; do
    timeout 120 "$program" compare $options --seeds 2 --out shares --only $i/3 >out-$i 2>&1 &
  done
  wait
  for i in 1 2 3; do grep -q "^Share $i of 3: .* finished in shares" out-$i || { cat out-$i; fail "share $i"; }; done
  [ ! -e shares/results.json ] || fail "a share has written results"
  alone compare $options --seeds 2 --out shares --collect || { show; fail "collecting"; }
  same one shares
  # What is missing has a name.
  alone compare $options --seeds 2 --out half --only 1/2 || { show; fail "the first of two shares"; }
  alone compare $options --seeds 2 --out half --collect && fail "half a comparison is collected"
  says "half lacks 3 of 6 runs: "
  alone compare $options --out nothing --collect && fail "nothing is collected"
  says "nothing holds no comparison to collect"
  [ ! -e nothing ] || fail "what was refused has left a directory"
  alone compare $options --out nothing --only 4/3 && fail "share 4 of 3"
  says "--only is 4/3"
  alone compare $options --out nothing --only 1/3 --until-decided --budget 9s && fail "shares until decided"
  says "--until-decided adds runs later, but --only needs to know all runs in advance"
  alone compare $options --out shares --only 1/3 --force && fail "a share removes the others"
  says "--force would remove what other shares have trained"
  alone compare $options --seeds 2 --out later --only 1/3 --dry-run || { show; fail "what a share would take"; }
  says "Share 1 of 3. 2 runs"
  # A model with all its runs where rates are tried, one size after another.
  alone compare $options --tune --out tuned-alone || { show; fail "one process tunes"; }
  for i in 1 2; do alone compare $options --tune --out tuned --only $i/2 || { show; fail "share $i tunes"; }; done
  alone compare $options --tune --out tuned --collect || { show; fail "collecting tuned runs"; }
  same tuned-alone tuned
  ;;
failures)
  # A run that cannot be written is told; the others are finished; what is left is trained later, by any number of ranks.
  alone compare $options --out one || { show; fail "one process"; }
  mkdir -p some
  over 2 compare $options --out some || { show; fail "the whole"; }
  rm -r some/gqa-2 some/mqa some/results.json
  touch some/gqa-2
  status=0
  over 2 compare $options --out some || status=$?
  [ $status = 1 ] || { show; fail "a run that fails ends with $status"; }
  says "gqa:2 failed: "
  says "crosshead compare: gqa:2: "
  [ -f some/mqa/result.json ] || fail "a run that failed has ended another"
  rm some/gqa-2
  over 3 compare $options --out some || { show; fail "the run that had failed"; }
  same one some
  # A signal to one process ends all; finished work is kept and goes on in one process.
  "$MPIRUN" -n 2 "$program" compare $options --tokens 60k --out stopped >out 2>err &
  job=$!
  for ((i = 0; i < 600; i++)); do [ -s stopped/mha/log.jsonl ] && break; sleep 0.05; done
  kill -USR1 $job
  status=0
  wait $job || status=$?
  [ $status = $((128 + $(kill -l USR1))) ] || { show; fail "SIGUSR1 ends with $status"; }
  says "all work is saved in stopped"
  alone compare $options --tokens 60k --out stopped || { show; fail "going on"; }
  alone compare $options --tokens 60k --out unstopped || { show; fail "without a stop"; }
  same unstopped stopped
  over 3 compare $options --ranks-per-run 2 --out a && fail "pairs of three ranks"
  says "--ranks-per-run is 2, which does not divide the 3 ranks"
  alone compare $options --ranks-per-run 2 --out a && fail "two ranks in one process"
  says "--ranks-per-run is 2, and this is one process"
  [ ! -e a ] || fail "what was refused has left a directory"
  over 2 compare $options --ranks-per-run 2 --out a && fail "a step that pairs cannot share"
  says "--micro-batch 2 makes 2 of them"
  ;;
sweep)
  grid="--data text --mechanisms mha,mqa --params 60k --tokens 6k --seq 32 --batch 4 --micro-batch 2 --vocab 300 --lr 1e-3,2"
  alone sweep $grid --out one || { show; fail "one process"; }
  # Stopped with some runs done, continued by other numbers of ranks, and then with more seeds.
  "$MPIRUN" -n 2 "$program" sweep $grid --out over >out 2>err &
  job=$!
  for ((i = 0; i < 600; i++)); do ls over/*/*/result.json >/dev/null 2>&1 && break; sleep 0.02; done
  kill -USR1 $job 2>/dev/null || true
  wait $job || says "runs finished; all work is saved in over"
  over 4 sweep $grid --ranks-per-run 2 --out over || { show; fail "pairs of ranks"; }
  same one over
  alone sweep $grid --seeds 2 --out one || { show; fail "one process adds seeds"; }
  over 2 sweep $grid --seeds 2 --out over || { show; fail "two ranks add seeds"; }
  same one over
  # A run that cannot be written is told, and the others are finished.
  rm -r over/mqa/lr-0.001 over/mha/lr-2
  touch over/mqa/lr-0.001
  over 2 sweep $grid --seeds 2 --out over && fail "a run that fails"
  says "crosshead sweep: mqa/lr-0.001: "
  [ -f over/mha/lr-2/result.json ] || fail "a run that failed has ended another"
  over 2 sweep $grid --jobs 2 --out a && fail "jobs over ranks"
  once "--jobs is for one process"
  over 2 sweep --data text --coordinate-check --out a && fail "a coordinate check over ranks"
  once "--coordinate-check is for one process"
  unequal "$(words "$program" sweep $grid --out a)" "$(words "$program" sweep $grid,1 --out a)" && fail "ranks with other rates"
  once "rank 1 has other options than rank 0"
  [ ! -e a ] || fail "what was refused has left a directory"
  ;;
*) fail "no such part" ;;
esac

/* Repeats pieces of work in turns until there are enough times. */
#include "bench/timing.h"

#include "base/median.h"

static ch_status run(const ch_timing *timing, ch_timed_work *work, double *seconds, ch_error *error) {
  if (work->prepare) CH_TRY(work->prepare(work->context, error));
  double start = ch_clock();
  CH_TRY(work->once(work->context, error));
  *seconds = ch_clock() - start;
  if (timing->stop && timing->stop(timing->stop_context))
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while measuring speed");
  return CH_OK;
}

static ch_status take_turn(const ch_timing *timing, ch_timed_work *work, ch_error *error) {
  double began = ch_clock();
  while (work->count < timing->most) {
    CH_TRY(run(timing, work, &work->seconds[work->count], error));
    work->count++;
    if (ch_clock() - began >= timing->turn_seconds) break;
  }
  return CH_OK;
}

static bool all_have(int count, const ch_timed_work *works, int repetitions) {
  for (int w = 0; w < count; w++)
    if (works[w].count < repetitions) return false;
  return true;
}

static bool is_enough(const ch_timing *timing, int count, const ch_timed_work *works, double spent) {
  if (all_have(count, works, timing->most)) return true;
  if (timing->most_seconds > 0 && spent >= timing->most_seconds) return true;
  return spent >= timing->enough_seconds && all_have(count, works, timing->least);
}

ch_status ch_time(const ch_timing *timing, int count, ch_timed_work *works, ch_error *error) {
  for (int w = 0; w < count; w++) {
    double untimed; /* time of the first repetition, which makes plans and touches memory */
    works[w].count = 0;
    CH_TRY(run(timing, &works[w], &untimed, error));
  }
  double began = ch_clock();
  do {
    for (int w = 0; w < count; w++) CH_TRY(take_turn(timing, &works[w], error));
  } while (!is_enough(timing, count, works, ch_clock() - began));
  return CH_OK;
}

double ch_timed_median(ch_timed_work *work) {
  return ch_median(work->seconds, work->count);
}

double ch_shortest_time(const ch_timed_work *work) {
  double shortest = work->count ? work->seconds[0] : 0;
  for (int i = 1; i < work->count; i++)
    if (work->seconds[i] < shortest) shortest = work->seconds[i];
  return shortest;
}

/* The trace of the second step that a call of ch_train computes, or of its only one. The first step is not typical,
 * because it touches memory for the first time. Rank 0 writes the events of all ranks, one lane per rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/train_private.h"
#include "base/progress.h"
#include "bench/speed_limits.h"

/* An event with its name, for sending to rank 0, where pointers to names are not valid. */
typedef struct sent_event {
  ch_profile_event event;
  char name[48];
} sent_event;

/* The events of a rank. */
typedef struct lane {
  char title[24];
  int64_t count; /* number of events; -1: the rank ran out of memory for events */
  sent_event *events;
  ch_profile profile;
} lane;

enum { TRACE_TAG = 0 }; /* any tag would do, because no other message is sent between two steps */

/* --- work of rank 0 ---------------------------------------------------------------------------------------------- */

static ch_status allocate_lanes(lane *lanes, int ranks, ch_error *error) {
  for (int r = 0; r < ranks; r++) {
    lane *l = &lanes[r];
    l->profile = (ch_profile){.full = l->count < 0};
    if (l->count < 1) continue;
    l->events = calloc((size_t)l->count, sizeof *l->events);
    l->profile.events = calloc((size_t)l->count, sizeof *l->profile.events);
    if (!l->events || !l->profile.events) return ch_no_memory(error);
  }
  return CH_OK;
}

static void unpack(lane *l) {
  for (int64_t i = 0; i < l->count; i++) {
    l->profile.events[i] = l->events[i].event;
    l->profile.events[i].name = l->events[i].name;
  }
  l->profile.event_count = l->count > 0 ? l->count : 0;
}

static ch_status write_lanes(const ch_train_job *t, lane *lanes, int ranks, ch_error *error) {
  ch_trace_part *parts = calloc((size_t)ranks, sizeof *parts);
  if (!parts) return ch_no_memory(error);
  for (int r = 0; r < ranks; r++) {
    unpack(&lanes[r]);
    snprintf(lanes[r].title, sizeof lanes[r].title, "rank %d", r);
    parts[r] = (ch_trace_part){.title = lanes[r].title, .profile = &lanes[r].profile, .from_zero = true};
  }
  ch_status status = ch_trace_write(t->settings->report.trace, ranks, parts, NULL, error);
  free(parts);
  return status;
}

/* --- work of every rank ------------------------------------------------------------------------------------------ */

/* Sets the counts of the lanes to counts [ranks]. Allocates memory for this rank's events and, on rank 0, for the
   events of all ranks. */
static ch_status reserve_events(const ch_train_job *t, lane *lanes, const int64_t *counts, sent_event **own,
                                ch_error *error) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  int count = ch_rank_count(ranks);
  for (int r = 0; r < count; r++) lanes[r].count = counts[r];
  if (ch_ranks_leads(ranks)) CH_TRY(allocate_lanes(lanes, count, error));
  *own = calloc((size_t)t->profile.event_count + 1, sizeof **own);
  return *own ? CH_OK : ch_no_memory(error);
}

/* Sends the events of all ranks to rank 0. */
static void collect_lanes(const ch_train_job *t, lane *lanes, sent_event *own) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  int self = ch_own_rank(ranks);
  ch_transfer transfer = {0};
  for (int64_t i = 0; i < t->profile.event_count; i++) {
    own[i].event = t->profile.events[i];
    own[i].event.start -= t->trace_began;
    snprintf(own[i].name, sizeof own[i].name, "%s", t->profile.events[i].name);
  }
  if (self == 0 && lanes[0].count > 0) memcpy(lanes[0].events, own, (size_t)lanes[0].count * sizeof *own);
  for (int r = 1; r < ch_rank_count(ranks); r++) {
    size_t bytes = lanes[r].count > 0 ? (size_t)lanes[r].count * sizeof *own : 0;
    if (bytes == 0) continue;
    if (self == r) ch_ranks_send(ranks, 0, TRACE_TAG, own, bytes, &transfer);
    if (self == 0) ch_ranks_receive(ranks, r, TRACE_TAG, lanes[r].events, bytes, &transfer);
    ch_ranks_wait(ranks, &transfer, NULL, NULL);
  }
}

static ch_status write_over_ranks(const ch_train_job *t, ch_error *error) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  int count = ch_rank_count(ranks);
  sent_event *own = NULL;
  lane *lanes = calloc((size_t)count, sizeof *lanes);
  int64_t *counts = calloc((size_t)count, sizeof *counts);
  ch_status status = ch_agree(ranks, lanes && counts ? CH_OK : ch_no_memory(error), error);
  if (status == CH_OK) {
    counts[ch_own_rank(ranks)] = t->profile.full ? -1 : t->profile.event_count;
    ch_ranks_gather(ranks, counts, sizeof *counts);
    status = ch_agree(ranks, reserve_events(t, lanes, counts, &own, error), error);
  }
  if (status == CH_OK) {
    collect_lanes(t, lanes, own);
    if (ch_ranks_leads(ranks)) status = write_lanes(t, lanes, count, error);
  }
  for (int r = 0; lanes && r < count; r++) {
    free(lanes[r].events);
    free(lanes[r].profile.events);
  }
  free(lanes);
  free(counts);
  free(own);
  return ch_agree(ranks, status, error);
}

static ch_status write_alone(const ch_train_job *t, ch_error *error) {
  const ch_trace_part part = {.title = "train", .profile = &t->profile};
  return ch_trace_write(t->settings->report.trace, 1, &part, NULL, error);
}

void ch_training_trace(ch_train_job *t, int64_t steps_done) {
  const ch_train_options *options = ch_trainer_options(t->trainer);
  ch_engine *engine = ch_trainer_engine(t->trainer);
  if (!t->settings->report.trace) return;
  if (engine->profile) {
    engine->profile = NULL;
    t->traced =
        t->settings->workers.ranks ? write_over_ranks(t, &t->trace_error) : write_alone(t, &t->trace_error);
    ch_profile_release(&t->profile);
    return;
  }
  int64_t before = options->steps - t->began_step > 1 ? 1 : 0; /* steps before the traced one */
  if (steps_done != before) return;
  t->profile.keep_events = true;
  engine->profile = &t->profile;
  /* A barrier: the ranks' lanes in the trace begin together, even if their clocks differ. */
  ch_largest_of_ranks(t->settings->workers.ranks, 0);
  t->trace_began = ch_clock();
}

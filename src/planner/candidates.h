/* The answer of <crosshead/plan.h>: candidates, and what to expect of them on devices. */
#ifndef CH_PLANNER_CANDIDATES_H
#define CH_PLANNER_CANDIDATES_H

#include <crosshead/plan.h>

#include "base/arena.h"
#include "base/error.h"

enum { CH_CAPACITY_MOST = 128 }; /* maximum number of candidates */

struct ch_capacity {
  int64_t context, users, memory; /* requested tokens per user, users, and bytes (0: each device's memory) */
  double least_speed;
  int32_t ranks;            /* ranks that train; 0: none */
  ch_precision training;    /* precision of training */
  char cache[64];           /* cache types for people: "bf16" or "k=q8_0,v=q8_0,latent=bf16" */
  const char *weights;      /* element type of all candidates' weights, or "as stored" if they differ */
  const ch_device *devices; /* [device_count]: copies of the requested devices */
  int32_t device_count;
  ch_capacity_candidate *candidates; /* [count] */
  ch_capacity_estimate *expected;    /* [device_count, CH_CAPACITY_MOST] */
  int32_t count;
  ch_arena arena;
};

/* Fills in a zeroed answer. The caller releases the arena, also on failure. */
ch_status ch_capacity_answer(const ch_capacity_settings *settings, ch_capacity *capacity, ch_error *error);

#endif

/* Profiles a run: the time of every operation, its arithmetic, and the bytes that it reads and writes. */
#ifndef CH_GRAPH_PROFILE_H
#define CH_GRAPH_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include <crosshead/session.h>

#include "tensor/tensor.h"

/* One operation. Products with a matrix have a row for each kind of matrix. */
typedef struct ch_profile_row {
  const char *name;         /* operation: "linear" */
  char matrix[32];          /* kind of matrix: "q_proj"; "" if there is none */
  ch_dtype dtype;           /* BF16 for rounded products, else type of the matrix, cached states or value */
  double forward, backward; /* seconds */
  double flops, bytes;      /* sums over forward and backward calls */
  int64_t calls;
} ch_profile_row;

typedef enum ch_profile_kind { CH_PROFILE_FORWARD, CH_PROFILE_BACKWARD, CH_PROFILE_SPAN } ch_profile_kind;

/* One call of an operation, or a span around several calls, such as a step or a token. */
typedef struct ch_profile_event {
  ch_profile_kind kind;
  const char *name;
  char matrix[32];
  int layer; /* index of the layer; -1: none */
  ch_dtype dtype;
  double start, seconds; /* start (ch_clock) and duration, in seconds */
  double flops, bytes;
} ch_profile_event;

/* Filled by every run whose ch_run.profile points here; {0} is an empty profile. */
struct ch_profile {
  ch_profile_row row[96];
  int rows;
  double seconds;   /* measured time of all runs, from the caller; more than the sum of the operations */
  bool keep_events; /* true if each call is recorded as an event, for a trace */
  bool full;        /* true if events are missing because memory ran out */
  ch_profile_event *events;
  int64_t event_count, event_capacity;
};

/* Clears the measurements; keep_events stays. */
void ch_profile_clear(ch_profile *profile);
/* Frees the contents of the profile, but not the profile itself (ch_profile_free does). */
void ch_profile_release(ch_profile *profile);

/* Adds work outside a graph, such as the optimizer's, from `start` until now. `name` must outlive the profile.
   Does nothing if profile is NULL. */
void ch_profile_note(ch_profile *profile, const char *name, double start, double flops, double bytes);
/* Records a span from `start` until now, around other events. It is an event only and adds to no row. Does
   nothing if profile is NULL. */
void ch_profile_span(ch_profile *profile, const char *name, double start);

#endif

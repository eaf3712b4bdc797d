/* Profiles a run: the time of every operation, its arithmetic, and the bytes that it reads and writes. */
#ifndef CH_GRAPH_PROFILE_H
#define CH_GRAPH_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include <crosshead/session.h>

#include "tensor/tensor.h"

/* One operation; products by a matrix are separated by the kind of matrix. */
typedef struct ch_profile_row {
  const char *name; /* "linear" */
  char matrix[32];  /* "q_proj"; "" if there is none */
  ch_dtype dtype;   /* the type of the matrix or of the states that attention reads; else of the run */
  double forward, backward; /* seconds */
  double flops, bytes;      /* of both */
  int64_t calls;
} ch_profile_row;

typedef enum ch_profile_kind { CH_PROFILE_FORWARD, CH_PROFILE_BACKWARD, CH_PROFILE_SPAN } ch_profile_kind;

/* One call of an operation, or a span around some: a step, a token. */
typedef struct ch_profile_event {
  ch_profile_kind kind;
  const char *name;
  char matrix[32];
  int layer; /* -1: none */
  ch_dtype dtype;
  double start, seconds; /* of ch_clock */
  double flops, bytes;
} ch_profile_event;

/* Filled by every run whose ch_run.profile points here; {0} is an empty profile. */
struct ch_profile {
  ch_profile_row row[96];
  int rows;
  double seconds;   /* the whole time, set by the caller that measures: more than the operations' sum */
  bool keep_events; /* each call as an event of its own, for a trace */
  bool full;        /* memory for events ran out, and some are missing */
  ch_profile_event *events;
  int64_t event_count, event_capacity;
};

/* Clears the measurements; keep_events stays. */
void ch_profile_clear(ch_profile *profile);
/* Frees the contents of the profile, but not the profile itself (ch_profile_free does). */
void ch_profile_release(ch_profile *profile);

/* Adds work outside a graph, such as the optimizer's. `name` must outlive the profile. This function and the
   next do nothing if profile is NULL. */
void ch_profile_note(ch_profile *profile, const char *name, double start, double flops, double bytes);
/* Records a span from `start` until now, around other events. It counts only as an event. */
void ch_profile_span(ch_profile *profile, const char *name, double start);

#endif

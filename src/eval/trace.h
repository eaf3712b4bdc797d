/* Trace files: what a profile kept, call by call, in the Trace Event Format that chrome://tracing and Perfetto open. */
#ifndef CH_EVAL_TRACE_H
#define CH_EVAL_TRACE_H

#include "eval/speed.h"

/* A profile whose events were kept, and what was measured with it. */
typedef struct ch_traced {
  const char *title;
  const ch_profile *profile;
} ch_traced;

/* Each part becomes a process of the trace: its spans are one thread, its operations another. Times begin with the part. Every
   operation says its layer, FLOPs, bytes and - with limits, which may be NULL - its share of them. Written beside and
   renamed. */
ch_status ch_trace_write(const char *path, int parts, const ch_traced *traced, const ch_speed_limits *limits,
                         ch_error *error);

#endif

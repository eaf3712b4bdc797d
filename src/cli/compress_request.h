/* What crosshead compress was asked for: its arguments, and what they mean for a model. */
#ifndef CH_CLI_COMPRESS_REQUEST_H
#define CH_CLI_COMPRESS_REQUEST_H

#include "attention/registry.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/shrinking.h"

typedef struct ch_compress_arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *method, *out, *layers, *budget, *calibration, *text, *keep, *dtype;
  int64_t component_heads, calibration_tokens, groups, atoms;
  double ratio;
  bool profile, data_free, json;
} ch_compress_arguments;

/* The arguments with their texts understood. */
typedef struct ch_compress_request {
  const ch_compress_arguments *a;
  bool mea;
  int64_t first, last; /* layers */
  double budget;       /* 0: not given; of 1 */
  char names[CH_MAX_PROJECTIONS][CH_PROJECTION_NAME_SIZE];
  const char *keep[CH_MAX_PROJECTIONS];
  int keep_count;
  ch_shrinking *s;
} ch_compress_request;

/* Refuses options that belong to another method, and the lack of those that a method cannot do without. */
ch_status ch_compress_check(const ch_compress_request *r, ch_error *error);
/* Understands layers, heads, budget, projections and element type for the model that r->s->own is. */
ch_status ch_compress_read(ch_compress_request *r, ch_error *error);

/* Runs the calibration text through the model, where the method looks at one: r->s->calibration (compress_choice.c). */
ch_status ch_compress_calibrate(ch_compress_request *r, ch_error *error);
/* mea: how many heads each layer keeps, r->s->heads: those asked for, or chosen by a profile within the budget. */
ch_status ch_compress_choose_heads(ch_compress_request *r, ch_error *error);

#endif

/* Declarations that the public functions of evaluation share. */
#ifndef CH_API_EVALUATE_PRIVATE_H
#define CH_API_EVALUATE_PRIVATE_H

#include <crosshead/evaluate.h>

#include "api/adapters.h"
#include "infer/model.h"
#include "tensor/team.h"

/* A kind of evaluation. */
typedef struct ch_evaluated_kind {
  const char *name; /* name for messages: "evaluating a text" */
  bool images;      /* true: needs a model of images; false: a model of text with a tokenizer */
} ch_evaluated_kind;

/* The state of one call. */
typedef struct ch_evaluation {
  ch_evaluate_settings settings;
  ch_model model; /* shallow copy of the caller's model with the arithmetic of the settings */
  double began;
  ch_team_before before;
} ch_evaluation;

/* Checks model and settings (NULL = the defaults) on all ranks, and switches to the settings' threads. */
ch_status ch_evaluation_open(const ch_model *model, const ch_evaluate_settings *settings,
                             ch_evaluated_kind kind, ch_evaluation *e, ch_error *error);
/* Restores the caller's threads after a successful open. Returns status. */
ch_status ch_evaluation_close(const ch_evaluation *e, ch_status status);
/* Reports that a part of the work begins. */
void ch_evaluation_begins(const ch_evaluation *e, const char *name);
/* Evaluates a single task as ch_evaluate_task does. The whole RULER suite is not a single task. */
ch_status ch_evaluate_one_task(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                               char **json, ch_error *error);
/* Returns a JSON number, or null if it is not `known` or not finite. */
json_t *ch_evaluation_number(bool known, double value);

#endif

/* Shared by the public functions of evaluation. */
#ifndef CH_API_EVALUATE_PRIVATE_H
#define CH_API_EVALUATE_PRIVATE_H

#include <crosshead/evaluate.h>

#include "api/adapters.h"
#include "infer/model.h"
#include "tensor/team.h"

/* One evaluation: a model and its text. */
typedef struct ch_evaluated_kind {
  const char *name; /* in sentences: "evaluating a text" */
  bool images;      /* needs a model of images; else one of text with a tokenizer */
} ch_evaluated_kind;

/* One call. */
typedef struct ch_evaluation {
  ch_evaluate_settings settings;
  ch_model model; /* the caller's with the arithmetic of the settings; nothing in it is released */
  double began;
  ch_team_before before;
} ch_evaluation;

/* Checks model and settings (NULL = the defaults), and computes with the settings' threads from here on. */
ch_status ch_evaluation_open(const ch_model *model, const ch_evaluate_settings *settings,
                             ch_evaluated_kind kind, ch_evaluation *e, ch_error *error);
/* Restores the caller's threads after a successful open. Returns status. */
ch_status ch_evaluation_close(const ch_evaluation *e, ch_status status);
/* Tells that a part of the work begins. */
void ch_evaluation_begins(const ch_evaluation *e, const char *name);
/* Evaluates a task as ch_evaluate_task does, except all of RULER's together. */
ch_status ch_evaluate_one_task(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                               char **json, ch_error *error);
/* Returns a number; null if it is unknown or too large, because JSON has no infinity. */
json_t *ch_evaluation_number(bool known, double value);

#endif

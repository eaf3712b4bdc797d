/* Training mechanisms side by side: the same text and tokenizer, or images, seed, batches, budget and number of
 * parameters for all. */
#ifndef CH_TRAIN_COMPARE_H
#define CH_TRAIN_COMPARE_H

#include "train/compare_results.h"
#include "train/presets.h"
#include "train/run.h"

typedef struct ch_compare_options {
  const char *data; /* the text, as in train/data.h; or NULL, and */
  const char
      *images; /* the images, as in train/image_data.h, of which `shape.image` but the patch is filled in */
  const char *mechanisms;  /* names with commas between */
  const char *out;         /* directory; one model a subdirectory */
  const char *tokenizer;   /* file or directory, or NULL: trained on the text's training part */
  ch_shape_wishes shape;   /* context is filled in from `sequence`; params 0 = see compare_plan.h */
  int64_t tokens;          /* budget a model, rounded up to whole steps; of images: */
  int64_t epochs;          /* passes over them */
  int64_t batch, sequence; /* sequence: 1 with images */
  double lr;
  ch_schedule schedule;
  ch_dtype dtype; /* ch_train_options': CH_F32 or CH_BF16 */
  int64_t warmup; /* -1 = the trainer's default */
  uint64_t seed;  /* of the first run; the others' follow it */
  int64_t seeds;  /* runs of every model, 1 to CH_COMPARE_MOST_SEEDS */
  int64_t
      eval_tokens; /* validation tokens of every evaluation; 0 = all, but at most what is sensible for the budget */
  bool sweep;                    /* several learning rates (train/sweep.h): `lr` does not count, and */
  int64_t evaluations;           /* of every run; not of a sweep: 4 to 20, as the budget allows */
  double tolerance;              /* see ch_comparison */
  const char *command, *version; /* for the report */
} ch_compare_options;

/* What a comparison tells its caller while it goes; every member may be NULL. */
typedef struct ch_compare_events {
  void *context;
  /* While the text is made ready: what is going on, and how far it is. */
  void (*preparing)(void *context, const char *stage, double done, double total);
  /* Once, when the text is ready. */
  void (*prepared)(void *context, const ch_compared_data *data);
  /* Before a run of a model begins or continues; index counts runs from 0, of `count` of all models and seeds. */
  void (*begins)(void *context, int index, int count, const char *name, const ch_config *config,
                 int64_t parameters, int64_t steps);
  void (*step)(void *context, const ch_step_report *report);
  void (*evaluated)(void *context, const ch_validation_point *point);
  /* A run is finished; `earlier`: it already was when this run began. */
  void (*finished)(void *context, const ch_compared *model, bool earlier);
  /* All runs are finished, and how fast the models are is measured in turns: turn 0 … turns - 1, the next model. */
  void (*timing)(void *context, int turn, int turns, const ch_compared *model);
  /* A model has its speed. */
  void (*timed)(void *context, const ch_compared *model);
  /* results.json was written; the report can follow. */
  ch_status (*written)(void *context, const ch_comparison *comparison, ch_error *error);
  ch_stop_test interrupted;
} ch_compare_events;

/* Files of a comparison's directory. */
#define CH_COMPARE_RESULTS "results.json"
#define CH_COMPARE_SETTINGS "compare.json"
#define CH_SWEEP_SETTINGS "sweep.json"
#define CH_COMPARE_RESULT "result.json" /* in a model's directory: it is finished */

/* The defaults; data, out and what the report needs are NULL and must be set. */
void ch_compare_options_default(ch_compare_options *options);

/* Runs the comparison, or continues one that was stopped: what lies in `out` from the same options is kept, from other
   options it is an error that names the difference. *comparison is filled with what is done, also on failure; release
   its arena. Errors: CH_ERROR_INTERRUPTED (all work is saved) and what the parts say. */
ch_status ch_compare(const ch_compare_options *options, const ch_compare_events *events,
                     ch_comparison *comparison, ch_error *error);

#endif

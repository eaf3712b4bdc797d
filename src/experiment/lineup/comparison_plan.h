/* The models that a comparison will train, with their directories and matched configurations. */
#ifndef CH_EXPERIMENT_LINEUP_COMPARISON_PLAN_H
#define CH_EXPERIMENT_LINEUP_COMPARISON_PLAN_H

#include "base/arena.h"
#include "experiment/lineup/presets.h"

enum { CH_COMPARE_MOST = 64 };
/* Parameters of each model if nothing determines them. */
enum { CH_COMPARE_USUAL_PARAMS = 1000000 };

typedef struct ch_planned_model {
  const char *name;      /* as the user wrote it, in valid UTF-8; names of mechanisms in lower case */
  const char *directory; /* its name inside --out: letters, digits, - and _ */
  bool from_file;        /* read from a file, not derived from the shared shape */
  ch_config given;       /* from_file: what the file says */
  ch_config config;      /* with the vocabulary and the FFN width that are trained */
  int64_t parameters;
  double lr;                  /* peak learning rate */
  const struct ch_tune *tune; /* the rates that were tried, or NULL */
  int64_t steps;              /* of each run; 0: those of the comparison's training options */
} ch_planned_model;

typedef struct ch_compare_plan {
  ch_planned_model models[CH_COMPARE_MOST];
  int count;
  int64_t target;        /* parameters that each model should have */
  double budget_seconds; /* of each run, with CH_MATCH_TIME */
  ch_arena arena;
} ch_compare_plan;

/* Reads the comma-separated names, and the config files among them. Shapes are not decided yet. Unknown names,
   empty ones and repetitions are errors. Release with ch_compare_plan_free, also on failure. */
ch_status ch_compare_plan_names(const char *mechanisms, ch_compare_plan *plan, ch_error *error);

/* Returns the shape that a lineup requests. */
ch_shape_wishes ch_compare_wishes(const ch_compare_lineup *lineup);

/* Completes the configurations: vocabulary, the shared shape, presets, context, and FFN widths that match the
   parameter counts. wishes->params = 0 means the first config file's own size, that of the usual FFN if
   layers and width are given, or `usual_params`. */
ch_status ch_compare_plan_shapes(ch_compare_plan *plan, const ch_shape_wishes *wishes, int64_t usual_params,
                                 ch_error *error);

/* Returns the number of parameters that --params or its default requests, before the vocabulary is known. */
ch_status ch_compare_plan_size(const ch_compare_plan *plan, const ch_shape_wishes *wishes,
                               int64_t usual_params, int64_t *params, ch_error *error);

/* Returns what wishes->params counts. */
ch_count_kind ch_counted_by(const ch_shape_wishes *wishes);

void ch_compare_plan_free(ch_compare_plan *plan);

#endif

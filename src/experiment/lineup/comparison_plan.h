/* The models that a comparison will train, with their directories and matched configurations. */
#ifndef CH_EXPERIMENT_LINEUP_COMPARISON_PLAN_H
#define CH_EXPERIMENT_LINEUP_COMPARISON_PLAN_H

#include "base/arena.h"
#include "experiment/lineup/presets.h"

enum { CH_COMPARE_MOST = 64 };
/* Parameters of each model if no setting determines them. */
enum { CH_COMPARE_USUAL_PARAMS = 1000000 };

typedef struct ch_planned_model {
  const char *name;      /* the user's spelling in valid UTF-8; names of mechanisms are in lower case */
  const char *directory; /* name of the model's directory in `out`: letters, digits, - and _ */
  bool from_file;        /* true if the model is read from a file, not derived from the shared shape */
  ch_config given;       /* contents of the file, if `from_file` */
  ch_config config;      /* configuration that is trained */
  int64_t parameters;
  double lr;                  /* peak learning rate */
  const struct ch_tune *tune; /* rates that were tried; NULL: none */
  int64_t steps;              /* steps of each run; 0: as many as in the comparison's training options */
} ch_planned_model;

typedef struct ch_compare_plan {
  ch_planned_model models[CH_COMPARE_MOST];
  int count;
  int64_t target;        /* parameters (ch_counted_by) that each model should have */
  double budget_seconds; /* with CH_MATCH_TIME: training time of each run */
  ch_arena arena;
} ch_compare_plan;

/* Reads the comma-separated names, and the config files among them. Shapes are not decided yet. Unknown, empty and
   repeated names are errors. Release with ch_compare_plan_free, also on failure. */
ch_status ch_compare_plan_names(const char *mechanisms, ch_compare_plan *plan, ch_error *error);

/* Returns the shape that a lineup requests. */
ch_shape_wishes ch_compare_wishes(const ch_compare_lineup *lineup);

/* Completes the configurations: vocabulary, the shared shape, presets, context, and the FFN widths that make the models
   equal. wishes->params = 0 means the size of the first config file or, without one, the size with the usual FFN if
   layers and width are given, or `usual_params`. */
ch_status ch_compare_plan_shapes(ch_compare_plan *plan, const ch_shape_wishes *wishes, int64_t usual_params,
                                 ch_error *error);

/* Computes the number of parameters that wishes->params or its default requests. The vocabulary need not be known. */
ch_status ch_compare_plan_size(const ch_compare_plan *plan, const ch_shape_wishes *wishes,
                               int64_t usual_params, int64_t *params, ch_error *error);

/* Returns the kind of parameters that wishes->params counts. */
ch_count_kind ch_counted_by(const ch_shape_wishes *wishes);

void ch_compare_plan_free(ch_compare_plan *plan);

#endif

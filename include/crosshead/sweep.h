/* Finding the largest stable learning rate of attention mechanisms, and extrapolating their losses, as
 * `crosshead sweep` does. Link libcrosshead-train.
 *
 *   char *table;
 *   ch_sweep *sweep;
 *   ch_error error;
 *   ch_sweep_settings settings;
 *   ch_sweep_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "rates";
 *   settings.lr = "1e-4..3e-2:6";
 *   if (ch_sweep_rates(&settings, &sweep, &error) == CH_OK) {
 *     if (ch_sweep_table(sweep, &table, &error) == CH_OK) {
 *       puts(table);
 *       ch_free(table);
 *     }
 *     ch_sweep_free(sweep);
 *   }
 *
 * From simple to advanced: results, events while it runs, the sweep, a coordinate check. */
#ifndef CROSSHEAD_SWEEP_H
#define CROSSHEAD_SWEEP_H

#include <crosshead/compare.h>
#include <crosshead/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CH_SWEEP_MOST_RATES = 32, CH_SWEEP_MOST_SEEDS = 32 };

/* ---- What is found ---- */

/* One run: a mechanism at a rate with a seed. Strings and arrays belong to the sweep; members may be added in
 * later versions. */
typedef struct ch_sweep_result {
  const char *name;      /* as `mechanisms` spells it */
  const char *directory; /* directory below the sweep's: "mha/lr-0.003" */
  const char *mechanism; /* attention.type */
  double lr;
  int64_t seed, parameters, cache_bytes_per_token, tokens_trained;
  int64_t threads;                                                /* that it ran on */
  double validation_loss, training_loss, train_tokens_per_second; /* NaN: none */
  ch_stability stability;
  bool stopped; /* ended before its last step, without hope of recovery */
  const ch_curve_point *curve, *validation_curve;
  int32_t curve_points, validation_points;
  ch_trained_on trained_on;
  /* Concluded from all runs: */
  ch_stability_verdict verdict; /* the verdict of `stability`, or CH_STUCK */
  bool has_law;
  /* law of the validation curve after the warm-up and the first tenth; for stable runs only */
  ch_scaling_law law;
  char no_law[160]; /* why there is none */
} ch_sweep_result;

/* The conclusion from a mechanism's runs. Rates are 0 where there is none. */
typedef struct ch_sweep_choice {
  const char *name;
  double chosen;                   /* the largest rate at which every run is stable */
  double lowest;                   /* the rate with the lowest mean validation loss of its stable runs */
  double chosen_loss, lowest_loss; /* mean validation losses there; NaN where there are none */
  int64_t spikes;                  /* of all its runs */
  bool whole;                      /* all its runs are finished */
} ch_sweep_choice;

/* The results of a sweep. */
typedef struct ch_sweep ch_sweep;

/* ---- While it runs ---- */

/* The plan of a sweep. */
typedef struct ch_sweep_outline {
  const ch_comparison_data *data;
  int32_t runs;    /* runs of all mechanisms, rates and seeds */
  int64_t steps;   /* of a run */
  int64_t jobs;    /* runs at a time, */
  int64_t threads; /* each on so many threads */
} ch_sweep_outline;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_sweep_event_kind {
  CH_SWEEP_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_SWEEP_EVENT_PREPARED = 1,    /* the text is ready */
  CH_SWEEP_EVENT_OUTLINE = 2,     /* the runs are planned */
  CH_SWEEP_EVENT_BEGIN = 3,       /* a run begins or continues */
  CH_SWEEP_EVENT_STEP = 4,        /* a training step of a run is done */
  CH_SWEEP_EVENT_RUN = 5,         /* a run is finished */
  CH_SWEEP_EVENT_FAILED = 6       /* over several ranks: a run has failed, while others continue */
} ch_sweep_event_kind;

/* Everything that it points to lasts until the callback returns. */
typedef struct ch_sweep_event {
  ch_sweep_event_kind kind;
  union {
    ch_train_preparation preparation;
    struct {
      const ch_comparison_data *data;
    } prepared;
    struct {
      const ch_sweep_outline *outline;
    } outline;
    struct {
      const ch_sweep_result *run;
    } begin;
    struct {
      const ch_sweep_result *run;
      const ch_train_step *step;
    } step;
    struct {
      /* its verdict follows from its own stability alone: the other runs are not known yet */
      const ch_sweep_result *run;
      bool earlier; /* it was finished when the sweep began */
    } run;
    ch_compare_failure failed;
  } as;
} ch_sweep_event;

/* Called by one thread at a time, but not always the same, on rank 0 alone. Returning false stops the
 * sweep. */
typedef bool (*ch_sweep_event_sink)(const ch_sweep_event *event, void *user);

/* ---- Sweeping ---- */

/* Fill with ch_sweep_defaults, then set text.data, report.out, and what should differ: members may be added
 * in later versions. All that it points to is the caller's and must last until ch_sweep_rates has
 * returned. */
typedef struct ch_sweep_settings {
  ch_compare_lineup lineup;
  ch_compare_text text;
  /* As of a comparison, with other defaults: a constant schedule, 30 evaluations of each run, and eval_tokens
   * 0 = 1/100 of `tokens` and at least 16384. At most CH_SWEEP_MOST_SEEDS seeds. */
  ch_compare_training training;
  /* with `ranks` groups of ranks_per_run of them train a run each, in place of `jobs` */
  ch_compare_workers workers;
  ch_compare_report report;
  /* Learning rates separated by commas, or FROM..TO:N for N rates in equal ratios, or both mixed; at most
   * CH_SWEEP_MOST_RATES. Default "3e-4,1e-3,3e-3,1e-2,3e-2". */
  const char *lr;
  /* runs at the same time, which share the threads; 0 = one per thread, as far as memory allows */
  int64_t jobs;
  int64_t budget; /* tokens that losses are extrapolated to; 0 = ten times those that runs are trained on */
  ch_sweep_event_sink event; /* what happens; or NULL */
  ch_stop_test stop;         /* called by several threads at once; or NULL */
  void *user;                /* theirs */
} ch_sweep_settings;

CH_API void ch_sweep_defaults(ch_sweep_settings *settings);

/* Checks that settings have what a sweep needs and are in range; files are not looked at. Errors:
 * CH_ERROR_ARGUMENT. */
CH_API ch_status ch_sweep_check(const ch_sweep_settings *settings, ch_error *error);

/* Trains each mechanism at every learning rate and with every seed, several runs at a time; counts loss
 * spikes, finds the largest rate at which all runs are stable, and fits scaling laws to the validation losses
 * of stable runs. OUT gets results.json and report.html whenever a run is finished. The same settings
 * continue the sweep in OUT, and more rates and seeds may be added.
 *
 * *sweep (may be NULL) becomes what was found; release it with ch_sweep_free. Errors: CH_ERROR_INTERRUPTED
 * when a callback stopped it (all work is saved), CH_ERROR_ARGUMENT for settings out of range and an OUT with
 * other settings' results, and those of ch_train; losses that are not finite are no error here. */
CH_API ch_status ch_sweep_rates(const ch_sweep_settings *settings, ch_sweep **sweep, ch_error *error);

/* NULL is fine. */
CH_API void ch_sweep_free(ch_sweep *sweep);

/* Returns the number of runs. They are in the order of mechanisms, rates and seeds. */
CH_API int32_t ch_sweep_count(const ch_sweep *sweep);

/* Returns run `index` of 0 ... count - 1; it belongs to the sweep. NULL for another index. */
CH_API const ch_sweep_result *ch_sweep_run(const ch_sweep *sweep, int32_t index);

/* Returns the result for mechanism `index`, in the order of `mechanisms`. It belongs to the sweep. NULL after
 * the last. */
CH_API const ch_sweep_choice *ch_sweep_choice_of(const ch_sweep *sweep, int32_t index);

/* *json becomes the contents of results.json, NUL-terminated and the caller's: release it with ch_free. */
CH_API ch_status ch_sweep_json(const ch_sweep *sweep, char **json, ch_error *error);

/* *text becomes a table of the runs for a terminal and a sentence for each mechanism; NUL-terminated and the
 * caller's. */
CH_API ch_status ch_sweep_table(const ch_sweep *sweep, char **text, ch_error *error);

/* *html becomes the report, a page that loads nothing from elsewhere; NUL-terminated and the caller's. */
CH_API ch_status ch_sweep_page(const ch_sweep *sweep, char **html, ch_error *error);

/* *text becomes a run's verdict in words: "stable", "spike from step 120 on", ...; NUL-terminated and the
 * caller's. */
CH_API ch_status ch_sweep_result_verdict(const ch_sweep_result *run, char **text, ch_error *error);

/* ---- Coordinate check ---- */

/* Checks that the rules by which initial weights and learning rates follow from shapes do so at every width:
 * models of several widths train for some steps at one rate, and the sizes of their activations are compared
 * (Yang et al. 2022, "Tensor Programs V", appendix D.1). It is what `crosshead sweep --coordinate-check`
 * does.
 *
 *   ch_coordinates *coordinates;
 *   ch_coordinate_settings settings;
 *   ch_coordinates_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "widths";
 *   if (ch_coordinates_measure(&settings, &coordinates, NULL) == CH_OK) {
 *     puts(ch_coordinates_model(coordinates, 0)->activations[0].name);
 *     ch_coordinates_free(coordinates);
 *   } */

enum { CH_COORDINATE_MOST_WIDTHS = 16, CH_COORDINATE_MOST_STEPS = 1000 };

/* A size is flat if its slope against the width, both as logarithms, is not beyond this: then it is nearer to
 * a constant than to the square root of the width. */
#define CH_COORDINATE_FLAT 0.25

/* An activation of a mechanism's models: the root mean square of its elements on the text, as a mean over
 * layers and seeds. Values that are not finite are NaN; a slope is NaN where fewer than two widths have a
 * size above 0. */
typedef struct ch_coordinate {
  const char *name; /* a projection: "q_proj"; or "embedding", "scores", "attention", "stream", "logits" */
  /* the residual stream, or what is added to it: divided by the size of the embeddings at step 0 */
  bool of_stream;
  const double *sizes;         /* [steps, widths] */
  const double *changes;       /* [steps, widths] of the difference to step 0 */
  const double *slopes;        /* [steps] slopes of sizes, and */
  const double *change_slopes; /* [steps] of changes */
  bool flat, change_flat;      /* at the last step */
} ch_coordinate;

/* A mechanism. Strings and arrays belong to the check. */
typedef struct ch_coordinate_model {
  const char *name; /* as `mechanisms` spells it */
  const ch_coordinate *activations;
  int32_t activation_count;
} ch_coordinate_model;

/* The results of a check. */
typedef struct ch_coordinates ch_coordinates;

/* The settings of the check. */
typedef struct ch_coordinate_grid {
  /* steps: 0 and the steps after which sizes were measured; they belong to the check */
  const int64_t *widths, *steps;
  int32_t width_count, step_count, model_count;
  int64_t layers, heads, seeds;
  ch_parametrization parametrization;
  double lr;
} ch_coordinate_grid;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_coordinate_event_kind {
  CH_COORDINATE_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_COORDINATE_EVENT_MODEL = 1        /* the models of a mechanism and a width are trained next */
} ch_coordinate_event_kind;

typedef struct ch_coordinate_event {
  ch_coordinate_event_kind kind;
  union {
    ch_train_preparation preparation;
    struct {
      const char *name;
      int64_t width;
      int32_t index, count;
    } model;
  } as;
} ch_coordinate_event;

/* Returning false stops the check. */
typedef bool (*ch_coordinate_event_sink)(const ch_coordinate_event *event, void *user);

/* Fill with ch_coordinates_defaults, then set text.data, report.out, and what should differ: members may be
 * added in later versions. All that it points to is the caller's and must last until ch_coordinates_measure
 * has returned. The learning rate is constant from the first step on, and no parameters are matched. */
typedef struct ch_coordinate_settings {
  const char *mechanisms; /* names separated by commas, no files; default "mha,gqa,mqa" */
  const char *widths;     /* rising whole numbers, separated by commas; default "64,128,256,512" */
  int64_t layers;         /* default 4 */
  int64_t heads;          /* at every width; 0: as many as the narrowest model has in a comparison */
  ch_init init;           /* with CH_PARAMETRIZATION_STANDARD */
  ch_parametrization parametrization; /* default CH_PARAMETRIZATION_SPECTRAL */
  ch_compare_text text;
  const char *tokenizer; /* as of a comparison, as `vocab` */
  int64_t vocab;
  int64_t batch;     /* sequences of a step; default 4 */
  int64_t sequence;  /* tokens of a sequence; default 64 */
  double lr;         /* 0 = the usual one of the parametrization */
  ch_precision type; /* arithmetic of large products: F32 (default) or BF16 */
  int64_t steps;     /* default 10; sizes are measured after 0, 1, 2, 5, 10, 20, ... of them, and the last */
  uint64_t seed;     /* default 1 */
  int64_t seeds;     /* default 3 */
  int32_t threads;   /* 0 = as many as OpenMP gives */
  ch_compare_report report;
  ch_coordinate_event_sink event; /* what happens; or NULL */
  ch_stop_test stop;              /* or NULL */
  void *user;                     /* theirs */
} ch_coordinate_settings;

CH_API void ch_coordinates_defaults(ch_coordinate_settings *settings);

/* Checks that settings have what a check needs and are in range; files are not looked at. Errors:
 * CH_ERROR_ARGUMENT. */
CH_API ch_status ch_coordinates_check(const ch_coordinate_settings *settings, ch_error *error);

/* Trains models of each mechanism and width on the same batches, and measures the activations on the first of
 * them (on its first sequences, where it has more than 1024 tokens). OUT gets results.json and report.html.
 * Sizes after a loss that is not finite are NaN.
 *
 * *coordinates (may be NULL) becomes what was found; release it with ch_coordinates_free. Errors:
 * CH_ERROR_INTERRUPTED when `stop` returned true (only the prepared text remains), CH_ERROR_ARGUMENT
 * for settings out of range, and those of ch_train. */
CH_API ch_status ch_coordinates_measure(const ch_coordinate_settings *settings, ch_coordinates **coordinates,
                                        ch_error *error);

/* NULL is fine. */
CH_API void ch_coordinates_free(ch_coordinates *coordinates);

CH_API void ch_coordinates_grid(const ch_coordinates *coordinates, ch_coordinate_grid *grid);

/* Returns mechanism `index`, in the order of `mechanisms`; it belongs to the check. NULL for another
 * index. */
CH_API const ch_coordinate_model *ch_coordinates_model(const ch_coordinates *coordinates, int32_t index);

/* *json becomes the contents of results.json, *text a table for each mechanism, *html the report, a page that
 * loads nothing from elsewhere; NUL-terminated and the caller's: release them with ch_free. */
CH_API ch_status ch_coordinates_json(const ch_coordinates *coordinates, char **json, ch_error *error);
CH_API ch_status ch_coordinates_table(const ch_coordinates *coordinates, char **text, ch_error *error);
CH_API ch_status ch_coordinates_page(const ch_coordinates *coordinates, char **html, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* Finds the largest stable learning rate of attention mechanisms, and extrapolates their losses, as `crosshead sweep`
 * does. Link libcrosshead-train.
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

/* The maximum numbers of learning rates and of seeds of a sweep. */
enum { CH_SWEEP_MOST_RATES = 32, CH_SWEEP_MOST_SEEDS = 32 };

/* ---- Results ---- */

/* A run: a mechanism at a rate with a seed. Strings and arrays belong to the sweep; later versions may add members. */
typedef struct ch_sweep_result {
  const char *name;      /* model as `mechanisms` spells it */
  const char *directory; /* directory of the run, below that of the sweep: "mha/lr-0.003" */
  const char *mechanism; /* attention.type of its config.json */
  double lr;             /* peak learning rate */
  /* seed of the run; parameters of the model; bytes that a token adds to its cache, at 16 bits per element; tokens
   * trained on */
  int64_t seed, parameters, cache_bytes_per_token, tokens_trained;
  int64_t threads; /* threads that trained the run */
  /* last losses, mean cross entropies in nats, and speed of training; NaN: none */
  double validation_loss, training_loss, train_tokens_per_second;
  ch_stability stability; /* stability of its training losses */
  /* true if the run ended before its last step, because it could not recover or its loss was not finite */
  bool stopped;
  /* [curve_points] means of the training loss, and [validation_points] validation losses */
  const ch_curve_point *curve, *validation_curve;
  int32_t curve_points, validation_points; /* numbers of points of the two curves */
  ch_trained_on trained_on;                /* device and versions, if PyTorch trained the run */
  ch_stability_verdict verdict; /* verdict of `stability`, or CH_STUCK by comparison with the other runs */
  bool has_law;                 /* true if `law` is valid */
  /* law of the validation curve of a stable run, after the warm-up or the first tenth, whichever is later */
  ch_scaling_law law;
  char no_law[160]; /* reason why there is no law */
} ch_sweep_result;

/* The conclusion from a mechanism's runs. */
typedef struct ch_sweep_choice {
  const char *name; /* model as `mechanisms` spells it */
  double chosen;    /* the largest rate at which every run is stable; 0: there is none */
  double lowest; /* rate with the lowest mean loss of those at which every run is stable; 0: there is none */
  double chosen_loss, lowest_loss; /* mean validation losses at `chosen` and at `lowest`; NaN: none */
  int64_t spikes;                  /* spikes of the training losses of all its runs */
  bool whole;                      /* true if all its runs are finished */
} ch_sweep_choice;

/* The results of a sweep. Strings, arrays and structs that the functions below return belong to it. */
typedef struct ch_sweep ch_sweep;

/* ---- While it runs ---- */

/* The plan of a sweep. */
typedef struct ch_sweep_outline {
  const ch_comparison_data *data; /* training data */
  int32_t runs;                   /* number of runs of all mechanisms, rates and seeds */
  int64_t steps;                  /* steps of a run */
  int64_t jobs;                   /* number of runs that train at the same time */
  int64_t threads;                /* threads of each run */
} ch_sweep_outline;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_sweep_event_kind {
  CH_SWEEP_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_SWEEP_EVENT_PREPARED = 1,    /* the text is ready */
  CH_SWEEP_EVENT_OUTLINE = 2,     /* the runs are planned */
  CH_SWEEP_EVENT_BEGIN = 3,       /* a run begins or continues */
  CH_SWEEP_EVENT_STEP = 4,        /* a training step of a run is done */
  CH_SWEEP_EVENT_RUN = 5,         /* a run is finished */
  CH_SWEEP_EVENT_FAILED = 6       /* a run has failed, while others continue */
} ch_sweep_event_kind;

/* An event. All that it points to lasts until the callback returns. */
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
      const ch_sweep_result *run; /* its verdict is that of its own stability, without the other runs */
      bool earlier;               /* true if the run was finished before this call */
    } run;
    ch_compare_failure failed;
  } as;
} ch_sweep_event;

/* Called for each event, on rank 0 alone, by one thread at a time, but not always by the same one. Returning false
 * stops the sweep with CH_ERROR_INTERRUPTED. */
typedef bool (*ch_sweep_event_sink)(const ch_sweep_event *event, void *user);

/* ---- Sweeping ---- */

/* The settings of a sweep. Fill with ch_sweep_defaults, then set text.data, report.out, and what should differ: later
 * versions may add members. All that members point to is the caller's and must last until ch_sweep_rates has
 * returned. */
typedef struct ch_sweep_settings {
  ch_compare_lineup lineup; /* models, without CH_MATCH_TIME */
  ch_compare_text text;     /* the text to train and validate on */
  /* training of each run; defaults that differ from a comparison: a constant schedule, 30 evaluations of each run, and
   * eval_tokens 0 = 1/100 of `tokens`, at least 16384; at most CH_SWEEP_MOST_SEEDS seeds */
  ch_compare_training training;
  ch_compare_workers workers; /* threads, engine and processes; with `ranks`, `jobs` must be 0 */
  ch_compare_report report;   /* destination of the results */
  /* Peak learning rates separated by commas, FROM..TO:N for N rates in equal ratios, or both mixed; from 1e-12 to 10,
   * at most CH_SWEEP_MOST_RATES. Default "3e-4,1e-3,3e-3,1e-2,3e-2". */
  const char *lr;
  /* number of runs that train at the same time and share the threads, at most 64; 0 (default) = one per thread, or
   * fewer if memory is short */
  int64_t jobs;
  /* number of tokens that losses are extrapolated to; 0 (default) = ten times the tokens of a run */
  int64_t budget;
  ch_sweep_event_sink event; /* callback for events (ch_sweep_event), or NULL */
  ch_stop_test stop;         /* callback on every rank, which several threads may call at once; or NULL */
  void *user;                /* argument of the callbacks */
} ch_sweep_settings;

/* Fills in the defaults. */
CH_API void ch_sweep_defaults(ch_sweep_settings *settings);

/* Checks that settings are complete and in range; it reads no file. Error: CH_ERROR_ARGUMENT. */
CH_API ch_status ch_sweep_check(const ch_sweep_settings *settings, ch_error *error);

/* Trains each mechanism at every learning rate and with every seed, several runs at a time. It counts loss spikes,
 * finds the largest rate at which all runs are stable, and fits scaling laws to the validation losses of stable runs.
 * OUT, settings->report.out, is created and gets results.json and report.html whenever a run is finished. A second call
 * with equal settings resumes the sweep in OUT; more rates and seeds may be added.
 *
 * *sweep (may be NULL) becomes the results; release it with ch_sweep_free. Errors: CH_ERROR_INTERRUPTED when a callback
 * stopped the sweep (all work is saved); CH_ERROR_ARGUMENT for settings out of range and an OUT with results of other
 * settings; those of ch_train, except for losses that are not finite, which only end a run. */
CH_API ch_status ch_sweep_rates(const ch_sweep_settings *settings, ch_sweep **sweep, ch_error *error);

/* Releases the results and all that belongs to them. NULL is fine. */
CH_API void ch_sweep_free(ch_sweep *sweep);

/* Returns the number of finished runs, which are in the order of mechanisms, rates and seeds. */
CH_API int32_t ch_sweep_count(const ch_sweep *sweep);

/* Returns finished run `index`, from 0 to ch_sweep_count - 1; it belongs to the sweep. NULL for another index. */
CH_API const ch_sweep_result *ch_sweep_run(const ch_sweep *sweep, int32_t index);

/* Returns the conclusion for mechanism `index`, in the order of `mechanisms`; it belongs to the sweep. NULL for another
 * index. */
CH_API const ch_sweep_choice *ch_sweep_choice_of(const ch_sweep *sweep, int32_t index);

/* *json becomes the contents of results.json. It is NUL-terminated and the caller's: release it with ch_free. Error:
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_sweep_json(const ch_sweep *sweep, char **json, ch_error *error);

/* *text becomes a table of the runs for a terminal and a sentence for each mechanism. It is NUL-terminated and the
 * caller's: release it with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_sweep_table(const ch_sweep *sweep, char **text, ch_error *error);

/* *html becomes the report, a page that loads nothing from elsewhere. It is NUL-terminated and the caller's: release it
 * with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_sweep_page(const ch_sweep *sweep, char **html, ch_error *error);

/* *text becomes a run's verdict in words: "stable", "spike from step 120 on", ... It is NUL-terminated and the
 * caller's: release it with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_sweep_result_verdict(const ch_sweep_result *run, char **text, ch_error *error);

/* ---- Coordinate check ---- */

/* A coordinate check tests the rules by which initial weights and learning rates follow from shapes, as `crosshead
 * sweep --coordinate-check` does: models of several widths train for some steps at one rate, and the sizes of their
 * activations are compared (Yang et al. 2022, "Tensor Programs V", appendix D.1).
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

/* The maximum numbers of widths and of steps of a check. */
enum { CH_COORDINATE_MOST_WIDTHS = 16, CH_COORDINATE_MOST_STEPS = 1000 };

/* The largest absolute slope of a flat size against the width, both as logarithms. Such a size is nearer to a constant
 * than to the square root of the width. */
#define CH_COORDINATE_FLAT 0.25

/* An activation of a mechanism's models. Its size is the root mean square of its elements on the text, as a mean
 * over layers and seeds. Values that are not finite are NaN. A slope is NaN if fewer than two widths have a size
 * above 0. */
typedef struct ch_coordinate {
  const char *name; /* a projection: "q_proj"; or "embedding", "scores", "attention", "stream", "logits" */
  /* true for the residual stream and for terms that are added to it, whose sizes are divided by that of the embeddings
   * at step 0 */
  bool of_stream;
  const double *sizes;         /* [steps, widths] sizes */
  const double *changes;       /* [steps, widths] sizes of the difference to step 0 */
  const double *slopes;        /* [steps] slopes of `sizes` */
  const double *change_slopes; /* [steps] slopes of `changes` */
  /* true if `sizes`, and true if `changes`, are flat at the last step and finite at every width */
  bool flat, change_flat;
} ch_coordinate;

/* A mechanism's results. Strings and arrays belong to the check. */
typedef struct ch_coordinate_model {
  const char *name;                 /* mechanism as `mechanisms` spells it */
  const ch_coordinate *activations; /* [activation_count] its activations */
  int32_t activation_count;         /* number of activations */
} ch_coordinate_model;

/* The results of a check. */
typedef struct ch_coordinates ch_coordinates;

/* The settings that a check ran with. Arrays belong to the check. */
typedef struct ch_coordinate_grid {
  /* [width_count] widths of the models, and [step_count] steps after which sizes were measured, from 0 on */
  const int64_t *widths, *steps;
  int32_t width_count, step_count, model_count; /* number of widths, of measured steps, and of mechanisms */
  int64_t layers, heads, seeds;       /* layers and attention heads of the models; number of seeds */
  ch_parametrization parametrization; /* rules for initial weights and learning rates */
  double lr;                          /* learning rate */
} ch_coordinate_grid;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_coordinate_event_kind {
  CH_COORDINATE_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_COORDINATE_EVENT_MODEL = 1        /* the models of a mechanism and a width are trained next */
} ch_coordinate_event_kind;

/* An event. All that it points to lasts until the callback returns. */
typedef struct ch_coordinate_event {
  ch_coordinate_event_kind kind;
  union {
    ch_train_preparation preparation;
    struct {
      const char *name;     /* mechanism as `mechanisms` spells it */
      int64_t width;        /* width of the models */
      int32_t index, count; /* index of this pair of mechanism and width, from 0, and number of all pairs */
    } model;
  } as;
} ch_coordinate_event;

/* Called for each event, in the thread that called ch_coordinates_measure. Returning false stops the check with
 * CH_ERROR_INTERRUPTED. */
typedef bool (*ch_coordinate_event_sink)(const ch_coordinate_event *event, void *user);

/* The settings of a check. Fill with ch_coordinates_defaults, then set text.data, report.out, and what should differ:
 * later versions may add members. All that members point to is the caller's and must last until ch_coordinates_measure
 * has returned. The learning rate is constant from the first step on, and no parameters are matched. */
typedef struct ch_coordinate_settings {
  const char *mechanisms; /* names separated by commas, not files; default "mha,gqa,mqa" */
  /* 2 to CH_COORDINATE_MOST_WIDTHS widths from 8 to 65536, rising, separated by commas, multiples of twice the heads;
   * default "64,128,256,512" */
  const char *widths;
  int64_t layers; /* layers of every model; default 4 */
  /* attention heads at every width; 0 (default) = those of the narrowest model in a comparison */
  int64_t heads;
  ch_init init; /* initial weights with CH_PARAMETRIZATION_STANDARD */
  /* rules for initial weights and rates; default CH_PARAMETRIZATION_SPECTRAL */
  ch_parametrization parametrization;
  ch_compare_text text; /* the text to train on */
  /* a tokenizer.json, tokenizer.bin or a directory with one; NULL (default): one that is trained on the text */
  const char *tokenizer;
  /* vocabulary of the tokenizer that is trained; 0 (default) = chosen by parameters and text */
  int64_t vocab;
  int64_t batch;     /* sequences of a step; default 4 */
  int64_t sequence;  /* tokens of a sequence; default 64 */
  double lr;         /* learning rate; 0 (default) = 4e-3; of CH_PARAMETRIZATION_STANDARD 2e-3 */
  ch_precision type; /* arithmetic of large products: F32 (default) or BF16 */
  /* steps of training, at most CH_COORDINATE_MOST_STEPS; sizes are measured after 0, 1, 2, 5, 10, 20, ... of them and
   * after the last; default 10 */
  int64_t steps;
  uint64_t seed; /* seed of the first models; default 1 */
  int64_t seeds; /* models of each mechanism and width, with seeds from `seed` on; default 3 */
  /* number of threads; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  ch_compare_report report;       /* destination of the results */
  ch_coordinate_event_sink event; /* callback for events (ch_coordinate_event), or NULL */
  ch_stop_test stop;              /* callback that may stop the check, or NULL */
  void *user;                     /* argument of the callbacks */
} ch_coordinate_settings;

/* Fills in the defaults. */
CH_API void ch_coordinates_defaults(ch_coordinate_settings *settings);

/* Checks that settings are complete and in range; it reads no file. Error: CH_ERROR_ARGUMENT. */
CH_API ch_status ch_coordinates_check(const ch_coordinate_settings *settings, ch_error *error);

/* Trains models of each mechanism and width on equal batches, and measures the activations on the first batch, or on
 * its first sequences where it has more than 1024 tokens. OUT, settings->report.out, is created and gets results.json
 * and report.html. Sizes after a loss that is not finite are NaN.
 *
 * *coordinates (may be NULL) becomes the results; release it with ch_coordinates_free. Errors: CH_ERROR_INTERRUPTED
 * when a callback stopped the check (only the prepared text remains); CH_ERROR_ARGUMENT for settings out of range;
 * those of ch_train. */
CH_API ch_status ch_coordinates_measure(const ch_coordinate_settings *settings, ch_coordinates **coordinates,
                                        ch_error *error);

/* Releases the results and all that belongs to them. NULL is fine. */
CH_API void ch_coordinates_free(ch_coordinates *coordinates);

/* Fills *grid with the settings of the check. */
CH_API void ch_coordinates_grid(const ch_coordinates *coordinates, ch_coordinate_grid *grid);

/* Returns the results of mechanism `index`, in the order of `mechanisms`; they belong to the check. NULL for another
 * index. */
CH_API const ch_coordinate_model *ch_coordinates_model(const ch_coordinates *coordinates, int32_t index);

/* *json becomes the contents of results.json. It is NUL-terminated and the caller's: release it with ch_free. Error:
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_coordinates_json(const ch_coordinates *coordinates, char **json, ch_error *error);
/* *text becomes a table for each mechanism. It is NUL-terminated and the caller's: release it with ch_free. Error:
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_coordinates_table(const ch_coordinates *coordinates, char **text, ch_error *error);
/* *html becomes the report, a page that loads nothing from elsewhere. It is NUL-terminated and the caller's: release it
 * with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_coordinates_page(const ch_coordinates *coordinates, char **html, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

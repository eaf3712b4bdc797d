/* Training attention mechanisms side by side, on a text or on images, to see which is better. It is what
 * `crosshead compare` does. Link libcrosshead-train.
 *
 *   char *table;
 *   ch_error error;
 *   ch_comparison *comparison;
 *   ch_compare_settings settings;
 *   ch_compare_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "comparison";
 *   settings.lineup.mechanisms = "mha,gqa:4,mla";
 *   if (ch_compare_mechanisms(&settings, &comparison, &error) == CH_OK) {
 *     if (ch_comparison_table(comparison, &table, &error) == CH_OK) {
 *       puts(table);
 *       ch_free(table);
 *     }
 *     ch_comparison_free(comparison);
 *   }
 *
 * From simple to advanced: settings and one call; its results as text; the figures of every run and the
 * verdict; events while it runs; a forecast; configurations and names. */
#ifndef CROSSHEAD_COMPARE_H
#define CROSSHEAD_COMPARE_H

#include <crosshead/common.h>
#include <crosshead/ladder.h>
#include <crosshead/ranks.h>
#include <crosshead/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most runs of a model. */
enum { CH_COMPARE_MOST_SEEDS = 100 };

/* The parameters of a model that are counted. */
typedef enum ch_count_kind {
  CH_COUNT_ALL = 0, /* all, embeddings included */
  /* those that a token uses: no lookup tables of gates, no experts that are not chosen */
  CH_COUNT_ACTIVE = 1,
  CH_COUNT_ATTENTION = 2 /* those of attention, shared ones once */
} ch_count_kind;

/* The quantity that is equal in all models. Except by CH_MATCH_TIME, all are trained on as many tokens. The
 * FFN's width makes parameters or FLOPs equal; except by CH_MATCH_FLOPS and CH_MATCH_NONE, parameters are. */
typedef enum ch_match {
  CH_MATCH_PARAMETERS = 0, /* all parameters, embeddings included */
  /* those that a token uses: no lookup tables of gates, no experts that are not chosen */
  CH_MATCH_ACTIVE = 1,
  /* FLOPs of a forward pass per token, including attention at the training length: those of the first
   * mechanism, which gets `parameters`. */
  CH_MATCH_FLOPS = 2,
  /* Seconds of training on this machine: what the first mechanism needs for its tokens. Steps of each model
   * are timed to find out how many fit in. */
  CH_MATCH_TIME = 3,
  CH_MATCH_CACHE = 4, /* elements of the cache for a token: each mechanism's size is chosen */
  CH_MATCH_NONE = 5   /* nothing: all have the FFN width of the first mechanism, which gets the parameters */
} ch_match;

/* ---- Settings ---- */

/* The models: which mechanisms, at which size. All have the same vocabulary, context and shape. */
typedef struct ch_compare_lineup {
  /* Names separated by commas, e.g. "mha,gqa:4,mla" (default "mha,gqa,mqa"; ch_mechanism_name_at lists them),
   * or config.json files. */
  const char *mechanisms;
  int64_t parameters; /* parameters of each model; 0 = 1 million, or those of the first config file */
  ch_match match;     /* default CH_MATCH_PARAMETERS */
  /* With CH_MATCH_CACHE: the most elements that a token may add to the cache, all layers together. Models
   * have at least three quarters of them. */
  int64_t cache_per_token;
  int64_t layers, hidden, heads; /* the shape that all share; 0 = chosen */
  /* A tokenizer.json, tokenizer.bin or a directory with one; NULL: trained on the text. */
  const char *tokenizer;
  int64_t vocab;    /* vocabulary of the tokenizer that is trained; 0 = chosen by parameters and text */
  int64_t sequence; /* tokens of a sequence; default 256. Models of images ignore it */
  ch_init init;     /* with CH_PARAMETRIZATION_STANDARD */
  ch_parametrization parametrization; /* default CH_PARAMETRIZATION_SPECTRAL */
} ch_compare_lineup;

/* The text that models are trained and validated on. */
typedef struct ch_compare_text {
  const char *data; /* a UTF-8 text file, or several separated by commas */
  /* text files that validate; then all of `data` trains. NULL: a twentieth of `data` */
  const char *validation_text;
} ch_compare_text;

/* Images, in place of a text. */
typedef struct ch_compare_vision {
  const char *images; /* a directory of CIFAR or IDX files, to train Vision Transformers on */
  int64_t patch;      /* side length of an image patch, in pixels; 0 = about 64 patches */
  int64_t image_size; /* of images: a whole multiple of their side; 0 = their own */
  int64_t epochs;     /* passes over all images, in place of `tokens`; default 10 */
} ch_compare_vision;

/* The training of each model. */
typedef struct ch_compare_training {
  int64_t tokens; /* tokens of text that each model is trained on; default 2 million */
  int64_t batch;  /* sequences of a step; 0 = 16, or fewer for at least 256 steps (2 at least); 64 images */
  /* Sequences (images) computed at a time, a divisor of `batch`: the same result up to rounding; 0 = as many
   * as memory allows. With several ranks_per_run it must leave them equally many. */
  int64_t micro_batch;
  ch_train_schedule schedule; /* cosine (default) or constant */
  int64_t warmup;             /* steps of linear warm-up; -1 (default) = 5 % of all steps, at most 1000 */
  ch_precision type;          /* arithmetic of large products: F32 (default) or BF16 */
  uint64_t seed;              /* seed of the first run; default 1 */
  /* runs of each model, with `seed` and those that follow it; default 1, at most CH_COMPARE_MOST_SEEDS */
  int64_t seeds;
  /* Validation tokens (or images) of an evaluation; 0 = all, but of text at most 1/30 of `tokens`, or 32768
   * if that is more. */
  int64_t eval_tokens;
  int64_t evaluations; /* evaluations during each run; 0 = 4 to 20, as `tokens` allows */
} ch_compare_training;

/* Learning rates. */
typedef struct ch_compare_rates {
  double lr; /* peak learning rate; 0 = 4e-3; of CH_PARAMETRIZATION_STANDARD 2e-3, or 1e-3 with images */
  /* Rates of single models: "mla=6e-3,mha=2e-3"; a number without a name is of all others, as `lr` is. NULL:
     none. */
  const char *rates;
  /* The most rates that are tried to find each model's own, 3 to 9; 0 (default): none, `lr` and `rates`
   * count. With the first seed and all tokens: the usual rate, twice and half of it, and more as long as the
   * best is at the edge; rates that are clearly worse are stopped early. All seeds then train at the vertex
   * of a parabola through the best three. */
  int64_t tune;
} ch_compare_rates;

/* Further runs, and which of all runs this call trains. */
typedef struct ch_compare_schedule {
  /* Adds seeds, one at a time and to those models where they lower the risk of the answer most, until that is
   * at most `risk` or `budget` seconds of training are spent; those of all runs count, also of runs that were
   * finished earlier. Confidence is then that of all looks together. `budget` must be set with it, and only
   * with it. */
  bool until_decided;
  double budget;
  /* the most that the answer may be behind the best, as a share of its loss (of images); default 0.01 */
  double risk;
  /* Also compares at other sizes, in directories of their own below `out`, and fits laws of loss against
   * FLOPs to all (ladder.h): the numbers of parameters, separated by commas, `parameters` always among them,
   * at least four; "": that, its half, quarter and eighth. Tokens are in proportion to parameters. The first
   * of `mechanisms` is the baseline. NULL (default): no ladder. */
  const char *ladder;
  int64_t target; /* with `ladder`: parameters of models whose loss is predicted; 0: none */
  /* With `parts` > 0 only the runs of part `part`, 1 ... parts, are trained, and no results are written: for
   * machines that see one `out` but not each other. The division follows from the settings. With tune all
   * runs of a model are in one part. */
  int32_t part, parts;
  /* train nothing: put together what parts have trained; CH_ERROR_IO names the runs that are missing */
  bool collect;
} ch_compare_schedule;

/* Who trains the models; everything else, decoding speed too, is this library's. */
typedef struct ch_compare_workers {
  int32_t threads; /* 0 = as many as OpenMP gives (OMP_NUM_THREADS, else all cores) */
  /* As in ch_train_settings, but `device` may name several, with commas: one for each group of `ranks`. A
   * comparison keeps its engine. */
  ch_training_engine engine;
  const char *device, *python;
  bool shard; /* divides each model over the ranks_per_run devices that train it, as in ch_train_settings */
  /* The ranks of a job (ranks.h), or NULL. Groups of ranks_per_run of them (default 1; it must divide them)
   * train a run each; a group that has ended one gets the longest of those that are left. Losses are those of
   * a process alone with as many threads. A run that fails does not end the others. Every rank makes the
   * call; rank 0 has the results and gets the events. */
  ch_rank_group *ranks;
  int64_t ranks_per_run;
} ch_compare_workers;

/* The figures of finished models, and the recommendation. */
typedef struct ch_compare_verdict {
  /* Of the models whose loss is at most this share above the lowest, the one with the smallest cache is
   * recommended. Of images, of those whose top-1 accuracy is at most this share below the highest, the one
   * with the fewest parameters of attention. Default 0.01. */
  double tolerance;
  /* Of text: the most bytes, at 16 bits per element, that the recommended model may keep in its cache for a
   * token; with `users`, for that many users of `context` tokens each. 0 (default): any. */
  double cache_budget;
  int64_t users;   /* 0 (default): cache_budget is that of a token */
  int64_t context; /* tokens of the sequences whose caches are compared; 0 = those of training, `sequence` */
  /* For models of text: tasks that every trained model is evaluated on (ch_evaluate_task), with commas
   * between; after an = the file or directory of items, which tasks of RULER need not have:
   * "ruler:vt@256,hellaswag=items.jsonl". RULER's are `sequence` tokens long unless an @ says otherwise. The
   * verdict does not follow them. A finished comparison can be given tasks; answers that exist are not
   * computed again. Models whose weights are gone are not evaluated. NULL (default): none. */
  const char *tasks;
  int64_t task_items; /* the most items of each task (RULER: so many are generated); default 100, 0 = all */
  bool remeasure;     /* time training and decoding of all models again, also of those that are finished */
} ch_compare_verdict;

/* The destination of results. */
typedef struct ch_compare_report {
  const char *out;     /* directory; each model is a subdirectory */
  const char *command; /* the command line, for the report; or NULL */
} ch_compare_report;

typedef struct ch_compare_event ch_compare_event;

/* Called by the calling thread, on rank 0 alone. Returning false stops as ch_compare_settings.stop
 * does. */
typedef bool (*ch_compare_event_sink)(const ch_compare_event *event, void *user);

/* Fill with ch_compare_defaults, then set text.data or vision.images, report.out, and what should differ:
 * members may be added in later versions. All that it points to is the caller's and must last until
 * ch_compare_mechanisms has returned. */
typedef struct ch_compare_settings {
  ch_compare_lineup lineup;
  ch_compare_text text;
  ch_compare_vision vision;
  ch_compare_training training;
  ch_compare_rates rates;
  ch_compare_schedule schedule;
  ch_compare_workers workers;
  ch_compare_verdict verdict;
  ch_compare_report report;
  ch_compare_event_sink event; /* what happens (see below); or NULL */
  ch_stop_test stop;           /* called about twenty times a second, on every rank; or NULL */
  void *user;                  /* theirs */
} ch_compare_settings;

CH_API void ch_compare_defaults(ch_compare_settings *settings);

/* ---- Comparing ---- */

/* The results of a comparison. */
typedef struct ch_comparison ch_comparison;

/* Trains a model with each mechanism on the same text, with the same tokenizer, seed, batches and number of
 * tokens, and with the FFN width adjusted so that all have the same number of parameters. OUT gets
 * results.json and report.html whenever a run is finished.
 *
 * A second call with equal settings resumes the comparison in OUT. You can add seeds to a finished
 * comparison, mechanisms after its own or, with a constant schedule, tokens (epochs); then only the new part
 * is trained. tolerance,
 * cache_budget, users, risk, remeasure, threads, command and the callbacks may differ.
 *
 * *comparison (may be NULL) becomes what was found; release it with ch_comparison_free. Errors:
 * CH_ERROR_INTERRUPTED when a callback stopped it (all work is saved); CH_ERROR_ARGUMENT for settings out of
 * range, names that are not known (the nearest is suggested) and an OUT with other settings' results; those
 * of ch_train. */
CH_API ch_status ch_compare_mechanisms(const ch_compare_settings *settings, ch_comparison **comparison,
                                       ch_error *error);

/* NULL is fine. */
CH_API void ch_comparison_free(ch_comparison *comparison);

/* Checks that settings have what a comparison needs and are in range, and that the files of tasks exist; no
 * other file is looked at. Errors: CH_ERROR_ARGUMENT, CH_ERROR_IO. */
CH_API ch_status ch_compare_check(const ch_compare_settings *settings, ch_error *error);

/* *json becomes the contents of results.json, NUL-terminated and the caller's: release it with ch_free. */
CH_API ch_status ch_comparison_json(const ch_comparison *comparison, char **json, ch_error *error);

/* *text becomes the sentence of the verdict and a table of the models for a terminal, the best first, with
 * its notes and warnings; NUL-terminated and the caller's. */
CH_API ch_status ch_comparison_table(const ch_comparison *comparison, char **text, ch_error *error);

/* *html becomes the report, a page that loads nothing from elsewhere; NUL-terminated and the caller's.
 * Learned matrices are read from the models' directories, where they are. */
CH_API ch_status ch_comparison_page(const ch_comparison *comparison, char **html, ch_error *error);

/* ---- The runs ---- */

/* The training data: a text, or images; members about tokens then count images. */
typedef struct ch_comparison_data {
  const char *file; /* as it was given */
  int64_t bytes, train_tokens, validation_tokens, vocab_size;
  const char *tokenizer; /* the file it came from, or "trained on this text"; "" of images */
  bool images;
  const char *format; /* "CIFAR-10" */
  /* Mean cross entropy, in nats, of a model that knows how frequent tokens (or classes) are and nothing else;
     0: unknown */
  double token_entropy;
  int64_t image_size, channels, classes;
} ch_comparison_data;

/* A learning rate that was tried. */
typedef struct ch_tried_rate {
  double lr, loss; /* the validation loss; where `stopped`, the last one before */
  bool stopped;    /* early, because it was clearly worse or not finite */
} ch_tried_rate;

/* The result of a trained model on a task. */
typedef struct ch_task_result {
  const char *task; /* as settings->verdict.tasks spells it: "ruler:vt@256", "hellaswag=items.jsonl" */
  /* "acc", "exact_match", "recall", "perplexity": as `crosshead eval --task --json` names it */
  const char *metric;
  double value, error; /* value of the metric, and its standard error over the items; 0 if it is not known */
  int64_t items;       /* that were answered */
  int64_t limit;       /* settings->verdict.task_items then */
} ch_task_result;

/* A run of a model. Strings and arrays belong to the comparison; members may be added in later versions. */
typedef struct ch_model_result {
  const char *name;      /* as `mechanisms` spells it: "gqa:4", "configs/mine.json" */
  const char *directory; /* directory of the trained model, below the comparison's */
  const char *mechanism; /* attention.type */
  int64_t layers, hidden_size, heads;
  int64_t key_value_heads; /* 0 where they have no meaning */
  int64_t head_dim;
  /* of the FFN, or of the experts where the model has them: what matching changes */
  int64_t intermediate_size;
  int64_t parameters;
  int64_t cache_elements_per_token, cache_bytes_per_token; /* bytes at 16 bits per element */
  /* Elements in the cache of one sequence of cache_depth tokens: with windows fewer than elements per token
   * times tokens. Caches are compared by this and by the states below. 0: an earlier version wrote the file
   * without it. */
  int64_t cache_depth, cache_elements_at_depth;
  /* Elements of states of constant size, which a sequence has in addition; 0: there are none, or an earlier
   * version wrote the file. */
  int64_t state_elements_per_sequence;
  /* Mean cross entropy, in nats; perplexity is exp of it. Infinite (null in files): training diverged, and ended
   * where its loss was no longer a number. */
  double validation_loss;
  double train_tokens_per_second;
  double decode_tokens_per_second; /* in comparisons on images: images classified per second */
  double train_seconds; /* seconds of all training steps; 0: an earlier version wrote the file without it */
  int64_t timing_turns; /* number of turns whose median the speed above is; 0: it was measured once, alone */
  int64_t tokens_trained; /* CH_MATCH_TIME makes it differ between mechanisms */
  bool images;
  int64_t parameters_attention;
  int64_t parameters_active; /* CH_COUNT_ACTIVE; 0: an earlier version wrote the file without the count */
  double top1, top5;         /* shares of the validation images */
  /* 0 also means that an earlier version wrote the file without the count. */
  int64_t parameters_embedding, parameters_feed_forward, parameters_gate_embedding;
  double flops;        /* per token (or image), of a forward pass, without context; */
  int64_t flops_depth; /* with so many tokens of context: */
  double flops_projections, flops_context, flops_feed_forward, flops_head;
  /* Half the distance between the quartiles of the measurements of each speed (steps of training; turns of
   * decoding), 0 if it is not known. Unsteady: this spread is more than a tenth of the speed, or other
   * programs used the machine. */
  double train_spread, decode_spread;
  bool train_unsteady, decode_unsteady;
  uint64_t seed;
  double lr; /* peak learning rate */
  /* If rates were tried: these rates, the usual one first; the range of rates that are as good as `lr` (0:
   * not known); the share of the loss that the usual rate costs; whether the best is the lowest or highest
   * rate tried. */
  const ch_tried_rate *tried; /* [tried_count] */
  int32_t tried_count;
  double lr_low, lr_high, usual_lr_cost;
  bool lr_at_edge;
  const ch_curve_point *curve, *validation_curve; /* [curve_points], [validation_points] */
  /* [decode_points]: tokens in the cache, and in place of the loss tokens decoded per second */
  const ch_curve_point *decode_curve;
  int32_t curve_points, validation_points, decode_points;
  /* Spikes of the training loss, as `sweep` counts them; -1: an earlier version wrote the file without
     them. */
  int64_t loss_spikes;
  const ch_task_result *tasks; /* [task_count] results on tasks */
  int32_t task_count;
  ch_trained_on trained_on;
} ch_model_result;

/* Returns the number of runs of all models and seeds. */
CH_API int32_t ch_comparison_count(const ch_comparison *comparison);

/* Returns run `index` of 0 ... count - 1, seed by seed; it belongs to the comparison. NULL for another
 * index. */
CH_API const ch_model_result *ch_comparison_run(const ch_comparison *comparison, int32_t index);

/* Sets *run to a run, with the first seed, of the recommended model; it belongs to the comparison. NULL if no
 * model is trained or none fits settings->verdict.cache_budget. */
CH_API ch_status ch_comparison_recommended(const ch_comparison *comparison, const ch_model_result **run,
                                           ch_error *error);

/* ---- The verdict ---- */

typedef enum ch_verdict_kind {
  CH_VERDICT_TAKE = 0, /* names[0], with 95 % confidence; or there is one model only */
  /* names[0], and the seeds so far do not exclude that another would be as good a choice */
  CH_VERDICT_NOT_DISTINGUISHABLE = 1,
  /* too few seeds to know the risk; names[0], if there is one, is the choice by the means */
  CH_VERDICT_UNDECIDED = 2
} ch_verdict_kind;

/* Returns "take", "not_distinguishable" or "undecided"; static storage. */
CH_API const char *ch_verdict_kind_name(ch_verdict_kind kind);

/* The best model for caches from cache_bytes_per_token up to that of the choice before. */
typedef struct ch_comparison_choice {
  const char *name;             /* as `mechanisms` spells it */
  double cache_bytes_per_token; /* at 16 bits per element; of images, parameters of attention */
  double loss;                  /* mean over seeds; of images, top-1 accuracy */
  /* The 95 % interval of how far it is behind the best model of any size, as a share of the best loss (of
   * images: in accuracy). behind_high: INFINITY while the seeds say nothing about it. */
  double behind_low, behind_high;
  /* the share of training tokens that would make up for behind_high, by the curve; NAN: not known */
  double behind_tokens;
  /* [tied_count] models whose means differ from its by no more than chance may explain */
  const char *const *tied_with;
  int32_t tied_count;
} ch_comparison_choice;

/* The recommended model, and the risk of choosing it. */
typedef struct ch_comparison_decision {
  ch_verdict_kind kind;
  const char *const *names; /* [name_count], the choice first, then others that it may turn out to be */
  int32_t name_count;
  const char *sentence; /* the answer: lines separated by newlines, of which the first names one choice */
  int64_t seeds;        /* the largest number of seeds of any model */
  /* [choice_count], the largest cache first: the recommended model, before it models with larger caches that
   * are better beyond the noise, and after it the best model at each smaller cache. With
   * settings->verdict.cache_budget the recommended model alone. */
  const ch_comparison_choice *choices;
  int32_t choice_count;
} ch_comparison_decision;

/* Returns the verdict in *decision, one block of memory that is the caller's: release it with ch_free. The
 * names belong to the comparison. */
CH_API ch_status ch_comparison_verdict(const ch_comparison *comparison, ch_comparison_decision **decision,
                                       ch_error *error);

/* ---- Larger models ---- */

/* Returns the laws of a comparison with settings->schedule.ladder, in the order of `mechanisms`; they belong
 * to the comparison. NULL without a ladder. */
CH_API const ch_ladder_laws *ch_comparison_laws(const ch_comparison *comparison);

/* ---- While it runs ---- */

/* The progress of a comparison. */
typedef struct ch_compare_position {
  const char *name;  /* name of the model in training, as `mechanisms` spells it */
  uint64_t seed;     /* of this run */
  double lr;         /* its peak learning rate */
  bool tries_rate;   /* it is a run to find the model's rate, not one of `runs` */
  int32_t run, runs; /* 0 for the first; runs of all models and seeds */
  int32_t groups;    /* groups of ranks, each of which trains a run at the same time; 1: this process alone */
  ch_train_step step; /* the last finished step of this run. With images, its tokens are images */
  bool evaluating;    /* shares are those of an evaluation after that step */
} ch_compare_position;

/* A run that has failed. */
typedef struct ch_compare_failure {
  const char *name; /* of the mechanism */
  uint64_t seed;
  const ch_error *error;
} ch_compare_failure;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_compare_event_kind {
  CH_COMPARE_EVENT_PREPARATION = 0, /* now and then while the text is prepared and models are timed */
  CH_COMPARE_EVENT_PREPARED = 1,    /* the text or the images are ready */
  CH_COMPARE_EVENT_RUNG = 2,        /* the models of another size of settings->schedule.ladder are next */
  CH_COMPARE_EVENT_BEGIN = 3,       /* a run begins or continues */
  CH_COMPARE_EVENT_STEP = 4,        /* a training step is done */
  CH_COMPARE_EVENT_SHARE = 5,       /* now and then within a step or an evaluation longer than a second */
  CH_COMPARE_EVENT_MODEL = 6,       /* a run is finished */
  CH_COMPARE_EVENT_FAILED = 7,      /* over several ranks: a run has failed, while others continue */
  CH_COMPARE_EVENT_TIMING = 8,      /* after the last run: a model is timed */
  CH_COMPARE_EVENT_TIMED = 9,       /* the speed of a model is known */
  CH_COMPARE_EVENT_ASKING = 10      /* now and then while a trained model is evaluated on a task */
} ch_compare_event_kind;

/* Everything that it points to lasts until the callback returns.
 *
 *   static bool on_event(const ch_compare_event *event, void *user) {
 *     (void)user;
 *     if (event->kind == CH_COMPARE_EVENT_STEP)
 *       printf("%s: loss %.3f\n", event->as.step.position->name, event->as.step.position->step.loss);
 *     return true;
 *   } */
struct ch_compare_event {
  ch_compare_event_kind kind;
  union {
    ch_train_preparation preparation;
    struct {
      const ch_comparison_data *data;
    } prepared;
    struct {
      int32_t index, rungs; /* by size, from 0 */
      int64_t parameters;
      const char *directory; /* of its models */
    } rung;
    struct {
      const ch_compare_position *position; /* position->step.steps is the run's length */
      const ch_model_result *model;        /* with the members that do not depend on training */
    } begin;
    struct {
      const ch_compare_position *position;
    } step;
    struct {
      const ch_compare_position *position; /* position->step is the step before */
      double share;                        /* that is done, from 0 to 1 */
    } share;
    struct {
      const ch_model_result *model;
      bool earlier; /* it was finished when the comparison began */
    } model;
    ch_compare_failure failed;
    struct {
      int32_t turn, turns; /* from 0; of a speed that is not steady there are more turns than were said */
      const ch_model_result *model;
    } timing;
    struct {
      const ch_model_result *model;
    } timed;
    struct {
      const ch_model_result *model;
      const char *task;
      int64_t done, total; /* items */
    } asking;
  } as;
};

/* ---- Before comparing ---- */

/* A forecast of a mechanism's unfinished runs. */
typedef struct ch_mechanism_forecast {
  const char *name; /* as `mechanisms` spells it; NULL in a total */
  int64_t parameters;
  int64_t runs, finished;   /* all runs, and those that are finished in `out` */
  int64_t tokens;           /* (images) of a run */
  double tokens_per_second; /* of training, from some steps; 0: no run is left, or it is a total */
  double seconds;           /* seconds of training and evaluating what is left */
  /* Of one run, while it trains: weights, gradients, moments, activations and the process itself. In a total:
   * the most that any run needs. */
  int64_t memory_bytes;
  int64_t disk_bytes; /* bytes that models and checkpoints will add */
} ch_mechanism_forecast;

/* All of it belongs to what ch_compare_foresee gave. */
typedef struct ch_compare_forecast ch_compare_forecast;

/* Forecasts what ch_compare_mechanisms would do with the settings. It times steps of each model for about a
 * second, or one step of fewer sequences if a step is longer. It writes nothing. With CH_ENGINE_PYTORCH a
 * worker times them on the first device. If it cannot, speeds, seconds and memory are 0, and the text and the
 * JSON say why. A text that is not prepared yet is checked but not tokenized: its tokens are arbitrary.
 * Errors: those of ch_compare_mechanisms that can be known before. Release *forecast with
 * ch_compare_forecast_free.
 *
 *   ch_compare_settings settings;
 *   ch_compare_forecast *forecast;
 *   ch_compare_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "comparison";
 *   if (ch_compare_foresee(&settings, &forecast, NULL) == CH_OK) {
 *     printf("%.0f s\n", ch_compare_forecast_total(forecast)->seconds);
 *     ch_compare_forecast_free(forecast);
 *   } */
CH_API ch_status ch_compare_foresee(const ch_compare_settings *settings, ch_compare_forecast **forecast,
                                    ch_error *error);
/* NULL is fine. */
CH_API void ch_compare_forecast_free(ch_compare_forecast *forecast);
/* Returns mechanism `index` of 0 ... ch_compare_forecast_count - 1, in the order of `mechanisms`; NULL for
 * another index. */
CH_API const ch_mechanism_forecast *ch_compare_forecast_of(const ch_compare_forecast *forecast,
                                                           int32_t index);
CH_API int32_t ch_compare_forecast_count(const ch_compare_forecast *forecast);
/* Returns the forecast of all mechanisms together. */
CH_API const ch_mechanism_forecast *ch_compare_forecast_total(const ch_compare_forecast *forecast);
/* Return a table and a sentence in *text, and an object with the same figures in *json; NUL-terminated and
 * the caller's. */
CH_API ch_status ch_compare_forecast_text(const ch_compare_forecast *forecast, char **text, ch_error *error);
CH_API ch_status ch_compare_forecast_json(const ch_compare_forecast *forecast, char **json, ch_error *error);

/* ---- Configurations and names ---- */

/* Writes the text of a config.json: the model that a comparison would train for the one mechanism that
 * lineup->mechanisms names. *json is NUL-terminated and the caller's: release it with ch_free. Without
 * `vocab` and `tokenizer` the vocabulary is that of a comparison on a long text. `like` is NULL, or a model
 * directory or config.json. Then the model gets the vocabulary, activation, normalisation, experts and
 * positions of that one, and its context if `sequence` is 0; also its layers, width, heads and number of
 * parameters, unless `parameters`, `layers`, `hidden` or `heads` are given.
 *
 *   char *json;
 *   ch_compare_settings settings;
 *   ch_compare_defaults(&settings);
 *   settings.lineup.mechanisms = "mla";
 *   settings.lineup.parameters = 300000000;
 *   if (ch_compare_config(&settings.lineup, NULL, &json, NULL) == CH_OK) {
 *     puts(json);
 *     ch_free(json);
 *   }
 *
 * Errors: CH_ERROR_ARGUMENT for an unknown name (the nearest is suggested) and impossible sizes, CH_ERROR_IO,
 * CH_ERROR_FORMAT and CH_ERROR_CONFIG for files, CH_ERROR_MEMORY. */
CH_API ch_status ch_compare_config(const ch_compare_lineup *lineup, const char *like, char **json,
                                   ch_error *error);

/* A name that comparisons know. All strings are static. */
typedef struct ch_mechanism_name {
  const char *name;    /* "gqa" */
  const char *number;  /* what N of "gqa:N" counts; NULL when the name has no number */
  const char *summary; /* one line */
} ch_mechanism_name;

/* Fills the name number `index`, from 0: mechanisms, then sharing schemes and experts, which follow a
 * mechanism and a plus sign ("mfa+masa-qkvo", "kha-mlp+moe", "gqa+masa-qkvo+moe") or are used alone. Returns
 * false after the last. */
CH_API bool ch_mechanism_name_at(int32_t index, ch_mechanism_name *name);

#ifdef __cplusplus
}
#endif
#endif

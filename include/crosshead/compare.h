/* Trains attention mechanisms side by side, on a text or on images, to find the best one, as `crosshead compare`
 * does. Link libcrosshead-train.
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

/* The maximum number of seeds of a comparison. */
enum { CH_COMPARE_MOST_SEEDS = 100 };

/* The parameters of a model that are counted. */
typedef enum ch_count_kind {
  CH_COUNT_ALL = 0, /* all parameters, embeddings included */
  /* parameters that a token uses: no lookup tables of gates, no experts that are not chosen */
  CH_COUNT_ACTIVE = 1,
  CH_COUNT_ATTENTION = 2 /* parameters of attention; shared ones count once */
} ch_count_kind;

/* The quantity that is equal in all models; the FFN's width makes parameters or FLOPs equal. Except with CH_MATCH_TIME,
 * all models are trained on equally many tokens. */
typedef enum ch_match {
  CH_MATCH_PARAMETERS = 0, /* all parameters, embeddings included */
  /* parameters that a token uses: no lookup tables of gates, no experts that are not chosen */
  CH_MATCH_ACTIVE = 1,
  /* FLOPs of a forward pass per token, with attention at the training length: those of the first mechanism, which
   * gets `parameters` */
  CH_MATCH_FLOPS = 2,
  /* all parameters, and seconds of training on this machine: those that the first mechanism needs for its tokens.
   * Steps of each model are timed first, to choose its tokens. */
  CH_MATCH_TIME = 3,
  /* all parameters, and elements of the cache per token: the size of each mechanism's cached states is chosen */
  CH_MATCH_CACHE = 4,
  CH_MATCH_NONE = 5 /* nothing: all have the FFN width of the first mechanism, which gets `parameters` */
} ch_match;

/* ---- Settings ---- */

/* The models: mechanisms and size. All have equal vocabulary, context and shape. */
typedef struct ch_compare_lineup {
  /* names separated by commas, such as "mha,gqa:4,mla", from those of ch_mechanism_name_at, or config.json files;
   * default "mha,gqa,mqa" */
  const char *mechanisms;
  /* parameters of each model; 0 (default) = 1 million, or those of the first config file */
  int64_t parameters;
  ch_match match; /* quantity that is equal in all models; default CH_MATCH_PARAMETERS */
  /* With CH_MATCH_CACHE: maximum number of elements that a token adds to the cache, all layers together. Models use
   * at least three quarters of this number. */
  int64_t cache_per_token;
  int64_t layers, hidden, heads; /* layers, width and attention heads of all models; 0 (default) = chosen */
  /* a tokenizer.json, tokenizer.bin or a directory with one; NULL (default): one that is trained on the text */
  const char *tokenizer;
  /* vocabulary of the tokenizer that is trained; 0 (default) = chosen by parameters and text */
  int64_t vocab;
  int64_t sequence; /* tokens of a sequence; default 256; models of images ignore it */
  ch_init init;     /* initial weights with CH_PARAMETRIZATION_STANDARD */
  /* rules for initial weights and rates; default CH_PARAMETRIZATION_SPECTRAL */
  ch_parametrization parametrization;
} ch_compare_lineup;

/* The text that models are trained and validated on. */
typedef struct ch_compare_text {
  const char *data; /* a UTF-8 text file, or several separated by commas */
  /* text files for validation, separated by commas; all of `data` then trains. NULL: a tenth of `data` */
  const char *validation_text;
} ch_compare_text;

/* Images, in place of a text. */
typedef struct ch_compare_vision {
  const char *images; /* a directory of CIFAR or IDX files, to train Vision Transformers on */
  int64_t patch;      /* side of an image patch in pixels; 0 (default) = chosen for about 64 patches */
  /* side of images in the models, a whole multiple of that in the files; 0 (default) = equal */
  int64_t image_size;
  int64_t epochs; /* passes over all images, in place of `tokens`; default 10 */
} ch_compare_vision;

/* The training of each model. */
typedef struct ch_compare_training {
  int64_t tokens; /* tokens of text that each model is trained on; default 2 million */
  /* sequences (or images) of a step; 0 (default) = 64 images, or 16 sequences, or fewer (at least 2) if a run would
   * otherwise have less than 256 steps */
  int64_t batch;
  /* Sequences (or images) computed at a time, a divisor of `batch`. The results do not depend on it beyond rounding.
   * 0 (default) = as many as memory allows. With ranks_per_run above 1, each rank must get an equal number of
   * micro-batches. */
  int64_t micro_batch;
  ch_train_schedule schedule; /* CH_TRAIN_COSINE (default) or CH_TRAIN_CONSTANT (default of sweeps) */
  int64_t warmup;             /* steps of linear warm-up; -1 (default) = 5 % of all steps, at most 1000 */
  ch_precision type;          /* arithmetic of large products: F32 (default) or BF16 */
  uint64_t seed;              /* seed of the first run; default 1 */
  /* number of runs of each model, with seeds from `seed` on; default 1, at most CH_COMPARE_MOST_SEEDS */
  int64_t seeds;
  /* validation tokens (or images) of an evaluation; 0 (default) = all, but of text at most 1/30 of `tokens`, or
   * 32768 if that is more; in a sweep 1/100, or 16384 */
  int64_t eval_tokens;
  /* evaluations during each run; 0 (default) = 4 to 20, as `tokens` allows; in a sweep 30 */
  int64_t evaluations;
} ch_compare_training;

/* Learning rates. */
typedef struct ch_compare_rates {
  /* peak learning rate; 0 (default) = 4e-3; of CH_PARAMETRIZATION_STANDARD 2e-3, or 1e-3 for images */
  double lr;
  /* Peak learning rates of single models: "mla=6e-3,mha=2e-3". A number without a name is the rate of all others;
   * `lr` must then be 0. NULL (default): none. */
  const char *rates;
  /* The maximum number of rates to try for each model, 3 to 9; 0 (default): models train at `lr` and `rates`.
   * The search uses the first seed and all tokens. It tries the rate that `lr` and `rates` give, twice and half of it,
   * and further ones as long as the best is at the edge. Rates that are clearly worse are stopped early. All seeds then
   * train at the vertex of a parabola through the best three. */
  int64_t tune;
} ch_compare_rates;

/* Further runs, and the runs that this call trains. */
typedef struct ch_compare_schedule {
  /* Add seeds, one at a time, to the models where they lower the risk of the answer most, until the risk is at most
   * `risk` or `budget` is spent. The confidence then covers all looks at the results together. */
  bool until_decided;
  /* maximum seconds of training of all runs together, those finished earlier included; until_decided needs it */
  double budget;
  /* with until_decided: maximum distance of the answer from the best model, as a share of the best loss (of images,
   * in accuracy); default 0.01 */
  double risk;
  /* Also compare at other sizes, in OUT/rungs, and fit laws of loss against FLOPs to all sizes (ladder.h): 4 to 16
   * numbers of parameters separated by commas, to which `parameters` is added; "": `parameters`, its half, quarter
   * and eighth. Tokens are in proportion to parameters. A ladder is for text and named mechanisms, and excludes
   * layers, hidden, heads and until_decided. NULL (default): no ladder. */
  const char *ladder;
  /* with `ladder`: number of parameters of models whose loss is predicted; 0 (default): none */
  int64_t target;
  /* With `parts` > 0: train only the runs of part `part`, from 1 to `parts`, and write no results, for machines that
   * share OUT but cannot communicate. The division follows from the settings. With `tune` all runs of a model are in
   * one part. */
  int32_t part, parts;
  /* train nothing, and write the results of the runs that parts have trained; the error names missing runs */
  bool collect;
} ch_compare_schedule;

/* Threads, engine, devices and processes that train the models. Decoding is always measured with this library. */
typedef struct ch_compare_workers {
  /* number of threads; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  ch_training_engine engine; /* default CH_ENGINE_NATIVE; a comparison cannot change its engine */
  /* With CH_ENGINE_PYTORCH: devices as PyTorch names them, separated by commas, of which each rank takes the next
   * ranks_per_run (NULL: the first GPU, else the CPU), and the Python interpreter as ch_python_of finds it. */
  const char *device, *python;
  /* with CH_ENGINE_PYTORCH: divide each model over the ranks_per_run devices that train it (FSDP2) */
  bool shard;
  /* The ranks of a job (ranks.h), or NULL: this process alone. Groups of ranks_per_run ranks train a run each; a
   * group that is free gets the longest run that is left. With CH_ENGINE_PYTORCH each rank trains its own runs.
   * Losses are those of a single process with as many threads. If a run fails, others continue. Every rank makes the
   * call; rank 0 has the results and gets the events. */
  ch_rank_group *ranks;
  /* number of ranks that train a run together, a divisor of the number of ranks; with CH_ENGINE_PYTORCH, number of
   * devices that train a run together; default 1 */
  int64_t ranks_per_run;
} ch_compare_workers;

/* The recommendation, and the figures of finished models. */
typedef struct ch_compare_verdict {
  /* Share of the loss that a smaller cache may cost: of the models whose loss is at most this share above the lowest,
   * the one with the smallest cache is recommended. Of images: of the models whose top-1 accuracy is at most this
   * share below the highest, the one with the fewest parameters of attention. Default 0.01. */
  double tolerance;
  /* For text: maximum bytes of the recommended model's cache, at 16 bits per element: per token, or with `users` for
   * that many users with `context` tokens each. 0 (default): no limit. */
  double cache_budget;
  /* number of users whose caches cache_budget limits, which needs `context` too; 0 (default): cache_budget is per
   * token */
  int64_t users;
  int64_t context; /* tokens of the sequences whose caches are compared; 0 (default) = `sequence` */
  /* For text: tasks that every trained model is evaluated on (ch_evaluate_task), separated by commas, each with = and
   * its file or directory of items, which tasks of RULER may lack: "ruler:vt@256,hellaswag=items.jsonl". Texts of
   * RULER have `sequence` tokens unless an @ gives a length. The recommendation does not depend on tasks. They can be
   * added to a finished comparison; existing results are reused, and models whose weights were deleted are skipped.
   * NULL (default): none. */
  const char *tasks;
  /* maximum number of items of each task; default 100; 0 = all. Tasks of RULER generate this number of items for each
   * length, 100 if it is 0. */
  int64_t task_items;
  bool remeasure; /* time training and decoding of all models again, finished ones included */
} ch_compare_verdict;

/* The destination of results. */
typedef struct ch_compare_report {
  const char *out;     /* directory of the results, OUT; each model gets a subdirectory */
  const char *command; /* command line that the report shows; or NULL */
} ch_compare_report;

typedef struct ch_compare_event ch_compare_event;

/* Called for each event, in the thread that called ch_compare_mechanisms, on rank 0 alone. Returning false stops the
 * comparison with CH_ERROR_INTERRUPTED. */
typedef bool (*ch_compare_event_sink)(const ch_compare_event *event, void *user);

/* The settings of a comparison. Fill with ch_compare_defaults, then set text.data or vision.images, report.out, and
 * what should differ: later versions may add members. All that members point to is the caller's and must last until
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
  ch_compare_event_sink event; /* callback for events (ch_compare_event), or NULL */
  ch_stop_test stop;           /* callback on every rank, about twenty times a second; or NULL */
  void *user;                  /* argument of the callbacks */
} ch_compare_settings;

/* Fills in the defaults. */
CH_API void ch_compare_defaults(ch_compare_settings *settings);

/* ---- Comparing ---- */

/* The results of a comparison. Strings, arrays and structs that the functions below return belong to it. */
typedef struct ch_comparison ch_comparison;

/* Trains a model with each mechanism on one text, with equal tokenizer, seeds, batches and number of tokens, and with
 * the FFN width adjusted so that settings->lineup.match is equal. OUT, settings->report.out, is created and gets
 * results.json and report.html whenever a run is finished. A run whose loss is not finite ends early; that is no
 * error.
 *
 * A second call with equal settings resumes the comparison in OUT. More seeds, mechanisms after its own, a ladder and,
 * with a constant schedule (but not CH_MATCH_TIME), more tokens or epochs may be added; only what is new is then
 * trained. All of workers but the engine, all of schedule, all of verdict but context, evaluations, command and the
 * callbacks may differ.
 *
 * *comparison (may be NULL) becomes the results; release it with ch_comparison_free. It has no runs on ranks other than
 * 0, and only runs of its part with settings->schedule.parts. Errors: CH_ERROR_INTERRUPTED when a callback
 * stopped the comparison (all work is saved); CH_ERROR_ARGUMENT for settings out of range, unknown names (the nearest
 * is suggested) and an OUT with results of other settings; CH_ERROR_NUMERIC if every mechanism of a ladder diverged;
 * those of ch_train. */
CH_API ch_status ch_compare_mechanisms(const ch_compare_settings *settings, ch_comparison **comparison,
                                       ch_error *error);

/* Releases the results and all that belongs to them. NULL is fine. */
CH_API void ch_comparison_free(ch_comparison *comparison);

/* Checks that settings are complete and in range, and that the files of tasks exist; it reads no other file. Errors:
 * CH_ERROR_ARGUMENT, CH_ERROR_IO. */
CH_API ch_status ch_compare_check(const ch_compare_settings *settings, ch_error *error);

/* *json becomes the contents of results.json. It is NUL-terminated and the caller's: release it with ch_free. Error:
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_comparison_json(const ch_comparison *comparison, char **json, ch_error *error);

/* *text becomes the sentence of the verdict and a table of the models for a terminal, the best first, with notes and
 * warnings. It is NUL-terminated and the caller's: release it with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_comparison_table(const ch_comparison *comparison, char **text, ch_error *error);

/* *html becomes the report, a page that loads nothing from elsewhere, with matrices read from the directories of the
 * models that still exist. It is NUL-terminated and the caller's: release it with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_comparison_page(const ch_comparison *comparison, char **html, ch_error *error);

/* ---- The runs ---- */

/* The training data: a text, or images. */
typedef struct ch_comparison_data {
  const char *file; /* path of the data, as given in the settings */
  /* size of the data's files in bytes; tokens (or images) to train and to validate on; vocabulary of models of text */
  int64_t bytes, train_tokens, validation_tokens, vocab_size;
  const char *tokenizer; /* path of the tokenizer's file, or "trained on this text"; "" for images */
  bool images;           /* true for images, false for a text */
  const char *format;    /* format of images: "CIFAR-10" */
  /* mean cross entropy in nats of a model that knows only the frequencies of tokens; of images, ln(classes); 0:
   * unknown */
  double token_entropy;
  int64_t image_size, channels, classes; /* of images: side in pixels, colour channels, classes */
} ch_comparison_data;

/* A learning rate that was tried. */
typedef struct ch_tried_rate {
  /* peak learning rate, and its validation loss; if `stopped`, that of the last evaluation, or 0 */
  double lr, loss;
  /* true if the run ended early, because it was clearly worse than others or its loss was not finite */
  bool stopped;
} ch_tried_rate;

/* The result of a trained model on a task. */
typedef struct ch_task_result {
  const char *task; /* task as settings->verdict.tasks spells it: "ruler:vt@256", "hellaswag=items.jsonl" */
  /* name of the metric in `crosshead eval --task --json`: "acc", "exact_match", "recall", "perplexity" */
  const char *metric;
  double value, error; /* value of the metric, and its standard error over the items, 0 if it is unknown */
  int64_t items;       /* number of items that were answered */
  int64_t limit;       /* settings->verdict.task_items of that evaluation */
} ch_task_result;

/* A run of a model. Strings and arrays belong to the comparison; later versions may add members. Members that the
 * version which wrote the results did not know are 0 (loss_spikes: -1). */
typedef struct ch_model_result {
  const char *name;                   /* model as `mechanisms` spells it: "gqa:4", "configs/mine.json" */
  const char *directory;              /* directory of the trained model, below that of the comparison */
  const char *mechanism;              /* attention.type of its config.json */
  int64_t layers, hidden_size, heads; /* layers, width and attention heads */
  int64_t key_value_heads;            /* heads of keys and values; 0 where they have no meaning */
  int64_t head_dim;                   /* width of a head's queries and keys */
  int64_t intermediate_size;          /* width of the FFN, or of each expert; matching chooses it */
  int64_t parameters;                 /* parameters of the model */
  /* elements, and bytes at 16 bits per element, that a token adds to the cache of all layers */
  int64_t cache_elements_per_token, cache_bytes_per_token;
  /* tokens of the sequence whose cache is compared, settings->verdict.context or `sequence`; elements in its cache,
   * fewer than cache_elements_per_token times tokens if layers have windows */
  int64_t cache_depth, cache_elements_at_depth;
  /* elements of states of constant size, which a sequence needs in addition */
  int64_t state_elements_per_sequence;
  /* mean cross entropy in nats; its exp is the perplexity. Infinite (null in files): training diverged, and ended when
   * the loss was not finite. */
  double validation_loss;
  double train_tokens_per_second;  /* speed of training, in tokens (or images) */
  double decode_tokens_per_second; /* speed of decoding; of images, images classified per second */
  double train_seconds;            /* seconds of all training steps */
  int64_t timing_turns; /* turns whose median is decode_tokens_per_second; 0: it was measured once, alone */
  /* tokens (or images) trained on; with CH_MATCH_TIME their number differs between models */
  int64_t tokens_trained;
  bool images;                  /* true for a model of images */
  int64_t parameters_attention; /* parameters of attention, CH_COUNT_ATTENTION */
  int64_t parameters_active;    /* parameters that a token uses, CH_COUNT_ACTIVE */
  /* of images: shares of validation images whose label is the first choice, and among the first five */
  double top1, top5;
  /* parameters of token or patch embeddings; of the FFNs, experts included; of the lookup tables of gates */
  int64_t parameters_embedding, parameters_feed_forward, parameters_gate_embedding;
  double flops;        /* FLOPs of a forward pass per token (or image), without context */
  int64_t flops_depth; /* tokens of context that flops_projections ... flops_head assume; 0 for images */
  /* FLOPs per token (or image) with flops_depth tokens of context: of attention's projections, of attention over the
   * context, of the FFNs, and of the head (of images, with the patches) */
  double flops_projections, flops_context, flops_feed_forward, flops_head;
  /* half the distance between the quartiles of measured speeds, of training steps and of turns of decoding; 0:
   * unknown */
  double train_spread, decode_spread;
  /* true if the spread is more than a tenth of the speed, or if other programs used the machine */
  bool train_unsteady, decode_unsteady;
  uint64_t seed;              /* seed of the run */
  double lr;                  /* peak learning rate */
  const ch_tried_rate *tried; /* [tried_count] rates that were tried, the usual one first */
  int32_t tried_count;        /* number of rates that were tried */
  /* lowest and highest rate that are as good as `lr`; share by which the usual rate raises the loss; 0: unknown */
  double lr_low, lr_high, usual_lr_cost;
  bool lr_at_edge; /* true if the best rate is the lowest or the highest one that was tried */
  /* [curve_points] means of the training loss, at most 400, and [validation_points] validation losses */
  const ch_curve_point *curve, *validation_curve;
  /* [decode_points] speeds of decoding: `tokens` is the number of tokens in the cache, and `loss` the tokens decoded
   * per second */
  const ch_curve_point *decode_curve;
  int32_t curve_points, validation_points, decode_points; /* numbers of points of the three curves */
  int64_t loss_spikes;         /* spikes of the training loss, as ch_stability_judge counts them */
  const ch_task_result *tasks; /* [task_count] results on tasks */
  int32_t task_count;          /* number of results on tasks */
  ch_trained_on trained_on;    /* device and versions, if PyTorch trained the run */
} ch_model_result;

/* Returns the number of runs of all models and seeds. */
CH_API int32_t ch_comparison_count(const ch_comparison *comparison);

/* Returns run `index`, from 0 to ch_comparison_count - 1, ordered by seed and then by model. It belongs to the
 * comparison. NULL for another index. */
CH_API const ch_model_result *ch_comparison_run(const ch_comparison *comparison, int32_t index);

/* Sets *run to the run of the recommended model with the first seed, which belongs to the comparison, or to NULL if no
 * model is trained or none fits settings->verdict.cache_budget. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_comparison_recommended(const ch_comparison *comparison, const ch_model_result **run,
                                           ch_error *error);

/* ---- The verdict ---- */

/* The certainty of the verdict. */
typedef enum ch_verdict_kind {
  /* names[0] is the choice, with 95 % confidence, or because no other model is trained without divergence */
  CH_VERDICT_TAKE = 0,
  /* names[0] is the choice, but the seeds so far do not exclude that another is as good */
  CH_VERDICT_NOT_DISTINGUISHABLE = 1,
  /* there are too few seeds to know the risk, and names[0] is the choice by the means; or no model can be chosen, and
   * there are no names */
  CH_VERDICT_UNDECIDED = 2
} ch_verdict_kind;

/* Returns "take", "not_distinguishable" or "undecided", in static storage. */
CH_API const char *ch_verdict_kind_name(ch_verdict_kind kind);

/* The best model for a range of cache sizes: from the size of its own cache up to that of the previous choice in
 * ch_comparison_decision.choices. */
typedef struct ch_comparison_choice {
  const char *name; /* model as `mechanisms` spells it */
  /* bytes of cache per token at 16 bits per element, 32 for states of constant size; of images, parameters of
   * attention */
  double cache_bytes_per_token;
  double loss; /* mean validation loss over seeds; of images, mean top-1 accuracy */
  /* 95 % interval of the distance to the best model of any size, as a share of the best loss (of images, in
   * accuracy); behind_high is INFINITY while there are too few seeds */
  double behind_low, behind_high;
  /* additional training tokens that would make up for behind_high, as a share of the tokens trained on, by the law of
   * the training losses; NAN: unknown; INFINITY: no number of tokens suffices */
  double behind_tokens;
  /* [tied_count] names of models whose mean differs from that of this model by no more than chance may explain */
  const char *const *tied_with;
  int32_t tied_count; /* number of tied_with */
} ch_comparison_choice;

/* The recommended model, and the risk of choosing it. */
typedef struct ch_comparison_decision {
  ch_verdict_kind kind;     /* certainty of the verdict */
  const char *const *names; /* [name_count] models: the choice, then others that may turn out to be as good */
  int32_t name_count;       /* number of names; 0: no model can be chosen */
  const char *sentence;     /* the answer: lines separated by newlines, of which the first names the choice */
  int64_t seeds;            /* the largest number of seeds of any model */
  /* [choice_count] models, the largest cache first: those with larger caches that are better beyond the noise, the
   * recommended one, and the best one at each smaller cache. With settings->verdict.cache_budget, only the
   * recommended model is listed. */
  const ch_comparison_choice *choices;
  int32_t choice_count; /* number of choices */
} ch_comparison_decision;

/* Sets *decision to the verdict, one block of memory that is the caller's: release it with ch_free. The names of models
 * belong to the comparison. Error: CH_ERROR_MEMORY; *decision is then NULL. */
CH_API ch_status ch_comparison_verdict(const ch_comparison *comparison, ch_comparison_decision **decision,
                                       ch_error *error);

/* ---- Larger models ---- */

/* Returns the laws of a comparison with settings->schedule.ladder, in the order of `mechanisms`; they belong to the
 * comparison. A mechanism that diverged at a size has no law. The first mechanism with a law is the baseline. NULL
 * without a ladder, with settings->schedule.parts, and on ranks other than 0. */
CH_API const ch_ladder_laws *ch_comparison_laws(const ch_comparison *comparison);

/* ---- While it runs ---- */

/* The progress of a comparison. */
typedef struct ch_compare_position {
  const char *name; /* model in training, as `mechanisms` spells it */
  uint64_t seed;    /* seed of this run */
  double lr;        /* peak learning rate of this run */
  bool tries_rate;  /* true for a run that tries a rate (`tune`); `runs` does not count it */
  /* index of this run, from 0 (with tries_rate: number of finished runs), and number of runs of all models and
   * seeds */
  int32_t run, runs;
  int32_t groups;     /* groups of ranks that train runs at the same time; 1: this process alone */
  ch_train_step step; /* the last finished step of this run; its tokens count images for models of images */
  bool evaluating;    /* true during an evaluation after that step; shares are then those of the evaluation */
} ch_compare_position;

/* A run that has failed. */
typedef struct ch_compare_failure {
  const char *name;      /* model as `mechanisms` spells it */
  uint64_t seed;         /* seed of the run */
  const ch_error *error; /* error that ended the run */
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
  CH_COMPARE_EVENT_FAILED = 7,      /* a run has failed, while others continue */
  CH_COMPARE_EVENT_TIMING = 8,      /* after the last run: a model is timed */
  CH_COMPARE_EVENT_TIMED = 9,       /* the speed of a model is known */
  CH_COMPARE_EVENT_ASKING = 10      /* now and then while a trained model is evaluated on a task */
} ch_compare_event_kind;

/* An event. All that it points to lasts until the callback returns.
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
      int32_t index, rungs;  /* index of the size, from 0, the smallest first; number of sizes */
      int64_t parameters;    /* parameters of each of its models */
      const char *directory; /* directory of its models */
    } rung;
    struct {
      const ch_compare_position *position; /* position->step.steps is the run's length */
      const ch_model_result *model;        /* the run; only members that do not depend on training are set */
    } begin;
    struct {
      const ch_compare_position *position;
    } step;
    struct {
      const ch_compare_position *position; /* position->step is the last finished step */
      double share;                        /* finished share of a step or an evaluation, from 0 to 1 */
    } share;
    struct {
      const ch_model_result *model;
      bool earlier; /* true if the run was finished before this call */
    } model;
    ch_compare_failure failed;
    struct {
      /* index of the turn, from 0, and number of planned turns, which grows if speeds are not steady */
      int32_t turn, turns;
      const ch_model_result *model;
    } timing;
    struct {
      const ch_model_result *model;
    } timed;
    struct {
      const ch_model_result *model;
      const char *task;    /* task as settings->verdict.tasks spells it */
      int64_t done, total; /* tokens of items that are finished, and of all items */
    } asking;
  } as;
};

/* ---- Before comparing ---- */

/* A forecast of a mechanism's unfinished runs. */
typedef struct ch_mechanism_forecast {
  const char *name;         /* model as `mechanisms` spells it; NULL in a total */
  int64_t parameters;       /* parameters of the model */
  int64_t runs, finished;   /* number of all runs, and of those that are finished in OUT */
  int64_t tokens;           /* tokens (or images) of a run; in a total, of all runs */
  double tokens_per_second; /* measured speed of training; 0 if no run is left, and in a total */
  double seconds;           /* seconds of training and evaluating the runs that are left */
  /* bytes of a run in training: weights, gradients, moments, activations and the process itself; in a total, the
   * largest of them */
  int64_t memory_bytes;
  int64_t disk_bytes; /* bytes that models and checkpoints will add to OUT */
} ch_mechanism_forecast;

/* A forecast. All that the functions below return belongs to it. */
typedef struct ch_compare_forecast ch_compare_forecast;

/* Forecasts the time and memory of ch_compare_mechanisms with these settings. It times steps of each model for about a
 * second, or one step of fewer sequences if a step takes longer. With CH_ENGINE_PYTORCH a worker times them, on the
 * first ranks_per_run devices; if it cannot, speeds, seconds and memory are 0, and the text and the JSON give the
 * reason. A text that is not prepared yet is checked but not tokenized: its tokens are then arbitrary. OUT does not
 * change. Release *forecast with ch_compare_forecast_free. Errors: those of ch_compare_mechanisms that need no
 * training to find.
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
/* Releases the forecast. NULL is fine. */
CH_API void ch_compare_forecast_free(ch_compare_forecast *forecast);
/* Returns the forecast of mechanism `index`, from 0 to ch_compare_forecast_count - 1, in the order of `mechanisms`; it
 * belongs to `forecast`. NULL for another index. */
CH_API const ch_mechanism_forecast *ch_compare_forecast_of(const ch_compare_forecast *forecast,
                                                           int32_t index);
/* Returns the number of mechanisms. */
CH_API int32_t ch_compare_forecast_count(const ch_compare_forecast *forecast);
/* Returns the forecast of all mechanisms together; it belongs to `forecast`. */
CH_API const ch_mechanism_forecast *ch_compare_forecast_total(const ch_compare_forecast *forecast);
/* *text becomes a table of the mechanisms and a sentence for a terminal. It is NUL-terminated and the caller's: release
 * it with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_compare_forecast_text(const ch_compare_forecast *forecast, char **text, ch_error *error);
/* *json becomes the object of `crosshead compare --dry-run --json`. It is NUL-terminated and the caller's: release it
 * with ch_free. Error: CH_ERROR_MEMORY. */
CH_API ch_status ch_compare_forecast_json(const ch_compare_forecast *forecast, char **json, ch_error *error);

/* ---- Configurations and names ---- */

/* *json becomes the text of a config.json: the model that a comparison would train for the one mechanism that
 * lineup->mechanisms names. It is NUL-terminated and the caller's: release it with ch_free. Without lineup->vocab and
 * lineup->tokenizer, of which one at most may be set, the vocabulary is that of a comparison on a long text.
 *
 * `like` is NULL, or a model directory or config.json. The model then gets its vocabulary, activation, normalisation,
 * experts and positions, and its context if lineup->sequence is 0. It also gets its layers, width, heads and number of
 * parameters, unless lineup has parameters, layers, hidden or heads.
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
 * Errors: CH_ERROR_ARGUMENT for an unknown name (the nearest is suggested), several mechanisms and impossible sizes;
 * CH_ERROR_IO, CH_ERROR_FORMAT and CH_ERROR_CONFIG for files; CH_ERROR_MEMORY. */
CH_API ch_status ch_compare_config(const ch_compare_lineup *lineup, const char *like, char **json,
                                   ch_error *error);

/* A name that comparisons know. All strings are in static storage. */
typedef struct ch_mechanism_name {
  const char *name; /* the name: "gqa" */
  /* meaning of the N of "gqa:N", such as "key-value heads"; NULL: the name takes no number */
  const char *number;
  const char *summary; /* description in one line */
} ch_mechanism_name;

/* Sets *name to the name number `index`, from 0: mechanisms, then sharing schemes and experts, which follow a mechanism
 * and a plus sign ("mfa+masa-qkvo", "kha-mlp+moe", "gqa+masa-qkvo+moe") or are used alone. Returns false after the
 * last. */
CH_API bool ch_mechanism_name_at(int32_t index, ch_mechanism_name *name);

#ifdef __cplusplus
}
#endif
#endif

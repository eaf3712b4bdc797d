/* Trains a model of text or of images. Link libcrosshead-train.
 *
 *   ch_error error;
 *   ch_train_settings settings;
 *   ch_train_defaults(&settings);
 *   settings.model.config = "config.json";
 *   settings.text.data = "book.txt";
 *   settings.training.steps = 1000;
 *   if (ch_train("model", &settings, NULL, &error) != CH_OK) puts(error.message);
 *
 * From simple to advanced: settings and one call; events while it runs; its memory; PyTorch in
 * the library's place. */
#ifndef CROSSHEAD_TRAIN_H
#define CROSSHEAD_TRAIN_H

#include <crosshead/common.h>
#include <crosshead/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Settings ---- */

/* The learning rate's schedule after the warm-up. */
typedef enum ch_train_schedule {
  CH_TRAIN_USUAL = -1,        /* the resumed run's, else cosine; with `recover`, cosine to zero */
  CH_TRAIN_COSINE = 0,        /* half a cosine down to a tenth of the peak at the last step */
  CH_TRAIN_CONSTANT = 1,      /* the peak */
  CH_TRAIN_COSINE_TO_ZERO = 2 /* half a cosine that reaches 0 after the last step */
} ch_train_schedule;

/* Random changes of images, drawn anew each time an image is seen. Combine with |: CH_TRAIN_FLIP |
 * CH_TRAIN_CROP. */
enum {
  CH_TRAIN_AUGMENT_USUAL = 0, /* the resumed run's, else both for colour images and none for grey ones */
  CH_TRAIN_AUGMENT_NONE = 1,
  CH_TRAIN_FLIP = 2, /* every second image is mirrored, left to right */
  CH_TRAIN_CROP = 4  /* shifted within a black margin */
};

/* The seed of a run without its own: the resumed run's, else 1. */
#define CH_TRAIN_SEED_USUAL UINT64_MAX

/* The model: a new one, one to start from, or that of a run to resume. */
typedef struct ch_train_model {
  const char *config;    /* the config.json of a new model, or a directory that holds one */
  const char *init_from; /* instead: a model directory, whose weights and tokenizer training starts from */
  /* With init_from: the defaults of recovering a compressed model, those of the MEA paper: a learning rate of
   * 1.6e-5, a warm-up of 1000 steps (at most a tenth of all), then a cosine to zero. */
  bool recover;
  /* With init_from: another model directory, as a rule the model before compression, whose weights are then
   * trained in the same way into OUT/control: the same sequences in the same order, the same steps and rates.
   * A run that is resumed knows its control; one that has none gets it. */
  const char *control;
  /* Continue from the checkpoint in OUT, if it has one: the model and what decides the result are then those
   * of that run, `data` may be NULL, and what is set must be the same as there. */
  bool resume;
} ch_train_model;

/* The text that the model is trained and validated on. */
typedef struct ch_train_text {
  /* A UTF-8 text file, or several separated by commas, or a token file; for a model of images, a directory or
   * files (CIFAR, IDX). */
  const char *data;
  /* A tokenizer.json, tokenizer.bin or a directory with one; NULL: trained on the text. */
  const char *tokenizer;
  ch_document_separator documents; /* what separates documents */
  bool documents_apart;            /* attention stays inside documents */
  /* share of the data for validation, if there are no validation files; 0 = a twentieth */
  double validation;
  /* Text files as `data` has them, which validate in place of a share, so that all of `data` trains; NULL:
     the share. */
  const char *validation_text;
} ch_train_text;

/* For models of images. */
typedef struct ch_train_vision {
  const char *images;     /* as `data`, for a model of images alone */
  unsigned augment;       /* CH_TRAIN_AUGMENT_USUAL, or CH_TRAIN_FLIP and CH_TRAIN_CROP */
  int64_t crop;           /* pixels of CH_TRAIN_CROP's margin; 0 = an eighth of the image */
  double label_smoothing; /* share of the target that is spread over all classes; -1 */
} ch_train_vision;

/* Length, batches and arithmetic. */
typedef struct ch_train_training {
  /* Length of the run, one of the three; all 0 = one pass over the text, ten over images. */
  int64_t tokens, steps, epochs;
  int64_t batch;       /* sequences (or images) per pass */
  int64_t sequence;    /* tokens per sequence */
  int64_t accumulate;  /* passes per step */
  int64_t micro_batch; /* sequences computed at a time: less memory, the same result up to rounding */
  bool recompute;      /* cheap activations are computed twice: less memory, the same result */
  bool whole_tables; /* over ranks: each has the lookup tables of gates whole, not a share of their columns */
  uint64_t seed;     /* random seed of the initial weights and the order of the data; CH_TRAIN_SEED_USUAL */
  ch_precision type; /* F32 (default); BF16: large products of BF16, all else in F32; or F64 */
} ch_train_training;

/* AdamW and its learning rate. */
typedef struct ch_train_optimizer {
  double lr; /* peak learning rate */
  ch_train_schedule schedule;
  int64_t warmup;      /* steps; -1 */
  double weight_decay; /* of matrices; -1 */
  double clip;         /* largest norm of the gradient; -1; 0 = no clipping */
  double beta1, beta2; /* AdamW's decay rates of the two moments; -1 */
  double eps;          /* AdamW's */
} ch_train_optimizer;

/* PyTorch trains in a process of its own, `python -m crosshead.worker RUN`, on a GPU or on the CPU. Text,
 * batches, initial weights, options and checkpoints are the same for both, and either continues a run of the
 * other. */
typedef enum ch_training_engine { CH_ENGINE_NATIVE = 0, CH_ENGINE_PYTORCH = 1 } ch_training_engine;

/* Versions and device of a run that PyTorch trained. Every member is NULL for other runs. */
typedef struct ch_trained_on {
  const char *device_name;    /* "NVIDIA H200", "cpu" */
  const char *torch, *python; /* their versions */
} ch_trained_on;

/* Who computes. */
typedef struct ch_train_workers {
  int32_t threads; /* 0 = as many as OpenMP gives (OMP_NUM_THREADS, else all cores) */
  ch_training_engine engine;
  /* With CH_ENGINE_PYTORCH: the device, as PyTorch names it ("cuda:0", "cpu", "mps", "xpu"; NULL: the first
   * GPU, else the CPU; several with commas train the model together), and the Python interpreter with
   * PyTorch, transformers and the package crosshead (NULL: CROSSHEAD_PYTHON, that of an active virtual
   * environment, or python3). */
  const char *device, *python;
  /* with CH_ENGINE_PYTORCH: divide parameters, gradients and moments over the devices (FSDP2), in place of a
   * whole model on each; with the same step */
  bool shard;
  bool prepare; /* with CH_ENGINE_PYTORCH: write what `python -m crosshead.worker OUT` trains, and end */
  /* One of several processes that train one model together (ranks.h): all call ch_train with the same
   * settings, each gets its share of a step's micro-batches, and rank 0 writes the files and gets the events.
   * Failures are those of all: every rank returns the same status and sentence. NULL: this process alone. */
  ch_rank_group *ranks;
} ch_train_workers;

/* Evaluations, checkpoints and the trace. */
typedef struct ch_train_report {
  int64_t eval_every;       /* steps between evaluations; -1; 0 = one, after the last step */
  int64_t eval_tokens;      /* validation tokens (or images) of an evaluation; -1; 0 = all */
  int64_t checkpoint_every; /* steps between checkpoints; -1; 0 = every ten minutes */
  /* A file that gets every operation of the second step in the Trace Event Format (chrome://tracing,
   * Perfetto), or NULL. If it cannot be written, the run continues, and ch_train gives *json and then returns
   * why. */
  const char *trace;
} ch_train_report;

typedef struct ch_train_event ch_train_event;

/* Called in the thread that called ch_train, on rank 0 alone. Returning false stops the run: a checkpoint is
 * saved, and ch_train returns CH_ERROR_INTERRUPTED. */
typedef bool (*ch_train_event_sink)(const ch_train_event *event, void *user);

/* Fill with ch_train_defaults, then set model.config or model.init_from, text.data, and what should differ:
 * members may be added in later versions. What ch_train_defaults puts there (0; for those marked, -1) means
 * the value of the run that is resumed, else the default that docs/train.md names. All that it points to is
 * the caller's and must last until ch_train has returned. */
typedef struct ch_train_settings {
  ch_train_model model;
  ch_train_text text;
  ch_train_vision vision;
  ch_train_training training;
  ch_train_optimizer optimizer;
  ch_train_workers workers;
  ch_train_report report;
  ch_train_event_sink event; /* what happens (see below); or NULL */
  ch_stop_test stop; /* also within steps, on every rank; a step that is stopped is not finished. Or NULL */
  void *user;        /* theirs */
} ch_train_settings;

CH_API void ch_train_defaults(ch_train_settings *settings);

/* ---- Training ---- */

/* Trains a model to the end of its run. The directory OUT (created; it must be empty unless
 * settings->model.resume is set, or hold nothing but the text that an earlier call prepared) gets the
 * prepared text, log.jsonl, checkpoint.safetensors and in the end the model, which ch_model_open opens. A run
 * that was stopped and resumed ends with the same bits as one that never stopped. With
 * settings->model.control, OUT/control gets the same files except the prepared text. *json (may be NULL)
 * becomes the object of `crosshead train --json`: steps, tokens, loss, validation_loss and the rest, and
 * "control" with the same; NUL-terminated and the caller's, release it with ch_free. Errors:
 * CH_ERROR_INTERRUPTED when a callback stopped the run (the sentence names the checkpoint's step),
 * CH_ERROR_ARGUMENT, CH_ERROR_CONFIG, CH_ERROR_FORMAT, CH_ERROR_IO, CH_ERROR_MEMORY, and CH_ERROR_NUMERIC for
 * a loss that is not finite; checkpoints stay. */
CH_API ch_status ch_train(const char *out, const ch_train_settings *settings, char **json, ch_error *error);

/* ---- While it runs ---- */

/* A run that is ready to begin. With images, members that count tokens, here and below, count images. */
typedef struct ch_train_start {
  bool images;  /* the model reads images */
  bool resumed; /* from a checkpoint */
  bool control; /* this is the run of settings->model.control, after the main one */
  int64_t step; /* finished steps; the next one is step + 1 */
  int64_t steps, batch, accumulate, sequence;
  int64_t parameters, tokens; /* of the model, and to train on in one pass over the data */
  uint64_t bytes;             /* bytes of weights, gradients, moments and activations; of this rank */
  int32_t ranks;              /* ranks that train together; 1: this process alone */
} ch_train_start;

/* The results of a training step. */
typedef struct ch_train_step {
  int64_t step, steps;               /* number of the step, from 1; and steps of the whole run */
  int64_t tokens;                    /* tokens trained on so far, including this step */
  double loss;                       /* mean cross entropy over the step's tokens, before the update */
  double lr, grad_norm;              /* grad_norm: before clipping */
  double seconds, tokens_per_second; /* of this step */
} ch_train_step;

/* An evaluation on the validation data. */
typedef struct ch_train_evaluation {
  int64_t step;
  double loss; /* mean cross entropy */
  /* For images: shares whose label is the first choice, or among the first five; for text: -1. */
  double top1, top5;
  /* Mixtures of experts: the smallest and the largest share of a layer's choices that an expert had in the
   * last step; else -1. */
  double least_expert, most_expert;
} ch_train_evaluation;

/* The progress of preparing a text. */
typedef struct ch_train_preparation {
  const char *stage; /* "training the tokenizer", ... */
  double share;      /* of it that is done, from 0 to 1 */
} ch_train_preparation;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_train_event_kind {
  CH_TRAIN_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_TRAIN_EVENT_START = 1,       /* once for each model that is trained: before the first step */
  CH_TRAIN_EVENT_STEP = 2,        /* a step is done */
  CH_TRAIN_EVENT_SHARE = 3,       /* about four times a second, in steps and evaluations above a second */
  CH_TRAIN_EVENT_EVALUATING = 4, /* an evaluation begins: up to its end, shares are those of the evaluation */
  CH_TRAIN_EVENT_EVALUATION = 5  /* an evaluation is done */
} ch_train_event_kind;

/* An event. What it points to lasts until the callback returns. A later call of ch_train reuses the finished
 * stages of a preparation.
 *
 *   static bool on_event(const ch_train_event *event, void *user) {
 *     (void)user;
 *     if (event->kind == CH_TRAIN_EVENT_STEP) printf("loss %.3f\n", event->as.step.step->loss);
 *     return true;
 *   } */
struct ch_train_event {
  ch_train_event_kind kind;
  union {
    ch_train_preparation preparation;
    struct {
      const ch_train_start *start;
    } start;
    struct {
      const ch_train_step *step;
    } step;
    struct {
      double share; /* that is done, from 0 to 1 */
    } share;
    struct {
      int64_t step; /* the step before */
    } evaluating;
    struct {
      const ch_train_evaluation *evaluation;
    } evaluation;
  } as;
};

/* ---- Memory ---- */

/* Bytes that a rank holds while it trains. */
typedef struct ch_train_memory {
  /* as passes read and write them; of divided tables only the rank's own columns */
  int64_t weights, gradients;
  int64_t masters; /* the rank's share of F32 weights that passes read in BF16 */
  int64_t moments;
  int64_t exchange;    /* rows of divided tables and their gradients on the way */
  int64_t activations; /* of one micro-batch */
  int64_t total;
} ch_train_memory;

/* Computes the training memory of the rank with the most, of `ranks` ranks (1: a process alone), without
 * training. It uses config or init_from of `model`, and batches and arithmetic of `training`
 * (micro_batch 0 = 1 sequence).
 *
 *   ch_train_memory memory;
 *   ch_train_model model = {.config = "config.json"};
 *   ch_train_training training = {.sequence = 1024, .batch = 8};
 *   if (ch_train_memory_of(&model, &training, 4, &memory, NULL) == CH_OK)
 *     printf("%lld bytes\n", (long long)memory.total);
 *
 * Errors: CH_ERROR_ARGUMENT, CH_ERROR_CONFIG, CH_ERROR_FORMAT, CH_ERROR_IO, CH_ERROR_MEMORY. */
CH_API ch_status ch_train_memory_of(const ch_train_model *model, const ch_train_training *training,
                                    int32_t ranks, ch_train_memory *memory, ch_error *error);
/* *json becomes the object of `crosshead info --ranks --json`, with the members of `memory`. The caller's:
 * release it with ch_free. */
CH_API ch_status ch_train_memory_json(const ch_train_memory *memory, char **json, ch_error *error);

/* ---- PyTorch ---- */

/* Returns the Python interpreter that is started if settings name `python` (NULL: none): that,
 * CROSSHEAD_PYTHON, that of an active virtual environment, or python3. The caller's: release it with ch_free;
 * NULL when out of memory. */
CH_API char *ch_python_of(const char *python);

#ifdef __cplusplus
}
#endif
#endif

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
 * From simple to advanced: settings and one call; events while it runs; its memory; PyTorch instead of this
 * library's own engine. */
#ifndef CROSSHEAD_TRAIN_H
#define CROSSHEAD_TRAIN_H

#include <crosshead/common.h>
#include <crosshead/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Settings ---- */

/* The schedule of the learning rate after the warm-up. */
typedef enum ch_train_schedule {
  /* schedule of the resumed run; in a new run cosine, or with `recover` cosine to zero */
  CH_TRAIN_USUAL = -1,
  CH_TRAIN_COSINE = 0,        /* half a cosine down to a tenth of the peak at the last step */
  CH_TRAIN_CONSTANT = 1,      /* always the peak */
  CH_TRAIN_COSINE_TO_ZERO = 2 /* half a cosine that reaches 0 after the last step */
} ch_train_schedule;

/* Random changes of images, drawn anew each time an image is seen. Combine the last two with |. */
enum {
  /* changes of the resumed run; in a new run CH_TRAIN_FLIP and CH_TRAIN_CROP for colour images, none for grey ones */
  CH_TRAIN_AUGMENT_USUAL = 0,
  CH_TRAIN_AUGMENT_NONE = 1, /* images stay as they are */
  CH_TRAIN_FLIP = 2,         /* half of the images, chosen at random, are mirrored left to right */
  CH_TRAIN_CROP = 4          /* images are shifted within a black margin */
};

/* The default of a run's seed: that of the resumed run, else 1. */
#define CH_TRAIN_SEED_USUAL UINT64_MAX

/* The model: a new one, one to start from, or that of a run to resume. */
typedef struct ch_train_model {
  const char *config; /* the config.json of a new model, or a directory that holds one */
  /* model directory whose config, weights and tokenizer training starts from; `config` must then be NULL */
  const char *init_from;
  /* With init_from: take the defaults of the MEA paper for recovering a compressed model: a learning rate of
   * 1.6e-5, a warm-up of 1000 steps (at most a tenth of all), then a cosine to zero. */
  bool recover;
  /* With init_from: another model directory, usually the model before compression. It is trained after the first
   * model, into OUT/control, with equal sequences in equal order, steps and rates. A resumed run remembers its
   * control; a run without one can be given it with `resume`. NULL: no control. */
  const char *control;
  /* Continue from the checkpoint in OUT, if there is one. Model, data and options are then those of that run.
   * Settings may be left at their defaults; those that are set and change the result must equal the run's. With a
   * constant schedule, more steps extend the run. */
  bool resume;
} ch_train_model;

/* The text that the model is trained and validated on. */
typedef struct ch_train_text {
  /* A UTF-8 text file or one of JSON lines, several of them separated by commas, or a token file; for a model of
   * images, a directory or files (CIFAR, IDX). */
  const char *data;
  /* a tokenizer.json, tokenizer.bin or a directory with one; NULL: that of init_from, else one that is trained on
   * the text */
  const char *tokenizer;
  ch_document_separator documents; /* separator of the documents in the text; default CH_DOCUMENTS_AUTO */
  bool documents_apart;            /* true: a token attends only to its own document */
  /* share of the data for validation, at most 0.5; 0 (default) = a twentieth. Images with test files of their own
   * are validated on those. */
  double validation;
  /* text files for validation, separated by commas; all of `data` then trains, and `validation` must be 0. NULL:
   * a share of `data` */
  const char *validation_text;
} ch_train_text;

/* For models of images. */
typedef struct ch_train_vision {
  /* a directory or files of images (CIFAR, IDX), separated by commas; `data` must be NULL */
  const char *images;
  /* CH_TRAIN_AUGMENT_USUAL (default), CH_TRAIN_AUGMENT_NONE, or CH_TRAIN_FLIP and CH_TRAIN_CROP, alone or
   * combined with | */
  unsigned augment;
  /* pixels of CH_TRAIN_CROP's margin; above 0 images are shifted also without that flag; 0 = an eighth of the
   * image */
  int64_t crop;
  double label_smoothing; /* share of the target that is spread over all classes; -1 (default) = 0 */
} ch_train_vision;

/* Length, batches and arithmetic. */
typedef struct ch_train_training {
  /* length of the run, as tokens of text, steps, or passes over the data; set at most one of the three; all 0 =
   * one pass over the text, ten over images */
  int64_t tokens, steps, epochs;
  int64_t batch;      /* sequences (or images) per pass; 0 = 8 sequences, or 64 images */
  int64_t sequence;   /* tokens per sequence; 0 = the model's context, at most 512. For text only */
  int64_t accumulate; /* passes per step; 0 = 1 */
  /* sequences (or images) computed at a time, a divisor of `batch`: smaller ones need less memory and give equal
   * results up to rounding; 0 = chosen */
  int64_t micro_batch;
  /* true: cheap activations are computed again in the backward pass, which saves memory and does not change results */
  bool recompute;
  /* over ranks, true: every rank holds the whole lookup tables of gates; false: it holds a share of their columns */
  bool whole_tables;
  uint64_t seed; /* random seed of initial weights and data order; CH_TRAIN_SEED_USUAL (default) = 1 */
  /* arithmetic of training: F32 (default); BF16: large products read BF16, all else is F32; F64: everything, slowly */
  ch_precision type;
} ch_train_training;

/* AdamW and its learning rate. */
typedef struct ch_train_optimizer {
  /* peak learning rate; 0 = 1e-3, of CH_PARAMETRIZATION_SPECTRAL 4e-3, with init_from 1e-4, with recover 1.6e-5 */
  double lr;
  ch_train_schedule schedule; /* learning rate after the warm-up; default CH_TRAIN_USUAL */
  int64_t warmup;             /* steps of linear warm-up; -1 (default) = 5 % of all steps, at most 1000 */
  double weight_decay;        /* weight decay of matrices, embeddings included; -1 (default) = 0.1 */
  double clip;                /* largest norm of all gradients together; -1 (default) = 1; 0 = no clipping */
  double beta1, beta2;        /* decay rates of AdamW's two moments; -1 (default) = 0.9 and 0.95 */
  double eps;                 /* AdamW's epsilon; 0 = 1e-8 */
} ch_train_optimizer;

/* The engine that computes training steps: this library, or PyTorch in a process of its own, `python -m
 * crosshead.worker RUN`, on a GPU or on the CPU. Text, batches, initial weights, options and checkpoints are the
 * same for both, and either can resume a run of the other. */
typedef enum ch_training_engine { CH_ENGINE_NATIVE = 0, CH_ENGINE_PYTORCH = 1 } ch_training_engine;

/* Versions and device of a run that PyTorch trained. Every member is NULL for other runs. */
typedef struct ch_trained_on {
  const char *device_name;    /* name of the device: "NVIDIA H200", "cpu" */
  const char *torch, *python; /* versions of PyTorch and of Python */
} ch_trained_on;

/* Threads, engine, devices and processes that compute. */
typedef struct ch_train_workers {
  /* number of threads, at most 4096; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  /* engine that trains; default CH_ENGINE_NATIVE; CH_ENGINE_PYTORCH excludes several `ranks` and a `trace` */
  ch_training_engine engine;
  /* With CH_ENGINE_PYTORCH: the device as PyTorch names it ("cuda:0", "cpu", "xpu"), or several separated by
   * commas that train the model together (NULL: the first GPU, else the CPU), and the Python interpreter that has
   * PyTorch, transformers and the package crosshead (NULL: CROSSHEAD_PYTHON, that of an active virtual environment, or
   * python3). */
  const char *device, *python;
  /* with CH_ENGINE_PYTORCH and several devices: divide parameters, gradients and moments over them (FSDP2), in
   * place of a whole model on each; steps compute equal results */
  bool shard;
  /* with CH_ENGINE_PYTORCH: only write the files in OUT that `python -m crosshead.worker OUT` trains from */
  bool prepare;
  /* The processes that train one model together (ranks.h): all call ch_train with equal settings, and each
   * computes its share of a step's micro-batches. Rank 0 writes the files and gets the events. If one fails, every
   * rank returns its status and sentence. NULL: this process alone. */
  ch_rank_group *ranks;
} ch_train_workers;

/* Evaluations, checkpoints and the trace. */
typedef struct ch_train_report {
  /* steps between evaluations; there is always one after the last step. -1 (default) = a twentieth of the run, or
   * more where evaluations would take over a tenth of the time; 0 = only the last */
  int64_t eval_every;
  int64_t eval_tokens; /* validation tokens (or images) of an evaluation; -1 (default) = 131072; 0 = all */
  /* steps between checkpoints; -1 (default) or 0 = a checkpoint every ten minutes */
  int64_t checkpoint_every;
  /* File for every operation of the second step that this call trains (the only one if it trains one) in the Trace
   * Event Format (chrome://tracing, Perfetto), or NULL. If the file cannot be written, the run continues to its end,
   * and ch_train sets *json and returns the error of the file. */
  const char *trace;
} ch_train_report;

typedef struct ch_train_event ch_train_event;

/* Called for each event, in the thread that called ch_train, on rank 0 alone. Returning false stops the run: a
 * checkpoint is saved, and ch_train returns CH_ERROR_INTERRUPTED. */
typedef bool (*ch_train_event_sink)(const ch_train_event *event, void *user);

/* The settings of a training. Fill with ch_train_defaults, then set model.config or model.init_from, text.data, and
 * what should differ: later versions may add members. A member left at its default takes the value of the resumed
 * run; comments name the defaults of a new run. All that members point to is the caller's and must last until
 * ch_train has returned. */
typedef struct ch_train_settings {
  ch_train_model model;
  ch_train_text text;
  ch_train_vision vision;
  ch_train_training training;
  ch_train_optimizer optimizer;
  ch_train_workers workers;
  ch_train_report report;
  ch_train_event_sink event; /* callback for events (ch_train_event), or NULL */
  /* callback on every rank, also during a step; returning true abandons the step; or NULL */
  ch_stop_test stop;
  void *user; /* argument of the callbacks */
} ch_train_settings;

/* Fills in the defaults. */
CH_API void ch_train_defaults(ch_train_settings *settings);

/* ---- Training ---- */

/* Trains a model to the end of its run. The directory OUT is created; unless settings->model.resume is set, it must
 * be empty or hold only the text that an earlier call prepared. It gets the prepared text, log.jsonl,
 * checkpoint.safetensors and in the end the model, which ch_model_open opens. A run that was stopped and resumed ends
 * with the same bits as one that never stopped, with as many threads on the same kind of processor. With
 * settings->model.control, OUT/control gets such files too, without the text.
 *
 * *json (may be NULL) becomes the object of `crosshead train --json`: model, parameters, steps, tokens (or images),
 * loss, seconds, validation_loss and the rest, and those of the control as "control". It is NUL-terminated and the
 * caller's: release it with ch_free.
 *
 * Errors: CH_ERROR_INTERRUPTED when a callback stopped the run (the sentence names the step of the checkpoint);
 * CH_ERROR_ARGUMENT for settings that are NULL, out of range or contradict each other or the resumed run, and for an
 * OUT with other files; CH_ERROR_CONFIG, CH_ERROR_FORMAT and CH_ERROR_IO for files and for a PyTorch that cannot
 * train; CH_ERROR_MEMORY; CH_ERROR_NUMERIC for a loss or gradient that is not finite. Checkpoints remain. An error
 * before the first step leaves OUT as it was. */
CH_API ch_status ch_train(const char *out, const ch_train_settings *settings, char **json, ch_error *error);

/* ---- While it runs ---- */

/* A run that is ready to begin. In runs on images, this struct and ch_train_step count images in place of tokens. */
typedef struct ch_train_start {
  bool images;  /* true if the model reads images */
  bool resumed; /* true if the run continues from a checkpoint */
  bool control; /* true in the run of settings->model.control, which follows the main one */
  int64_t step; /* number of finished steps; the next one is step + 1 */
  /* steps of the whole run; sequences (or images) per pass; passes per step; tokens per sequence, 1 for images */
  int64_t steps, batch, accumulate, sequence;
  int64_t parameters, tokens; /* parameters of the model; tokens to train on in one pass over the data */
  uint64_t bytes;             /* bytes of this rank's weights, gradients, moments and activations */
  int32_t ranks;              /* number of ranks that train together; 1: this process alone */
} ch_train_start;

/* The results of a training step. */
typedef struct ch_train_step {
  int64_t step, steps;               /* number of the step, from 1; steps of the whole run */
  int64_t tokens;                    /* tokens trained on so far, including this step */
  double loss;                       /* mean cross entropy of the step's tokens in nats, before the update */
  double lr, grad_norm;              /* learning rate; norm of all gradients together before clipping */
  double seconds, tokens_per_second; /* duration and speed of this step */
} ch_train_step;

/* An evaluation on the validation data. */
typedef struct ch_train_evaluation {
  int64_t step; /* number of finished steps */
  double loss;  /* mean cross entropy in nats */
  /* shares of images whose label is the first choice, and among the first five; -1 for text */
  double top1, top5;
  /* of a mixture of experts: the smallest and the largest share of a layer's choices that an expert had in the last
   * step; else -1 */
  double least_expert, most_expert;
} ch_train_evaluation;

/* The progress of preparing a text. */
typedef struct ch_train_preparation {
  const char *stage; /* name of the stage: "training the tokenizer", ... */
  double share;      /* finished share of the stage, from 0 to 1 */
} ch_train_preparation;

/* The kind of an event: the member of the union that has its name. */
typedef enum ch_train_event_kind {
  CH_TRAIN_EVENT_PREPARATION = 0, /* now and then while the text is prepared */
  CH_TRAIN_EVENT_START = 1,       /* once for each model that is trained: before the first step */
  CH_TRAIN_EVENT_STEP = 2,        /* a step is done */
  CH_TRAIN_EVENT_SHARE = 3,       /* up to four times a second in steps and evaluations above a second */
  CH_TRAIN_EVENT_EVALUATING = 4, /* an evaluation begins: until its end, shares are those of the evaluation */
  CH_TRAIN_EVENT_EVALUATION = 5  /* an evaluation is done */
} ch_train_event_kind;

/* An event. All that it points to lasts until the callback returns. If a preparation is stopped, a later call of
 * ch_train reuses its finished stages.
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
      double share; /* finished share of the step or the evaluation, from 0 to 1 */
    } share;
    struct {
      int64_t step; /* number of finished steps */
    } evaluating;
    struct {
      const ch_train_evaluation *evaluation;
    } evaluation;
  } as;
};

/* ---- Memory ---- */

/* Bytes that a rank holds while it trains. */
typedef struct ch_train_memory {
  /* bytes of weights and of gradients as passes read and write them; of divided tables only the rank's columns */
  int64_t weights, gradients;
  int64_t masters;     /* bytes of the rank's share of F32 weights, if passes read BF16; else 0 */
  int64_t moments;     /* bytes of the rank's share of AdamW's moments */
  int64_t exchange;    /* bytes of rows of divided tables, and of their gradients, that ranks exchange */
  int64_t activations; /* bytes of one micro-batch's activations */
  int64_t total;       /* bytes of all of these together */
} ch_train_memory;

/* Computes the training memory of a rank, without training: the largest of `ranks` ranks, 1 to 65536 (1: a process
 * alone). It reads model->config, or model->init_from if that is NULL, and of `training` sequence, micro_batch
 * (0 = 1 sequence), recompute, whole_tables and type.
 *
 *   ch_train_memory memory;
 *   ch_train_model model = {.config = "config.json"};
 *   ch_train_training training = {.sequence = 1024, .micro_batch = 8};
 *   if (ch_train_memory_of(&model, &training, 4, &memory, NULL) == CH_OK)
 *     printf("%lld bytes\n", (long long)memory.total);
 *
 * Errors: CH_ERROR_ARGUMENT for NULL, no model and values out of range; CH_ERROR_CONFIG, CH_ERROR_FORMAT and
 * CH_ERROR_IO for the model's files; CH_ERROR_MEMORY. */
CH_API ch_status ch_train_memory_of(const ch_train_model *model, const ch_train_training *training,
                                    int32_t ranks, ch_train_memory *memory, ch_error *error);
/* *json becomes the object that `crosshead info --ranks --json` has for a rank's memory: the members of `memory`,
 * with "gate_rows" for `exchange`. It is NUL-terminated and the caller's: release it with ch_free. Errors:
 * CH_ERROR_ARGUMENT for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_train_memory_json(const ch_train_memory *memory, char **json, ch_error *error);

/* ---- PyTorch ---- */

/* Returns the Python interpreter that CH_ENGINE_PYTORCH starts: `python`, or if that is NULL, the value of
 * CROSSHEAD_PYTHON, the interpreter of an active virtual environment, or "python3". The string is the caller's:
 * release it with ch_free. NULL when out of memory. */
CH_API char *ch_python_of(const char *python);

#ifdef __cplusplus
}
#endif
#endif

/* The options of crosshead train, and their conversion to settings. */
#include "cli/training.h"

#include <string.h>

#include "cli/record_run.h"
#include "cli/precision.h"

static const char *const schedules[] = {"cosine", "constant", "cosine-to-zero", NULL};
static const char *const dtypes[] = {"f32", "bf16", "f64", NULL};
static const char *const engines[] = {"native", "pytorch", NULL};
static const char *const separators[] = {"auto", "marker", "blank-lines", "none", NULL};
static const char *const augmentations[] = {"auto", "none", "flip", "crop", "flip+crop", NULL};

#define AT(member) offsetof(ch_training_arguments, member)
#define SET(member) offsetof(ch_training_arguments, settings.member)

const ch_option ch_training_option_table[] = {
    CH_PATH_OPTION("data", SET(text.data), "TEXT",
                   "The text to train on: UTF-8 files separated by commas, or a token file. For models of "
                   "images: a directory or files (CIFAR, IDX). A part is held out for validation. Required "
                   "unless a run is resumed.",
                   .alias = "text"),
    CH_PATH_OPTION("images", SET(vision.images), "DIR",
                   "Images to train on, for a model of images; the same as --data."),
    CH_PATH_OPTION("out", AT(out), "DIR", "Directory for the model, its tokenizer, checkpoint and log.",
                   .writes = CH_WRITES_JOB, .required = true),
    CH_FLAG_OPTION("resume", SET(model.resume),
                   "Continue the run in --out with its own config, text and options. Options that would "
                   "change its result are refused."),
    CH_PATH_OPTION("init-from", SET(model.init_from), "DIR",
                   "Start from the weights, config and tokenizer of the model in DIR (one of Crosshead's, or "
                   "a Hugging Face directory that needs no import)."),
    CH_FLAG_OPTION("recover", SET(model.recover),
                   "With --init-from: defaults for recovering a compressed model, from the MEA paper: "
                   "learning rate 1.6e-5, warm-up of 1000 steps (at most a tenth of all), cosine to zero. "
                   "Options on the command line override them."),
    CH_PATH_OPTION("control", SET(model.control), "DIR",
                   "With --init-from: also train the model in DIR, usually the model before compression, on "
                   "the same sequences with the same steps and rates. It is saved in `control` in --out, and "
                   "both losses are printed."),
    CH_FLAG_OPTION("json", AT(json), "Print the result as one JSON object on standard output."),
    CH_PATH_OPTION("trace", SET(report.trace), "FILE",
                   "Write every operation of the second step to FILE, for chrome://tracing or Perfetto.",
                   .writes = CH_WRITES_FILE),
    CH_RUNS_OPTION(AT(runs)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    CH_HEADING("Length"),
    CH_COUNT_OPTION("tokens", SET(training.tokens), "N", 1, 1e15,
                    "Tokens to train on. A short text is read repeatedly, each time in another order "
                    "(default: one pass)."),
    CH_COUNT_OPTION("epochs", SET(training.epochs), "N", 1, 1e6,
                    "Length of the training in passes over the text or the images (default: 1; images: 10)."),
    CH_COUNT_OPTION("steps", SET(training.steps), "N", 1, 1e8, "Length of the training in optimizer steps."),
    CH_COUNT_OPTION("batch", SET(training.batch), "N", 1, 1e6,
                    "Sequences or images per batch (default: 8; images: 64)."),
    CH_COUNT_OPTION("seq", SET(training.sequence), "N", 1, 1 << 24,
                    "Sequence length in tokens (default: the model's context, at most 512).",
                    .setting = "sequence"),
    CH_COUNT_OPTION("accumulate", SET(training.accumulate), "N", 1, 1e6,
                    "Batches whose gradients are accumulated for one step.", .default_value = "1"),
    CH_HEADING("Optimizer"),
    CH_NUMBER_OPTION(
        "lr", SET(optimizer.lr), "RATE", 1e-12, 1000,
        "Peak learning rate (default: 1e-3; with the spectral parametrization 4e-3; with --init-from 1e-4)."),
    CH_CHOICE_OPTION("schedule", AT(schedule), "NAME", schedules,
                     "Learning rate after the warm-up: a cosine down to 10 % of the peak, constant, or a "
                     "cosine to zero. A constant run can be extended later with --resume.",
                     .default_value = "cosine"),
    CH_COUNT_OPTION("warmup", SET(optimizer.warmup), "STEPS", 0, 1e8,
                    "Steps of linear warm-up (default: 5 % of all, at most 1000)."),
    CH_NUMBER_OPTION("weight-decay", SET(optimizer.weight_decay), "W", 0, 1000,
                     "Weight decay of matrices. Norms and biases have none.", .default_value = "0.1"),
    CH_NUMBER_OPTION("clip", SET(optimizer.clip), "NORM", 0, 1e9,
                     "Clip the global norm of the gradients to this value; 0 disables clipping.",
                     .default_value = "1"),
    CH_NUMBER_OPTION("beta1", SET(optimizer.beta1), "B", 0, 0.999999,
                     "AdamW's decay rate of the first moment.", .default_value = "0.9"),
    CH_NUMBER_OPTION("beta2", SET(optimizer.beta2), "B", 0, 0.9999999,
                     "AdamW's decay rate of the second moment.", .default_value = "0.95"),
    CH_NUMBER_OPTION("eps", SET(optimizer.eps), "E", 1e-30, 1, "AdamW's epsilon.", .default_value = "1e-8"),
    CH_COUNT_OPTION("seed", AT(seed), "N", 0, 9e18,
                    "Random seed of the initial weights and of the order of the text.", .default_value = "1"),
    CH_HEADING("Text"),
    CH_PATH_OPTION("tokenizer", SET(text.tokenizer), "FILE",
                   "A tokenizer.json, a llama2.c tokenizer.bin, or a directory that has one (default: a "
                   "tokenizer with the config's vocab_size is trained on the text)."),
    CH_FLAG_OPTION("documents", SET(text.documents_apart),
                   "Restrict attention to each document, and pack documents so that few are cut.",
                   .setting = "documents_apart"),
    CH_CHOICE_OPTION("separator", AT(separator), "NAME", separators,
                     "What separates documents: the marker <|endoftext|>, blank lines, or nothing. auto uses "
                     "the marker if the text has one.",
                     .setting = "documents", .default_value = "auto"),
    CH_TEXT_OPTION("validation", AT(validation), "SHARE|FILE",
                   "Share of the text to hold out for validation (of images, if they have no test files), or "
                   "a separate validation text, so that all of --data is trained on.",
                   .setting = "validation_text", .default_value = "0.05"),
    CH_HEADING("Images"),
    CH_CHOICE_OPTION("augment", AT(augment), "NAME", augmentations,
                     "Random augmentation: flip mirrors images left to right, crop shifts them within a "
                     "black margin. auto does both to colour images and nothing to grey ones.",
                     .default_value = "auto"),
    CH_COUNT_OPTION("crop", SET(vision.crop), "PIXELS", 1, 4096,
                    "Width of the margin of crop (default: an eighth of the image)."),
    CH_NUMBER_OPTION("label-smoothing", SET(vision.label_smoothing), "S", 0, 0.99,
                     "Share of the target probability that is spread over all classes.",
                     .default_value = "0"),
    CH_HEADING("Evaluation, checkpoints, memory"),
    CH_COUNT_OPTION("eval-every", SET(report.eval_every), "STEPS", 0, 1e9,
                    "Steps between evaluations; 0 evaluates only at the end (default: a twentieth of all, or "
                    "more if evaluating would take more than a tenth of the time)."),
    CH_COUNT_OPTION("eval-tokens", SET(report.eval_tokens), "N", 0, 1e12,
                    "Largest number of validation tokens (or images) per evaluation; 0 means all.",
                    .default_value = "131072"),
    CH_COUNT_OPTION("checkpoint-every", SET(report.checkpoint_every), "STEPS", 0, 1e9,
                    "Steps between checkpoints (default: every ten minutes). The end and an interruption "
                    "always save one."),
    CH_COUNT_OPTION("micro-batch", SET(training.micro_batch), "N", 1, 1e6,
                    "Sequences computed at a time, a divisor of --batch. Fewer need less memory; the result "
                    "differs only by rounding (default: chosen from the model's size)."),
    CH_FLAG_OPTION("recompute", SET(training.recompute),
                   "Compute cheap activations a second time in the backward pass instead of storing them: "
                   "less memory, the same result."),
    CH_FLAG_OPTION(
        "whole-tables", SET(training.whole_tables),
        "With several processes: store the lookup tables of embedding gates whole in every process. By "
        "default each process stores a share of their columns: less memory, the same result."),
    CH_CHOICE_OPTION("compute", AT(dtype), "TYPE", dtypes,
                     "Arithmetic: f32; bf16 for large matrix products with sums in f32, which is faster on "
                     "processors with BF16 instructions; or f64, the slow reference.",
                     .setting = "type", .alias = "dtype", .default_value = "f32"),
    CH_HEADING("GPUs"),
    CH_CHOICE_OPTION(
        "engine", AT(engine), "NAME", engines,
        "What computes the steps: this program, or PyTorch, on a GPU or the CPU. Initial weights, batches, "
        "steps and checkpoints are the same; either engine resumes the other's run.",
        .default_value = "native"),
    CH_TEXT_OPTION("device", SET(workers.device), "NAME",
                   "With --engine pytorch: cuda, cuda:1, cpu or xpu, several with commas to train on "
                   "them together (default: the first GPU, else the CPU)."),
    CH_COUNT_OPTION(
        "ranks-per-run", AT(ranks_per_run), "N", 1, 1 << 20,
        "With --engine pytorch: devices that train the model together, each a share of a step's sequences.",
        .default_value = "1"),
    CH_FLAG_OPTION(
        "shard", SET(workers.shard),
        "With several devices: each holds a part of the parameters, gradients and optimizer states (FSDP2) "
        "instead of all of them; the steps are the same."),
    CH_FLAG_OPTION(
        "prepare", SET(workers.prepare),
        "With --engine pytorch: write the worker's input files and exit. `python -m crosshead.worker DIR` "
        "then trains it, here or on another machine with the same directories."),
    CH_PATH_OPTION(
        "python", SET(workers.python), "PATH",
        "With --engine pytorch: the Python that has PyTorch, transformers and the package "
        "crosshead (default: CROSSHEAD_PYTHON, else that of an active virtual environment, else python3)."),
    {0},
};

/* --- conversion to settings --------------------------------------------------------------------------------- */

static size_t size_of(ch_option_type type) {
  return type == CH_OPTION_FLAG                               ? sizeof(bool)
         : type == CH_OPTION_NUMBER || type == CH_OPTION_TIME ? sizeof(double)
         : type == CH_OPTION_COUNT                            ? sizeof(int64_t)
                                                              : sizeof(const char *);
}

/* Returns the index of a name among an option's choices. */
static int place_of(const char *name, const char *const *choices) {
  int i = 0;
  while (strcmp(choices[i], name) != 0) i++;
  return i;
}

/* Reads --validation: a share, or the path of a text. */
static ch_status read_validation(const char *text, ch_train_settings *settings, ch_error *error) {
  double share;
  if (!ch_parse_number(text, &share)) {
    settings->text.validation_text = text;
    return CH_OK;
  }
  settings->text.validation = share;
  return share >= 1e-6 && share <= 0.5
             ? CH_OK
             : ch_fail(error, CH_ERROR_ARGUMENT,
                       "--validation: %s is neither a share from 1e-06 to 0.5 nor a file", text);
}

ch_status ch_training_read(const ch_training_arguments *a, ch_train_settings *settings, ch_error *error) {
  static const unsigned augments[] = {CH_TRAIN_AUGMENT_USUAL, CH_TRAIN_AUGMENT_NONE, CH_TRAIN_FLIP,
                                      CH_TRAIN_CROP, CH_TRAIN_FLIP | CH_TRAIN_CROP};
  const size_t first = offsetof(ch_training_arguments, settings), last = first + sizeof a->settings;
  ch_train_defaults(settings);
  for (const ch_option *o = ch_training_option_table; o->name; o++)
    if (*o->name && o->offset >= first && o->offset < last && ch_option_given(a, o->name))
      memcpy((char *)settings + (o->offset - first), (const char *)a + o->offset, size_of(o->type));
  settings->model.config = a->positional[0];
  settings->text.documents = (ch_document_separator)place_of(a->separator, separators);
  settings->vision.augment = augments[place_of(a->augment, augmentations)];
  if (ch_option_given(a, "schedule"))
    settings->optimizer.schedule = (ch_train_schedule)place_of(a->schedule, schedules);
  if (strcmp(a->engine, "pytorch") == 0) settings->workers.engine = CH_ENGINE_PYTORCH;
  if (ch_option_given(a, "compute")) settings->training.type = ch_precision_of(a->dtype);
  if (ch_option_given(a, "seed")) settings->training.seed = (uint64_t)a->seed;
  return ch_option_given(a, "validation") ? read_validation(a->validation, settings, error) : CH_OK;
}

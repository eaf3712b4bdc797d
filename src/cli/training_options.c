/* The options of crosshead train. */
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
    {.name = "data",
     .type = CH_OPTION_PATH,
     .offset = SET(text.data),
     .metavar = "TEXT",
     .alias = "text",
     .help =
         "The text to train on: UTF-8 files separated by commas, or a token file. For models of images: a "
         "directory or files (CIFAR, IDX). A part is held out for validation. Required unless a run is "
         "resumed."},
    {.name = "images",
     .type = CH_OPTION_PATH,
     .offset = SET(vision.images),
     .metavar = "DIR",
     .help = "Images to train on, for a model of images; the same as --data."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = AT(out),
     .metavar = "DIR",
     .writes = CH_WRITES_JOB,
     .required = true,
     .help = "Directory for the model, its tokenizer, checkpoint and log."},
    {.name = "resume",
     .type = CH_OPTION_FLAG,
     .offset = SET(model.resume),
     .help = "Continue the run in --out with its own config, text and options. Options that would change its "
             "result are refused."},
    {.name = "init-from",
     .type = CH_OPTION_PATH,
     .offset = SET(model.init_from),
     .metavar = "DIR",
     .help = "Start from the weights, config and tokenizer of the model in DIR (one of Crosshead's, or a "
             "Hugging Face directory that opens as it is)."},
    {.name = "recover",
     .type = CH_OPTION_FLAG,
     .offset = SET(model.recover),
     .help = "With --init-from: defaults for recovering a compressed model, from the MEA paper: learning "
             "rate 1.6e-5, warm-up of 1000 steps (at most a tenth of all), cosine to zero. Options on the "
             "command line override them."},
    {.name = "control",
     .type = CH_OPTION_PATH,
     .offset = SET(model.control),
     .metavar = "DIR",
     .help =
         "With --init-from: also train the model in DIR, usually the model before compression, on the same "
         "sequences with the same steps and rates. It is saved in `control` in --out, and both losses are "
         "printed."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = AT(json),
     .help = "Print the result as one JSON object on standard output."},
    {.name = "trace",
     .type = CH_OPTION_PATH,
     .offset = SET(report.trace),
     .metavar = "FILE",
     .writes = CH_WRITES_FILE,
     .help = "Write every operation of the second step to FILE, for chrome://tracing or Perfetto."},
    CH_RUNS_OPTION(AT(runs)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    {.name = "", .help = "Length"},
    {.name = "tokens",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.tokens),
     .metavar = "N",
     .min = 1,
     .max = 1e15,
     .help = "Tokens to train on. A short text is read repeatedly, each time in another order "
             "(default: one pass)."},
    {.name = "epochs",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.epochs),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "Length of the training in passes over the text or the images (default: 1; images: 10)."},
    {.name = "steps",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.steps),
     .metavar = "N",
     .min = 1,
     .max = 1e8,
     .help = "Length of the training in optimizer steps."},
    {.name = "batch",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.batch),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "Sequences or images per batch (default: 8; images: 64)."},
    {.name = "seq",
     .setting = "sequence",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.sequence),
     .metavar = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "Sequence length in tokens (default: the model's context, at most 512)."},
    {.name = "accumulate",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.accumulate),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .default_value = "1",
     .help = "Batches whose gradients are accumulated for one step."},
    {.name = "", .help = "Optimizer"},
    {.name = "lr",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.lr),
     .metavar = "RATE",
     .min = 1e-12,
     .max = 1000,
     .help = "Peak learning rate (default: 1e-3; with the spectral parametrization 4e-3; with --init-from "
             "1e-4)."},
    {.name = "schedule",
     .type = CH_OPTION_CHOICE,
     .offset = AT(schedule),
     .metavar = "NAME",
     .choices = schedules,
     .default_value = "cosine",
     .help = "Learning rate after the warm-up: a cosine down to 10 % of the peak, constant, or a cosine to "
             "zero. A constant run can be extended later with --resume."},
    {.name = "warmup",
     .type = CH_OPTION_COUNT,
     .offset = SET(optimizer.warmup),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e8,
     .help = "Steps of linear warm-up (default: 5 % of all, at most 1000)."},
    {.name = "weight-decay",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.weight_decay),
     .metavar = "W",
     .min = 0,
     .max = 1000,
     .default_value = "0.1",
     .help = "Weight decay of matrices. Norms and biases have none."},
    {.name = "clip",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.clip),
     .metavar = "NORM",
     .min = 0,
     .max = 1e9,
     .default_value = "1",
     .help = "Clip the global norm of the gradients to this value; 0 disables clipping."},
    {.name = "beta1",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.beta1),
     .metavar = "B",
     .min = 0,
     .max = 0.999999,
     .default_value = "0.9",
     .help = "AdamW's decay rate of the first moment."},
    {.name = "beta2",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.beta2),
     .metavar = "B",
     .min = 0,
     .max = 0.9999999,
     .default_value = "0.95",
     .help = "AdamW's decay rate of the second moment."},
    {.name = "eps",
     .type = CH_OPTION_NUMBER,
     .offset = SET(optimizer.eps),
     .metavar = "E",
     .min = 1e-30,
     .max = 1,
     .default_value = "1e-8",
     .help = "AdamW's epsilon."},
    {.name = "seed",
     .type = CH_OPTION_COUNT,
     .offset = AT(seed),
     .metavar = "N",
     .min = 0,
     .max = 9e18,
     .default_value = "1",
     .help = "Random seed of the initial weights and of the order of the text."},
    {.name = "", .help = "Text"},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     .offset = SET(text.tokenizer),
     .metavar = "FILE",
     .help = "A tokenizer.json, a llama2.c tokenizer.bin, or a directory that has one (default: a tokenizer "
             "with the config's vocab_size is trained on the text)."},
    {.name = "documents",
     .setting = "documents_apart",
     .type = CH_OPTION_FLAG,
     .offset = SET(text.documents_apart),
     .help = "Restrict attention to each document, and pack documents so that few are cut."},
    {.name = "separator",
     .setting = "documents",
     .type = CH_OPTION_CHOICE,
     .offset = AT(separator),
     .metavar = "NAME",
     .choices = separators,
     .default_value = "auto",
     .help = "What separates documents: the marker <|endoftext|>, blank lines, or nothing. auto uses the "
             "marker if the text has one."},
    {.name = "validation",
     .setting = "validation_text",
     .type = CH_OPTION_TEXT,
     .offset = AT(validation),
     .metavar = "SHARE|FILE",
     .default_value = "0.05",
     .help = "Share of the text to hold out for validation (of images, if they have no test files), or a "
             "separate validation text, so that all of --data is trained on."},
    {.name = "", .help = "Images"},
    {.name = "augment",
     .type = CH_OPTION_CHOICE,
     .offset = AT(augment),
     .metavar = "NAME",
     .choices = augmentations,
     .default_value = "auto",
     .help = "Random augmentation: flip mirrors images left to right, crop shifts them within a black "
             "margin. auto does both to colour images and nothing to grey ones."},
    {.name = "crop",
     .type = CH_OPTION_COUNT,
     .offset = SET(vision.crop),
     .metavar = "PIXELS",
     .min = 1,
     .max = 4096,
     .help = "Width of the margin of crop (default: an eighth of the image)."},
    {.name = "label-smoothing",
     .type = CH_OPTION_NUMBER,
     .offset = SET(vision.label_smoothing),
     .metavar = "S",
     .min = 0,
     .max = 0.99,
     .default_value = "0",
     .help = "Share of the target probability that is spread over all classes."},
    {.name = "", .help = "Evaluation, checkpoints, memory"},
    {.name = "eval-every",
     .type = CH_OPTION_COUNT,
     .offset = SET(report.eval_every),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e9,
     .help = "Steps between evaluations; 0 evaluates only at the end (default: a twentieth of all, or more "
             "if evaluating would take more than a tenth of the time)."},
    {.name = "eval-tokens",
     .type = CH_OPTION_COUNT,
     .offset = SET(report.eval_tokens),
     .metavar = "N",
     .min = 0,
     .max = 1e12,
     .default_value = "131072",
     .help = "Largest number of validation tokens (or images) per evaluation; 0 means all."},
    {.name = "checkpoint-every",
     .type = CH_OPTION_COUNT,
     .offset = SET(report.checkpoint_every),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e9,
     .help = "Steps between checkpoints (default: every ten minutes). The end and an interruption always "
             "save one."},
    {.name = "micro-batch",
     .type = CH_OPTION_COUNT,
     .offset = SET(training.micro_batch),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "Sequences computed at a time, a divisor of --batch. Fewer need less memory; the result differs "
             "only by rounding (default: chosen from the model's size)."},
    {.name = "recompute",
     .type = CH_OPTION_FLAG,
     .offset = SET(training.recompute),
     .help = "Compute cheap activations a second time in the backward pass instead of storing them: less "
             "memory, the same result."},
    {.name = "whole-tables",
     .type = CH_OPTION_FLAG,
     .offset = SET(training.whole_tables),
     .help = "With several processes: store the lookup tables of embedding gates whole in every process. By "
             "default each process stores a share of their columns: less memory, the same result."},
    {.name = "compute",
     .setting = "type",
     .alias = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = AT(dtype),
     .metavar = "TYPE",
     .choices = dtypes,
     .default_value = "f32",
     .help =
         "Arithmetic: f32; bf16 for large matrix products with sums in f32, which is faster on processors "
         "with BF16 instructions; or f64, the slow reference."},
    {.name = "", .help = "GPUs"},
    {.name = "engine",
     .type = CH_OPTION_CHOICE,
     .offset = AT(engine),
     .metavar = "NAME",
     .choices = engines,
     .default_value = "native",
     .help =
         "What computes the steps: this program, or PyTorch, on a GPU or the CPU. Initial weights, batches, "
         "steps and checkpoints are the same; either engine resumes the other's run."},
    {.name = "device",
     .type = CH_OPTION_TEXT,
     .offset = SET(workers.device),
     .metavar = "NAME",
     .help = "With --engine pytorch: cuda, cuda:1, cpu, mps or xpu, several with commas to train on them "
             "together "
             "(default: the first GPU, else the CPU)."},
    {.name = "ranks-per-run",
     .type = CH_OPTION_COUNT,
     .offset = AT(ranks_per_run),
     .metavar = "N",
     .default_value = "1",
     .min = 1,
     .max = 1 << 20,
     .help =
         "With --engine pytorch: devices that train the model together, each a share of a step's sequences."},
    {.name = "shard",
     .type = CH_OPTION_FLAG,
     .offset = SET(workers.shard),
     .help =
         "With several devices: each holds a part of the parameters, gradients and optimizer states (FSDP2) "
         "in place of all; the steps are the same."},
    {.name = "prepare",
     .type = CH_OPTION_FLAG,
     .offset = SET(workers.prepare),
     .help = "With --engine pytorch: write the worker's input files and exit. `python -m crosshead.worker "
             "DIR` then "
             "trains it, here or on another machine with the same directories."},
    {.name = "python",
     .type = CH_OPTION_PATH,
     .offset = SET(workers.python),
     .metavar = "PATH",
     .help = "With --engine pytorch: the Python that has PyTorch, transformers and the package crosshead "
             "(default: CROSSHEAD_PYTHON, that of an active virtual environment, python3)."},
    {.name = NULL},
};

/* --- as settings -------------------------------------------------------------------------------------------- */

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

/* Reads a share, or the name of a text. */
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

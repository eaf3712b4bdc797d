/* crosshead eval: perplexities of a text under a model, answers to a task, or accuracy on images. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "attention/registry.h"
#include "cli/cache_types.h"
#include "cli/element_types.h"
#include "cli/eval_task.h"
#include "cli/interrupt.h"
#include "cli/keep.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/typed.h"
#include "eval/accuracy.h"
#include "eval/document_set.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *text, *task, *images, *tokenizer, *documents, *compute;
  const char *task_file, *fewshot_file, *log_samples, *runs, *cache_dtype;
  int64_t window, stride, limit, fewshot;
  bool json;
} arguments;

/* Everything one run holds. */
typedef struct evaluation {
  const arguments *arguments;
  ch_model *model;
  ch_tokenizer *tokenizer;
  ch_scorer *scorer;
  ch_document_set text;
  int64_t window, stride;
  int64_t cache_bytes; /* a token, with --cache-dtype */
  ch_progress_line progress;
  const char *what; /* for the progress line */
  ch_token_perplexity tokens;
  bool has_documents; /* false when no token can stand before a document */
  ch_document_perplexity per_document;
} evaluation;

/* --- the text ------------------------------------------------------------------------------------------------ */

static ch_separator separator_of(const char *name) {
  return strcmp(name, "marker") == 0        ? CH_SEPARATOR_MARKER
         : strcmp(name, "blank-lines") == 0 ? CH_SEPARATOR_BLANK_LINES
         : strcmp(name, "none") == 0        ? CH_SEPARATOR_NONE
                                            : CH_SEPARATOR_AUTO;
}

/* --- opening ------------------------------------------------------------------------------------------------- */

static ch_status choose_window(evaluation *e, ch_error *error) {
  const arguments *a = e->arguments;
  const ch_config *config = &e->model->config;
  int64_t most = config->max_position_embeddings;
  if (config->sliding_window > 0 && config->sliding_window < most) most = config->sliding_window;
  if (a->window > most && (config->position == CH_POSITION_ROPE || config->sliding_window > 0))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--window %lld is more than the %lld tokens this model can see",
                   (long long)a->window, (long long)most);
  e->window = a->window > 0 ? a->window : ch_window_of(config);
  e->stride = a->stride > 0 ? a->stride : e->window > 1 ? e->window / 2 : 1;
  return CH_OK;
}

static ch_status open_all(evaluation *e, ch_error *error) {
  const arguments *a = e->arguments;
  CH_TRY(ch_document_set_open(a->text, separator_of(a->documents), &e->text, error));
  CH_TRY(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &e->model, error));
  e->model->compute = ch_compute_type(a->compute);
  CH_TRY(ch_config_needs_text(&e->model->config, "eval --text", error));
  CH_TRY(ch_model_restate(e->model, CH_FORM_SERVING, error));
  CH_TRY(choose_window(e, error));
  CH_TRY(ch_tokenizer_open(a->tokenizer ? a->tokenizer : a->positional[0], &e->tokenizer, error));
  CH_TRY(ch_scorer_create(e->model, &e->scorer, error));
  if (!a->cache_dtype) return CH_OK;
  ch_cache_types types;
  CH_TRY(ch_cache_types_read(a->cache_dtype, CH_F32, &e->model->config, &types, error));
  ch_scorer_use_cache(e->scorer, types);
  e->cache_bytes = ch_state_bytes(&e->model->config, &types);
  return CH_OK;
}

static void close_all(evaluation *e) {
  ch_scorer_free(e->scorer);
  ch_tokenizer_free(e->tokenizer);
  ch_model_unload(e->model);
  ch_document_set_close(&e->text);
}

/* --- scoring ------------------------------------------------------------------------------------------------- */

static bool show_progress(void *context, int64_t done, int64_t total) {
  evaluation *e = context;
  if (ch_progress_due(&e->progress)) {
    double seconds = ch_progress_seconds(&e->progress), rate = (double)done / seconds;
    char left[32];
    ch_progress_show(&e->progress, false, "%s: %lld of %lld tokens, %.0f tokens/s, %s left", e->what,
                     (long long)done, (long long)total, rate,
                     ch_format_duration((double)(total - done) / rate, left, sizeof left));
  }
  return !ch_interrupted();
}

static int32_t first_known(int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t id = a >= 0 ? a : b >= 0 ? b : c >= 0 ? c : d;
  return id <= INT32_MAX ? (int32_t)id : -1;
}

static ch_status score(evaluation *e, ch_error *error) {
  const ch_config *config = &e->model->config;
  int32_t bos = ch_tokenizer_bos(e->tokenizer), eos = ch_tokenizer_eos(e->tokenizer);
  int32_t end_token = ch_token_between(e->tokenizer, config);
  int32_t prefix = first_known(bos, eos, config->bos_token_id, config->eos_token_id);
  ch_perplexity_options options = {
      .window = e->window, .stride = e->stride, .progress = show_progress, .context = e};
  ch_progress_begin(&e->progress, stderr);
  e->what = "whole text";
  CH_TRY(ch_token_perplexity_of(e->scorer, e->tokenizer, e->text.documents, e->text.count, end_token,
                                &options, &e->tokens, error));
  e->has_documents = prefix >= 0;
  if (!e->has_documents) return CH_OK;
  ch_progress_end(&e->progress);
  ch_progress_begin(&e->progress, stderr);
  e->what = "documents";
  return ch_document_perplexity_of(e->scorer, e->tokenizer, e->text.documents, e->text.count, prefix,
                                   &options, &e->per_document, error);
}

/* --- figures ------------------------------------------------------------------------------------------------- */

static void print_figures(const evaluation *e, double seconds) {
  const ch_token_perplexity *t = &e->tokens;
  const ch_document_perplexity *d = &e->per_document;
  printf("token perplexity  %.4f  (loss %.6f over %lld tokens, window %lld, stride %lld)\n", t->perplexity,
         t->loss, (long long)t->tokens, (long long)e->window, (long long)e->stride);
  if (e->has_documents) {
    printf("word perplexity   %.4f  (%lld words of %lld documents)\n", d->word_perplexity,
           (long long)d->words, (long long)d->documents);
    printf("byte perplexity   %.4f  (%lld bytes, %.4f bits a byte)\n", d->byte_perplexity,
           (long long)d->bytes, d->bits_per_byte);
  } else {
    printf("word and byte perplexity need a tokenizer with a beginning or an end token\n");
  }
  if (e->arguments->cache_dtype)
    printf("through a cache of %lld bytes a token (%s)\n", (long long)e->cache_bytes,
           e->arguments->cache_dtype);
  printf("%.1f seconds\n", seconds);
}

/* exp can overflow: JSON has no infinity. */
static json_t *number(bool known, double value) {
  return known && value < 1e300 ? json_real(value) : json_null();
}

static json_t *figures_json(const evaluation *e, double seconds) {
  const ch_token_perplexity *t = &e->tokens;
  const ch_document_perplexity *d = &e->per_document;
  bool known = e->has_documents;
  json_t *object = json_pack(
      "{s:o, s:f, s:I, s:o, s:o, s:o}", "token_perplexity", number(true, t->perplexity), "loss", t->loss,
      "tokens", (json_int_t)t->tokens, "word_perplexity", number(known, d->word_perplexity),
      "byte_perplexity", number(known, d->byte_perplexity), "bits_per_byte", number(known, d->bits_per_byte));
  json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "documents", (json_int_t)d->documents,
                           "document_tokens", (json_int_t)d->tokens, "words", (json_int_t)d->words, "bytes",
                           (json_int_t)d->bytes, "window", (json_int_t)e->window, "stride",
                           (json_int_t)e->stride, "seconds", seconds);
  if (object && (!more || json_object_update(object, more) != 0)) {
    json_decref(object);
    object = NULL;
  }
  json_decref(more);
  if (object && e->arguments->cache_dtype) {
    json_object_set_new(object, "cache_dtype", json_string(e->arguments->cache_dtype));
    json_object_set_new(object, "cache_bytes_per_token", json_integer((json_int_t)e->cache_bytes));
  }
  return object;
}

/* --- the command --------------------------------------------------------------------------------------------- */

static ch_status evaluate_text(const arguments *a, const ch_keeper *keeper, ch_error *error) {
  evaluation e = {.arguments = a};
  double start = ch_clock();
  ch_status status;
  CH_TRY_GOTO(open_all(&e, error));
  ch_interrupt_watch();
  status = score(&e, error);
  ch_interrupt_release();
  ch_progress_end(&e.progress);
  if (status != CH_OK) goto done;
  double seconds = ch_clock() - start;
  json_t *figures = figures_json(&e, seconds);
  ch_keeper_keep_evaluation(keeper, &(ch_evaluated){e.model, e.tokens.loss, seconds, figures}, "text",
                            &e.progress);
  if (!a->json) print_figures(&e, seconds);
  status = ch_print_json_if(a->json, figures, error);
done:
  close_all(&e);
  return status;
}

static bool show_images(void *context, int64_t done, int64_t total) {
  ch_progress_line *line = context;
  if (ch_progress_due(line)) {
    double rate = (double)done / ch_progress_seconds(line);
    char left[32];
    ch_progress_show(line, false, "%lld of %lld images, %.0f images/s, %s left", (long long)done,
                     (long long)total, rate,
                     ch_format_duration((double)(total - done) / (rate > 0 ? rate : 1), left, sizeof left));
  }
  return !ch_interrupted();
}

static json_t *accuracy_json(const ch_accuracy *got, double seconds) {
  return json_pack("{sf sf sf sI sf}", "top1", got->top1, "top5", got->top5, "loss", got->loss, "images",
                   (json_int_t)got->images, "seconds", seconds);
}

static void print_accuracy(const ch_accuracy *got, double seconds) {
  printf(
      "top-1 accuracy  %.2f %%\ntop-5 accuracy  %.2f %%\nloss            %.6f  (%lld images)\n%.1f seconds\n",
      100 * got->top1, 100 * got->top5, got->loss, (long long)got->images, seconds);
}

/* On the test files of a directory that has some beside others; else on all images. */
static ch_status evaluate_images(const arguments *a, const ch_keeper *keeper, ch_error *error) {
  ch_model *model = NULL;
  ch_image_set *set = NULL;
  ch_accuracy accuracy;
  ch_progress_line line;
  double start = ch_clock();
  ch_status status;
  CH_TRY_GOTO(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &model, error));
  model->compute = ch_compute_type(a->compute);
  CH_TRY_GOTO(ch_model_restate(model, CH_FORM_SERVING, error));
  CH_TRY_GOTO(ch_image_set_open(a->images, 1, &set, error));
  ch_interrupt_watch();
  ch_progress_begin(&line, stderr);
  status = ch_accuracy_of(model, set, CH_IMAGES_VALIDATION, a->limit, show_images, &line, &accuracy, error);
  ch_progress_end(&line);
  ch_interrupt_release();
  if (status != CH_OK) goto done;
  double seconds = ch_clock() - start;
  json_t *figures = accuracy_json(&accuracy, seconds);
  ch_keeper_keep_evaluation(keeper, &(ch_evaluated){model, accuracy.loss, seconds, figures}, "images", &line);
  if (!a->json) print_accuracy(&accuracy, seconds);
  status = ch_print_json_if(a->json, figures, error);
done:
  ch_image_set_close(set);
  ch_model_unload(model);
  return status;
}

/* Options of tasks are wrong without one. */
static ch_status check_no_task(const arguments *a, ch_error *error) {
  static const char *const names[] = {"task-file", "fewshot", "fewshot-file", "log-samples"};
  for (int i = 0; i < 4; i++)
    if (ch_option_given(a, names[i]))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for --task", names[i]);
  return CH_OK;
}

static ch_status evaluate_task(const arguments *a, const ch_keeper *keeper, ch_error *error) {
  if (ch_option_given(a, "stride") || ch_option_given(a, "documents"))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--stride and --documents are for --text");
  if (!a->task_file)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--task-file is missing: the file or directory of the task's items");
  return ch_evaluate_task(&(ch_task_arguments){.model = a->positional[0],
                                               .tokenizer = a->tokenizer,
                                               .task = a->task,
                                               .task_file = a->task_file,
                                               .fewshot_file = a->fewshot_file,
                                               .log_samples = a->log_samples,
                                               .fewshot = a->fewshot,
                                               .limit = a->limit,
                                               .window = a->window,
                                               .compute = ch_compute_type(a->compute),
                                               .json = a->json,
                                               .keeper = keeper},
                          error);
}

static const char *const separators[] = {"auto", "marker", "blank-lines", "none", NULL};

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "text", .type = CH_OPTION_PATH, AT(text), .metavar = "FILE", .help = "The text, UTF-8."},
    {.name = "task",
     .type = CH_OPTION_TEXT,
     AT(task),
     .metavar = "NAME",
     .help = "A task of the list below, or the path of a description of your own."},
    {.name = "task-file",
     .type = CH_OPTION_PATH,
     AT(task_file),
     .metavar = "PATH",
     .help = "The task's items: a file, or a directory of files."},
    {.name = "fewshot",
     .type = CH_OPTION_COUNT,
     AT(fewshot),
     .metavar = "K",
     .min = 0,
     .max = 1000,
     .help = "Examples with their answers before each question; by default none."},
    {.name = "fewshot-file",
     .type = CH_OPTION_PATH,
     AT(fewshot_file),
     .metavar = "PATH",
     .help = "Items that the examples come from; by default the task's own."},
    {.name = "log-samples",
     .type = CH_OPTION_PATH,
     AT(log_samples),
     .metavar = "FILE",
     .help = "Write what was asked and answered, a JSON object an item."},
    {.name = "images",
     .type = CH_OPTION_PATH,
     AT(images),
     .metavar = "DIR",
     .help =
         "For models of images: their directory, of which the test files are taken, or files (CIFAR, IDX)."},
    {.name = "limit",
     .type = CH_OPTION_COUNT,
     AT(limit),
     .metavar = "N",
     .min = 1,
     .max = 1e9,
     .help = "Items or images, the first ones, that are looked at; by default all."},
    {.name = "window",
     .type = CH_OPTION_COUNT,
     AT(window),
     .metavar = "COUNT",
     .min = 2,
     .max = 0,
     .help = "Tokens that the model sees at once; by default its context, at most 1024."},
    {.name = "stride",
     .type = CH_OPTION_COUNT,
     AT(stride),
     .metavar = "COUNT",
     .min = 1,
     .max = 0,
     .help = "Tokens between two windows of the whole text, less than the window; by default half of it."},
    {.name = "documents",
     .type = CH_OPTION_CHOICE,
     AT(documents),
     .metavar = "HOW",
     .default_value = "auto",
     .choices = separators,
     .help = "What separates documents: the marker <|endoftext|>, blank lines, or nothing; auto = the marker "
             "where the "
             "text has one."},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     AT(cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .help = "Take the text through a cache, to see what it costs; "
             "f32, bf16, f16, q8_0 or q4_0, or apart for keys, values and latents, as k=q8_0,v=q4_0."},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     AT(tokenizer),
     .metavar = "PATH",
     .help = "A tokenizer.json, tokenizer.bin or directory to use instead of the model's own."},
    {.name = "runs",
     .type = CH_OPTION_PATH,
     AT(runs),
     .metavar = "FILE",
     .help = "Where the figures are kept for `crosshead runs` (CROSSHEAD_RUNS; else nowhere)."},
    CH_COMPUTE_OPTION(arguments, compute),
    {.name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print one JSON object."},
    {0}};

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  int kinds = (a->text != NULL) + (a->task != NULL) + (a->images != NULL);
  if (kinds != 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   kinds > 1 ? "--text, --task and --images exclude each other: one is measured at a time"
                             : "--text is missing, or --task, or for a model of images --images");
  if (a->text && a->limit) return ch_fail(error, CH_ERROR_ARGUMENT, "--limit is for --task and --images");
  if (!a->text && a->cache_dtype) return ch_fail(error, CH_ERROR_ARGUMENT, "--cache-dtype is for --text");
  if (!a->task) CH_TRY(check_no_task(a, error));
  ch_keeper keeper;
  CH_TRY(ch_keeper_begin(&keeper, a->runs, NULL, error));
  ch_text command = {0};
  ch_put_typed("eval", options, a, &command);
  keeper.labels = (ch_run_labels){.dataset = a->task   ? a->task_file
                                             : a->text ? a->text
                                                       : a->images,
                                  .command = command.data};
  ch_status status = a->task   ? evaluate_task(a, &keeper, error)
                     : a->text ? evaluate_text(a, &keeper, error)
                               : evaluate_images(a, &keeper, error);
  ch_text_free(&command);
  ch_keeper_end(&keeper);
  return status;
}

const ch_command ch_cmd_eval = {
    .name = "eval",
    .positional = "MODEL",
    .summary = "Measure a model's perplexity on a text, its answers to a task, or its accuracy on images.",
    .description = "Token perplexity is that of all documents joined by the end token: each token is "
                   "predicted once, from at least "
                   "window - stride tokens before it. Word and byte perplexity are those of the documents "
                   "one by one, counted as "
                   "lm-evaluation-harness does, so that models with different tokenizers can be compared.\n\n"
                   "A task is asked with the prompts and scored by the rules of lm-evaluation-harness.",
    .list_title = "Tasks",
    .list = ch_list_task,
    .examples = "crosshead eval models/stories --text valid.txt\n"
                "crosshead eval models/stories --task hellaswag --task-file hellaswag_val.jsonl\n"
                "crosshead eval models/stories --task mmlu --task-file mmlu/test --fewshot 5 --fewshot-file "
                "mmlu/dev\n"
                "crosshead eval models/stories --text valid.txt --window 512 --stride 128 --json\n"
                "crosshead eval models/vit --images cifar-10-batches-bin",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

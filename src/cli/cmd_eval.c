/* crosshead eval: measures the perplexity of a text, the results of a task, or the accuracy on images. */
#include <crosshead/evaluate.h>
#include <crosshead/text.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/progress.h"
#include "cli/cache_types.h"
#include "cli/eval_task.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/record_run.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/command_text.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *text, *task, *images, *tokenizer, *documents, *compute;
  const char *task_file, *fewshot_file, *log_samples, *runs, *cache_dtype, *length;
  int64_t window, stride, limit, fewshot, seed, threads;
  bool json, force;
} arguments;

/* The state of the command. */
typedef struct evaluation {
  const arguments *arguments;
  double began;
  ch_model *model;
  ch_progress_line line;
  char part[64]; /* name of the current part of the work: "documents", a task's name */
  ch_sample_log log;
  json_t *report;
} evaluation;

static const char *const separators[] = {"auto", "marker", "blank-lines", "none", NULL};

/* --- progress ----------------------------------------------------------------------------------------------- */

static void begin_part(const char *name, void *context) {
  evaluation *e = context;
  snprintf(e->part, sizeof e->part, "%s", name);
  ch_progress_end(&e->line);
  ch_progress_begin(&e->line, ch_job_leads() ? stderr : NULL);
}

static bool show_progress(int64_t done, int64_t total, void *context) {
  evaluation *e = context;
  const char *unit = e->arguments->images ? "images" : "tokens";
  if (ch_job_leads() && ch_progress_due(&e->line)) {
    double rate = (double)done / ch_progress_seconds(&e->line);
    char left[96] = "", time[32];
    if (ch_progress_foresees(&e->line, (double)done / (double)total))
      snprintf(left, sizeof left, ", %.0f %s/s, %s left", rate, unit,
               ch_format_duration((double)(total - done) / (rate > 0 ? rate : 1), time, sizeof time));
    ch_progress_show(&e->line, false, "%s%s%lld of %lld %s%s", e->arguments->images ? "" : e->part,
                     e->arguments->images ? "" : ": ", (long long)done, (long long)total, unit, left);
  }
  return !ch_interrupted();
}

static bool log_sample(const char *json, void *context) {
  evaluation *e = context;
  return ch_sample_log_put(&e->log, json);
}

/* --- measuring ---------------------------------------------------------------------------------------------- */

static ch_status open_model(evaluation *e, ch_error *error) {
  const arguments *a = e->arguments;
  const char *directory = a->positional[0];
  CH_TRY(ch_model_open_with(directory, &(ch_model_settings){.tokenizer = a->tokenizer}, &e->model, error));
  if (a->images || ch_model_takes_images(e->model) || ch_model_has_tokenizer(e->model)) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "%s holds neither tokenizer.json nor tokenizer.bin", directory);
}

static ch_status choose_cache(const evaluation *e, ch_evaluate_settings *settings, ch_error *error) {
  ch_cache_choice cache;
  unsigned held = 0;
  CH_TRY(ch_model_cache_roles(e->model, &held, error));
  CH_TRY(ch_cache_choice_read(e->arguments->cache_dtype, CH_PRECISION_F32, held, &cache, error));
  settings->cache_keys = cache.keys;
  settings->cache_values = cache.values;
  settings->cache_latents = cache.latents;
  return CH_OK;
}

static ch_status choose(evaluation *e, ch_evaluate_settings *settings, ch_error *error) {
  const arguments *a = e->arguments;
  ch_evaluate_defaults(settings);
  settings->window = a->window;
  settings->stride = a->stride;
  for (int i = 0; separators[i]; i++)
    if (strcmp(a->documents, separators[i]) == 0) settings->documents = (ch_document_separator)i;
  settings->compute = ch_precision_of(a->compute);
  settings->items = a->task_file;
  settings->limit = a->limit;
  if (ch_option_given(a, "fewshot")) settings->examples = (int32_t)a->fewshot;
  settings->example_file = a->fewshot_file;
  settings->lengths = a->length;
  settings->seed = (uint64_t)a->seed;
  settings->progress = show_progress;
  settings->stage = begin_part;
  settings->sample = a->log_samples && ch_job_leads() ? log_sample : NULL;
  settings->ranks = ch_job_ranks();
  settings->user = e;
  return a->cache_dtype ? choose_cache(e, settings, error) : CH_OK;
}

static ch_status measure(evaluation *e, ch_error *error) {
  const arguments *a = e->arguments;
  ch_evaluate_settings settings;
  char *json = NULL;
  ch_status opened = open_model(e, error);
  if (opened == CH_OK) opened = choose(e, &settings, error);
  CH_TRY(ch_job_agree(opened, error));
  e->log.path = a->log_samples;
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_status status = a->task   ? ch_evaluate_task(e->model, a->task, &settings, &json, error)
                     : a->text ? ch_evaluate_text(e->model, a->text, &settings, &json, error)
                               : ch_evaluate_images(e->model, a->images, &settings, &json, error);
  ch_progress_end(&e->line);
  ch_interrupt_release();
  CH_TRY(ch_sample_log_end(&e->log, status, error));
  CH_TRY(ch_report_read(json, &e->report, error));
  if (a->task) /* after all tasks of RULER, `part` is the last of them, but the report names the whole */
    snprintf(e->part, sizeof e->part, "%s", json_string_value(json_object_get(e->report, "task")));
  return CH_OK;
}

/* --- figures ------------------------------------------------------------------------------------------------ */

/* Returns a figure of the report. null stands for a number too large for JSON and becomes HUGE_VAL. */
static double figure(const json_t *report, const char *name) {
  const json_t *value = json_object_get(report, name);
  return json_is_number(value) ? json_number_value(value) : HUGE_VAL;
}

static void put_text_page(const evaluation *e, ch_text *text) {
  const json_t *r = e->report;
  long long tokens = ch_report_count(r, "tokens"), words = ch_report_count(r, "words"),
            documents = ch_report_count(r, "documents");
  ch_text_printf(text, "token perplexity  %.4f  (loss %.6f over %lld %s, window %lld, stride %lld)\n",
                 figure(r, "token_perplexity"), figure(r, "loss"), tokens,
                 ch_plural(tokens, "token", "tokens"), ch_report_count(r, "window"),
                 ch_report_count(r, "stride"));
  if (documents) {
    ch_text_printf(text, "word perplexity   %.4f  (%lld %s of %lld %s)\n", figure(r, "word_perplexity"),
                   words, ch_plural(words, "word", "words"), documents,
                   ch_plural(documents, "document", "documents"));
    ch_text_printf(text, "byte perplexity   %.4f  (%lld bytes, %.4f bits per byte)\n",
                   figure(r, "byte_perplexity"), ch_report_count(r, "bytes"), figure(r, "bits_per_byte"));
  } else {
    ch_text_puts(text, "word and byte perplexity need a tokenizer with a beginning or an end token\n");
  }
  if (e->arguments->cache_dtype)
    ch_text_printf(text, "through a cache of %lld bytes per token (%s)\n",
                   ch_report_count(r, "cache_bytes_per_token"), e->arguments->cache_dtype);
}

static void put_images_page(const json_t *r, ch_text *text) {
  long long images = ch_report_count(r, "images");
  ch_text_printf(text, "top-1 accuracy  %.2f %%\ntop-5 accuracy  %.2f %%\nloss            %.6f  (%lld %s)\n",
                 100 * figure(r, "top1"), 100 * figure(r, "top5"), figure(r, "loss"), images,
                 ch_plural(images, "image", "images"));
}

static ch_status print_page(const evaluation *e, ch_error *error) {
  ch_text text = {0};
  if (e->arguments->task) {
    ch_task_page(e->part, e->report, &text);
    return ch_print_text(&text, error);
  }
  if (e->arguments->text)
    put_text_page(e, &text);
  else
    put_images_page(e->report, &text);
  ch_text_printf(&text, "%.1f seconds\n", figure(e->report, "seconds"));
  return ch_print_text(&text, error);
}

/* --- the command -------------------------------------------------------------------------------------------- */

/* Adds figures that the library does not know: the total seconds, and the cache types as typed. */
static void complete_report(evaluation *e) {
  json_t *report = e->report;
  json_object_set_new(report, "seconds", json_real(ch_clock() - e->began));
  if (!e->arguments->cache_dtype) return;
  long long bytes = ch_report_count(report, "cache_bytes_per_token");
  json_object_del(report, "cache_bytes_per_token");
  json_object_set_new(report, "cache_dtype", json_string(e->arguments->cache_dtype));
  json_object_set_new(report, "cache_bytes_per_token", json_integer((json_int_t)bytes));
}

static void keep(evaluation *e, const ch_run_recorder *keeper) {
  const arguments *a = e->arguments;
  char *json = ch_json_dump(e->report, JSON_COMPACT);
  if (json)
    ch_run_recorder_record_evaluation(keeper, e->model, json,
                                      a->task   ? e->part
                                      : a->text ? "text"
                                                : "images",
                                      &e->line);
  ch_free(json);
}

static ch_status evaluate(const arguments *a, const ch_run_recorder *keeper, ch_error *error) {
  evaluation e = {.arguments = a, .began = ch_clock()};
  ch_map text;
  ch_status status = CH_OK;
  /* reports a mistyped name before the model is opened */
  if (a->text && (status = ch_map_open(a->text, &text, error)) == CH_OK) ch_map_close(&text);
  CH_TRY(ch_job_agree(status, error));
  status = measure(&e, error);
  if (status == CH_OK && ch_job_leads()) {
    complete_report(&e);
    keep(&e, keeper);
    status = a->json ? ch_print_json(json_incref(e.report), 0, error) : print_page(&e, error);
  }
  json_decref(e.report);
  ch_model_close(e.model);
  return status;
}

/* Fails for options of another kind of measurement. */
static ch_status check_kind(const arguments *a, ch_error *error) {
  static const char *const of_text[] = {"stride", "separator", "cache-dtype", NULL};
  static const char *const of_tasks[] = {"task-file", "fewshot", "fewshot-file", "log-samples", "length",
                                         "seed",      NULL};
  for (const char *const *name = of_text; !a->text && *name; name++)
    if (ch_option_given(a, *name)) return ch_fail(error, CH_ERROR_ARGUMENT, "--%s needs --text", *name);
  for (const char *const *name = of_tasks; !a->task && *name; name++)
    if (ch_option_given(a, *name)) return ch_fail(error, CH_ERROR_ARGUMENT, "--%s needs --task", *name);
  if (a->text && a->limit) return ch_fail(error, CH_ERROR_ARGUMENT, "--limit needs --task or --images");
  return CH_OK;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_PATH_OPTION("text", AT(text), "FILE", "The text to measure perplexity on, UTF-8.", .alias = "data"),
    CH_TEXT_OPTION(
        "task", AT(task), "NAME",
        "A task from the list below, ruler for all of RULER's, or the path of a task description (JSON).",
        .lists = CH_LISTS_ONE),
    CH_PATH_OPTION("task-file", AT(task_file), "PATH",
                   "The task's items: a file, or a directory of files. RULER's tasks generate their items; "
                   "for them PATH is the text around the needles, or documents with questions (default: a "
                   "text that comes with Crosshead).",
                   .setting = "items"),
    CH_TEXT_OPTION(
        "length", AT(length), "TOKENS",
        "For RULER's tasks: length of each item in tokens, with the answer; 4k is 4096. Several lengths are "
        "separated by commas (default: 4096). The name of a task can have its own: ruler:vt@4k.",
        .setting = "lengths"),
    CH_COUNT_OPTION("seed", AT(seed), "N", 0, 4294967295.0,
                    "For RULER's tasks: random seed of the items. RULER's scripts use 42.",
                    .default_value = "1"),
    CH_COUNT_OPTION("fewshot", AT(fewshot), "K", 0, 1000,
                    "Examples with answers before each question (default: the task's own number, mostly 0).",
                    .setting = "examples"),
    CH_PATH_OPTION("fewshot-file", AT(fewshot_file), "PATH",
                   "Items from which the examples are taken (default: those of --task-file).",
                   .setting = "example_file"),
    CH_PATH_OPTION("log-samples", AT(log_samples), "FILE",
                   "Write every item with the model's answer to FILE, one JSON object per line.",
                   .setting = "sample", .writes = CH_WRITES_FILE),
    CH_PATH_OPTION(
        "images", AT(images), "DIR",
        "For models of images: image files (CIFAR, IDX), or a directory whose test files are used."),
    CH_COUNT_OPTION("limit", AT(limit), "N", 1, 1e9,
                    "Evaluate only the first N items or images (default: all). For RULER's tasks: the items "
                    "of each length (default: 100)."),
    CH_COUNT_OPTION("window", AT(window), "COUNT", 2, 0,
                    "Tokens that the model sees at once (default: its context, at most 1024)."),
    CH_COUNT_OPTION("stride", AT(stride), "COUNT", 1, 0,
                    "Tokens by which the window advances, fewer than --window (default: half of it)."),
    CH_CHOICE_OPTION("separator", AT(documents), "HOW", separators,
                     "What separates documents: the marker <|endoftext|>, blank lines, or nothing. auto uses "
                     "the marker if the text has one.",
                     .setting = "documents", .alias = "documents", .default_value = "auto"),
    CH_TEXT_OPTION("cache-dtype", AT(cache_dtype), CH_CACHE_TYPES_METAVAR,
                   "Evaluate through a cache of this type, to see what it costs: f32, bf16, f16, q8_0 or "
                   "q4_0, or separately for keys, values and latents, as in k=q8_0,v=q4_0."),
    CH_PATH_OPTION("tokenizer", AT(tokenizer), "PATH",
                   "A tokenizer.json, a tokenizer.bin or a directory (default: the model's own tokenizer)."),
    CH_PATH_OPTION("runs", AT(runs), "FILE",
                   "File in which the figures are recorded for `crosshead runs` (default: CROSSHEAD_RUNS, "
                   "else nowhere)."),
    CH_COMPUTE_OPTION(arguments, compute, "dtype"),
    CH_JSON_OPTION(AT(json)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    {0}};

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  int kinds = (a->text != NULL) + (a->task != NULL) + (a->images != NULL);
  if (kinds != 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   kinds > 1 ? "--text, --task and --images exclude each other; give one of them"
                             : "give --text or --task, or --images for a model of images");
  CH_TRY(check_kind(a, error));
  ch_run_recorder keeper = {0};
  CH_TRY(ch_job_agree(ch_job_leads() ? ch_run_recorder_begin(&keeper, a->runs, NULL, error) : CH_OK, error));
  ch_text command = {0};
  ch_put_command_line("eval", options, a, &command);
  keeper.labels = (ch_run_labels){.dataset = a->task   ? a->task_file
                                             : a->text ? a->text
                                                       : a->images,
                                  .command = command.data};
  ch_status status = evaluate(a, &keeper, error);
  ch_text_free(&command);
  if (ch_job_leads()) ch_run_recorder_end(&keeper);
  return status;
}

const ch_command ch_cmd_eval = {
    .name = "eval",
    .positional = "MODEL",
    .meant = "text",
    .summary = "Measure a model's perplexity on a text, its answers to a task, or its accuracy on images.",
    .description = "Token perplexity is measured on all documents joined by the end token. Each token is "
                   "predicted once, from at least window - stride tokens before it. Word and byte "
                   "perplexity are measured document by document, as lm-evaluation-harness does, so that "
                   "models with different tokenizers can be compared.\n\nTasks use the prompts and the "
                   "scoring rules of lm-evaluation-harness. Tasks of long context (ruler:...) use those "
                   "of RULER.",
    .list_title = "Tasks",
    .list = ch_list_task,
    .examples = "crosshead eval models/stories --text valid.txt\n"
                "crosshead eval models/stories --task hellaswag --task-file hellaswag_val.jsonl\n"
                "crosshead eval models/stories --task mmlu --task-file mmlu/test --fewshot 5 --fewshot-file "
                "mmlu/dev\n"
                "crosshead eval models/stories --task ruler:niah_single_1@4k\n"
                "crosshead eval models/stories --text valid.txt --window 512 --stride 128 --json\n"
                "crosshead eval models/vit --images cifar-10-batches-bin",
    .over_ranks = true,
    CH_RUNS(options, arguments, run),
};

/* crosshead eval --task: lists the tasks, writes the log of samples and formats the figures. */
#include "cli/eval_task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <crosshead/evaluate.h>

#include "cli/work.h"

bool ch_list_task(int index, ch_text *entry, ch_text *meaning) {
  const char *name, *text;
  if (!ch_task_builtin(index, &name, &text)) return false;
  json_t *root = json_loads(text, 0, NULL), *other;
  const char *about = json_string_value(json_object_get(root, "about"));
  size_t i;
  ch_text_puts(entry, name);
  json_array_foreach(json_object_get(root, "also"), i, other)
      ch_text_printf(entry, ", %s", json_string_value(other));
  ch_text_printf(meaning, "%s.", about ? about : "");
  json_decref(root);
  return true;
}

/* --- samples ------------------------------------------------------------------------------------------------ */

bool ch_sample_log_put(ch_sample_log *log, const char *json) {
  if (!log->open) log->status = ch_writer_open(&log->writer, log->path, &log->error);
  log->open = log->status == CH_OK;
  if (log->open) log->status = ch_writer_put(&log->writer, json, strlen(json), &log->error);
  if (log->status == CH_OK) log->status = ch_writer_put(&log->writer, "\n", 1, &log->error);
  return log->status == CH_OK;
}

ch_status ch_sample_log_end(ch_sample_log *log, ch_status status, ch_error *error) {
  if (log->status != CH_OK) status = ch_fail_as(error, log->status, &log->error);
  if (log->open && status == CH_OK) return ch_writer_commit(&log->writer, error);
  if (log->open) ch_writer_abort(&log->writer);
  return status;
}

/* --- figures ------------------------------------------------------------------------------------------------ */

/* Writes a number and its standard error, if known. null stands for a number too large for JSON. */
static void put_figure(const json_t *figures, const char *name, ch_text *text) {
  char key[64];
  snprintf(key, sizeof key, "%s_stderr", name);
  const json_t *value = json_object_get(figures, name), *error = json_object_get(figures, key);
  ch_text_printf(text, "%.4f", json_is_real(value) ? json_real_value(value) : HUGE_VAL);
  if (json_is_real(error)) ch_text_printf(text, " ± %.4f", json_real_value(error));
}

static const char *const figures[] = {"exact_match",     "recall",        "acc",
                                      "acc_norm",        "perplexity",    "word_perplexity",
                                      "byte_perplexity", "bits_per_byte", NULL};

/* Returns the name of the first figure that the object has, or "acc". */
static const char *first_figure(const json_t *object) {
  for (int i = 0; figures[i]; i++)
    if (json_object_get(object, figures[i])) return figures[i];
  return "acc";
}

/* Writes the figures of the parts of a task, or of several ways to extract its answers. */
static void put_parts(const json_t *parts, int width, ch_text *text) {
  const char *name;
  json_t *found;
  json_object_foreach((json_t *)(uintptr_t)parts, name, found) {
    ch_text_printf(text, "  %-*s ", width, name);
    put_figure(found, first_figure(found), text);
    if (json_object_get(found, "n")) ch_text_printf(text, "  (%lld)", ch_report_count(found, "n"));
    ch_text_puts(text, "\n");
  }
}

static void put_work(const json_t *report, ch_text *text) {
  double seconds = json_number_value(json_object_get(report, "seconds"));
  long long tokens = ch_report_count(report, "tokens");
  if (json_object_get(report, "tokens_written"))
    ch_text_printf(text, "%.1f seconds; %lld tokens of questions, %lld written\n", seconds, tokens,
                   ch_report_count(report, "tokens_written"));
  else
    ch_text_printf(text, "%.1f seconds; %lld tokens in all requests, %lld computed after sharing prefixes\n",
                   seconds, tokens, ch_report_count(report, "tokens_computed"));
}

void ch_task_page(const char *name, const json_t *report, ch_text *text) {
  long long items = ch_report_count(report, "n"), examples = ch_report_count(report, "fewshot"),
            empty = ch_report_count(report, "empty_continuations");
  const json_t *lengths = json_object_get(report, "lengths");
  ch_text_printf(text, "%s, %lld %s", name, items, ch_plural(items, "item", "items"));
  if (json_array_size(lengths) == 1)
    ch_text_printf(text, " of %lld tokens", (long long)json_integer_value(json_array_get(lengths, 0)));
  if (examples) ch_text_printf(text, ", %lld %s each", examples, ch_plural(examples, "example", "examples"));
  ch_text_puts(text, "\n");
  put_parts(json_object_get(report, "groups"), lengths ? 16 : 40, text);
  for (int i = 0; figures[i]; i++) {
    if (!json_object_get(report, figures[i])) continue;
    ch_text_printf(text, "%-18s ", figures[i]);
    put_figure(report, figures[i], text);
    ch_text_puts(text, "\n");
  }
  put_parts(json_object_get(report, "filters"), 20, text);
  if (empty)
    ch_text_printf(
        text,
        "%lld %s no token: the tokenizer merges them with their context. Their probability counts as 1\n",
        empty, ch_plural(empty, "continuation has", "continuations have"));
  put_work(report, text);
}

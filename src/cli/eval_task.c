/* crosshead eval --task: opening, progress, figures, samples. */
#include "cli/eval_task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "eval/tasks/evaluate.h"

/* Everything one run holds. */
typedef struct run {
  const ch_task_arguments *arguments;
  ch_task *task;
  ch_model *model;
  ch_tokenizer *tokenizer;
  ch_task_evaluation evaluation;
  ch_progress_line progress;
  double scoring; /* seconds, and when it began */
  double began;
} run;

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

/* --- work ---------------------------------------------------------------------------------------------------- */

static bool show_progress(void *context, int64_t done, int64_t total) {
  run *r = context;
  if (r->began <= 0) r->began = ch_clock();
  r->scoring = ch_clock() - r->began;
  if (ch_progress_due(&r->progress)) {
    double rate = (double)done / ch_progress_seconds(&r->progress);
    char left[32];
    ch_progress_show(&r->progress, false, "%s: %lld of %lld tokens, %.0f tokens/s, %s left", r->task->name,
                     (long long)done, (long long)total, rate,
                     ch_format_duration((double)(total - done) / rate, left, sizeof left));
  }
  return !ch_interrupted();
}

static ch_status open_all(run *r, ch_error *error) {
  const ch_task_arguments *a = r->arguments;
  CH_TRY(ch_task_open(a->task, &r->task, error));
  CH_TRY(ch_model_load(a->model, CH_WEIGHTS_MAPPED, &r->model, error));
  r->model->compute = a->compute;
  CH_TRY(ch_config_needs_text(&r->model->config, "eval --task", error));
  CH_TRY(ch_model_restate(r->model, CH_FORM_SERVING, error));
  return ch_tokenizer_open(a->tokenizer ? a->tokenizer : a->model, &r->tokenizer, error);
}

static ch_status evaluate(run *r, ch_error *error) {
  const ch_task_arguments *a = r->arguments;
  ch_task_options options = {.items = a->task_file,
                             .limit = a->limit,
                             .fewshot = (int)a->fewshot,
                             .fewshot_file = a->fewshot_file,
                             .window = a->window,
                             .progress = show_progress,
                             .context = r};
  ch_interrupt_watch();
  ch_progress_begin(&r->progress, stderr);
  ch_status status = ch_task_evaluate(r->task, r->model, r->tokenizer, &options, &r->evaluation, error);
  ch_progress_end(&r->progress);
  ch_interrupt_release();
  return status;
}

/* --- samples ------------------------------------------------------------------------------------------------- */

static ch_status write_samples(const run *r, ch_error *error) {
  ch_writer writer;
  CH_TRY(ch_writer_open(&writer, r->arguments->log_samples, error));
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < r->evaluation.items.count; i++) {
    json_t *sample = ch_task_sample(&r->evaluation, i);
    char *line = sample ? json_dumps(sample, JSON_COMPACT) : NULL;
    size_t size = line ? strlen(line) : 0;
    json_decref(sample);
    if (!line) {
      status = ch_fail(error, CH_ERROR_MEMORY, "no memory for a sample");
      break;
    }
    line[size] = '\n'; /* in place of the closing NUL */
    status = ch_writer_put(&writer, line, size + 1, error);
    free(line);
  }
  if (status == CH_OK) return ch_writer_commit(&writer, error);
  ch_writer_abort(&writer);
  return status;
}

/* --- figures ------------------------------------------------------------------------------------------------- */

/* What the task reports, in this order; ends with a name of NULL. */
typedef struct named_figure {
  const char *name;
  ch_task_figure figure;
} named_figure;

enum { MOST_FIGURES = 4 };

static void list_figures(const ch_task_evaluation *e, named_figure figures[MOST_FIGURES + 1]) {
  int count = 0;
  if (e->task->acc) figures[count++] = (named_figure){"acc", e->acc};
  if (e->task->acc_norm) figures[count++] = (named_figure){"acc_norm", e->acc_norm};
  if (e->task->perplexity) figures[count++] = (named_figure){"perplexity", e->perplexity};
  if (e->task->output == CH_TASK_ROLLING) {
    figures[count++] = (named_figure){"word_perplexity", e->word_perplexity};
    figures[count++] = (named_figure){"byte_perplexity", e->byte_perplexity};
    figures[count++] = (named_figure){"bits_per_byte", e->bits_per_byte};
  }
  figures[count] = (named_figure){0};
}

static void print_error(double error) {
  if (isfinite(error)) printf(" ± %.4f", error);
}

static void print_figures(const run *r, double seconds) {
  const ch_task_evaluation *e = &r->evaluation;
  named_figure figures[MOST_FIGURES + 1];
  list_figures(e, figures);
  printf("%s, %lld items", r->task->name, (long long)e->items.count);
  if (r->arguments->fewshot) printf(", %lld examples each", (long long)r->arguments->fewshot);
  printf("\n");
  for (int64_t i = 0; i < e->group_count; i++) {
    printf("  %-40s %.4f", e->groups[i].name, e->groups[i].acc.value);
    print_error(e->groups[i].acc.error);
    printf("  (%lld)\n", (long long)e->groups[i].count);
  }
  for (int i = 0; figures[i].name; i++) {
    printf("%-16s %.4f", figures[i].name, figures[i].figure.value);
    print_error(figures[i].figure.error);
    printf("\n");
  }
  if (e->empty_count)
    printf("%lld continuations have no token of their own, for the tokenizer joins them with their context: "
           "they count as certain\n",
           (long long)e->empty_count);
  printf("%.1f seconds; %lld tokens of requests, of which %lld were computed, the others shared\n", seconds,
         (long long)e->tokens, (long long)e->computed);
}

/* JSON has no infinity. */
static json_t *number(double value) {
  return fabs(value) < 1e300 ? json_real(value) : json_null();
}

static void put_figure(json_t *object, const char *name, ch_task_figure figure) {
  char key[64];
  snprintf(key, sizeof key, "%s_stderr", name);
  json_object_set_new(object, name, number(figure.value));
  json_object_set_new(object, key, number(figure.error));
}

static json_t *figures_json(const run *r, double seconds) {
  const ch_task_evaluation *e = &r->evaluation;
  named_figure figures[MOST_FIGURES + 1];
  list_figures(e, figures);
  bool by_path = strchr(r->arguments->task, '/') || strstr(r->arguments->task, ".json");
  json_t *object = json_pack("{s:s, s:I, s:I}", "task", by_path ? r->task->name : r->arguments->task, "n",
                             (json_int_t)e->items.count, "fewshot", (json_int_t)r->arguments->fewshot);
  for (int i = 0; object && figures[i].name; i++) put_figure(object, figures[i].name, figures[i].figure);
  if (e->group_count > 0) {
    json_t *groups = json_object();
    for (int64_t i = 0; i < e->group_count; i++) {
      json_t *group = json_pack("{s:I}", "n", (json_int_t)e->groups[i].count);
      put_figure(group, "acc", e->groups[i].acc);
      json_object_set_new(groups, e->groups[i].name, group);
    }
    json_object_set_new(object, "groups", groups);
  }
  json_t *work = json_pack("{s:I, s:I, s:I, s:f, s:f}", "empty_continuations", (json_int_t)e->empty_count,
                           "tokens", (json_int_t)e->tokens, "tokens_computed", (json_int_t)e->computed,
                           "scoring_seconds", r->scoring, "seconds", seconds);
  if (object && (!work || json_object_update(object, work) != 0)) {
    json_decref(object);
    object = NULL;
  }
  json_decref(work);
  return object;
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

ch_status ch_evaluate_task(const ch_task_arguments *arguments, ch_error *error) {
  run r = {.arguments = arguments};
  double start = ch_clock();
  ch_status status;
  CH_TRY_GOTO(open_all(&r, error));
  CH_TRY_GOTO(evaluate(&r, error));
  if (arguments->log_samples) CH_TRY_GOTO(write_samples(&r, error));
  double seconds = ch_clock() - start;
  json_t *figures = figures_json(&r, seconds);
  ch_keeper_keep_evaluation(arguments->keeper, &(ch_evaluated){r.model, NAN, seconds, figures}, r.task->name,
                            &r.progress);
  if (!arguments->json) print_figures(&r, seconds);
  status = ch_print_json_if(arguments->json, figures, error);
done:
  ch_task_evaluation_free(&r.evaluation);
  ch_tokenizer_free(r.tokenizer);
  ch_model_unload(r.model);
  ch_task_free(r.task);
  return status;
}

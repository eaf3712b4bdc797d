/* Reads descriptions of tasks strictly: an unknown key is an error, and templates are parsed once. The keys are the
 * harness's own; question.c fills the templates. */
#include "eval/tasks/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/embedded_text.h"
#include "eval/tasks/task_reading.h"

enum { MOST_BYTES = 1 << 20, MOST_FORMS = 64 };

static ch_template *template_of(ch_task_reader *r, const json_t *value, const char *key) {
  ch_template *template = NULL;
  char where[512];
  if (r->status != CH_OK) return NULL;
  if (!json_is_string(value)) return ch_task_wrong(r, key, "must be a string");
  snprintf(where, sizeof where, "%s: %s", r->where, key);
  r->status = ch_template_parse(json_string_value(value), CH_TEMPLATE_TASK, where, &template, r->error);
  return template;
}

/* Reads a member of the form, else of the whole description; NULL if neither has it. */
static ch_template *optional_template(ch_task_reader *r, const json_t *form, const json_t *root,
                                      const char *key) {
  const json_t *value = json_object_get(form, key);
  if (!value) value = json_object_get(root, key);
  return value ? template_of(r, value, key) : NULL;
}

/* --- forms --------------------------------------------------------------------------------------------------- */

static void read_choices(ch_task_reader *r, const json_t *value, ch_task_form *form) {
  static const char *const key = "doc_to_choice";
  size_t count = json_array_size(value);
  if (!json_is_array(value)) {
    form->choices = template_of(r, value, key);
    return;
  }
  if (count < 1 || count > CH_TASK_MOST_CHOICES) {
    ch_task_wrong(r, key, "must have 1 to 64 choices");
    return;
  }
  form->choice = calloc(count, sizeof *form->choice);
  if (!form->choice) {
    r->status = ch_no_memory(r->error);
    return;
  }
  for (size_t i = 0; i < count && r->status == CH_OK; i++) {
    form->choice[i] = template_of(r, json_array_get(value, i), key);
    form->choice_count++;
  }
}

static void read_form(ch_task_reader *r, const json_t *root, const json_t *object, ch_task_output output,
                      ch_task_form *form) {
  static const char *const keys[] = {"fields",
                                     "doc_to_text",
                                     "doc_to_target",
                                     "doc_to_choice",
                                     "doc_to_labels",
                                     "doc_to_counted",
                                     "description",
                                     "group",
                                     "gen_prefix",
                                     "comment",
                                     NULL};
  bool choices = output == CH_TASK_CHOICES || output == CH_TASK_INPUTS;
  ch_task_check_keys(r, object, keys);
  form->fields = ch_task_names(r, object, "fields", true);
  if (output != CH_TASK_ROLLING)
    form->text = template_of(r, json_object_get(object, "doc_to_text"), "doc_to_text");
  form->labels = optional_template(r, object, NULL, "doc_to_labels");
  if (!form->labels) form->target = template_of(r, json_object_get(object, "doc_to_target"), "doc_to_target");
  if (choices && r->status == CH_OK) read_choices(r, json_object_get(object, "doc_to_choice"), form);
  form->counted = optional_template(r, object, NULL, "doc_to_counted");
  form->description = optional_template(r, object, root, "description");
  form->group = optional_template(r, object, root, "group");
  form->prefix = optional_template(r, object, root, "gen_prefix");
  if (form->labels && output != CH_TASK_CHOICES)
    ch_task_wrong(r, "doc_to_labels", "is for multiple_choice only");
}

static void read_forms(ch_task_reader *r, ch_task *task) {
  const json_t *forms = json_object_get(task->root, "forms");
  size_t count = json_array_size(forms);
  if (count < 1 || count > MOST_FORMS) {
    ch_task_wrong(r, "forms", "must be a list of 1 to 64 objects");
    return;
  }
  task->forms = calloc(count, sizeof *task->forms);
  if (!task->forms) r->status = ch_no_memory(r->error);
  for (size_t i = 0; i < count && r->status == CH_OK; i++) {
    const json_t *form = json_array_get(forms, i);
    task->form_count++;
    if (!json_is_object(form))
      ch_task_wrong(r, "forms", "must be a list of objects");
    else
      read_form(r, task->root, form, task->output, &task->forms[i]);
  }
}

/* --- the whole description ----------------------------------------------------------------------------------- */

static void read_output(ch_task_reader *r, ch_task *task) {
  static const char *const names[] = {"multiple_choice", "multiple_input", "loglikelihood",
                                      "loglikelihood_rolling", "generate_until"};
  const char *name = ch_task_text(r, task->root, "output_type", NULL);
  for (int i = 0; name && i < 5; i++)
    if (strcmp(name, names[i]) == 0) {
      task->output = (ch_task_output)i;
      return;
    }
  ch_task_wrong(
      r, "output_type",
      "must be multiple_choice, multiple_input, loglikelihood, loglikelihood_rolling or generate_until");
}

static void read_metrics(ch_task_reader *r, ch_task *task) {
  static const char *const others[] = {"generation_kwargs", "filter_list", "metric_list"};
  for (int i = 0; i < 3; i++)
    if (json_object_get(task->root, others[i])) ch_task_wrong(r, others[i], "is for generate_until only");
  static const char *const known[] = {
      "acc", "acc_norm", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"};
  static const unsigned fit[] = {1 | 2 | 4, 1 | 2, 4, 8, 8, 8}; /* bit i: output i has the metric */
  const json_t *names = ch_task_names(r, task->root, "metrics", true);
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    int found = 0;
    while (found < 6 && strcmp(known[found], name) != 0) found++;
    if (found == 6 || !(fit[found] >> task->output & 1)) {
      ch_task_wrong(
          r, "metrics",
          "names one that this output_type does not have: choices have acc and acc_norm, loglikelihood acc "
          "and "
          "perplexity, loglikelihood_rolling word_perplexity, byte_perplexity and bits_per_byte");
      return;
    }
    task->acc |= found == 0;
    task->acc_norm |= found == 1;
    task->perplexity |= found == 2;
  }
}

static void read_fewshot(ch_task_reader *r, ch_task *task) {
  static const char *const keys[] = {"sampler", "extra", "samples", NULL};
  json_t *fewshot = json_object_get(task->root, "fewshot");
  task->examples = (int)ch_task_count(r, task->root, "num_fewshot", 0, 0, 1000);
  task->no_fewshot = json_is_false(fewshot);
  if (!fewshot || task->no_fewshot) return;
  if (!json_is_object(fewshot)) {
    ch_task_wrong(r, "fewshot", "must be an object, or false");
    return;
  }
  ch_task_check_keys(r, fewshot, keys);
  const char *sampler = ch_task_text(r, fewshot, "sampler", "random");
  if (sampler && strcmp(sampler, "random") != 0 && strcmp(sampler, "first_n") != 0)
    ch_task_wrong(r, "sampler", "must be random or first_n");
  task->fewshot_first = sampler && strcmp(sampler, "first_n") == 0;
  task->fewshot_extra = ch_task_flag(r, fewshot, "extra");
  task->samples = json_object_get(fewshot, "samples");
  size_t i;
  json_t *sample;
  if (task->samples && json_array_size(task->samples) == 0)
    ch_task_wrong(r, "samples", "must be a list of items");
  json_array_foreach((json_t *)(uintptr_t)task->samples, i, sample) if (!json_is_object(sample))
      ch_task_wrong(r, "samples", "must be a list of objects");
}

/* Rejects features of the harness that this program lacks. */
static void refuse_others(ch_task_reader *r, const json_t *root) {
  static const char *const functions[] = {"process_docs", "process_results"};
  for (int i = 0; i < 2; i++)
    if (json_object_get(root, functions[i]))
      ch_task_wrong(r, functions[i],
                    "is a Python function, which Crosshead does not run; use templates to read items, and "
                    "exact_match or recall to score written answers");
  const json_t *repeats = json_object_get(root, "repeats");
  int64_t one;
  if (repeats && (!ch_json_whole(repeats, &one) || one != 1))
    ch_task_wrong(r, "repeats", "must be 1: every question is answered once");
}

static void read_all(ch_task_reader *r, ch_task *task) {
  static const char *const keys[] = {"task",
                                     "also",
                                     "about",
                                     "output_type",
                                     "forms",
                                     "metrics",
                                     "description",
                                     "group",
                                     "lines",
                                     "columns",
                                     "pages",
                                     "labels_file",
                                     "fewshot",
                                     "num_fewshot",
                                     "repeats",
                                     "gen_prefix",
                                     "generation_kwargs",
                                     "filter_list",
                                     "metric_list",
                                     "ruler",
                                     "target_delimiter",
                                     "fewshot_delimiter",
                                     "comment",
                                     NULL};
  refuse_others(r, task->root);
  ch_task_check_keys(r, task->root, keys);
  task->name = ch_task_text(r, task->root, "task", NULL);
  ch_task_names(r, task->root, "also", false);
  task->about = ch_task_text(r, task->root, "about", "");
  task->target_delimiter = ch_task_text(r, task->root, "target_delimiter", " ");
  task->fewshot_delimiter = ch_task_text(r, task->root, "fewshot_delimiter", "\n\n");
  task->files.lines = ch_task_names(r, task->root, "lines", false);
  task->files.columns = ch_task_names(r, task->root, "columns", false);
  task->files.pages = json_object_get(task->root, "pages");
  if (task->files.pages && !json_is_string(task->files.pages))
    ch_task_wrong(r, "pages", "must be the name of a field");
  task->files.labels =
      json_object_get(task->root, "labels_file") ? ch_task_text(r, task->root, "labels_file", NULL) : NULL;
  if (task->files.labels && strchr(task->files.labels, '/'))
    ch_task_wrong(r, "labels_file", "must not name another directory");
  if (r->status == CH_OK) read_output(r, task);
  if (r->status == CH_OK && task->output == CH_TASK_GENERATE)
    ch_task_read_answers(r, task);
  else if (r->status == CH_OK)
    read_metrics(r, task);
  if (r->status == CH_OK) ch_task_read_ruler(r, task);
  if (r->status == CH_OK) read_fewshot(r, task);
  if (r->status == CH_OK) read_forms(r, task);
}

ch_status ch_task_parse(const char *text, size_t size, const char *where, ch_task **result, ch_error *error) {
  *result = NULL;
  ch_task *task = calloc(1, sizeof *task);
  if (!task) return ch_no_memory(error);
  ch_task_reader r = {.where = where, .error = error};
  r.status = ch_json_parse(text, size, where, &task->root, error);
  if (r.status == CH_OK) read_all(&r, task);
  if (r.status == CH_OK)
    *result = task;
  else
    ch_task_free(task);
  return r.status;
}

void ch_task_free(ch_task *task) {
  if (!task) return;
  for (int i = 0; i < task->form_count; i++) {
    ch_task_form *form = &task->forms[i];
    ch_template *templates[] = {form->text,    form->target,      form->choices, form->labels,
                                form->counted, form->description, form->group,   form->prefix};
    for (size_t t = 0; t < sizeof templates / sizeof *templates; t++) ch_template_free(templates[t]);
    for (int c = 0; c < form->choice_count; c++) ch_template_free(form->choice[c]);
    free(form->choice);
  }
  free(task->forms);
  ch_answer_rules_free(&task->answers);
  json_decref(task->root);
  free(task);
}

/* --- by name ------------------------------------------------------------------------------------------------- */

static ch_status unknown(const char *name, ch_error *error) {
  const char *names[256];
  int count = 0;
  for (; count < 255 && ch_embedded_tasks[count].name; count++) names[count] = ch_embedded_tasks[count].name;
  names[count] = NULL;
  const char *near = ch_nearest_name(name, names);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "unknown task %.80s%s%s%s; to use your own, give a file whose name ends in .json", name,
                 near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* Returns true if a built-in description has the name, as its own or in its "also". */
static bool goes_by(const ch_embedded_text *builtin, const char *name) {
  if (strcmp(builtin->name, name) == 0) return true;
  json_t *root = json_loads((const char *)builtin->text, 0, NULL), *other;
  bool found = false;
  size_t i;
  json_array_foreach(json_object_get(root, "also"), i, other) found |=
      strcmp(json_string_value(other), name) == 0;
  json_decref(root);
  return found;
}

ch_status ch_task_open(const char *name, ch_task **task, ch_error *error) {
  size_t length = strlen(name);
  *task = NULL;
  for (const ch_embedded_text *builtin = ch_embedded_tasks; builtin->name; builtin++)
    if (goes_by(builtin, name)) {
      const char *text = (const char *)builtin->text;
      return ch_task_parse(text, strlen(text), name, task, error);
    }
  if (!strchr(name, '/') && (length < 5 || strcmp(name + length - 5, ".json") != 0))
    return unknown(name, error);
  char *own;
  size_t size;
  CH_TRY(ch_read_file(name, MOST_BYTES, &own, &size, error));
  ch_status status = ch_task_parse(own, size, name, task, error);
  free(own);
  return status;
}

/* Reads a task's rules for generated answers. Their keys are those of lm-evaluation-harness. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "eval/tasks/task_reading.h"
#include "template/template_private.h"

enum { USUAL_TOKENS = 256 /* the harness's */, MOST_TOKENS = 1 << 30 };

/* --- generation_kwargs --------------------------------------------------------------------------------------- */

/* Reads a text or a list of texts. Empty texts cannot end an answer and are left out. */
static void read_stops(ch_task_reader *r, const json_t *value, ch_answer_rules *rules) {
  size_t count = json_is_array(value) ? json_array_size(value) : 1;
  if (count > CH_MOST_STOPS) {
    ch_task_wrong(r, "until", "must be a list of at most 64 strings");
    return;
  }
  rules->stops = calloc(count + 1, sizeof *rules->stops);
  if (!rules->stops) {
    r->status = ch_no_memory(r->error);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const char *stop = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
    if (!stop)
      ch_task_wrong(r, "until", "must be a string or a list of strings");
    else if (*stop)
      rules->stops[rules->stop_count++] = stop;
  }
}

static void read_generation(ch_task_reader *r, const ch_task *task, ch_answer_rules *rules) {
  static const char *const lengths[] = {"max_gen_toks", "max_new_tokens", "max_tokens",
                                        "max_completion_tokens"};
  static const char *const keys[] = {"until",          "do_sample",  "temperature",           "max_gen_toks",
                                     "max_new_tokens", "max_tokens", "max_completion_tokens", NULL};
  const json_t *kwargs = json_object_get(task->root, "generation_kwargs"), *until;
  if (kwargs && !json_is_object(kwargs)) {
    ch_task_wrong(r, "generation_kwargs", "must be an object");
    return;
  }
  if (kwargs) ch_task_check_keys(r, kwargs, keys);
  const json_t *temperature = json_object_get(kwargs, "temperature");
  bool samples = ch_task_flag(r, kwargs, "do_sample");
  if (samples) ch_task_wrong(r, "do_sample", "must be false: the likeliest token is always chosen");
  if (temperature && !json_is_number(temperature)) ch_task_wrong(r, "temperature", "must be a number");
  if (!json_object_get(kwargs, "do_sample") && json_number_value(temperature) > 0)
    ch_task_wrong(r, "temperature", "must be 0: the likeliest token is always chosen");
  rules->most_tokens = 0;
  for (int i = 0; i < 4; i++) {
    int64_t most = ch_task_count(r, kwargs, lengths[i], 0, 1, MOST_TOKENS);
    if (rules->most_tokens == 0) rules->most_tokens = most;
  }
  if (rules->most_tokens == 0) rules->most_tokens = USUAL_TOKENS;
  until = json_object_get(kwargs, "until");
  if (until) {
    read_stops(r, until, rules);
    return;
  }
  rules->stops = calloc(1, sizeof *rules->stops);
  if (!rules->stops)
    r->status = ch_no_memory(r->error);
  else if (*task->fewshot_delimiter)
    rules->stops[rules->stop_count++] = task->fewshot_delimiter;
}

/* --- filter_list --------------------------------------------------------------------------------------------- */

static void check_pattern(ch_task_reader *r, const char *key, const char *pattern) {
  ch_error why = {0};
  if (!pattern || r->status != CH_OK || ch_template_regex_check(pattern, &why) == CH_OK) return;
  ch_task_wrong(r, key, why.message);
}

/* Reads the patterns whose matches are removed. Returns NULL if there are none. */
static const json_t *read_ignored(ch_task_reader *r, const json_t *object) {
  static const char *const key = "regexes_to_ignore";
  const json_t *list = json_object_get(object, key);
  if (!list) return NULL;
  ch_task_names(r, object, key, true);
  if (json_array_size(list) > CH_MOST_IGNORED) ch_task_wrong(r, key, "must be at most 64 patterns");
  for (size_t i = 0; r->status == CH_OK && i < json_array_size(list); i++)
    check_pattern(r, key, json_string_value(json_array_get(list, i)));
  return list;
}

static void read_regex(ch_task_reader *r, const json_t *object, ch_filter_step *step) {
  step->pattern = ch_task_text(r, object, "regex_pattern", "#### (\\-?[0-9\\.\\,]+)");
  step->fallback = ch_task_text(r, object, "fallback", "[invalid]");
  step->select = ch_task_count(r, object, "group_select", 0, -(1 << 20), 1 << 20);
  check_pattern(r, "regex_pattern", step->pattern);
  if (step->kind != CH_FILTER_CHOICE) return;
  step->ignore_case = ch_task_flag(r, object, "ignore_case");
  step->ignore_punctuation = ch_task_flag(r, object, "ignore_punctuation");
  step->ignored = read_ignored(r, object);
}

/* Reads a dictionary of answers and its default value, which is required. The harness accepts a missing default and
 * fails at the first answer that is not in the dictionary. */
static void read_map(ch_task_reader *r, const json_t *object, ch_filter_step *step) {
  const char *key;
  json_t *value;
  step->mapping = json_object_get(object, "mapping_dict");
  step->otherwise = json_object_get(object, "default_value");
  bool fine = json_is_object(step->mapping);
  json_object_foreach((json_t *)(uintptr_t)step->mapping, key, value) fine &=
      json_is_string(value) || json_is_integer(value);
  if (!fine) ch_task_wrong(r, "mapping_dict", "must be an object whose values are strings or whole numbers");
  if (!json_is_string(step->otherwise) && !json_is_integer(step->otherwise))
    ch_task_wrong(r, "default_value",
                  "must be a string or a whole number, for answers that \"mapping_dict\" does not have");
}

static void read_step(ch_task_reader *r, const json_t *object, ch_filter_step *step) {
  static const struct {
    const char *name;
    ch_filter_kind kind;
    const char *keys[8]; /* allowed keys besides "function" */
  } functions[] = {{"take_first", CH_FILTER_FIRST, {0}},
                   {"take_first_k", CH_FILTER_FIRST, {"k"}},
                   {"majority_vote", CH_FILTER_FIRST, {0}},
                   {"regex", CH_FILTER_REGEX, {"regex_pattern", "group_select", "fallback"}},
                   {"multi_choice_regex",
                    CH_FILTER_CHOICE,
                    {"regex_pattern", "group_select", "fallback", "ignore_case", "ignore_punctuation",
                     "regexes_to_ignore"}},
                   {"map", CH_FILTER_MAP, {"mapping_dict", "default_value"}},
                   {"remove_whitespace", CH_FILTER_STRIP, {0}},
                   {"lowercase", CH_FILTER_LOWER, {0}},
                   {"uppercase", CH_FILTER_UPPER, {0}}};
  const size_t count = sizeof functions / sizeof *functions;
  const char *name = json_is_object(object) ? ch_task_text(r, object, "function", NULL) : NULL;
  size_t i = 0;
  while (name && i < count && strcmp(functions[i].name, name) != 0) i++;
  if (!name || i == count) {
    ch_task_wrong(
        r, "function",
        "must be regex, multi_choice_regex, map, remove_whitespace, lowercase, uppercase, take_first, "
        "take_first_k or majority_vote");
    return;
  }
  const char *keys[10] = {"function"};
  for (int k = 0; k < 8 && functions[i].keys[k]; k++) keys[k + 1] = functions[i].keys[k];
  ch_task_check_keys(r, object, keys);
  step->kind = functions[i].kind;
  if (step->kind == CH_FILTER_REGEX || step->kind == CH_FILTER_CHOICE) read_regex(r, object, step);
  if (step->kind == CH_FILTER_MAP) read_map(r, object, step);
  int64_t one;
  if (strcmp(name, "take_first_k") == 0 && (!ch_json_whole(json_object_get(object, "k"), &one) || one != 1))
    ch_task_wrong(r, "k", "must be 1: every question is answered once");
}

static void read_filter(ch_task_reader *r, const json_t *object, ch_filter *filter) {
  static const char *const keys[] = {"name", "filter", NULL};
  if (!json_is_object(object)) {
    ch_task_wrong(r, "filter_list", "must be a list of objects");
    return;
  }
  ch_task_check_keys(r, object, keys);
  const json_t *steps = json_object_get(object, "filter");
  size_t count = json_array_size(steps);
  filter->name = ch_task_text(r, object, "name", NULL);
  if (count < 1 || count > CH_MOST_FILTER_STEPS)
    ch_task_wrong(r, "filter", "must be a list of 1 to 16 objects");
  for (size_t i = 0; r->status == CH_OK && i < count; i++)
    read_step(r, json_array_get(steps, i), &filter->steps[filter->count++]);
}

static void read_filters(ch_task_reader *r, const ch_task *task, ch_answer_rules *rules) {
  const json_t *list = json_object_get(task->root, "filter_list");
  size_t count = list ? json_array_size(list) : 1;
  if (count < 1 || count > CH_MOST_FILTERS) {
    ch_task_wrong(r, "filter_list", "must be a list of 1 to 16 objects");
    return;
  }
  rules->filters = calloc(count, sizeof *rules->filters);
  if (!rules->filters) {
    r->status = ch_no_memory(r->error);
    return;
  }
  if (!list) rules->filters[rules->filter_count++].name = "none";
  for (size_t i = 0; list && r->status == CH_OK && i < count; i++) {
    ch_filter *filter = &rules->filters[rules->filter_count++];
    read_filter(r, json_array_get(list, i), filter);
    for (ch_filter *other = rules->filters; filter->name && other < filter; other++)
      if (strcmp(other->name, filter->name) == 0) ch_task_wrong(r, "name", "is used by two filters");
  }
}

/* --- metric_list --------------------------------------------------------------------------------------------- */

static void read_exact_match(ch_task_reader *r, const json_t *metric, ch_answer_rules *rules) {
  static const char *const keys[] = {"metric",
                                     "aggregation",
                                     "higher_is_better",
                                     "ignore_case",
                                     "ignore_punctuation",
                                     "ignore_numbers",
                                     "regexes_to_ignore",
                                     NULL};
  ch_task_check_keys(r, metric, keys);
  rules->exact_match = true;
  rules->ignore_case = ch_task_flag(r, metric, "ignore_case");
  rules->ignore_punctuation = ch_task_flag(r, metric, "ignore_punctuation");
  rules->ignore_numbers = ch_task_flag(r, metric, "ignore_numbers");
  rules->ignored = read_ignored(r, metric);
}

static void check_metric_name(ch_task_reader *r, const json_t *metric) {
  const char *name = json_string_value(json_object_get(metric, "metric"));
  if (!name || (strcmp(name, "exact_match") != 0 && strcmp(name, "recall") != 0))
    ch_task_wrong(r, "metric", "must be exact_match or recall");
}

static void read_metric(ch_task_reader *r, const ch_task *task, ch_answer_rules *rules) {
  static const char *const keys[] = {"metric", "aggregation", "higher_is_better", "any", NULL};
  const json_t *list = json_object_get(task->root, "metric_list"), *metric = json_array_get(list, 0);
  if (json_object_get(task->root, "metrics"))
    ch_task_wrong(r, "metrics", "is not for generate_until, whose metric is in \"metric_list\"");
  rules->exact_match = true;
  if (!list) return;
  for (size_t i = 0; i < json_array_size(list); i++) check_metric_name(r, json_array_get(list, i));
  if (json_array_size(list) != 1) ch_task_wrong(r, "metric_list", "must be a list of one object");
  if (r->status != CH_OK) return;
  const char *aggregation = ch_task_text(r, metric, "aggregation", "mean");
  if (aggregation && strcmp(aggregation, "mean") != 0) ch_task_wrong(r, "aggregation", "must be mean");
  rules->exact_match = strcmp(json_string_value(json_object_get(metric, "metric")), "recall") != 0;
  if (rules->exact_match) {
    read_exact_match(r, metric, rules);
    return;
  }
  ch_task_check_keys(r, metric, keys);
  rules->any = ch_task_flag(r, metric, "any");
}

void ch_task_read_answers(ch_task_reader *r, ch_task *task) {
  ch_answer_rules *rules = &task->answers;
  read_generation(r, task, rules);
  if (r->status == CH_OK) read_filters(r, task, rules);
  if (r->status == CH_OK) read_metric(r, task, rules);
}

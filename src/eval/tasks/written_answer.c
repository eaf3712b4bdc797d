/* Filters and metrics of written answers, by the rules of lm-evaluation-harness and, for recall, of RULER. Texts go
 * through the functions of templates, whose limits bound the work for an answer. */
#include "eval/tasks/written_answer.h"

#include <stdlib.h>
#include <string.h>

#include "eval/tasks/answer_choice.h"
#include "template/template_private.h"

void ch_answer_rules_free(ch_answer_rules *rules) {
  free(rules->stops);
  free(rules->filters);
  *rules = (ch_answer_rules){0};
}

const char *ch_answer_metric(const ch_answer_rules *rules) {
  return rules->exact_match ? "exact_match" : "recall";
}

/* Resets the counts of work before an answer is filtered or judged. */
static void begin_filters(ch_template_scope *scope) {
  scope->steps = scope->bytes = 0;
}

/* Returns the status of a function that returned NULL. */
static ch_status failed(const ch_error *error) {
  return error->status == CH_OK ? CH_ERROR_MEMORY : error->status;
}

/* Replaces *text by NAME(*text); by NULL if that fails. */
static void apply_filter(ch_template_scope *scope, const char *name, json_t **text, ch_error *error) {
  json_t *changed = *text ? ch_template_apply(scope, name, *text, NULL, 0, error) : NULL;
  json_decref(*text);
  *text = changed;
}

/* --- filters ------------------------------------------------------------------------------------------------- */

/* Returns the match that a step selects, or its fallback. */
static json_t *extract(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                       ch_error *error) {
  json_t *list = ch_template_find_all(scope, text, step->pattern, error);
  if (!list) return NULL;
  int64_t count = (int64_t)json_array_size(list),
          place = step->select < 0 ? count + step->select : step->select;
  const json_t *match = place >= 0 && place < count ? json_array_get(list, (size_t)place) : NULL;
  json_t *found =
      json_is_string(match) ? json_incref((json_t *)(uintptr_t)match) : json_string(step->fallback);
  json_decref(list);
  apply_filter(scope, "strip", &found, error);
  return found;
}

static void take_step(const ch_filter_step *step, ch_template_scope *scope, const json_t *item, json_t **text,
                      ch_error *error) {
  static const char *const functions[] = {
      [CH_FILTER_STRIP] = "strip", [CH_FILTER_LOWER] = "lower", [CH_FILTER_UPPER] = "upper"};
  json_t *found;
  if (step->kind == CH_FILTER_FIRST) return;
  if (step->kind == CH_FILTER_REGEX) {
    found = extract(step, scope, *text, error);
  } else if (step->kind == CH_FILTER_CHOICE) {
    found = ch_answer_choose(step, scope, *text, json_object_get(item, "choices"), error);
  } else if (step->kind == CH_FILTER_MAP) {
    const json_t *value = json_object_get(step->mapping, json_string_value(*text));
    found = ch_template_text(value ? value : step->otherwise, error);
  } else {
    apply_filter(scope, functions[step->kind], text, error);
    return;
  }
  json_decref(*text);
  *text = found;
}

ch_status ch_answer_check_item(const ch_answer_rules *rules, const json_t *item, ch_error *error) {
  for (int f = 0; f < rules->filter_count; f++)
    for (int i = 0; i < rules->filters[f].count; i++)
      if (rules->filters[f].steps[i].kind == CH_FILTER_CHOICE)
        CH_TRY(ch_answer_check_choices(json_object_get(item, "choices"), error));
  return CH_OK;
}

ch_status ch_answer_filter(const ch_answer_rules *rules, int index, ch_template_scope *scope,
                           const json_t *item, const char *answer, json_t **filtered, ch_error *error) {
  const ch_filter *filter = &rules->filters[index];
  ch_error own;
  if (!error) error = &own;
  *filtered = NULL;
  CH_TRY(ch_answer_check_item(rules, item, error));
  error->status = CH_OK;
  begin_filters(scope);
  json_t *text = json_string(answer);
  for (int i = 0; text && i < filter->count; i++) take_step(&filter->steps[i], scope, item, &text, error);
  *filtered = text;
  return text ? CH_OK : failed(error);
}

/* --- exact match --------------------------------------------------------------------------------------------- */

/* Returns the text without the characters for which `out` is true. */
static json_t *without(const json_t *text, int (*out)(int)) {
  const char *from = json_string_value(text);
  size_t size = json_string_length(text), kept = 0;
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)from[i] > 127 || !out((unsigned char)from[i])) copy[kept++] = from[i];
  json_t *result = json_stringn(copy, kept);
  free(copy);
  return result;
}

static void take_away(json_t **text, int (*out)(int)) {
  json_t *rest = *text ? without(*text, out) : NULL;
  json_decref(*text);
  *text = rest;
}

/* These functions test for Python's string.punctuation and string.digits, which are ASCII. ctype.h has these sets only
 * in the "C" locale, and a program may have set another. */
static int is_punctuation(int c) {
  return c > ' ' && c < 127 && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
}

static int is_digit(int c) {
  return c >= '0' && c <= '9';
}

/* Returns the text without the parts that comparisons ignore, or NULL after a failure. Steals the text. */
static json_t *comparable(const ch_answer_rules *rules, ch_template_scope *scope, json_t *text,
                          ch_error *error) {
  for (size_t i = 0; text && i < json_array_size(rules->ignored); i++) {
    const char *pattern = json_string_value(json_array_get(rules->ignored, i));
    json_t *rest = ch_template_regex(scope, text, pattern, "", error);
    json_decref(text);
    text = rest;
  }
  if (rules->ignore_case) apply_filter(scope, "lower", &text, error);
  if (rules->ignore_punctuation) take_away(&text, is_punctuation);
  if (rules->ignore_numbers) take_away(&text, is_digit);
  return text;
}

static ch_status match_targets(const ch_answer_rules *rules, ch_template_scope *scope, json_t *filtered,
                               const char *const *targets, int count, double *score, ch_error *error) {
  json_t *answer = comparable(rules, scope, json_incref(filtered), error);
  ch_status status = answer ? CH_OK : failed(error);
  for (int i = 0; status == CH_OK && i < count; i++) {
    json_t *target = comparable(rules, scope, json_string(targets[i]), error);
    if (!target) status = failed(error);
    if (target && json_equal(target, answer)) *score = 1;
    json_decref(target);
  }
  json_decref(answer);
  return status;
}

/* --- recall -------------------------------------------------------------------------------------------------- */

/* Strips text as RULER's postprocess_pred: control characters become line breaks, then white space at the ends is
 * removed. Steals the text. */
static json_t *printable(ch_template_scope *scope, json_t *text, ch_error *error) {
  apply_filter(scope, "strip", &text, error);
  const char *from = json_string_value(text);
  char *copy = from ? strdup(from) : NULL;
  for (char *c = copy; c && *c; c++)
    if ((unsigned char)*c < ' ') *c = '\n';
  json_t *result = copy ? json_string(copy) : NULL;
  free(copy);
  json_decref(text);
  apply_filter(scope, "strip", &result, error);
  return result;
}

static ch_status recall(const ch_answer_rules *rules, ch_template_scope *scope, json_t *filtered,
                        const char *const *targets, int count, double *score, ch_error *error) {
  json_t *answer = printable(scope, json_incref(filtered), error);
  apply_filter(scope, "lower", &answer, error);
  ch_status status = answer ? CH_OK : failed(error);
  int found = 0;
  for (int i = 0; status == CH_OK && i < count; i++) {
    json_t *target = json_string(targets[i]);
    apply_filter(scope, "lower", &target, error);
    if (!target) status = failed(error);
    if (target) found += strstr(json_string_value(answer), json_string_value(target)) != NULL;
    json_decref(target);
  }
  json_decref(answer);
  *score = rules->any ? found > 0 : (double)found / count;
  return status;
}

ch_status ch_answer_judge(const ch_answer_rules *rules, ch_template_scope *scope, json_t *filtered,
                          const char *const *targets, int count, double *score, ch_error *error) {
  ch_error own;
  if (!error) error = &own;
  error->status = CH_OK;
  begin_filters(scope);
  *score = 0;
  if (count < 1) return CH_OK;
  return rules->exact_match ? match_targets(rules, scope, filtered, targets, count, score, error)
                            : recall(rules, scope, filtered, targets, count, score, error);
}

/* Finds the letter of the choice that a written answer names. It tries three ways in turn: the pattern of the step, the
 * words of the choices, and a letter after a colon. */
#include "eval/tasks/answer_choice.h"

#include <string.h>
#include <utf8proc.h>

#include "base/text.h"
#include "base/utf8.h"
#include "template/template_private.h"

enum { MOST_CHOICES = 26 /* letters */ };

ch_status ch_answer_check_choices(const json_t *choices, ch_error *error) {
  bool fine = json_is_array(choices) && json_array_size(choices) <= MOST_CHOICES;
  for (size_t i = 0; fine && i < json_array_size(choices); i++)
    fine = json_is_string(json_array_get(choices, i));
  return fine ? CH_OK
              : ch_fail(error, CH_ERROR_FORMAT,
                        "multi_choice_regex reads the field \"choices\", which must be a list of at most 26 "
                        "strings");
}

/* Returns the match that the step selects, stripped; an empty text if there is none; NULL with *error filled after a
 * failure. */
static json_t *selected(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                        const char *pattern, ch_error *error) {
  json_t *list = text ? ch_template_find_all(scope, text, pattern, error) : NULL;
  if (!list) return NULL;
  int64_t count = (int64_t)json_array_size(list),
          place = step->select < 0 ? count + step->select : step->select;
  json_t *match = place >= 0 && place < count ? json_array_get(list, (size_t)place) : NULL;
  json_t *none = json_string("");
  json_t *found = ch_template_apply(scope, "strip", json_is_string(match) ? match : none, NULL, 0, error);
  json_decref(none);
  json_decref(list);
  return found;
}

static bool is_empty(const json_t *text) {
  return text && json_string_length(text) == 0;
}

/* --- by the words of the choices ----------------------------------------------------------------------------- */

/* Returns the text without characters of Unicode's categories of punctuation. */
static json_t *without_punctuation(const json_t *text) {
  const unsigned char *p = (const unsigned char *)json_string_value(text),
                      *end = p + json_string_length(text);
  ch_text kept = {0};
  while (p < end) {
    uint32_t c = 0;
    size_t size = ch_utf8_decode(p, end, &c);
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if (size == 0) break; /* texts are UTF-8 */
    if (category < UTF8PROC_CATEGORY_PC || category > UTF8PROC_CATEGORY_PO)
      ch_text_put(&kept, (const char *)p, size);
    p += size;
  }
  json_t *result = kept.failed ? NULL : json_stringn(kept.size ? kept.data : "", kept.size);
  ch_text_free(&kept);
  return result;
}

/* Returns a new text without the parts that comparisons ignore, or NULL with *error filled. */
static json_t *comparable(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                          ch_error *error) {
  json_t *rest = json_incref((json_t *)(uintptr_t)text), *next;
  for (size_t i = 0; rest && i < json_array_size(step->ignored); i++) {
    const char *pattern = json_string_value(json_array_get(step->ignored, i));
    next = ch_template_regex(scope, rest, pattern, "", error);
    json_decref(rest);
    rest = next;
  }
  if (rest && step->ignore_case) {
    next = ch_template_apply(scope, "lower", rest, NULL, 0, error);
    json_decref(rest);
    rest = next;
  }
  if (rest && step->ignore_punctuation) {
    next = without_punctuation(rest);
    json_decref(rest);
    rest = next;
    if (!rest) ch_no_memory(error);
  }
  return rest;
}

/* Escapes text as Python's re.escape does. */
static void put_escaped(ch_text *pattern, const char *text) {
  for (; *text; text++) {
    if (strchr("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", *text)) ch_text_put(pattern, "\\", 1);
    ch_text_put(pattern, text, 1);
  }
}

/* Returns a new list of the choices in the form of comparable(), or NULL with *error filled. */
static json_t *words_of(const ch_filter_step *step, ch_template_scope *scope, const json_t *choices,
                        ch_error *error) {
  json_t *words = json_array();
  for (size_t i = 0; words && i < json_array_size(choices); i++) {
    json_t *choice = ch_template_apply(scope, "strip", json_array_get(choices, i), NULL, 0, error);
    json_t *word = choice ? comparable(step, scope, choice, error) : NULL;
    json_decref(choice);
    if (word && json_array_append_new(words, word) == 0) continue;
    json_decref(words);
    return NULL;
  }
  if (!words) ch_no_memory(error);
  return words;
}

/* Writes a pattern for any of the words. Longer words come first, so that they win over words with which they begin. */
static bool put_alternatives(ch_text *pattern, const json_t *words) {
  ch_text escaped[MOST_CHOICES] = {0};
  int order[MOST_CHOICES], length[MOST_CHOICES], count = (int)json_array_size(words);
  for (int i = 0; i < count; i++) {
    put_escaped(&escaped[i], json_string_value(json_array_get(words, (size_t)i)));
    ch_text_put(&escaped[i], "", 1);
    if (escaped[i].failed) pattern->failed = true;
    length[i] = escaped[i].failed ? 0 : ch_utf8_count(escaped[i].data);
    int place = i;
    for (; place > 0 && length[order[place - 1]] < length[i]; place--) order[place] = order[place - 1];
    order[place] = i;
  }
  for (int i = 0; i < count && !pattern->failed; i++)
    ch_text_printf(pattern, "%s%s", i ? "|" : "", escaped[order[i]].data);
  ch_text_put(pattern, "", 1);
  for (int i = 0; i < count; i++) ch_text_free(&escaped[i]);
  return !pattern->failed;
}

/* Returns "(B)" if the text is the second choice, else the text itself. Steals the text. */
static json_t *lettered(json_t *found, const json_t *words) {
  char letter[] = "(A)";
  for (size_t i = json_array_size(words); found && !is_empty(found) && i-- > 0;)
    if (json_equal(json_array_get(words, i), found)) {
      letter[1] = (char)('A' + i);
      json_decref(found);
      return json_string(letter);
    }
  return found;
}

static json_t *by_words(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                        const json_t *choices, ch_error *error) {
  ch_text pattern = {0};
  json_t *found = NULL, *words = words_of(step, scope, choices, error);
  json_t *answer = words ? comparable(step, scope, text, error) : NULL;
  if (answer && !put_alternatives(&pattern, words))
    ch_no_memory(error);
  else if (answer)
    found = lettered(selected(step, scope, answer, pattern.data, error), words);
  json_decref(answer);
  json_decref(words);
  ch_text_free(&pattern);
  return found;
}

/* --- the three ways ------------------------------------------------------------------------------------------ */

/* Finds a letter after a colon. */
static json_t *by_letter(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                         const json_t *choices, ch_error *error) {
  char pattern[16 + 2 * MOST_CHOICES] = ":[\\s]*(", letter[] = "(A)";
  size_t end = strlen(pattern);
  for (size_t i = 0; i < json_array_size(choices); i++) {
    if (i > 0) pattern[end++] = '|';
    pattern[end++] = (char)('A' + i);
  }
  memcpy(pattern + end, ")", 2);
  json_t *found = selected(step, scope, text, pattern, error);
  if (!found || is_empty(found)) return found;
  letter[1] = *json_string_value(found);
  json_decref(found);
  return json_string(letter);
}

json_t *ch_answer_choose(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                         const json_t *choices, ch_error *error) {
  json_t *(*const ways[])(const ch_filter_step *, ch_template_scope *, const json_t *, const json_t *,
                          ch_error *) = {by_words, by_letter};
  json_t *found = selected(step, scope, text, step->pattern, error);
  for (int i = 0; i < 2 && is_empty(found); i++) {
    json_decref(found);
    found = ways[i](step, scope, text, choices, error);
  }
  if (!is_empty(found)) return found;
  json_decref(found);
  return json_string(step->fallback);
}

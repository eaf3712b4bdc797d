/* Regular expressions of templates and filters: PCRE2 with Python's syntax of named groups. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "template/template_private.h"

typedef struct ch_template_regex {
  char *pattern;
  pcre2_code *code;
  struct ch_template_regex *next;
} regex;

/* CALLBACK_BYTES: bytes counted for a step of PCRE2. MOST_HEAP: PCRE2's heap limit in KiB. */
enum { CALLBACK_BYTES = 4, MOST_HEAP = 1 << 16 };

static void free_regexes(ch_template_scope *scope) {
  while (scope->regexes) {
    regex *next = scope->regexes->next;
    pcre2_code_free(scope->regexes->code);
    free(scope->regexes->pattern);
    free(scope->regexes);
    scope->regexes = next;
  }
}

void ch_template_scope_free(ch_template_scope *scope) {
  free_regexes(scope);
  *scope = (ch_template_scope){0};
}

static pcre2_code *compiled(ch_template_scope *scope, const char *pattern, ch_error *error) {
  int number, kept = 0;
  PCRE2_SIZE place;
  for (regex *r = scope->regexes; r; r = r->next, kept++)
    if (strcmp(r->pattern, pattern) == 0) return r->code;
  if (kept == CH_TEMPLATE_REGEXES) free_regexes(scope);
  if (!ch_template_spend(scope, CH_TEMPLATE_REGEX_BYTES, error)) return NULL;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT |
                                       PCRE2_ALT_CIRCUMFLEX,
                                   &number, &place, NULL);
  if (!code && number == PCRE2_ERROR_HEAP_FAILED) {
    ch_no_memory(error);
    return NULL;
  }
  if (!code) {
    char message[128] = "";
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    ch_fail(error, CH_ERROR_FORMAT, "the pattern \"%.60s\" is invalid at %zu: %s", pattern, (size_t)place,
            message);
    return NULL;
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* if this fails, matching is only slower */
  regex *r = calloc(1, sizeof *r);
  char *copy = strdup(pattern);
  if (!r || !copy) {
    free(r);
    free(copy);
    pcre2_code_free(code);
    ch_no_memory(error);
    return NULL;
  }
  *r = (regex){.pattern = copy, .code = code, .next = scope->regexes};
  scope->regexes = r;
  return code;
}

/* Writes a replacement for PCRE2: "\1" becomes "${1}", "$" becomes "$$". */
static void put_replacement(ch_text *text, const char *replacement) {
  for (const char *p = replacement; *p; p++) {
    if (*p == '\\' && isdigit((unsigned char)p[1]))
      ch_text_printf(text, "${%c}", *++p);
    else if (*p == '$')
      ch_text_puts(text, "$$");
    else
      ch_text_put(text, p, 1);
  }
  ch_text_put(text, "", 1);
}

/* The work of one pattern on one text. PCRE2 calls back before every item of the pattern that it tries. */
typedef struct work {
  ch_template_scope *scope;
  ch_error *error;
  PCRE2_SIZE last;  /* position in the text at the last callback */
  size_t reference; /* bytes counted per callback for references to groups, which do not call back */
} work;

static int count_work(pcre2_callout_block *block, void *data) {
  work *w = data;
  size_t moved = block->current_position > w->last ? block->current_position - w->last : 0;
  w->last = block->current_position;
  return ch_template_spend(w->scope, CALLBACK_BYTES + moved + w->reference, w->error) ? 0
                                                                                      : PCRE2_ERROR_CALLOUT;
}

/* Returns the limits for a match, or NULL if out of memory. */
static pcre2_match_context *limited(const pcre2_code *code, size_t size, work *w) {
  uint32_t references = 0;
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &references);
  if (references > 0) w->reference = size / 64;
  if (!context) return NULL;
  pcre2_set_callout(context, count_work, w);
  pcre2_set_heap_limit(context, MOST_HEAP);
  return context;
}

/* Fails with an explanation of PCRE2's result `number`, unless *error is filled already. */
static void not_applied(const char *pattern, int number, ch_error *error) {
  if (error->status != CH_OK) return;
  if (number >= 0 || number == PCRE2_ERROR_NOMEMORY)
    ch_no_memory(error);
  else if (number == PCRE2_ERROR_MATCHLIMIT || number == PCRE2_ERROR_DEPTHLIMIT ||
           number == PCRE2_ERROR_HEAPLIMIT || number == PCRE2_ERROR_JIT_STACKLIMIT)
    ch_fail(error, CH_ERROR_FORMAT, "the pattern \"%.60s\" needs too many steps; make it simpler", pattern);
  else
    ch_fail(error, CH_ERROR_FORMAT, "the pattern \"%.60s\" cannot be applied (PCRE2 error %d)", pattern,
            number);
}

static int substitute(const pcre2_code *code, const json_t *text, const ch_text *with, work *w,
                      ch_text *result) {
  PCRE2_SIZE room = json_string_length(text) + 256, size = 0;
  int number = PCRE2_ERROR_NOMEMORY;
  uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
  pcre2_match_context *context = limited(code, json_string_length(text), w);
  if (!context) return number;
  /* if the text does not fit, `size` becomes the size that it needs */
  for (int tries = 0; tries < 2 && number == PCRE2_ERROR_NOMEMORY && ch_template_fits(room, w->error);
       tries++) {
    ch_text_free(result);
    result->data = malloc(room);
    if (!result->data) break;
    size = room;
    w->last = 0;
    number = pcre2_substitute(code, (PCRE2_SPTR)json_string_value(text), json_string_length(text), 0, options,
                              NULL, context, (PCRE2_SPTR)with->data, PCRE2_ZERO_TERMINATED,
                              (PCRE2_UCHAR *)result->data, &size);
    if (size == PCRE2_UNSET || size <= room) break;
    room = size;
  }
  result->size = size;
  pcre2_match_context_free(context);
  return number;
}

json_t *ch_template_regex(ch_template_scope *scope, const json_t *text, const char *pattern,
                          const char *replacement, ch_error *error) {
  pcre2_code *code = compiled(scope, pattern, error);
  if (!code) return NULL;
  ch_text with = {0}, result = {0};
  work w = {.scope = scope, .error = error};
  put_replacement(&with, replacement);
  error->status = CH_OK;
  int number = with.failed ? PCRE2_ERROR_NOMEMORY : substitute(code, text, &with, &w, &result);
  json_t *replaced = number >= 0 ? json_stringn(result.data, result.size) : NULL;
  if (!replaced) not_applied(pattern, number, error);
  ch_text_free(&result);
  ch_text_free(&with);
  return replaced;
}

/* --- all matches ---------------------------------------------------------------------------------------- */

/* Returns a match like re.findall: the whole match or, if the pattern has one group, that group. If it has several,
   returns the first group that is not empty, as lm-evaluation-harness's filter does, or a JSON null. */
static json_t *matched(const char *text, const PCRE2_SIZE *places, uint32_t groups) {
  uint32_t first = groups > 0, last = groups > 0 ? groups : 0;
  for (uint32_t g = first; g <= last; g++) {
    PCRE2_SIZE from = places[2 * g], to = places[2 * g + 1];
    bool empty = from == PCRE2_UNSET || to <= from;
    if (!empty) return json_stringn(text + from, to - from);
    if (last == first) return json_string("");
  }
  return json_null();
}

/* Finds all matches like re.findall, and appends them to the list. */
static int find_all(const pcre2_code *code, const json_t *text, pcre2_match_data *data,
                    pcre2_match_context *context, work *w, json_t *list) {
  const char *bytes = json_string_value(text);
  size_t size = json_string_length(text);
  uint32_t groups = 0, options = 0;
  PCRE2_SIZE at = 0, *places = pcre2_get_ovector_pointer(data);
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
  for (;;) {
    w->last = at;
    int number = pcre2_match(code, (PCRE2_SPTR)bytes, size, at, options, data, context);
    if (number == PCRE2_ERROR_NOMATCH) return 0;
    if (number < 0) return number;
    if (!ch_template_spend(w->scope, CH_TEMPLATE_ELEMENT_BYTES, w->error)) return PCRE2_ERROR_CALLOUT;
    if (json_array_append_new(list, matched(bytes, places, groups)) != 0) return PCRE2_ERROR_NOMEMORY;
    /* \K can put the beginning of a match after its end */
    options = PCRE2_NO_UTF_CHECK | (places[0] >= places[1] ? PCRE2_NOTEMPTY_ATSTART : 0);
    if (places[1] < at) return 0;
    at = places[1];
  }
}

json_t *ch_template_find_all(ch_template_scope *scope, const json_t *text, const char *pattern,
                             ch_error *error) {
  pcre2_code *code = compiled(scope, pattern, error);
  if (!code) return NULL;
  error->status = CH_OK;
  work w = {.scope = scope, .error = error};
  pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
  pcre2_match_context *context = limited(code, json_string_length(text), &w);
  json_t *list = json_array();
  int number = data && context && list ? find_all(code, text, data, context, &w, list) : PCRE2_ERROR_NOMEMORY;
  if (number < 0) {
    not_applied(pattern, number, error);
    json_decref(list);
    list = NULL;
  }
  pcre2_match_data_free(data);
  pcre2_match_context_free(context);
  return list;
}

ch_status ch_template_regex_check(const char *pattern, ch_error *error) {
  ch_template_scope scope = {0};
  ch_error own = {0};
  if (!error) error = &own;
  error->status = CH_OK;
  compiled(&scope, pattern, error);
  ch_template_scope_free(&scope);
  return error->status;
}

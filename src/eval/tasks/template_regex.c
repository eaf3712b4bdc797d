/* Regular expressions of templates, by PCRE2 with Python's way of naming groups. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "eval/tasks/template_private.h"

typedef struct ch_template_regex {
  char *pattern;
  pcre2_code *code;
  struct ch_template_regex *next;
} regex;

enum { MOST_RESULT = 64 << 20 };

void ch_template_scope_free(ch_template_scope *scope) {
  while (scope->regexes) {
    regex *next = scope->regexes->next;
    pcre2_code_free(scope->regexes->code);
    free(scope->regexes->pattern);
    free(scope->regexes);
    scope->regexes = next;
  }
  json_decref(scope->locals);
  *scope = (ch_template_scope){0};
}

static pcre2_code *compiled(ch_template_scope *scope, const char *pattern, ch_error *error) {
  for (regex *r = scope->regexes; r; r = r->next)
    if (strcmp(r->pattern, pattern) == 0) return r->code;
  int number;
  PCRE2_SIZE place;
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &number, &place, NULL);
  if (!code) {
    char message[128] = "";
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    ch_fail(error, CH_ERROR_FORMAT, "regex_replace: the pattern \"%.60s\" is wrong at %zu: %s", pattern,
            (size_t)place, message);
    return NULL;
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it matching is slower */
  regex *r = calloc(1, sizeof *r);
  char *copy = strdup(pattern);
  if (!r || !copy) {
    free(r);
    free(copy);
    pcre2_code_free(code);
    ch_fail(error, CH_ERROR_MEMORY, "no memory for a pattern");
    return NULL;
  }
  *r = (regex){.pattern = copy, .code = code, .next = scope->regexes};
  scope->regexes = r;
  return code;
}

/* "\1" -> "${1}", "$" -> "$$". */
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

json_t *ch_template_regex(ch_template_scope *scope, const json_t *text, const char *pattern,
                          const char *replacement, ch_error *error) {
  pcre2_code *code = compiled(scope, pattern, error);
  if (!code) return NULL;
  ch_text with = {0};
  put_replacement(&with, replacement);
  PCRE2_SIZE room = json_string_length(text) + 256, size = 0;
  PCRE2_UCHAR *out = NULL;
  int result = PCRE2_ERROR_NOMEMORY;
  while (!with.failed && result == PCRE2_ERROR_NOMEMORY && room < MOST_RESULT) {
    PCRE2_UCHAR *more = realloc(out, room);
    if (!more) break;
    out = more;
    size = room;
    result = pcre2_substitute(code, (PCRE2_SPTR)json_string_value(text), json_string_length(text), 0,
                              PCRE2_SUBSTITUTE_GLOBAL, NULL, NULL, (PCRE2_SPTR)with.data,
                              PCRE2_ZERO_TERMINATED, out, &size);
    room *= 4;
  }
  json_t *replaced = result >= 0 ? json_stringn((const char *)out, size) : NULL;
  if (!replaced)
    ch_fail(error, CH_ERROR_FORMAT, "regex_replace: the pattern \"%.60s\" cannot be applied (PCRE2 error %d)",
            pattern, result);
  free(out);
  ch_text_free(&with);
  return replaced;
}

/* Matches patterns. Oniguruma defines their meaning. PCRE2's compiled code is faster. It is used only for
 * patterns with the same meaning in both, and only if both have the same version of Unicode. */
#define _GNU_SOURCE
#include "text/regex.h"

#include <oniguruma.h>
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/text.h"
#include "base/utf8.h"

struct ch_regex {
  regex_t *pattern; /* Oniguruma's compiled pattern; NULL: `literal` is matched instead */
  pcre2_code *fast; /* PCRE2's compiled pattern; NULL: `pattern` is matched instead */
  char *literal;
  size_t literal_size;
};

/* --- syntax with one meaning in both libraries ---------------------------------------------------------- */

/* Unicode's White_Space: the meaning of \s in Oniguruma (PCRE2 would add U+180E). */
static const char white_space[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
                                  "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

/* Contractions in any case. They are safe, because no two letters in a row fold to one character. */
static const char *const any_case[] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)",
                                       "(?i:[sdtm]|ll|ve|re)"};

typedef struct translation {
  const char *at, *end;
  ch_text *out;
  bool item;               /* true if a repetition may follow */
  bool group;              /* true after a group, which may only be optional */
  unsigned char looks[32]; /* [open] 1 for each open group that is a lookahead */
  int open;
} translation;

static bool copy(translation *r, size_t size) {
  ch_text_put(r->out, r->at, size);
  r->at += size;
  return size > 0;
}

static bool begins(const translation *r, const char *text) {
  size_t size = strlen(text);
  return (size_t)(r->end - r->at) >= size && memcmp(r->at, text, size) == 0;
}

/* Reads \p{Lu}: a general category by its short name. */
static bool read_category(translation *r) {
  static const char names[] =
      " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp ";
  const char *close =
      r->end - r->at > 3 && r->at[2] == '{' ? memchr(r->at, '}', (size_t)(r->end - r->at)) : NULL;
  char name[5] = " ";
  size_t size = close ? (size_t)(close - r->at) - 3 : 0;
  if (size == 0 || size > 2 || !memchr("LMNPSZ", r->at[3], 6)) return false;
  memcpy(name + 1, r->at + 3, size);
  name[size + 1] = ' ';
  return strstr(names, name) && copy(r, size + 4);
}

/* Returns the bytes of \x{1e00}, or 0 for another spelling. */
static size_t number_size(const translation *r) {
  size_t digits = r->end - r->at > 3 && r->at[2] == '{' ? strspn(r->at + 3, "0123456789abcdefABCDEF") : 0;
  return digits > 0 && digits <= 6 && r->at + 3 + digits < r->end && r->at[3 + digits] == '}' ? digits + 4
                                                                                              : 0;
}

/* Reads an escape. *single: true if it is one character, which may end a range, and not a set. */
static bool read_escape(translation *r, bool in_class, bool *single) {
  *single = false;
  if (r->end - r->at < 2 || !r->at[1]) return false;
  char c = r->at[1];
  if (c == 'p' || c == 'P') return read_category(r);
  if (c == 'd') return copy(r, 2);
  if (c == 'x') {
    *single = true;
    return copy(r, number_size(r));
  }
  if (c == 's' || (c == 'S' && !in_class)) {
    ch_text_printf(r->out, in_class ? "%s" : c == 's' ? "[%s]" : "[^%s]", white_space);
    r->at += 2;
    return true;
  }
  *single = true;
  return strchr("rntf.-/[]\\(){}*+?|^$!\"#&,:;=@~", c) && copy(r, 2);
}

/* Reads one character or set of a class. */
static bool read_member(translation *r, bool *single, uint32_t *character) {
  *single = true;
  *character = (unsigned char)*r->at;
  if (*r->at == '\\') {
    char c = r->end - r->at > 1 ? r->at[1] : 0;
    *character = c == 'x' && number_size(r) ? (uint32_t)strtoul(r->at + 3, NULL, 16)
                 : strchr("rntf", c)        ? 0
                                            : (unsigned char)c;
    return read_escape(r, true, single);
  }
  if (*r->at == '[' || begins(r, "&&") || !*r->at) return false;
  size_t size = ch_utf8_decode((const unsigned char *)r->at, (const unsigned char *)r->end, character);
  return size > 0 && copy(r, size);
}

static bool read_class(translation *r) {
  copy(r, begins(r, "[^") ? 2 : 1);
  if (begins(r, "]") || begins(r, "-")) return false;
  while (r->at < r->end && *r->at != ']') {
    bool single, last_single;
    uint32_t first, last;
    if (!read_member(r, &single, &first)) return false;
    if (!begins(r, "-")) continue;
    if (begins(r, "-]")) {
      copy(r, 1);
      break;
    }
    copy(r, 1);
    if (r->at == r->end || !read_member(r, &last_single, &last)) return false;
    if (!single || !last_single || first == 0 || last < first || begins(r, "-")) return false;
  }
  return begins(r, "]") && copy(r, 1);
}

static bool read_group(translation *r) {
  for (size_t i = 0; i < sizeof any_case / sizeof *any_case; i++)
    if (begins(r, any_case[i])) {
      r->item = r->group = true;
      return copy(r, strlen(any_case[i]));
    }
  if (r->open == sizeof r->looks) return false;
  bool ahead = begins(r, "(?=") || begins(r, "(?!");
  if (!ahead && !begins(r, "(?:")) return false;
  r->looks[r->open++] = ahead;
  r->item = false;
  return copy(r, 3);
}

/* Reads {2}, {2,} or {2,3}. Returns false for another spelling, or if a quantifier follows that would repeat
   the interval or change its kind. */
static bool read_interval(translation *r) {
  const char *p = r->at + 1;
  long least = 0, most = 0;
  int digits = 0;
  for (; p < r->end && *p >= '0' && *p <= '9' && digits < 4; p++, digits++) least = least * 10 + (*p - '0');
  if (digits == 0) return false;
  most = least;
  if (p < r->end && *p == ',') {
    p++;
    for (most = 0, digits = 0; p < r->end && *p >= '0' && *p <= '9' && digits < 4; p++, digits++)
      most = most * 10 + (*p - '0');
    if (digits == 0) most = least;
  }
  if (p == r->end || *p != '}' || most < least || most == 0) return false;
  copy(r, (size_t)(p + 1 - r->at));
  return r->at == r->end || !strchr("?+*{", *r->at);
}

static bool read_repetition(translation *r) {
  if (!r->item || (r->group && *r->at != '?')) return false;
  bool group = r->group;
  r->item = r->group = false;
  if (*r->at == '{') return read_interval(r);
  copy(r, 1);
  if (r->at == r->end || !strchr("?+*{", *r->at)) return true;
  return !group && (*r->at == '?' || *r->at == '+') && copy(r, 1) &&
         (r->at == r->end || !strchr("?+*{", *r->at));
}

static bool read_item(translation *r) {
  bool single;
  size_t size;
  uint32_t character;
  switch (*r->at) {
  case '(':
    return read_group(r);
  case ')':
    if (r->open == 0) return false;
    r->item = r->group = !r->looks[--r->open];
    return copy(r, 1);
  case '*':
  case '+':
  case '?':
  case '{':
    return read_repetition(r);
  case '|':
  case '$':
    r->item = r->group = false;
    return copy(r, 1);
  case '^':
  case ']':
  case '}':
  case 0:
    return false;
  default:
    r->item = true;
    r->group = false;
    if (*r->at == '[') return read_class(r);
    if (*r->at == '\\') return read_escape(r, false, &single);
    size = ch_utf8_decode((const unsigned char *)r->at, (const unsigned char *)r->end, &character);
    return size > 0 && copy(r, size);
  }
}

/* Writes a pattern that means to PCRE2 what `pattern` means to Oniguruma. Returns false if the meanings might
   differ. */
static bool translate(const char *pattern, size_t size, ch_text *out) {
  translation r = {.at = pattern, .end = pattern + size, .out = out};
  while (r.at < r.end)
    if (!read_item(&r)) return false;
  return r.open == 0 && size > 0 && !out->failed;
}

/* --- compiling ------------------------------------------------------------------------------------------ */

static pcre2_code *compile_fast(const char *pattern, size_t size) {
  int number;
  PCRE2_SIZE offset;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (!context) return NULL;
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)pattern, size, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_UTF | PCRE2_NO_UTF_CHECK,
                    &number, &offset, context);
  pcre2_compile_context_free(context);
  if (code && pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0) return code;
  pcre2_code_free(code); /* without just-in-time code it is not faster */
  return NULL;
}

static bool fast_is_letter(const pcre2_code *code, pcre2_match_data *data, uint32_t character) {
  unsigned char text[4];
  size_t size = ch_utf8_encode(character, text);
  return pcre2_match(code, text, size, 0, PCRE2_NO_UTF_CHECK, data, NULL) > 0;
}

static int type_named(const char *name) {
  return ONIG_ENCODING_UTF8->property_name_to_ctype(ONIG_ENCODING_UTF8, (OnigUChar *)name,
                                                    (OnigUChar *)name + strlen(name));
}

static bool is_of_type(uint32_t character, int type) {
  return type > 0 && ONIG_ENCODING_UTF8->is_code_ctype(character, (OnigCtype)type);
}

/* Returns true if both libraries have the same version of Unicode. Each of these letters was added in another
   version. */
static bool same_unicode(void) {
  static const uint32_t letters[] = {0x10fe0, 0x10e80, 0x1df00, 0x11f04, 0x2ebf0, 0x105c0, 0x323b0};
  int letter = type_named("L");
  pcre2_code *code = compile_fast("\\p{L}", 5);
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  bool same = code && data && letter > 0;
  for (size_t i = 0; i < sizeof letters / sizeof *letters && same; i++)
    same = fast_is_letter(code, data, letters[i]) == is_of_type(letters[i], letter);
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return same;
}

/* Runs when the library is loaded, because Oniguruma's initialisation is not thread-safe. */
__attribute__((constructor)) static void prepare_oniguruma(void) {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
}

bool ch_is_word_character(unsigned code_point) {
  static const char *const types[] = {"Alphabetic", "M", "Nd", "Pc"};
  if (code_point > 0x10ffff) return false;
  for (int i = 0; i < 4; i++)
    if (is_of_type(code_point, type_named(types[i]))) return true;
  return code_point == 0x200c || code_point == 0x200d;
}

/* Appends a pattern, with [:punct:] and \R spelled out. Oniguruma before 6.9.9 reads them differently: its
 * [:punct:] has no symbols, and it does not repeat \R. */
static void spell_for_all_versions(const char *pattern, size_t size, ch_text *out) {
  static const struct {
    const char *from, *to;
    bool in_class;
  } names[] = {{"[:punct:]", "\\p{P}\\p{S}", true},
               {"[:^punct:]", "[^\\p{P}\\p{S}]", true},
               {"\\R", "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])", false}};
  int depth = 0; /* open classes */
  for (size_t i = 0; i < size;) {
    size_t taken = pattern[i] == '\\' && i + 1 < size ? 2 : 1;
    const char *with = NULL;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
      size_t length = strlen(names[n].from);
      if (names[n].in_class != (depth > 0) || length > size - i ||
          memcmp(pattern + i, names[n].from, length) != 0)
        continue;
      with = names[n].to;
      taken = length;
    }
    if (with)
      ch_text_puts(out, with);
    else
      ch_text_put(out, pattern + i, taken);
    if (!with && taken == 1) depth += pattern[i] == '[' ? 1 : pattern[i] == ']' && depth > 0 ? -1 : 0;
    i += taken;
  }
}

static ch_status compile_pattern(ch_regex *regex, const char *pattern, size_t size, const char *file,
                                 ch_error *error) {
  OnigErrorInfo info;
  ch_text spelled = {0}, fast = {0};
  spell_for_all_versions(pattern, size, &spelled);
  if (spelled.failed) return ch_no_memory(error);
  const OnigUChar *text = (const OnigUChar *)(spelled.data ? spelled.data : "");
  int code = onig_new(&regex->pattern, text, text + spelled.size, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL) {
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN + 1] = "";
    message[onig_error_code_to_str(message, code, &info)] = 0;
    regex->pattern = NULL;
    ch_text_free(&spelled);
    return code == ONIGERR_MEMORY
               ? ch_no_memory(error)
               : ch_fail(error, CH_ERROR_FORMAT, "%s: the pattern \"%.80s\" is not one of Oniguruma's: %s",
                         file, pattern, (char *)message);
  }
  ch_text_free(&spelled);
  if (translate(pattern, size, &fast) && same_unicode()) regex->fast = compile_fast(fast.data, fast.size);
  ch_text_free(&fast);
  return CH_OK;
}

ch_status ch_regex_compile(ch_regex **regex, const char *pattern, size_t size, bool literal, const char *file,
                           ch_error *error) {
  ch_status status = CH_OK;
  *regex = calloc(1, sizeof **regex);
  if (!*regex) return ch_no_memory(error);
  if (!literal) {
    status = compile_pattern(*regex, pattern, size, file, error);
  } else {
    (*regex)->literal = malloc(size + 1);
    if ((*regex)->literal) memcpy((*regex)->literal, pattern, size);
    (*regex)->literal_size = size;
    if (!(*regex)->literal) status = ch_no_memory(error);
  }
  if (status == CH_OK) return CH_OK;
  ch_regex_free(*regex);
  *regex = NULL;
  return status;
}

void ch_regex_free(ch_regex *regex) {
  if (!regex) return;
  if (regex->pattern) onig_free(regex->pattern);
  pcre2_code_free(regex->fast);
  free(regex->literal);
  free(regex);
}

bool ch_regex_is_fast(const ch_regex *regex) {
  return regex->fast != NULL;
}

void ch_regex_slow_down(ch_regex *regex) {
  pcre2_code_free(regex->fast);
  regex->fast = NULL;
}

/* --- matching ------------------------------------------------------------------------------------------- */

/* Limits of backtracking. MOST_RETRIES_AT_ONCE, for one place of the text, is Oniguruma's default. MOST_RETRIES,
   for a search, take some seconds. An entry of the stack has about 40 bytes. */
enum { MOST_RETRIES_AT_ONCE = 10000000, MOST_RETRIES = 500000000, MOST_STACKED = 1 << 24 };

ch_status ch_regex_scratch_open(ch_regex_scratch *scratch, ch_error *error) {
  if (scratch->data) return CH_OK;
  scratch->data = pcre2_match_data_create(1, NULL);
  scratch->context = pcre2_match_context_create(NULL);
  scratch->stack = pcre2_jit_stack_create(32 * 1024, 4 * 1024 * 1024, NULL);
  scratch->region = onig_region_new();
  scratch->limits = onig_new_match_param();
  if (!scratch->data || !scratch->context || !scratch->region || !scratch->limits) {
    ch_regex_scratch_close(scratch);
    return ch_no_memory(error);
  }
  pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
  onig_initialize_match_param(scratch->limits);
  onig_set_retry_limit_in_match_of_match_param(scratch->limits, MOST_RETRIES_AT_ONCE);
  onig_set_retry_limit_in_search_of_match_param(scratch->limits, MOST_RETRIES);
  onig_set_match_stack_limit_size_of_match_param(scratch->limits, MOST_STACKED);
  return CH_OK;
}

void ch_regex_scratch_close(ch_regex_scratch *scratch) {
  pcre2_match_data_free(scratch->data);
  pcre2_match_context_free(scratch->context);
  pcre2_jit_stack_free(scratch->stack);
  if (scratch->region) onig_region_free(scratch->region, 1);
  if (scratch->limits) onig_free_match_param(scratch->limits);
  *scratch = (ch_regex_scratch){0};
}

static ch_status find_slowly(const ch_regex *regex, ch_regex_scratch *scratch, const unsigned char *text,
                             size_t size, size_t from, bool *found, size_t *begin, size_t *end,
                             ch_error *error) {
  int place = onig_search_with_param(regex->pattern, text, text + size, text + from, text + size,
                                     scratch->region, ONIG_OPTION_NONE, scratch->limits);
  if (place == ONIG_MISMATCH) return CH_OK;
  if (place < 0) {
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN + 1] = "";
    message[onig_error_code_to_str(message, place)] = 0;
    return ch_fail(error, place == ONIGERR_MEMORY ? CH_ERROR_MEMORY : CH_ERROR_FORMAT,
                   "a pattern of the tokenizer needs too many steps on this text (Oniguruma's %s)",
                   (char *)message);
  }
  *found = true;
  *begin = (size_t)scratch->region->beg[0];
  *end = (size_t)scratch->region->end[0];
  if (*end < *begin) *end = *begin; /* \K can put the end first */
  return CH_OK;
}

ch_status ch_regex_find(const ch_regex *regex, ch_regex_scratch *scratch, const unsigned char *text,
                        size_t size, size_t from, bool *found, size_t *begin, size_t *end, ch_error *error) {
  *found = false;
  if (regex->literal) {
    const unsigned char *hit = memmem(text + from, size - from, regex->literal, regex->literal_size);
    *found = hit != NULL;
    *begin = hit ? (size_t)(hit - text) : size;
    *end = hit ? *begin + regex->literal_size : size;
    return CH_OK;
  }
  if (regex->fast) {
    int got = pcre2_match(regex->fast, text, size, from, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(scratch->data);
    *found = got >= 0;
    *begin = *found ? span[0] : size;
    *end = *found ? span[1] : size;
    if (*found || got == PCRE2_ERROR_NOMATCH) return CH_OK;
  }
  return find_slowly(regex, scratch, text, size, from, found, begin, end, error);
}

/* Compiling split patterns for PCRE2 and walking over the words they cut. */
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

const char ch_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char pattern_llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char pattern_qwen[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* Unicode's White_Space, which is what \s means to Oniguruma (PCRE2 would add U+180E). */
static const char white_space[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
                                  "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

/* The same for \\w: PCRE2 would leave out marks and connecting punctuation. */
static const char word_characters[] = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";

/* Rewrites what means something else to PCRE2. Returns what cannot be rewritten, or NULL. */
static const char *translate(const char *pattern, size_t size, ch_text *out) {
  bool in_class = false;
  for (size_t i = 0; i < size; i++) {
    char c = pattern[i], next = i + 1 < size ? pattern[i + 1] : 0;
    if (c == '\\' && next) {
      i++;
      if (next == 's')
        ch_text_printf(out, in_class ? "%s" : "[%s]", white_space);
      else if (next == 'S' && !in_class)
        ch_text_printf(out, "[^%s]", white_space);
      else if (next == 'w')
        ch_text_printf(out, in_class ? "%s" : "[%s]", word_characters);
      else if (next == 'W' && !in_class)
        ch_text_printf(out, "[^%s]", word_characters);
      else if (next == 'h' || next == 'H')
        return "\\h";
      else
        ch_text_put(out, pattern + i - 1, 2);
      continue;
    }
    if (in_class && c == '[' && next != ':') return "a character class within a class";
    if (in_class && c == '&' && next == '&') return "&& in a character class";
    if (in_class && c == '[') { /* [:alpha:] */
      const char *close = memchr(pattern + i, ']', size - i);
      if (!close) return "an unclosed [:";
      ch_text_put(out, pattern + i, (size_t)(close - pattern - (ptrdiff_t)i) + 1);
      i = (size_t)(close - pattern);
      continue;
    }
    ch_text_put(out, &c, 1);
    if (c == ']') in_class = false;
    if (c != '[' || in_class) continue;
    in_class = true; /* a ']' right after "[" or "[^" is an ordinary character */
    if (next == '^') ch_text_put(out, pattern + ++i, 1);
    if (i + 1 < size && pattern[i + 1] == ']') ch_text_put(out, pattern + ++i, 1);
  }
  return NULL;
}

static ch_status compile(pcre2_code **code, const char *pattern, size_t size, uint32_t options,
                         const char *file, ch_error *error) {
  int number = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (!context) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a pattern of %s", file);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  *code = pcre2_compile((PCRE2_SPTR)pattern, size, options | PCRE2_UTF | PCRE2_NO_UTF_CHECK, &number, &offset,
                        context);
  pcre2_compile_context_free(context);
  if (!*code) {
    char message[160] = "";
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    return ch_fail(error, CH_ERROR_FORMAT, "%s: a pattern does not compile: %s, at byte %zu of \"%.80s\"",
                   file, message, (size_t)offset, pattern);
  }
  /* If the system does not allow just-in-time code, the interpreter matches instead. */
  pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
  return CH_OK;
}

ch_status ch_regex_compile(pcre2_code **code, const char *pattern, size_t size, bool literal,
                           const char *file, ch_error *error) {
  *code = NULL;
  if (size == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s: a pattern is empty", file);
  if (literal) return compile(code, pattern, size, PCRE2_LITERAL, file, error);
  ch_text translated = {0};
  const char *problem = translate(pattern, size, &translated);
  ch_status status =
      problem
          ? ch_fail(error, CH_ERROR_FORMAT, "%s: a pattern uses %s, which is not supported", file, problem)
      : translated.failed
          ? ch_fail(error, CH_ERROR_MEMORY, "no memory for a pattern of %s", file)
          : compile(code, translated.data, translated.size, PCRE2_UCP | PCRE2_MULTILINE, file, error);
  ch_text_free(&translated);
  return status;
}

static ch_split_scanner scanner_for(const char *pattern, size_t size) {
  const struct {
    const char *pattern;
    ch_split_scanner scanner;
  } known[] = {
      {ch_pattern_gpt2, CH_SCAN_GPT2}, {pattern_llama3, CH_SCAN_LLAMA3}, {pattern_qwen, CH_SCAN_QWEN}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (size == strlen(known[i].pattern) && memcmp(pattern, known[i].pattern, size) == 0)
      return known[i].scanner;
  return CH_SCAN_NONE;
}

ch_status ch_split_compile(ch_split *split, const char *pattern, size_t size, bool literal,
                           ch_split_behavior behavior, bool invert, const char *file, ch_error *error) {
  *split = (ch_split){.behavior = behavior, .invert = invert};
  if (!literal && behavior == CH_SPLIT_ISOLATED) split->scanner = scanner_for(pattern, size);
  return ch_regex_compile(&split->code, pattern, size, literal, file, error);
}

void ch_split_free(ch_split *split) {
  pcre2_code_free(split->code);
  *split = (ch_split){0};
}

ch_status ch_regex_scratch_open(ch_regex_scratch *scratch, ch_error *error) {
  if (scratch->data) return CH_OK;
  scratch->data = pcre2_match_data_create(1, NULL);
  scratch->context = pcre2_match_context_create(NULL);
  scratch->stack = pcre2_jit_stack_create(32 * 1024, 4 * 1024 * 1024, NULL);
  if (!scratch->data || !scratch->context) {
    ch_regex_scratch_close(scratch);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for matching patterns");
  }
  pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
  return CH_OK;
}

void ch_regex_scratch_close(ch_regex_scratch *scratch) {
  pcre2_match_data_free(scratch->data);
  pcre2_match_context_free(scratch->context);
  pcre2_jit_stack_free(scratch->stack);
  *scratch = (ch_regex_scratch){0};
}

ch_status ch_regex_find(const pcre2_code *code, ch_regex_scratch *scratch, const unsigned char *text,
                        size_t size, size_t from, bool *found, size_t *begin, size_t *end, ch_error *error) {
  *found = false;
  int got = pcre2_match(code, text, size, from, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
  if (got == PCRE2_ERROR_NOMATCH) return CH_OK;
  if (got < 0) {
    char message[160] = "";
    pcre2_get_error_message(got, (PCRE2_UCHAR *)message, sizeof message);
    return ch_fail(error, CH_ERROR_FORMAT, "the tokenizer's split pattern cannot be matched on this text: %s",
                   message);
  }
  const PCRE2_SIZE *span = pcre2_get_ovector_pointer(scratch->data);
  *found = true;
  *begin = span[0];
  *end = span[1] < span[0] ? span[0] : span[1]; /* \K can put the end first */
  return CH_OK;
}

void ch_split_begin(ch_split_cursor *cursor, const ch_split *split, ch_regex_scratch *scratch,
                    const void *text, size_t size) {
  const unsigned char *start = text;
  *cursor = (ch_split_cursor){.split = split, .scratch = scratch, .at = start, .end = start + size};
}

/* Bytes at the cursor that are not UTF-8: they belong to no word. */
static size_t broken_run(const ch_split_cursor *cursor) {
  const unsigned char *p = cursor->at;
  uint32_t code_point;
  while (p < cursor->end && ch_utf8_decode(p, cursor->end, &code_point) == 0) p++;
  return (size_t)(p - cursor->at);
}

/* The next match at or after the cursor, in its stretch; an empty match after the last one is passed over. */
static ch_status find_match(ch_split_cursor *cursor, ch_error *error) {
  size_t size = (size_t)(cursor->stretch_end - cursor->stretch);
  size_t from = (size_t)(cursor->at - cursor->stretch), begin = 0, end = 0;
  bool found = false;
  if (cursor->match && cursor->match == cursor->match_end) { /* the last was empty: go on a character later */
    uint32_t code_point;
    if (from < size) from += ch_utf8_decode(cursor->at, cursor->stretch_end, &code_point);
  }
  if (from < size) {
    CH_TRY(ch_regex_find(cursor->split->code, cursor->scratch, cursor->stretch, size, from, &found, &begin,
                         &end, error));
  }
  cursor->match = found ? cursor->stretch + begin : cursor->stretch_end;
  cursor->match_end = found ? cursor->stretch + end : cursor->stretch_end;
  if (!found || cursor->match < cursor->at) cursor->match = cursor->match_end = cursor->stretch_end;
  return CH_OK;
}

ch_status ch_split_next_part(ch_split_cursor *cursor, const unsigned char **part, size_t *size,
                             bool *is_match, ch_error *error) {
  *part = cursor->at;
  *size = 0;
  *is_match = false;
  while (cursor->at < cursor->end && *size == 0) {
    if (cursor->at >= cursor->stretch_end) {
      cursor->stretch = cursor->at;
      cursor->stretch_end = cursor->at + ch_utf8_valid_prefix(cursor->at, (size_t)(cursor->end - cursor->at));
      cursor->match = cursor->match_end = NULL;
      if (cursor->stretch_end == cursor->at) {
        *size = broken_run(cursor);
        break;
      }
    }
    if (!cursor->match || cursor->at >= cursor->match_end) CH_TRY(find_match(cursor, error));
    *is_match = cursor->at == cursor->match && cursor->match_end > cursor->match;
    const unsigned char *stop = *is_match ? cursor->match_end : cursor->match;
    *size = (size_t)(stop - cursor->at);
  }
  *part = cursor->at;
  cursor->at += *size;
  return CH_OK;
}

/* Whether a new part joins the word that is held back. */
static bool joins(const ch_split_cursor *cursor, bool is_match) {
  if (!cursor->held) return false;
  switch (cursor->split->behavior) {
  case CH_SPLIT_MERGED_WITH_PREVIOUS:
    return is_match && !cursor->last_match;
  case CH_SPLIT_MERGED_WITH_NEXT:
    return !is_match && cursor->last_match && cursor->held_match;
  case CH_SPLIT_CONTIGUOUS: /* two gaps in a row are parted by an empty match */
    return is_match == cursor->last_match && is_match != cursor->split->invert;
  default:
    return false;
  }
}

/* Joins parts as the behaviour asks: one word is held back until it is known that nothing joins it. */
static ch_status next_joined(ch_split_cursor *cursor, const unsigned char **word, size_t *size,
                             ch_error *error) {
  *size = 0;
  while (!cursor->finished) {
    const unsigned char *part;
    size_t part_size;
    bool is_match;
    CH_TRY(ch_split_next_part(cursor, &part, &part_size, &is_match, error));
    is_match ^= cursor->split->invert;
    cursor->finished = part_size == 0;
    if (!cursor->finished && joins(cursor, is_match)) {
      cursor->held_end = part + part_size;
      cursor->held_match = false; /* what has joined takes no more "next" */
      cursor->last_match = is_match;
      continue;
    }
    const unsigned char *ready = cursor->held;
    *word = ready;
    *size = ready ? (size_t)(cursor->held_end - ready) : 0;
    cursor->held = cursor->finished ? NULL : part;
    cursor->held_end = part + part_size;
    cursor->held_match = cursor->last_match = is_match;
    if (ready) break;
  }
  return CH_OK;
}

ch_status ch_split_next(ch_split_cursor *cursor, const unsigned char **word, size_t *size, ch_error *error) {
  const ch_split *split = cursor->split;
  *word = cursor->at;
  *size = 0;
  if (split->scanner != CH_SCAN_NONE) {
    if (cursor->at == cursor->end) return CH_OK;
    *size = ch_scan_word(split->scanner, cursor->at, cursor->end);
    if (*size) {
      cursor->at += *size;
      return CH_OK;
    }
    cursor->match = cursor->match_end = NULL; /* the scanner moved on since the last match */
  }
  if (split->behavior != CH_SPLIT_ISOLATED && split->behavior != CH_SPLIT_REMOVED)
    return next_joined(cursor, word, size, error);
  bool is_match, removed;
  do {
    CH_TRY(ch_split_next_part(cursor, word, size, &is_match, error));
    removed = split->behavior == CH_SPLIT_REMOVED && is_match != split->invert;
  } while (removed && *size > 0);
  return CH_OK;
}

/* Compiles split patterns and walks over the words that they cut. For three well-known patterns, ASCII text
 * goes through the scanners of split_scan.c, with the same result. */
#include "text/split.h"

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
  return ch_regex_compile(&split->regex, pattern, size, literal, file, error);
}

void ch_split_free(ch_split *split) {
  ch_regex_free(split->regex);
  *split = (ch_split){0};
}

void ch_split_begin(ch_split_cursor *cursor, const ch_split *split, ch_regex_scratch *scratch,
                    const void *text, size_t size) {
  const unsigned char *start = text;
  *cursor = (ch_split_cursor){.split = split, .scratch = scratch, .at = start, .end = start + size};
}

/* Finds the next match at or after the cursor, in its stretch. Skips an empty match where the last one
   ended. */
static ch_status find_match(ch_split_cursor *cursor, ch_error *error) {
  size_t size = (size_t)(cursor->stretch_end - cursor->stretch), begin = size, end = size;
  size_t from = (size_t)(cursor->at - cursor->stretch);
  bool found = false;
  for (;;) {
    CH_TRY(ch_regex_find(cursor->split->regex, cursor->scratch, cursor->stretch, size, from, &found, &begin,
                         &end, error));
    if (!found || begin < end || cursor->stretch + end != cursor->last_end) break;
    uint32_t character;
    found = false;
    if (from == size) break;
    from += ch_utf8_decode(cursor->stretch + from, cursor->stretch_end, &character);
  }
  bool ahead = found && cursor->stretch + begin >= cursor->at;
  cursor->match = ahead ? cursor->stretch + begin : NULL;
  cursor->match_end = ahead ? cursor->stretch + end : NULL;
  return CH_OK;
}

/* Finds the part at the cursor, within its stretch. *more is false at the end of the stretch. */
static ch_status part_of_stretch(ch_split_cursor *cursor, ch_split_part *part, bool *more, ch_error *error) {
  if (!cursor->match) CH_TRY(find_match(cursor, error));
  const unsigned char *gap_end = cursor->match ? cursor->match : cursor->stretch_end;
  *more = cursor->match || cursor->at < cursor->stretch_end;
  if (cursor->at < gap_end || !*more) {
    *part = (ch_split_part){cursor->at, (size_t)(gap_end - cursor->at), false};
  } else {
    *part = (ch_split_part){cursor->match, (size_t)(cursor->match_end - cursor->match), true};
    cursor->last_end = cursor->match_end;
    cursor->match = NULL;
  }
  cursor->at += part->size;
  return CH_OK;
}

ch_status ch_split_next_part(ch_split_cursor *cursor, ch_split_part *part, bool *more, ch_error *error) {
  *more = false;
  *part = (ch_split_part){.text = cursor->at};
  for (;;) {
    if (cursor->stretch && cursor->at <= cursor->stretch_end) {
      CH_TRY(part_of_stretch(cursor, part, more, error));
      if (*more) return CH_OK;
    }
    if (cursor->at == cursor->end) return CH_OK;
    cursor->stretch = NULL;
    const unsigned char *broken = cursor->at; /* bytes that are not UTF-8 belong to no word */
    uint32_t code_point;
    while (broken < cursor->end && ch_utf8_decode(broken, cursor->end, &code_point) == 0) broken++;
    if (broken > cursor->at) {
      *part = (ch_split_part){cursor->at, (size_t)(broken - cursor->at), false};
      *more = true;
      cursor->at = broken;
      return CH_OK;
    }
    cursor->stretch = cursor->at;
    cursor->stretch_end = cursor->at + ch_utf8_valid_prefix(cursor->at, (size_t)(cursor->end - cursor->at));
    cursor->match = cursor->last_end = NULL;
  }
}

/* Returns true if a new part joins the word that is held back. */
static bool joins(const ch_split_cursor *cursor, bool is_match) {
  if (!cursor->held) return false;
  switch (cursor->split->behavior) {
  case CH_SPLIT_MERGED_WITH_PREVIOUS:
    return is_match && !cursor->last_match;
  case CH_SPLIT_MERGED_WITH_NEXT:
    return !is_match && cursor->last_match;
  case CH_SPLIT_CONTIGUOUS:
    return is_match == cursor->last_match;
  default:
    return false;
  }
}

/* Joins parts by the split's behaviour. One word is held back until nothing more can join it. */
static ch_status next_joined(ch_split_cursor *cursor, const unsigned char **word, size_t *size,
                             ch_error *error) {
  *size = 0;
  while (!cursor->finished && *size == 0) {
    ch_split_part part;
    bool more;
    CH_TRY(ch_split_next_part(cursor, &part, &more, error));
    bool is_match = part.is_match != cursor->split->invert;
    if (more && joins(cursor, is_match)) {
      cursor->held_end = part.text + part.size;
    } else {
      *word = cursor->held;
      *size = cursor->held ? (size_t)(cursor->held_end - cursor->held) : 0;
      cursor->held = more ? part.text : NULL;
      cursor->held_end = part.text + part.size;
    }
    cursor->last_match = is_match;
    cursor->finished = !more;
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
    cursor->match = cursor->last_end = NULL; /* the scanner moved on since the last match */
  }
  if (split->behavior != CH_SPLIT_ISOLATED && split->behavior != CH_SPLIT_REMOVED)
    return next_joined(cursor, word, size, error);
  ch_split_part part;
  bool more, removed;
  do {
    CH_TRY(ch_split_next_part(cursor, &part, &more, error));
    removed = split->behavior == CH_SPLIT_REMOVED && part.is_match != split->invert;
  } while (more && (removed || part.size == 0));
  *word = part.text;
  *size = more ? part.size : 0;
  return CH_OK;
}

/* Finds the pre-tokenizer that equals a tokenizer's patterns, however they are spelled, by comparing how both cut
   texts. */
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "formats/pieces.h"
#include "text/tokenizer_internal.h"

/* Characters that patterns distinguish: a few of every category, white space of every kind, the characters of
   contractions, and the ends of ranges in published patterns. */
static const uint32_t characters[] = {'a',   's',    'T',    'l',    'V',    'e',     '\'',   ' ',   '\n',
                                      '\r',  '\t',   0xa0,   '1',    '7',    '.',     '/',    '-',   '$',
                                      '_',   0xb2,   0x660,  0x2167, 0xe9,   0xc9,    0x1c5,  0x2b0, 0x5d0,
                                      0x301, 0x4e2d, 0x3042, 0xac00, 0x3002, 0x1f600, 0x200d, 0x17f, 0x2028};
enum { CHARACTERS = sizeof characters / sizeof *characters, RANDOM_TEXTS = 20000, LONGEST_RUN = 9 };

/* Contractions, numbers, and runs of different kinds of characters. */
static const char *const texts[] = {
    "I'm I'M we're We'RE you'll YOU'LL they've it's IT'S can't 'd 'D '\xc5\xbf",
    "1234567 12 123 1,234.56 \xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4", "x  y   z\n\n  w \r\n\r\n\t\tv   ",
    "helloWorld HTTPServer \xc3\x89T\xc3\x89 //path/to !!! ...\n?", "<sentinel:12> IMGIMGABZ <|x|>"};

typedef struct trial {
  ch_encoder *given, *rule;
  ch_text a, b;
  bool same;
  ch_error *error;
} trial;

static ch_status try_text(trial *t, const char *text, size_t size) {
  t->a.size = t->b.size = 0;
  CH_TRY(ch_encoder_words(t->given, text, size, &t->a, t->error));
  CH_TRY(ch_encoder_words(t->rule, text, size, &t->b, t->error));
  t->same = t->a.size == t->b.size && (t->a.size == 0 || memcmp(t->a.data, t->b.data, t->a.size) == 0);
  return CH_OK;
}

static ch_status try_characters(trial *t, const uint32_t *list, size_t count) {
  unsigned char text[4 * 64];
  size_t size = 0;
  for (size_t i = 0; i < count; i++) size += ch_utf8_encode(list[i], text + size);
  return try_text(t, (const char *)text, size);
}

/* Tries all texts of three of the characters. */
static ch_status try_triples(trial *t) {
  enum { N = CHARACTERS };
  for (int i = 0; i < N * N * N && t->same; i++) {
    const uint32_t text[] = {characters[i / (N * N)], characters[i / N % N], characters[i % N]};
    CH_TRY(try_characters(t, text, 3));
  }
  return CH_OK;
}

static ch_status try_runs(trial *t) {
  uint32_t text[LONGEST_RUN + 2];
  for (int i = 0; i < CHARACTERS && t->same; i++)
    for (int run = 4; run <= LONGEST_RUN && t->same; run++) {
      text[0] = 'a';
      for (int j = 1; j <= run; j++) text[j] = characters[i];
      text[run + 1] = '1';
      CH_TRY(try_characters(t, text, (size_t)run + 2));
      if (t->same) CH_TRY(try_characters(t, text + 1, (size_t)run));
    }
  return CH_OK;
}

/* Tries every pair of ASCII letters after an apostrophe, and single letters at the end of a text and before U+017F. */
static ch_status try_contractions(trial *t) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  enum { N = sizeof letters - 1 };
  for (int i = 0; i < N * N && t->same; i++) {
    const char text[] = {'x',  '\'',           letters[i / N], letters[i % N], 'x',
                         '\'', letters[i % N], '\xc5',         '\xbf'};
    CH_TRY(try_text(t, text, 7));
    if (t->same) CH_TRY(try_text(t, text + 1, 8));
  }
  return CH_OK;
}

static ch_status try_random(trial *t) {
  uint64_t state = 1;
  uint32_t text[16];
  for (int i = 0; i < RANDOM_TEXTS && t->same; i++) {
    for (int j = 0; j < 16; j++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text[j] = characters[(state >> 33) % CHARACTERS];
    }
    CH_TRY(try_characters(t, text, 16));
  }
  return CH_OK;
}

/* Tries every character below U+32000 among letters, digits and spaces. */
static ch_status try_all_characters(trial *t) {
  for (uint32_t c = 1; c < 0x32000 && t->same; c++) {
    const uint32_t text[] = {'a', c, c, ' ', c, 'b', '1', c};
    if (c < 0xd800 || c >= 0xe000) CH_TRY(try_characters(t, text, 8));
  }
  return CH_OK;
}

static ch_status try_everything(trial *t) {
  t->same = true;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && t->same; i++)
    CH_TRY(try_text(t, texts[i], strlen(texts[i])));
  if (t->same) CH_TRY(try_triples(t));
  if (t->same) CH_TRY(try_runs(t));
  if (t->same) CH_TRY(try_contractions(t));
  if (t->same) CH_TRY(try_random(t));
  return t->same ? try_all_characters(t) : CH_OK;
}

static ch_status cuts_alike(ch_encoder *given, const ch_word_rule *rule, bool *same, ch_error *error) {
  ch_tokenizer *other;
  trial t = {.given = given, .error = error};
  CH_TRY(ch_word_rule_open(rule, &other, error));
  ch_status status = ch_encoder_new(other, &t.rule, error);
  if (status == CH_OK) status = try_everything(&t);
  *same = status == CH_OK && t.same;
  ch_text_free(&t.a);
  ch_text_free(&t.b);
  ch_encoder_free(t.rule);
  ch_tokenizer_free(other);
  return status;
}

ch_status ch_word_rule_like(const ch_tokenizer *tokenizer, bool normalize, const ch_word_rule **rule,
                            ch_error *error) {
  bool whole = tokenizer->ignore_merges;
  ch_encoder *given;
  *rule = NULL;
  CH_TRY(ch_encoder_new(tokenizer, &given, error));
  ch_status status = CH_OK;
  for (int i = 0; i < ch_word_rule_count() && status == CH_OK; i++) {
    const ch_word_rule *next = ch_word_rule_at(i);
    bool same = false;
    if (next->ignore_merges != whole || (*rule && next->normalize != normalize)) continue;
    status = cuts_alike(given, next, &same, error);
    if (same) *rule = next;
    if (same && next->normalize == normalize) break;
  }
  ch_encoder_free(given);
  return status;
}

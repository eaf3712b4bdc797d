/* Tests the tokenizer trainer against a plain one and against a reference, and that its output is a tokenizer
 * that works. */
#include "text_test.h"

#include <jansson.h>

#include "text/bpe_train.h"

static ch_split gpt2_split(void) {
  ch_split split;
  ch_error error;
  ASSERT_OK(ch_split_compile(&split, ch_pattern_gpt2, strlen(ch_pattern_gpt2), false, CH_SPLIT_ISOLATED,
                             false, "test", &error));
  return split;
}

/* A plain trainer: tokens are byte strings, words are lists of tokens, and everything is counted anew for
   every merge. */
enum { MOST_TOKENS = 420, MOST_WORDS = 400, LONGEST = 48 };
typedef struct plain_trainer {
  unsigned char bytes[MOST_TOKENS][LONGEST + 1]; /* a token's length, then its bytes */
  int tokens;
  int32_t words[MOST_WORDS][LONGEST];
  int sizes[MOST_WORDS];
  int64_t counts[MOST_WORDS];
  int word_count;
} plain_trainer;

static int compare_tokens(const plain_trainer *t, int a, int b) {
  int x = t->bytes[a][0], y = t->bytes[b][0];
  int order = memcmp(t->bytes[a] + 1, t->bytes[b] + 1, (size_t)(x < y ? x : y));
  return order ? order : x - y;
}

static bool best_pair(const plain_trainer *t, int *left, int *right) {
  static int64_t counts[MOST_TOKENS][MOST_TOKENS];
  int64_t best = 0;
  memset(counts, 0, sizeof counts);
  for (int w = 0; w < t->word_count; w++)
    for (int i = 0; i + 1 < t->sizes[w]; i++) counts[t->words[w][i]][t->words[w][i + 1]] += t->counts[w];
  for (int a = 0; a < t->tokens; a++)
    for (int b = 0; b < t->tokens; b++) {
      if (counts[a][b] == 0 || counts[a][b] < best) continue;
      int order = counts[a][b] > best ? 1 : compare_tokens(t, a, *left);
      if (order == 0) order = compare_tokens(t, b, *right);
      if (order <= 0) continue;
      best = counts[a][b];
      *left = a;
      *right = b;
    }
  return best > 0;
}

static int joined(plain_trainer *t, int left, int right) {
  unsigned char *bytes = t->bytes[t->tokens];
  bytes[0] = (unsigned char)(t->bytes[left][0] + t->bytes[right][0]);
  memcpy(bytes + 1, t->bytes[left] + 1, t->bytes[left][0]);
  memcpy(bytes + 1 + t->bytes[left][0], t->bytes[right] + 1, t->bytes[right][0]);
  for (int i = 0; i < t->tokens; i++)
    if (compare_tokens(t, i, t->tokens) == 0) return i;
  return t->tokens++;
}

static void check_training(const ch_word_counts *words, int vocab_size) {
  static plain_trainer t;
  ch_tokenizer_train_settings settings = {.vocab_size = vocab_size, .min_count = 1};
  ch_bpe_merges merges;
  ch_error error;
  ASSERT_OK(ch_bpe_find_merges(words, &settings, &merges, &error));
  t.tokens = 257;
  for (int i = 0; i < 256; i++) t.bytes[i][0] = 1, t.bytes[i][1] = (unsigned char)i;
  t.bytes[256][0] = 0; /* the end token, which no word contains */
  t.word_count = (int)words->count;
  for (int w = 0; w < t.word_count; w++) {
    t.sizes[w] = (int)words->words[w].size;
    t.counts[w] = words->words[w].count;
    for (int i = 0; i < t.sizes[w]; i++)
      t.words[w][i] = (unsigned char)words->pool.data[words->words[w].at + (size_t)i];
  }
  int ids[MOST_TOKENS]; /* the plain trainer's token of each id */
  for (int character = 0, id = CH_BPE_FIRST_BYTE; character < 512; character++) {
    static const int gaps[] = {0, 33, 127, 161, 173, 174};
    int byte = character < 256
                   ? ((character >= gaps[1] && character < gaps[2]) ||
                              (character >= gaps[3] && character < gaps[4]) || (character >= gaps[5])
                          ? character
                          : -1)
               : character < 289  ? character - 256
               : character < 323  ? character - 289 + 127
               : character == 323 ? 173
                                  : -1;
    if (byte >= 0) ids[id++] = byte;
  }
  for (int i = 0, left = 0, right = 0; t.tokens < vocab_size; i++) {
    if (!best_pair(&t, &left, &right)) {
      assert_int_equal(merges.count, i);
      break;
    }
    int id = joined(&t, left, right);
    assert_true(i < merges.count);
    assert_int_equal(ids[merges.merges[i].left], left);
    assert_int_equal(ids[merges.merges[i].right], right);
    ids[merges.merges[i].id] = id;
    for (int w = 0; w < t.word_count; w++) {
      int kept = 0;
      for (int j = 0; j < t.sizes[w]; j++) {
        bool here = j + 1 < t.sizes[w] && t.words[w][j] == left && t.words[w][j + 1] == right;
        t.words[w][kept++] = here ? id : t.words[w][j];
        j += here;
      }
      t.sizes[w] = kept;
    }
  }
  assert_int_equal(merges.vocab_size, t.tokens);
  ch_bpe_merges_free(&merges);
}

static void merges_are_those_of_a_plain_trainer(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 31, 0);
  for (int round = 0; round < 12; round++) {
    ch_word_counts words = {0};
    for (int w = 0; w < 120; w++) { /* few letters: many ties and overlaps */
      char word[LONGEST];
      size_t size = 1 + ch_random_below(&random, round % 2 ? 6 : 20);
      for (size_t i = 0; i < size; i++) word[i] = "ab\xc3"[ch_random_below(&random, 1 + (uint64_t)round % 3)];
      assert_true(ch_word_counts_add(&words, word, size, 1 + (int64_t)ch_random_below(&random, 4)));
    }
    check_training(&words, 257 + 60);
    ch_word_counts_free(&words);
  }
}

/* Returns a text of more than two chunks. */
static ch_text long_text(ch_random *random) {
  ch_text text = {0}, piece = {0};
  while (text.size < (9u << 20)) {
    random_text(random, 2000, 0, &piece);
    ch_text_puts(&piece, " and some words\n");
    ch_text_put(&text, piece.data, piece.size);
  }
  ch_text_free(&piece);
  return text;
}

/* Fails unless both have equal words and counts. Sets the counts of `many` to 0. */
static void assert_same_counts(const ch_word_counts *one, ch_word_counts *many) {
  assert_int_equal(one->count, many->count);
  for (size_t i = 0; i < one->count; i++) { /* subtracting a count must not add a word */
    const ch_counted_word *word = &one->words[i];
    assert_true(ch_word_counts_add(many, one->pool.data + word->at, word->size, -word->count));
    assert_int_equal(many->count, one->count);
  }
  for (size_t i = 0; i < many->count; i++) assert_int_equal(many->words[i].count, 0);
}

static void words_are_counted_alike_in_one_piece_and_in_many(void **state) {
  (void)state;
  char *directory = new_directory();
  ch_random random;
  ch_error error;
  ch_word_counts many = {0}, one = {0};
  ch_split split = gpt2_split();
  ch_random_seed(&random, 37, 0);
  ch_text text = long_text(&random);
  char *path = write_beside(directory, "text", text.data, text.size);
  ch_text_file file;
  ASSERT_OK(ch_text_file_open(&file, path, &error));
  ASSERT_OK(ch_word_counts_text(&many, &split, &file, NULL, "<|endoftext|>", NULL, &error));
  ch_regex_scratch scratch = {0};
  ASSERT_OK(ch_regex_scratch_open(&scratch, &error));
  for (const char *p = text.data, *end = p + text.size; p < end;) {
    const char *marker = p; /* not strstr, which the sanitizers make quadratic */
    while ((marker = memchr(marker, '<', (size_t)(end - marker))) &&
           strncmp(marker, "<|endoftext|>", 13) != 0)
      marker++;
    ch_split_cursor cursor;
    const unsigned char *word;
    size_t size;
    ch_split_begin(&cursor, &split, &scratch, p, (size_t)((marker ? marker : end) - p));
    for (;;) {
      ASSERT_OK(ch_split_next(&cursor, &word, &size, &error));
      if (size == 0) break;
      assert_true(ch_word_counts_add(&one, (const char *)word, size, 1));
    }
    p = marker ? marker + 13 : end;
  }
  assert_same_counts(&one, &many);
  ch_regex_scratch_close(&scratch);
  ch_text_file_close(&file);
  ch_split_free(&split);
  ch_word_counts_free(&one);
  ch_word_counts_free(&many);
  ch_text_free(&text);
  unlink(path);
  free(path);
  remove_directory(directory);
}

static void count_file(ch_word_counts *counts, const char *path, const ch_text_spans *left_out) {
  ch_error error;
  ch_text_file file;
  ch_split split = gpt2_split();
  ASSERT_OK(ch_text_file_open(&file, path, &error));
  ASSERT_OK(ch_word_counts_text(counts, &split, &file, left_out, "<|endoftext|>", NULL, &error));
  ch_text_file_close(&file);
  ch_split_free(&split);
}

/* Returns the start of a character at or after `place`. */
static size_t next_character(const ch_text *text, size_t place) {
  while (place < text->size && ((unsigned char)text->data[place] & 0xc0) == 0x80) place++;
  return place;
}

/* A span that is left out separates words like a border between documents. */
static void words_that_are_left_out_are_not_counted(void **state) {
  (void)state;
  char *directory = new_directory();
  ch_random random;
  ch_text_spans *spans = calloc(1, sizeof *spans);
  ch_word_counts with_spans = {0}, of_the_rest = {0};
  ch_random_seed(&random, 41, 0);
  ch_text text = long_text(&random), rest = {0};
  for (size_t place = 0; place < text.size;) { /* some neighbours touch; one is longer than a chunk */
    size_t begin = place + (ch_random_below(&random, 4) ? ch_random_below(&random, 200000) : 0);
    size_t size = spans->count == 20 ? 5u << 20 : 1 + ch_random_below(&random, 3000), end = begin + size;
    begin = next_character(&text, begin), end = next_character(&text, end);
    if (end >= text.size)
      begin = text.size - 1000 > place ? next_character(&text, text.size - 1000) : place, end = text.size;
    assert_true(ch_text_spans_add(spans, begin, end));
    ch_text_put(&rest, text.data + place, begin - place);
    ch_text_puts(&rest, "<|endoftext|>");
    place = end;
  }
  assert_true(spans->count > 21);
  char *path = write_beside(directory, "text", text.data, text.size);
  char *rest_path = write_beside(directory, "rest", rest.data, rest.size);
  count_file(&with_spans, path, spans);
  count_file(&of_the_rest, rest_path, NULL);
  assert_same_counts(&of_the_rest, &with_spans);
  ch_text_spans_free(spans, 1);
  ch_word_counts_free(&with_spans);
  ch_word_counts_free(&of_the_rest);
  ch_text_free(&text);
  ch_text_free(&rest);
  unlink(path);
  unlink(rest_path);
  free(path);
  free(rest_path);
  remove_directory(directory);
}

static void a_trained_tokenizer_works_and_does_not_depend_on_threads(void **state) {
  (void)state;
  char *directory = new_directory(), *out = ch_path_join(directory, "tokenizer.json");
  ch_random random;
  ch_text text = {0}, back = {0};
  ch_error error;
  ch_ids ids = {0};
  ch_tokenizer_report report;
  ch_tokenizer_train_settings settings = {.vocab_size = 400, .min_count = 2};
  ch_random_seed(&random, 41, 0);
  random_text(&random, 20000, 0, &text);
  char *path = write_beside(directory, "text", text.data, text.size);
  ASSERT_OK(ch_bpe_train((const char *const[]){path}, 1, NULL, &settings, out, &report, &error));
  assert_int_equal(report.vocab_size, 400);
  assert_int_equal(report.text_bytes, text.size);
  ch_tokenizer *tokenizer = open_tokenizer(out);
  assert_int_equal(ch_tokenizer_vocab_size(tokenizer), 400);
  assert_int_equal(ch_tokenizer_eos(tokenizer), 0);
  encode(tokenizer, text.data, text.size, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids);
  assert_true(ids.size < text.size / 2);
  ASSERT_OK(ch_tokenizer_put_text(tokenizer, ids.data, ids.size, false, &back, &error));
  assert_int_equal(back.size, text.size);
  assert_memory_equal(back.data, text.data, text.size);
  /* The text as two files gives an equal tokenizer. */
  size_t half = text.size / 2;
  while (memcmp(text.data + half, "the", 3) != 0 || text.data[half - 1] != '\n') half--;
  char *first = write_beside(directory, "first", text.data, half);
  char *second = write_beside(directory, "second", text.data + half, text.size - half);
  uint64_t fingerprint = ch_tokenizer_fingerprint(tokenizer);
  ch_tokenizer_free(tokenizer);
  ASSERT_OK(ch_bpe_train((const char *const[]){first, second}, 2, NULL, &settings, out, &report, &error));
  tokenizer = open_tokenizer(out);
  assert_true(ch_tokenizer_fingerprint(tokenizer) == fingerprint);
  ch_tokenizer_free(tokenizer);
  ch_ids_free(&ids);
  ch_text_free(&text);
  ch_text_free(&back);
  free(first);
  free(second);
  free(path);
  free(out);
  remove_directory(directory);
}

static bool stop_at_once(const char *stage, double share, void *user) {
  (void)stage, (void)share, (void)user;
  return false;
}

static void what_cannot_be_trained_on_is_explained(void **state) {
  (void)state;
  char *directory = new_directory(), *out = ch_path_join(directory, "tokenizer.json");
  char *empty = write_beside(directory, "empty", "", 0),
       *binary = write_beside(directory, "binary", "\0\1\2\0\xff", 5);
  char *few = write_beside(directory, "few", "aa aa aa", 8);
  ch_tokenizer_train_settings settings = {.vocab_size = 300};
  ch_tokenizer_report report;
  ch_error error;
  ASSERT_FAILS(ch_bpe_train((const char *const[]){empty}, 1, NULL, &settings, out, &report, &error),
               CH_ERROR_FORMAT, "empty");
  ASSERT_FAILS(ch_bpe_train((const char *const[]){binary}, 1, NULL, &settings, out, &report, &error),
               CH_ERROR_FORMAT, "not text");
  ASSERT_FAILS(ch_bpe_train((const char *const[]){directory}, 1, NULL, &settings, out, &report, &error),
               CH_ERROR_IO, "directory");
  settings.vocab_size = 256;
  ASSERT_FAILS(ch_bpe_train((const char *const[]){few}, 1, NULL, &settings, out, &report, &error),
               CH_ERROR_ARGUMENT, "257");
  settings.vocab_size = 300;
  settings.progress = stop_at_once;
  ASSERT_FAILS(ch_bpe_train((const char *const[]){few}, 1, NULL, &settings, out, &report, &error),
               CH_ERROR_INTERRUPTED, "stopped");
  assert_false(ch_is_file(out));
  settings.progress = NULL;
  ASSERT_OK(ch_bpe_train((const char *const[]){few}, 1, NULL, &settings, out, &report, &error));
  assert_int_equal(report.vocab_size, 259); /* after "aa" and " aa" there are no more pairs */
  free(empty);
  free(binary);
  free(few);
  free(out);
  remove_directory(directory);
}

static void the_reference_training_is_reproduced(void **state) {
  (void)state;
#define REFERENCE SHARED_DATA "/data/reference/bpe_training/"
  SKIP_UNLESS(REFERENCE "corpus.en");
  char *directory = new_directory(), *out = ch_path_join(directory, "tokenizer.json"), *merges;
  ch_tokenizer_train_settings settings = {.vocab_size = 500, .min_count = 1};
  ch_tokenizer_report report;
  ch_error error;
  json_error_t problem;
  ASSERT_OK(
      ch_bpe_train((const char *const[]){REFERENCE "corpus.en"}, 1, NULL, &settings, out, &report, &error));
  json_t *json = json_load_file(out, 0, &problem), *model = json_object_get(json, "model");
  json_t *vocab = json_load_file(REFERENCE "train-bpe-reference-vocab.json", 0, &problem);
  assert_true(json_equal(json_object_get(model, "vocab"), vocab));
  ASSERT_OK(ch_read_file(REFERENCE "train-bpe-reference-merges.txt", 1 << 20, &merges, NULL, &error));
  char *line = merges;
  size_t i;
  json_t *pair;
  json_array_foreach(json_object_get(model, "merges"), i, pair) {
    char expected[256];
    snprintf(expected, sizeof expected, "%s %s\n", json_string_value(json_array_get(pair, 0)),
             json_string_value(json_array_get(pair, 1)));
    assert_memory_equal(line, expected, strlen(expected));
    line += strlen(expected);
  }
  assert_int_equal(*line, 0);
  json_decref(json);
  json_decref(vocab);
  free(merges);
  free(out);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(merges_are_those_of_a_plain_trainer),
      cmocka_unit_test(words_are_counted_alike_in_one_piece_and_in_many),
      cmocka_unit_test(words_that_are_left_out_are_not_counted),
      cmocka_unit_test(a_trained_tokenizer_works_and_does_not_depend_on_threads),
      cmocka_unit_test(what_cannot_be_trained_on_is_explained),
      cmocka_unit_test(the_reference_training_is_reproduced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests the division of texts into training and validation: a tokenizer's training leaves out exactly what
 * the models never see. */
#include "text_test.h"

#include <math.h>

#include "text/division.h"

typedef struct scene {
  char *directory, *paths[2];
} scene;

static void begin(scene *s, const char *first, const char *second) {
  ch_error error;
  const char *const texts[] = {first, second};
  s->directory = new_directory();
  for (int i = 0; i < 2; i++) {
    s->paths[i] = ch_path_join(s->directory, i ? "second" : "first");
    ASSERT_OK(ch_write_file(s->paths[i], texts[i], strlen(texts[i]), &error));
  }
}

static void end(scene *s) {
  for (int i = 0; i < 2; i++) {
    unlink(s->paths[i]);
    free(s->paths[i]);
  }
  remove_directory(s->directory);
}

/* Iterates over both texts and checks that each part follows the previous one in whole characters and that
   the spans are the validation parts. Returns the bytes of validation. */
static size_t check(const scene *s, const ch_corpus_options *options, size_t *all) {
  ch_error error;
  ch_division division;
  ch_text_spans *spans = NULL;
  size_t validate = 0;
  *all = 0;
  ASSERT_OK(ch_division_open(&division, (const char *const *)s->paths, 2, options, &error));
  ASSERT_OK(ch_division_validation(&division, &spans, &error));
  for (int i = 0; i < 2; i++) {
    const ch_text_file *file = &division.texts[i].file;
    ch_division_walk walk = {0};
    size_t reached = 0, seen = 0;
    for (ch_text_part part; ch_division_next(&division, i, &walk, &part); *all += part.size) {
      size_t first = (size_t)(part.text - file->text);
      assert_true(part.size > 0 && first >= reached && first + part.size <= file->size);
      assert_true(((unsigned char)part.text[0] & 0xc0) != 0x80);
      reached = first + part.size;
      if (part.split != CH_SPLIT_VALIDATION) continue;
      validate += part.size;
      assert_true(seen < spans[i].count);
      assert_int_equal(spans[i].span[seen].begin, first);
      assert_int_equal(spans[i].span[seen++].end, reached);
    }
    assert_int_equal(seen, spans[i].count);
  }
  ch_text_spans_free(spans, 2);
  ch_division_close(&division);
  return validate;
}

static void the_tail_of_few_documents_validates(void **state) {
  (void)state;
  scene s;
  size_t all;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  /* 35 and 54 bytes; the second text has no line to cut after, and characters of three bytes. */
  begin(&s, "one line\nand another line of words\n",
        "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac"
        "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac");
  options.validation = 0.5; /* from byte 44 on: the second text's fourth character */
  assert_int_equal(check(&s, &options, &all), 54 - 9);
  assert_int_equal(all, 89);
  options.validation = 0.05; /* from byte 84 on, which is inside the seventeenth */
  assert_int_equal(check(&s, &options, &all), 54 - 48);
  options.validation = 0;
  assert_int_equal(check(&s, &options, &all), 0);
  end(&s);
  /* The cut is after the line in which the validation part would begin. */
  begin(&s, "a\n", "one line\nand another line\nand a third\n");
  options.validation = 0.5;
  assert_int_equal(check(&s, &options, &all), sizeof "and a third\n" - 1);
  end(&s);
}

static void of_many_documents_whole_ones_validate(void **state) {
  (void)state;
  scene s;
  size_t all;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_text texts[2] = {{0}, {0}};
  for (int d = 0; d < 40; d++) /* eight bytes each */
    ch_text_printf(&texts[d % 2], "text %03d<|endoftext|>\n", d);
  begin(&s, texts[0].data, texts[1].data);
  options.validation = 0.25;
  assert_int_equal(check(&s, &options, &all), 10 * 8);
  assert_int_equal(all, 40 * 8);
  end(&s);
  for (int i = 0; i < 2; i++) ch_text_free(&texts[i]);
}

/* Returns the share of validation bytes, in percent, for documents of `sizes`; those of equal `kinds` are
   equal. */
static double share_of(int count, const int *sizes, const int *kinds, double validation) {
  scene s;
  size_t all;
  ch_corpus_options options;
  ch_text text = {0};
  ch_corpus_options_default(&options);
  options.validation = validation;
  for (int d = 0; d < count; d++) {
    ch_text_printf(&text, "%s%04d", d ? "<|endoftext|>" : "", kinds[d]);
    for (int i = 4; i < sizes[d]; i++) ch_text_puts(&text, i % 60 == 59 && i + 1 < sizes[d] ? "\n" : "x");
  }
  begin(&s, text.data, "<|endoftext|>");
  double share = 100.0 * (double)check(&s, &options, &all) / (double)all;
  end(&s);
  ch_text_free(&text);
  return share;
}

static void assert_share(double found, double wanted, double off) {
  if (!(fabs(found - wanted) <= off)) fail_msg("%.2f %% validate where %.2f are wanted", found, wanted);
}

enum { MOST = 300 };

static void the_share_is_of_bytes_whatever_the_documents_sizes(void **state) {
  (void)state;
  int sizes[MOST], kinds[MOST];
  /* One document of 400 kB is first, in the middle or last among 40 of 200 bytes. */
  for (int place = 0; place <= 40; place += 20)
    for (int wanted = 1; wanted <= 50; wanted *= 7) {
      for (int d = 0; d < 41; d++) {
        sizes[d] = d == place ? 400000 : 200;
        kinds[d] = d;
      }
      assert_share(share_of(41, sizes, kinds, wanted / 100.0), wanted, 0.3);
    }
  for (int seed = 0; seed < 5; seed++) { /* sizes over three powers of ten */
    ch_random random;
    ch_random_seed(&random, (uint64_t)seed, 5);
    for (int d = 0; d < MOST; d++) {
      sizes[d] = (int)(100 * exp(6.9 * pow(ch_random_uniform(&random), 3)));
      kinds[d] = d;
    }
    assert_share(share_of(MOST, sizes, kinds, 0.05), 5, 1.3);
    assert_share(share_of(MOST, sizes, kinds, 0.2), 20, 5);
  }
}

static void equal_documents_go_to_one_side(void **state) {
  (void)state;
  int sizes[MOST], kinds[MOST];
  for (int equal = 39; equal <= 99; equal += 20) { /* equal ones of 100 documents of 300 bytes */
    for (int d = 0; d < 100; d++) {
      sizes[d] = 300;
      kinds[d] = d * 37 % 100 < equal ? 0 : d;
    }
    double share = share_of(100, sizes, kinds, 0.05);
    assert_share(share, 5, equal < 99 ? 2.5 : 0.3); /* with 99, the tail of the text validates */
  }
  for (int d = 0; d < 100; d++) kinds[d] = 0;
  assert_share(share_of(100, sizes, kinds, 0.05), 5, 0.3);
  for (int d = 0; d < 100; d++) kinds[d] = d / 2; /* pairs */
  double pairs = share_of(100, sizes, kinds, 0.05) * 100 * 300 / 100 / 600;
  assert_true(fabs(pairs - round(pairs)) < 1e-9 && pairs > 1);
}

static void spans_are_found_by_place(void **state) {
  (void)state;
  ch_text_spans *spans = calloc(1, sizeof *spans);
  assert_int_equal(ch_text_spans_find(spans, 0), 0);
  for (size_t i = 0; i < 100; i++) assert_true(ch_text_spans_add(spans, 10 * i, 10 * i + 4));
  for (size_t place = 0; place < 1000; place++)
    assert_int_equal(ch_text_spans_find(spans, place), place / 10 + (place % 10 >= 4));
  ch_text_spans_free(spans, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_tail_of_few_documents_validates),
      cmocka_unit_test(of_many_documents_whole_ones_validate),
      cmocka_unit_test(the_share_is_of_bytes_whatever_the_documents_sizes),
      cmocka_unit_test(equal_documents_go_to_one_side),
      cmocka_unit_test(spans_are_found_by_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

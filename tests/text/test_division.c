/* Which parts of texts train and which validate: what is left out of a tokenizer's training is what the models never see. */
#include "text_test.h"

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

/* Goes through both texts. Returns how many bytes validate; each part lies behind the one before and is whole characters,
   and the spans are the parts that validate. */
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
  begin(&s, "a\n", "one line\nand another line\nand a third\n"); /* after the line in which it begins */
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
  for (int d = 0; d < 40; d++) /* of eight bytes each */
    ch_text_printf(&texts[d % 2], "text %03d<|endoftext|>\n", d);
  begin(&s, texts[0].data, texts[1].data);
  options.validation = 0.25;
  assert_int_equal(check(&s, &options, &all), 10 * 8);
  assert_int_equal(all, 40 * 8);
  end(&s);
  for (int i = 0; i < 2; i++) ch_text_free(&texts[i]);
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
      cmocka_unit_test(spans_are_found_by_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests tokenizers against the ids of Hugging Face's tokenizers and SentencePiece, on small vocabularies in
 * tests/data. */
#include "text_test.h"

#include <jansson.h>

#define HERE TEST_DATA "/text/"

static json_t *load_json(const char *path) {
  json_error_t problem;
  json_t *json = json_load_file(path, 0, &problem);
  if (!json) fail_msg("%s: %s", path, problem.text);
  return json;
}

/* Returns the base tokenizer with some of its parts replaced. */
static ch_tokenizer *patched(const char *base, const json_t *patch) {
  char path[256];
  snprintf(path, sizeof path, HERE "%s.json", base);
  json_t *json = load_json(path), *value;
  const char *key;
  json_object_foreach((json_t *)patch, key, value) {
    if (strcmp(key, "model") == 0)
      json_object_update(json_object_get(json, key), value);
    else
      json_object_set(json, key, value);
  }
  char *text = json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII);
  ch_tokenizer *tokenizer;
  ch_error error;
  ASSERT_OK(ch_tokenizer_from_json(text, strlen(text), base, &tokenizer, &error));
  free(text);
  json_decref(json);
  return tokenizer;
}

static void check_ids(const char *name, const char *text, size_t size, const ch_ids *ids,
                      const json_t *expected) {
  bool same = ids->size == json_array_size(expected);
  for (size_t i = 0; same && i < ids->size; i++)
    same = ids->data[i] == json_integer_value(json_array_get(expected, i));
  if (same) return;
  ch_text shown = {0};
  for (size_t i = 0; i < ids->size; i++) ch_text_printf(&shown, " %d", ids->data[i]);
  char *wanted = json_dumps(expected, JSON_COMPACT);
  fail_msg("%s: \"%.*s\" gives%s, not %s", name, (int)size, text, shown.data ? shown.data : " nothing",
           wanted);
}

static void ids_are_those_of_the_reference_for_every_kind_of_tokenizer(void **state) {
  (void)state;
  json_t *variants = load_json(HERE "encodings.json"), *variant, *entry;
  size_t i, j;
  ch_ids ids = {0};
  assert_true(json_array_size(variants) > 20);
  json_array_foreach(variants, i, variant) {
    const char *name = json_string_value(json_object_get(variant, "name"));
    ch_tokenizer *tokenizer =
        patched(json_string_value(json_object_get(variant, "base")), json_object_get(variant, "patch"));
    json_array_foreach(json_object_get(variant, "cases"), j, entry) {
      const json_t *text = json_array_get(entry, 0);
      unsigned flags = (json_is_true(json_array_get(entry, 2)) ? CH_TEXT_SPECIAL : 0) |
                       (json_is_true(json_array_get(entry, 3)) ? CH_TEXT_WHOLE : CH_TEXT_BARE);
      encode(tokenizer, json_string_value(text), json_string_length(text), flags, &ids);
      check_ids(name, json_string_value(text), json_string_length(text), &ids, json_array_get(entry, 1));
      encode(tokenizer, json_string_value(text), json_string_length(text), flags | CH_TEXT_NO_SCANNER, &ids);
      check_ids(name, json_string_value(text), json_string_length(text), &ids, json_array_get(entry, 1));
    }
    ch_tokenizer_free(tokenizer);
  }
  ch_ids_free(&ids);
  json_decref(variants);
}

static void a_tokenizer_bin_encodes_as_the_same_pieces_in_a_tokenizer_json(void **state) {
  (void)state;
  ch_tokenizer *bin = open_tokenizer(HERE "spm.bin"), *json = open_tokenizer(HERE "spm.json");
  ch_ids a = {0}, b = {0};
  ch_text text = {0}, back = {0};
  ch_random random;
  ch_error error;
  ch_random_seed(&random, 3, 0);
  assert_int_equal(ch_tokenizer_vocab_size(bin), ch_tokenizer_vocab_size(json));
  assert_int_equal(ch_tokenizer_bos(bin), 1);
  assert_int_equal(ch_tokenizer_eos(bin), 2);
  assert_int_equal(ch_tokenizer_eos(json), 2);
  assert_true(ch_tokenizer_adds_bos(bin) && ch_tokenizer_adds_bos(json));
  for (int i = 0; i < 400; i++) {
    random_text(&random, ch_random_below(&random, 40), i % 2, &text);
    for (char *p; (p = strstr(text.data, "▁"));) memcpy(p, "zzz", 3); /* formats treat the mark differently */
    encode(bin, text.data, text.size, CH_TEXT_WHOLE, &a);
    encode(json, text.data, text.size, CH_TEXT_WHOLE, &b);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size * sizeof *a.data);
    back.size = 0;
    ASSERT_OK(ch_tokenizer_put_text(bin, a.data, a.size, true, &back, &error));
    assert_int_equal(back.size, text.size);
    if (text.size) assert_memory_equal(back.data, text.data, text.size);
  }
  ch_ids_free(&a);
  ch_ids_free(&b);
  ch_text_free(&text);
  ch_text_free(&back);
  ch_tokenizer_free(bin);
  ch_tokenizer_free(json);
}

static void byte_level_text_comes_back_exactly_whatever_its_bytes(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = open_tokenizer(HERE "bytelevel.json");
  ch_ids ids = {0};
  ch_text text = {0}, whole = {0}, streamed = {0};
  ch_random random;
  ch_error error;
  ch_random_seed(&random, 5, 0);
  for (int i = 0; i < 400; i++) {
    random_text(&random, ch_random_below(&random, 60), 1, &text);
    for (int j = 0; i % 4 == 0 && j < 20; j++) {
      char byte = (char)ch_random_below(&random, 256);
      ch_text_put(&text, &byte, 1);
    }
    encode(tokenizer, text.data, text.size, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids);
    whole.size = streamed.size = 0;
    ASSERT_OK(ch_tokenizer_put_text(tokenizer, ids.data, ids.size, false, &whole, &error));
    ch_decode_stream stream = {0};
    for (size_t j = 0; j < ids.size; j++)
      ASSERT_OK(ch_decode_next(tokenizer, &stream, ids.data[j], false, &streamed, &error));
    ch_decode_finish(&stream, &streamed);
    assert_int_equal(whole.size, text.size);
    assert_int_equal(streamed.size, text.size);
    if (text.size) assert_memory_equal(whole.data, text.data, text.size);
    if (text.size) assert_memory_equal(streamed.data, text.data, text.size);
  }
  ch_ids_free(&ids);
  ch_text_free(&text);
  ch_text_free(&whole);
  ch_text_free(&streamed);
  ch_tokenizer_free(tokenizer);
}

static void streaming_never_gives_half_a_character(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = open_tokenizer(HERE "bytelevel.json");
  static const char text[] = "é😀日\x80ok";
  static const size_t shown[] = {0, 2, 2, 2, 2, 6, 6, 6, 9, 10, 11, 12}; /* after each byte's token */
  ch_ids ids = {0};
  ch_text out = {0};
  ch_error error;
  ch_decode_stream stream = {0};
  for (size_t i = 0; text[i]; i++) {
    encode(tokenizer, text + i, 1, CH_TEXT_BARE, &ids);
    assert_int_equal(ids.size, 1);
    ASSERT_OK(ch_decode_next(tokenizer, &stream, ids.data[0], true, &out, &error));
    assert_int_equal(out.size, shown[i]);
  }
  ch_ids_free(&ids);
  ch_text_free(&out);
  ch_tokenizer_free(tokenizer);
}

static void special_tokens_are_seen_only_on_request_and_can_be_left_out(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = open_tokenizer(HERE "bytelevel.json");
  const char *text = "a<|endoftext|>b";
  ch_ids ids = {0};
  ch_text out = {0};
  ch_error error;
  encode(tokenizer, text, strlen(text), CH_TEXT_BARE, &ids);
  for (size_t i = 0; i < ids.size; i++) assert_false(ch_tokenizer_is_special(tokenizer, ids.data[i]));
  encode(tokenizer, text, strlen(text), CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids);
  assert_int_equal(ids.size, 3);
  assert_int_equal(ids.data[1], ch_tokenizer_eos(tokenizer));
  assert_true(ch_tokenizer_is_special(tokenizer, ids.data[1]));
  ASSERT_OK(ch_tokenizer_put_text(tokenizer, ids.data, ids.size, true, &out, &error));
  assert_string_equal(out.data, "ab");
  ASSERT_FAILS(ch_tokenizer_put_text(tokenizer, (int32_t[]){512}, 1, true, &out, &error), CH_ERROR_ARGUMENT,
               "512");
  ASSERT_FAILS(ch_tokenizer_put_text(tokenizer, (int32_t[]){-1}, 1, true, &out, &error), CH_ERROR_ARGUMENT,
               "-1");
  ch_ids_free(&ids);
  ch_text_free(&out);
  ch_tokenizer_free(tokenizer);
}

static void every_piece_is_found_by_its_id_and_every_id_by_its_piece(void **state) {
  (void)state;
  const char *const files[] = {HERE "bytelevel.json", HERE "spm.json", HERE "spm.bin"};
  for (size_t f = 0; f < 3; f++) {
    ch_tokenizer *tokenizer = open_tokenizer(files[f]);
    for (int32_t id = 0; id < ch_tokenizer_vocab_size(tokenizer); id++) {
      size_t size;
      const char *piece = ch_tokenizer_piece(tokenizer, id, &size);
      assert_non_null(piece);
      assert_int_equal(ch_tokenizer_find(tokenizer, piece, size), id);
    }
    assert_int_equal(ch_tokenizer_find(tokenizer, "no such piece", 13), -1);
    size_t size;
    assert_null(ch_tokenizer_piece(tokenizer, ch_tokenizer_vocab_size(tokenizer), &size));
    ch_tokenizer_free(tokenizer);
  }
}

static void many_threads_encode_with_one_tokenizer(void **state) {
  (void)state;
  const char *const files[] = {HERE "bytelevel.json", HERE "spm.json"};
  for (size_t f = 0; f < 2; f++) {
    ch_tokenizer *tokenizer = open_tokenizer(files[f]);
    ch_text text = {0};
    ch_random random;
    ch_random_seed(&random, 9, f);
    random_text(&random, 20000, 0, &text);
    ch_ids expected = {0};
    encode(tokenizer, text.data, text.size, CH_TEXT_BARE, &expected);
    int wrong = 0;
#pragma omp parallel for num_threads(8) reduction(+ : wrong)
    for (int i = 0; i < 16; i++) {
      ch_ids ids = {0};
      ch_error error;
      ch_status status = ch_tokenizer_encode(tokenizer, text.data, text.size, CH_TEXT_BARE, &ids, &error);
      wrong += status != CH_OK || ids.size != expected.size ||
               memcmp(ids.data, expected.data, ids.size * sizeof *ids.data) != 0;
      ch_ids_free(&ids);
    }
    assert_int_equal(wrong, 0);
    ch_ids_free(&expected);
    ch_text_free(&text);
    ch_tokenizer_free(tokenizer);
  }
}

static void an_encoder_with_a_warm_cache_gives_the_same_ids_as_a_fresh_one(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = open_tokenizer(HERE "bytelevel.json");
  ch_encoder *encoder;
  ch_error error;
  ch_ids warm = {0}, fresh = {0};
  ch_text text = {0};
  ch_random random;
  ch_random_seed(&random, 11, 0);
  ASSERT_OK(ch_encoder_new(tokenizer, &encoder, &error));
  for (int i = 0; i < 300; i++) {
    random_text(&random, 100, i % 2, &text);
    warm.size = 0;
    ASSERT_OK(ch_encoder_encode(encoder, text.data, text.size, CH_TEXT_BARE, &warm, &error));
    encode(tokenizer, text.data, text.size, CH_TEXT_BARE, &fresh);
    assert_int_equal(warm.size, fresh.size);
    assert_memory_equal(warm.data, fresh.data, warm.size * sizeof *warm.data);
  }
  ch_encoder_free(encoder);
  ch_ids_free(&warm);
  ch_ids_free(&fresh);
  ch_text_free(&text);
  ch_tokenizer_free(tokenizer);
}

static void a_text_cut_at_a_safe_place_keeps_its_ids(void **state) {
  (void)state;
  const char *const files[] = {HERE "bytelevel.json", HERE "spm.json", HERE "spm.bin"};
  for (size_t f = 0; f < 3; f++) {
    ch_tokenizer *tokenizer = open_tokenizer(files[f]);
    ch_encoder *encoder;
    ch_error error;
    ch_ids whole = {0}, parts = {0};
    ch_text text = {0};
    ch_random random;
    int cuts = 0;
    ch_random_seed(&random, 13, f);
    ASSERT_OK(ch_encoder_new(tokenizer, &encoder, &error));
    for (int i = 0; i < 200; i++) {
      random_text(&random, 300, 0, &text);
      ch_text_puts(&text, " some words to cut between");
      size_t cut, from = ch_random_below(&random, text.size);
      ASSERT_OK(ch_encoder_safe_cut(encoder, text.data, text.size, from, &cut, &error));
      assert_true(cut >= from && cut <= text.size);
      cuts += cut < text.size;
      encode(tokenizer, text.data, text.size, CH_TEXT_BARE, &whole);
      encode(tokenizer, text.data, cut, CH_TEXT_BARE, &parts);
      ASSERT_OK(ch_tokenizer_encode(tokenizer, text.data + cut, text.size - cut, 0, &parts, &error));
      assert_int_equal(whole.size, parts.size);
      assert_memory_equal(whole.data, parts.data, whole.size * sizeof *whole.data);
    }
    assert_true(cuts > 100);
    ch_encoder_free(encoder);
    ch_ids_free(&whole);
    ch_ids_free(&parts);
    ch_text_free(&text);
    ch_tokenizer_free(tokenizer);
  }
}

static void a_word_of_a_megabyte_is_encoded_like_a_short_one(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = open_tokenizer(HERE "bytelevel.json");
  enum { SIZE = 1 << 20 };
  char *word = malloc(SIZE);
  ch_ids unit = {0}, ids = {0};
  /* The run of letters is one word, and its ids repeat like its letters. */
  for (size_t i = 0; i < SIZE; i++) word[i] = "the"[i % 3];
  encode(tokenizer, word, 300, CH_TEXT_BARE, &unit);
  encode(tokenizer, word, SIZE / 3 * 3, CH_TEXT_BARE, &ids);
  assert_int_equal(unit.size * (SIZE / 3) / 100, ids.size);
  for (size_t i = 0; i < ids.size; i++) assert_int_equal(ids.data[i], unit.data[i % unit.size]);
  free(word);
  ch_ids_free(&unit);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void the_files_are_copied_beside_a_model(void **state) {
  (void)state;
  char *directory = new_directory(), *target = ch_path_join(directory, "model");
  ch_error error;
  static const char config[] =
      "{\"bos_token\": {\"content\": \"!\"}, \"eos_token\": \"he\", \"model_max_length\": "
      "1000000000000000019884624838656}";
  char *text;
  size_t size;
  ASSERT_OK(ch_make_directory(target, &error));
  ASSERT_OK(ch_read_file(HERE "bytelevel.json", 1 << 20, &text, &size, &error));
  char *json = write_beside(directory, "tokenizer.json", text, size);
  char *beside = write_beside(directory, "tokenizer_config.json", config, strlen(config));
  ch_tokenizer *tokenizer = open_tokenizer(directory);
  assert_int_equal(ch_tokenizer_bos(tokenizer), ch_tokenizer_find(tokenizer, "!", 1));
  assert_int_equal(ch_tokenizer_eos(tokenizer), ch_tokenizer_find(tokenizer, "he", 2));
  ASSERT_OK(ch_tokenizer_copy_to(tokenizer, target, &error));
  ch_tokenizer *copy = open_tokenizer(target);
  assert_true(ch_tokenizer_fingerprint(copy) == ch_tokenizer_fingerprint(tokenizer));
  assert_int_equal(ch_tokenizer_eos(copy), ch_tokenizer_eos(tokenizer));
  text[size / 2] ^= 1;
  ASSERT_OK(ch_write_file(json, text, size, &error));
  ASSERT_FAILS(ch_tokenizer_copy_to(tokenizer, target, &error), CH_ERROR_IO, "changed");
  ch_tokenizer_free(tokenizer);
  ch_tokenizer_free(copy);
  free(text);
  free(json);
  free(beside);
  free(target);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_those_of_the_reference_for_every_kind_of_tokenizer),
      cmocka_unit_test(a_tokenizer_bin_encodes_as_the_same_pieces_in_a_tokenizer_json),
      cmocka_unit_test(byte_level_text_comes_back_exactly_whatever_its_bytes),
      cmocka_unit_test(streaming_never_gives_half_a_character),
      cmocka_unit_test(special_tokens_are_seen_only_on_request_and_can_be_left_out),
      cmocka_unit_test(every_piece_is_found_by_its_id_and_every_id_by_its_piece),
      cmocka_unit_test(many_threads_encode_with_one_tokenizer),
      cmocka_unit_test(an_encoder_with_a_warm_cache_gives_the_same_ids_as_a_fresh_one),
      cmocka_unit_test(a_text_cut_at_a_safe_place_keeps_its_ids),
      cmocka_unit_test(a_word_of_a_megabyte_is_encoded_like_a_short_one),
      cmocka_unit_test(the_files_are_copied_beside_a_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

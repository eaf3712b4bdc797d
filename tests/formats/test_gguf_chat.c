/* Tests chats in GGUF files: the tokens that end a text or a turn, templates, and metadata in the different
 * types that converters write. */
#include "formats_testing.h"

#include "formats/chat_metadata.h"
#include "formats/pieces.h"
#include "gguf_building.h"

enum { KV_U8 = 0, KV_I32 = 5 };

static void put_list(ch_text *out, const char *key, int type, int count) {
  put_string(out, key);
  put_number(out, KV_ARRAY, 4);
  put_number(out, (uint64_t)type, 4);
  put_number(out, (uint64_t)count, 8);
}

/* Writes tokens, each of the kind that its first letter says: c, u or n (control, user, normal). */
static void put_tokens(ch_text *out, const char *const *tokens, int count) {
  put_list(out, "tokenizer.ggml.tokens", KV_STRING, count);
  for (int i = 0; i < count; i++) put_string(out, tokens[i] + 1);
  put_list(out, "tokenizer.ggml.token_type", KV_U32, count);
  for (int i = 0; i < count; i++) put_number(out, *tokens[i] == 'c' ? 3 : *tokens[i] == 'u' ? 4 : 1, 4);
}

static ch_status read_chat(const ch_text *values, int count, int64_t vocabulary, ch_chat_metadata *chat) {
  ch_text all = {0};
  ch_gguf file;
  put_header(&all, 3, 0, (uint64_t)count);
  ch_text_put(&all, values->data, values->size);
  must(ch_gguf_parse(all.data, all.size, "input", &file, &problem));
  ch_status status = ch_chat_from_gguf(&file, vocabulary, chat, &problem);
  ch_gguf_close(&file);
  ch_text_free(&all);
  return status;
}

static void assert_ends(const ch_chat_metadata *chat, int count, const int32_t *ends) {
  assert_int_equal(chat->end_count, count);
  assert_memory_equal(chat->ends, ends, (size_t)count * sizeof *ends);
}

static void every_key_that_names_an_end_counts(void **state) {
  (void)state;
  ch_text values = {0};
  ch_chat_metadata chat;
  put_u32(&values, "tokenizer.ggml.eos_token_id", 5);
  put_u32(&values, "tokenizer.ggml.eot_token_id", 9);
  put_u32(&values, "tokenizer.ggml.eom_token_id", 4294967295u); /* no such token */
  put_list(&values, "tokenizer.ggml.eos_token_ids", KV_I32, 4);
  for (int i = 0; i < 4; i++) put_number(&values, (uint64_t[]){9, 5, 2, 10}[i], 4);
  must(read_chat(&values, 4, 10, &chat));
  assert_ends(&chat, 3, (int32_t[]){5, 9, 2}); /* 10 is not a token */
  ch_chat_metadata_free(&chat);
  ch_text_free(&values);

  put_list(&values, "tokenizer.ggml.eos_token_ids", KV_F32, 1);
  put_number(&values, 0x3fc00000, 4);
  assert_int_equal(read_chat(&values, 1, 10, &chat), CH_ERROR_FORMAT);
  assert_non_null(strstr(problem.message, "eos_token_ids\" must be a list of whole numbers"));
  ch_chat_metadata_free(&chat);
  ch_text_free(&values);
}

static void special_tokens_end_turns_by_their_names(void **state) {
  (void)state;
  static const struct {
    const char *tokens[6];
    int32_t ends[4];
    int count;
  } cases[] = {
      {{"na", "c<|eot_id|>", "c<|end_of_text|>", "n<|im_end|>"}, {1, 2}, 2}, /* normal tokens end nothing */
      {{"na", "u<|im_end|>", "c<|im_start|>", "c<pad>"}, {1}, 1},
      {{"na", "c<|end|>", "c<|endoftext|>"}, {2, 1}, 2},
      {{"na", "c<|end|>", "c<|return|>", "c<|call|>"},
       {2, 3},
       2}, /* gpt-oss: <|end|> ends a part of a turn */
      {{"na", "c<end_of_turn>", "c<eos>"}, {1, 2}, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_text values = {0};
    ch_chat_metadata chat;
    int count = 0;
    while (count < 6 && cases[i].tokens[count]) count++;
    put_tokens(&values, cases[i].tokens, count);
    must(read_chat(&values, 2, count, &chat));
    assert_ends(&chat, cases[i].count, cases[i].ends);
    ch_chat_metadata_free(&chat);
    ch_text_free(&values);
  }
}

static void templates_are_read_by_name_and_written_back(void **state) {
  (void)state;
  ch_text values = {0}, config = {0}, generation = {0};
  ch_chat_metadata chat;
  put_text(&values, "tokenizer.chat_template", "{{ a }}\n\"\xc3\xa9\"");
  put_text(&values, "tokenizer.chat_template.rag", "R");
  put_u32(&values, "tokenizer.chat_templates_of_ours", 1); /* another key */
  put_u32(&values, "tokenizer.ggml.eos_token_id", 3);
  must(read_chat(&values, 4, 10, &chat));
  assert_int_equal(chat.templates.count, 2);
  ch_text_puts(&config, "{\"add_bos_token\": true}");
  must(ch_chat_put_config(&chat, "input", &config, &problem));
  assert_non_null(strstr(config.data, "\"add_bos_token\": true"));
  assert_non_null(strstr(config.data, "\"name\": \"default\""));
  assert_non_null(strstr(config.data, "\"template\": \"{{ a }}\\n\\\"\xc3\xa9\\\"\""));
  assert_non_null(strstr(config.data, "\"name\": \"rag\""));
  ch_config of = {.bos_token_id = 1};
  ch_chat_put_generation(&chat, &of, &generation);
  assert_int_equal(generation.size, 0); /* a single end token is in config.json */
  ch_chat_metadata_free(&chat);
  ch_text_free(&values);
  ch_text_free(&config);

  put_text(&values, "tokenizer.chat_template", "\xff broken");
  assert_int_equal(read_chat(&values, 1, 10, &chat), CH_ERROR_FORMAT);
  assert_non_null(strstr(problem.message, "chat template is not UTF-8 text"));
  ch_chat_metadata_free(&chat);
  ch_text_free(&values);
}

static void numbers_may_have_any_type(void **state) {
  (void)state;
  ch_text all = {0};
  ch_gguf file;
  bool flag = false;
  const ch_gguf_value *list;
  put_header(&all, 3, 0, 4);
  put_string(&all, "byte");
  put_number(&all, KV_U8, 4);
  put_number(&all, 1, 1);
  put_u32(&all, "two", 2);
  put_list(&all, "kinds", KV_U32, 1);
  put_number(&all, 3, 4);
  put_list(&all, "texts", KV_STRING, 1);
  put_string(&all, "x");
  must(ch_gguf_parse(all.data, all.size, "input", &file, &problem));
  must(ch_gguf_bool(&file, "byte", &flag, &problem));
  assert_true(flag);
  assert_int_equal(ch_gguf_bool(&file, "two", &flag, &problem), CH_ERROR_FORMAT);
  must(ch_gguf_list(&file, "kinds", CH_GGUF_I32, true, &list, &problem));
  assert_int_equal(ch_gguf_list(&file, "texts", CH_GGUF_I32, true, &list, &problem), CH_ERROR_FORMAT);
  assert_non_null(strstr(problem.message, "\"texts\" is a list of strings; it must be a list of numbers"));
  ch_gguf_close(&file);
  ch_text_free(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_key_that_names_an_end_counts),
                                     cmocka_unit_test(special_tokens_end_turns_by_their_names),
                                     cmocka_unit_test(templates_are_read_by_name_and_written_back),
                                     cmocka_unit_test(numbers_may_have_any_type)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

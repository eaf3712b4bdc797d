/* Tests chats, texts that arrive in pieces, and texts in which only some parts may contain special tokens, with a
 * byte-level tokenizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <crosshead/chat.h>

#include "base/file.h"
#include "scratch.h"

static const char END[] = "<|endoftext|>"; /* its id is 0 */
static ch_tokenizer *tokenizer;

static int open_all(void **state) {
  static const char text[] = "to be or not to be, that is the question: to be or not to be";
  ch_tokenizer_train_settings settings;
  ch_error error;
  if (make_root(state) != 0 || ch_write_file(in_root("text"), text, sizeof text - 1, &error) != CH_OK)
    return -1;
  ch_tokenizer_train_defaults(&settings);
  settings.vocab_size = 270;
  if (ch_tokenizer_train(in_root("text"), in_root("tokenizer.json"), &settings, NULL, &error) != CH_OK)
    return -1;
  return ch_tokenizer_open(in_root("tokenizer.json"), &tokenizer, &error) == CH_OK ? 0 : -1;
}

static int close_all(void **state) {
  ch_tokenizer_free(tokenizer);
  return remove_root(state);
}

/* --- pieces ------------------------------------------------------------------------------------------------------ */

/* Feeds the tokens of `text` one by one. `got` receives the released text, with '|' after every token's part.
   Returns the index of the completed stop string, or -1. */
static int32_t stream_of(const char *text, const char *const *stops, int32_t count, char got[256]) {
  ch_text_stream *stream;
  ch_ids ids = {0};
  const char *piece;
  size_t size, used = 0;
  int32_t stop = -1, ended = -1;
  assert_int_equal(ch_tokenizer_encode(tokenizer, text, strlen(text), CH_TEXT_BARE, &ids, NULL), CH_OK);
  assert_int_equal(ch_text_stream_new(tokenizer, stops, count, 0, &stream, NULL), CH_OK);
  for (size_t i = 0; i <= ids.size; i++) {
    if (i < ids.size)
      assert_int_equal(ch_text_stream_put(stream, ids.data[i], &piece, &size, &stop, NULL), CH_OK);
    else
      assert_int_equal(ch_text_stream_end(stream, &piece, &size, &stop, NULL), CH_OK);
    if (stop >= 0 && ended < 0) ended = stop;
    memcpy(got + used, piece, size);
    used += size;
    got[used++] = '|';
  }
  got[used] = 0;
  ch_ids_free(&ids);
  ch_text_stream_free(stream);
  return ended;
}

static void characters_leave_whole(void **state) {
  (void)state;
  char got[256];
  assert_int_equal(stream_of("x\xc3\xa9\xf0\x9f\x98\x80y", NULL, 0, got), -1);
  assert_string_equal(got, "x||\xc3\xa9||||\xf0\x9f\x98\x80|y||");
}

static void bytes_that_are_no_character_are_released_at_the_end(void **state) {
  (void)state;
  ch_text_stream *stream;
  const char *piece;
  size_t size;
  /* `half` is the token of the byte 0xc3, the first byte of a character of two bytes. */
  int32_t stop, half = ch_tokenizer_find(tokenizer, "\xc3\x83", 2);
  assert_true(half >= 0);
  assert_int_equal(ch_text_stream_new(tokenizer, NULL, 0, 0, &stream, NULL), CH_OK);
  assert_int_equal(ch_text_stream_put(stream, half, &piece, &size, &stop, NULL), CH_OK);
  assert_int_equal(size, 0);
  assert_int_equal(ch_text_stream_end(stream, &piece, &size, &stop, NULL), CH_OK);
  assert_int_equal(size, 3);
  assert_memory_equal(piece, "\xef\xbf\xbd", 3);
  assert_int_equal(ch_text_stream_end(stream, &piece, &size, &stop, NULL), CH_OK);
  assert_int_equal(size, 0);
  ch_text_stream_free(stream);
}

static void stop_strings_are_held_back(void **state) {
  (void)state;
  static const char *const stops[] = {"zzz", "xyx"};
  char got[256];
  assert_int_equal(stream_of("axyzxyxq", stops, 2, got), 1);
  assert_string_equal(got, "a|||xy|z|||||"); /* "xy", then "z", might have begun a stop string */
  assert_int_equal(stream_of("axy", stops, 2, got), -1);
  assert_string_equal(got, "a|||xy|"); /* the end of the text releases "xy" */
}

static void streams_refuse_stop_strings_without_bytes(void **state) {
  (void)state;
  static const char *const stops[] = {""};
  ch_text_stream *stream;
  ch_error error = {0};
  assert_int_equal(ch_text_stream_new(tokenizer, stops, 1, 0, &stream, &error), CH_ERROR_ARGUMENT);
  ch_text_stream_free(NULL);
}

/* --- parts ------------------------------------------------------------------------------------------------------- */

static size_t ends_in(const ch_prompt_part *parts, size_t count, size_t *all) {
  ch_ids ids = {0};
  size_t ends = 0;
  assert_int_equal(ch_tokenizer_encode_parts(tokenizer, parts, count, CH_TEXT_BARE, &ids, NULL), CH_OK);
  for (size_t i = 0; i < ids.size; i++) ends += ids.data[i] == 0;
  *all = ids.size;
  ch_ids_free(&ids);
  return ends;
}

static void special_tokens_come_from_special_parts_alone(void **state) {
  (void)state;
  const size_t size = sizeof END - 1;
  size_t all;
  const ch_prompt_part special[] = {{"a", 1, true}, {END, size, true}};
  assert_int_equal(ends_in(special, 2, &all), 1);
  assert_int_equal(all, 2);
  const ch_prompt_part plain[] = {{"a", 1, true}, {END, size, false}};
  assert_int_equal(ends_in(plain, 2, &all), 0);
  const ch_prompt_part torn[] = {{END, 5, true}, {END + 5, size - 5, false}};
  assert_int_equal(ends_in(torn, 2, &all), 0);
  const ch_prompt_part joined[] = {{END, 5, true}, {"", 0, false}, {END + 5, size - 5, true}};
  assert_int_equal(ends_in(joined, 3, &all), 1);
}

static void parts_have_the_words_of_the_whole(void **state) {
  (void)state;
  const char *whole = "not to be";
  const ch_prompt_part parts[] = {{whole, 4, true}, {whole + 4, 1, false}, {whole + 5, 4, true}};
  ch_ids one = {0}, three = {0};
  assert_int_equal(ch_tokenizer_encode(tokenizer, whole, 9, CH_TEXT_BARE, &one, NULL), CH_OK);
  assert_int_equal(ch_tokenizer_encode_parts(tokenizer, parts, 3, CH_TEXT_BARE, &three, NULL), CH_OK);
  assert_int_equal(one.size, three.size);
  assert_memory_equal(one.data, three.data, one.size * sizeof *one.data);
  ch_ids_free(&one);
  ch_ids_free(&three);
}

/* --- chats ------------------------------------------------------------------------------------------------------- */

static const char TEMPLATE[] = "{% for m in messages %}{{ m.role }}:{{ m.content }}<|endoftext|>{% endfor %}"
                               "{% if add_generation_prompt %}assistant:{{ mood }}{% endif %}";

static ch_chat *open_chat(const char *text) {
  ch_chat *chat;
  ch_error error = {0};
  if (ch_chat_open_text(root, tokenizer, text, "template", &chat, &error) != CH_OK)
    fail_msg("%s", error.message);
  return chat;
}

static void need_prompt(ch_chat *chat, const ch_chat_request *request, const char *expected) {
  char *text;
  size_t size;
  ch_error error = {0};
  if (ch_chat_render(chat, request, &text, &size, &error) != CH_OK) fail_msg("%s", error.message);
  assert_string_equal(text, expected);
  assert_int_equal(size, strlen(expected));
  ch_free(text);
}

static void messages_become_a_prompt(void **state) {
  (void)state;
  const ch_message messages[] = {{"system", "s", 1}, {"user", "a<|endoftext|>b", 15}};
  ch_chat *chat = open_chat(TEMPLATE);
  assert_string_equal(ch_chat_template(chat), TEMPLATE);
  ch_chat_request request = {.messages = messages, .count = 2, .add_generation_prompt = true};
  need_prompt(chat, &request, "system:s<|endoftext|>user:a<|endoftext|>b<|endoftext|>assistant:");
  request.variables = "{\"mood\": \" well\"}";
  need_prompt(chat, &request, "system:s<|endoftext|>user:a<|endoftext|>b<|endoftext|>assistant: well");
  ch_ids ids = {0};
  size_t ends = 0;
  assert_int_equal(ch_chat_encode(chat, &request, &ids, NULL), CH_OK);
  for (size_t i = 0; i < ids.size; i++) ends += ids.data[i] == 0;
  assert_int_equal(ends, 2); /* two from the template; the one in the message is plain text */
  ch_ids_free(&ids);
  ch_chat_free(chat);
}

static void the_last_message_can_go_on(void **state) {
  (void)state;
  const ch_message messages[] = {{"user", "a", 1}, {"assistant", "b ", 2}};
  ch_chat_request request = {.messages = messages, .count = 2, .continue_final_message = true};
  ch_chat *chat = open_chat(TEMPLATE);
  need_prompt(chat, &request, "user:a<|endoftext|>assistant:b ");
  ch_error error = {0};
  char *text;
  size_t size;
  request.add_generation_prompt = true;
  assert_int_equal(ch_chat_render(chat, &request, &text, &size, &error), CH_ERROR_ARGUMENT);
  ch_chat_free(chat);
}

static void errors_of_templates_are_told_apart(void **state) {
  (void)state;
  const ch_message messages[] = {{"user", "a", 1}};
  const ch_chat_request request = {.messages = messages, .count = 1};
  ch_chat *chat = open_chat("{{ raise_exception('roles must alternate') }}");
  ch_error error = {0};
  char *text;
  size_t size;
  assert_int_equal(ch_chat_render(chat, &request, &text, &size, &error), CH_ERROR_ARGUMENT);
  assert_string_equal(error.message, "roles must alternate");
  ch_chat_free(chat);
  assert_int_equal(ch_chat_open_text(root, tokenizer, "{% for %}", "template", &chat, &error),
                   CH_ERROR_FORMAT);
  assert_null(chat);
}

static void a_directory_has_its_own_template(void **state) {
  (void)state;
  static const char config[] =
      "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"}, "
      "{\"name\": \"default\", \"template\": \"d\"}], \"bos_token\": {\"content\": \"<s>\"}}";
  static const char own[] = "{{ bos_token }}{{ messages[0].content }}";
  ch_chat *chat;
  ch_error error = {0};
  assert_int_equal(ch_chat_open(root, tokenizer, &chat, &error), CH_OK);
  assert_null(chat);
  assert_int_equal(ch_write_file(in_root("tokenizer_config.json"), config, sizeof config - 1, &error), CH_OK);
  assert_int_equal(ch_chat_open(root, tokenizer, &chat, &error), CH_OK);
  assert_string_equal(ch_chat_template(chat), "d");
  ch_chat_free(chat);
  assert_int_equal(ch_write_file(in_root("chat_template.jinja"), own, sizeof own - 1, &error), CH_OK);
  assert_int_equal(ch_chat_open(root, tokenizer, &chat, &error), CH_OK);
  const ch_message message = {"user", "x", 1};
  need_prompt(chat, &(ch_chat_request){.messages = &message, .count = 1}, "<s>x");
  ch_chat_free(chat);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(characters_leave_whole),
                                     cmocka_unit_test(bytes_that_are_no_character_are_released_at_the_end),
                                     cmocka_unit_test(stop_strings_are_held_back),
                                     cmocka_unit_test(streams_refuse_stop_strings_without_bytes),
                                     cmocka_unit_test(special_tokens_come_from_special_parts_alone),
                                     cmocka_unit_test(parts_have_the_words_of_the_whole),
                                     cmocka_unit_test(messages_become_a_prompt),
                                     cmocka_unit_test(the_last_message_can_go_on),
                                     cmocka_unit_test(errors_of_templates_are_told_apart),
                                     cmocka_unit_test(a_directory_has_its_own_template)};
  return cmocka_run_group_tests(tests, open_all, close_all);
}

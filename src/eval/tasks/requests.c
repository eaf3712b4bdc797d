/* Turns contexts and continuations into tokens by the rules of lm-evaluation-harness for spaces, beginning tokens and
 * contexts that are too long. */
#include "eval/tasks/requests.h"

#include <stdlib.h>
#include <string.h>

#include "eval/document_set.h"
#include "eval/windows.h"
#include "base/utf8.h"

ch_status ch_request_rules_of(const ch_config *config, const ch_tokenizer *tokenizer, int64_t window,
                              ch_request_rules *rules, ch_error *error) {
  int64_t ids[] = {ch_tokenizer_bos(tokenizer), ch_tokenizer_eos(tokenizer), config->bos_token_id,
                   config->eos_token_id};
  CH_TRY(ch_window_check(config, window, error));
  *rules = (ch_request_rules){
      .tokenizer = tokenizer, .prefix = -1, .max_length = window ? window : ch_longest_window(config)};
  for (int i = 0; i < 4 && rules->prefix < 0; i++)
    if (ids[i] >= 0 && ids[i] < config->vocab_size) rules->prefix = (int32_t)ids[i];
  if (rules->prefix >= 0) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "neither the tokenizer nor the model names a beginning or an end token; one must precede texts "
      "without context");
}

static ch_status add_window(ch_token_windows *windows, ch_token_window window, ch_error *error) {
  if (windows->count == windows->capacity) {
    int64_t capacity = windows->capacity ? 2 * windows->capacity : 8;
    ch_token_window *data = realloc(windows->data, (size_t)capacity * sizeof *data);
    if (!data) return ch_no_memory(error);
    windows->data = data;
    windows->capacity = capacity;
  }
  windows->data[windows->count++] = window;
  return CH_OK;
}

/* Encodes a text with the tokens that the tokenizer puts around a text by default, or without them if the text already
 * begins with the prefix. */
static ch_status encode(const ch_request_rules *rules, ch_encoder *encoder, const char *text, size_t size,
                        ch_ids *ids, ch_error *error) {
  size_t length = 0;
  const char *piece = ch_tokenizer_piece(rules->tokenizer, rules->prefix, &length);
  bool begins = piece && length > 0 && length <= size && memcmp(text, piece, length) == 0;
  return ch_encoder_encode(encoder, text, size, CH_TEXT_SPECIAL | (begins ? CH_TEXT_BARE : CH_TEXT_WHOLE),
                           ids, error);
}

/* Returns the bytes of the text without the white space at its end. */
static size_t stripped_size(const char *text) {
  const unsigned char *start = (const unsigned char *)text, *end = start + strlen(text);
  while (end > start) {
    const unsigned char *last = end - 1;
    uint32_t c = 0;
    while (last > start && (*last & 0xc0) == 0x80) last--;
    if (ch_utf8_decode(last, end, &c) == 0 || !ch_is_white_space(c)) break;
    end = last;
  }
  return (size_t)(end - start);
}

/* Adds the window that the model can see: as many inputs as its context holds, and the token that the last of them
 * predicts. */
static ch_status cut(const ch_request_rules *rules, size_t from, size_t context, ch_ids *ids,
                     ch_token_windows *windows, ch_error *error) {
  if (ids->size == from + 1)
    CH_TRY(ch_ids_put(ids, rules->prefix, error)); /* a predicted token needs an input before it */
  int64_t length = (int64_t)(ids->size - from), predicted = length - (int64_t)context;
  bool empty = predicted < 1;
  if (empty) predicted = 1; /* the window needs a prediction; its result is not used */
  if (predicted > rules->max_length)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "a continuation has %lld tokens, but the model sees only %lld at once",
                   (long long)predicted, (long long)rules->max_length);
  int64_t kept = length < rules->max_length + 1 ? length : rules->max_length + 1;
  return add_window(
      windows,
      (ch_token_window){
          .at = from + (size_t)(length - kept), .length = kept, .first = kept - predicted, .empty = empty},
      error);
}

static ch_status encode_alone(const ch_request_rules *rules, ch_encoder *encoder, const char *text,
                              ch_ids *ids, ch_token_windows *windows, ch_error *error) {
  size_t from = ids->size;
  CH_TRY(ch_ids_put(ids, rules->prefix, error));
  CH_TRY(ch_encoder_encode(encoder, text, strlen(text), CH_TEXT_BARE | CH_TEXT_SPECIAL, ids, error));
  if (ids->size > from + 2 && ids->data[from + 1] == rules->prefix)
    from++; /* the text begins with the prefix */
  return cut(rules, from, 1, ids, windows, error);
}

ch_status ch_request_encode(const ch_request_rules *rules, ch_encoder *encoder,
                            const ch_question_request *request, ch_ids *ids, ch_token_windows *windows,
                            ch_error *error) {
  const char *context = request->context;
  if (!*context) return encode_alone(rules, encoder, request->continuation, ids, windows, error);
  ch_text both = {0};
  ch_ids whole = {0};
  ch_status status;
  size_t from = ids->size, kept = stripped_size(context);
  ch_text_puts(&both, context);
  ch_text_puts(&both, request->continuation);
  if (both.failed) CH_TRY_GOTO(ch_no_memory(error));
  CH_TRY_GOTO(encode(rules, encoder, context, kept, ids, error));
  CH_TRY_GOTO(encode(rules, encoder, both.data, both.size, &whole, error));
  size_t own = ids->size - from;
  if (own == 0) CH_TRY_GOTO(ch_ids_put(ids, rules->prefix, error)); /* the context is white space */
  for (size_t i = own; i < whole.size; i++) CH_TRY_GOTO(ch_ids_put(ids, whole.data[i], error));
  status = cut(rules, from, own ? own : 1, ids, windows, error);
done:
  ch_text_free(&both);
  ch_ids_free(&whole);
  return status;
}

ch_status ch_request_encode_prompt(const ch_request_rules *rules, ch_encoder *encoder, const char *context,
                                   int64_t written, ch_ids *ids, ch_token_windows *windows, ch_error *error) {
  size_t from = ids->size, length = 0;
  const char *bos = ch_tokenizer_piece(rules->tokenizer, ch_tokenizer_bos(rules->tokenizer), &length);
  bool begins = bos && length > 0 && strncmp(context, bos, length) == 0;
  CH_TRY(ch_encoder_encode(encoder, context, strlen(context),
                           CH_TEXT_SPECIAL | (begins ? CH_TEXT_BARE : CH_TEXT_WHOLE), ids, error));
  if (ids->size == from) CH_TRY(ch_ids_put(ids, rules->prefix, error)); /* an answer needs an input */
  int64_t count = (int64_t)(ids->size - from), room = rules->max_length - written;
  int64_t kept = count < room ? count : room;
  return add_window(
      windows, (ch_token_window){.at = from + (size_t)(count - kept), .length = kept, .first = kept}, error);
}

ch_status ch_request_encode_rolling(const ch_request_rules *rules, ch_encoder *encoder, const char *text,
                                    ch_ids *ids, ch_token_windows *windows, ch_error *error) {
  size_t from = ids->size;
  CH_TRY(ch_ids_put(ids, rules->prefix, error));
  CH_TRY(encode(rules, encoder, text, strlen(text), ids, error));
  ch_windows cuts = {0};
  int64_t length = (int64_t)(ids->size - from);
  if (length < 2) return ch_fail(error, CH_ERROR_FORMAT, "the text has no token");
  ch_status status = ch_windows_rolling(&cuts, ids->data + from, length, rules->max_length, error);
  for (int64_t i = 0; status == CH_OK && i < cuts.count; i++)
    status = add_window(windows,
                        (ch_token_window){.at = (size_t)(cuts.data[i].tokens - ids->data),
                                          .length = cuts.data[i].length,
                                          .first = cuts.data[i].first},
                        error);
  ch_windows_free(&cuts);
  return status;
}

/* The POST routes /tokenize, /detokenize and /apply-template. */
#include "serve/routes.h"

#include "base/json.h"
#include "base/utf8.h"
#include "serve/answer.h"
#include "serve/request_fields.h"
#include "serve/request_body.h"
#include "serve/chat_messages.h"
#include "serve/prompt_fields.h"

/* --- /tokenize ------------------------------------------------------------------------------------------ */

/* Writes a token's text as a string, or as a list of bytes if it is not UTF-8. */
static void put_piece(ch_text *json, const ch_tokenizer *tokenizer, int32_t token) {
  size_t size;
  const char *bytes = ch_name_bytes(tokenizer, token, &size);
  ch_text_printf(json, "{\"id\":%d,\"piece\":", token);
  if (ch_utf8_valid_prefix((const unsigned char *)bytes, size) == size)
    ch_json_put_bytes(json, bytes, size);
  else
    ch_put_bytes(json, bytes, size);
  ch_text_puts(json, "}");
}

static void put_ids(ch_text *json, const ch_server *server, const ch_ids *ids, bool pieces) {
  ch_text_puts(json, "{\"tokens\":[");
  for (size_t i = 0; i < ids->size; i++) {
    if (i) ch_text_puts(json, ",");
    if (pieces)
      put_piece(json, server->tokenizer, ids->data[i]);
    else
      ch_text_printf(json, "%d", ids->data[i]);
  }
  ch_text_printf(json, "],\"count\":%zu,\"max_model_len\":%lld}", ids->size, (long long)server->context);
}

static bool encode_messages(const ch_server *server, json_t *body, ch_ids *ids, ch_refusal *refusal) {
  ch_messages messages = {0};
  bool fine = ch_messages_read(server, body, &messages, refusal) &&
              ch_messages_encode(server, &messages, ids, refusal);
  ch_messages_free(&messages);
  return fine;
}

/* Encodes vLLM's `prompt`, by default with the tokenizer's special tokens, or llama.cpp's `content`, by default
   without them. */
static bool encode_text(const ch_server *server, json_t *body, ch_ids *ids, ch_refusal *refusal) {
  const char *content, *prompt;
  size_t content_size, prompt_size;
  bool special = true;
  if (!ch_field_text(body, "content", &content, &content_size, refusal) ||
      !ch_field_text(body, "prompt", &prompt, &prompt_size, refusal) ||
      !ch_field_bool(body, "parse_special", &special, refusal))
    return false;
  if (!content && !prompt)
    return ch_refuse(refusal, 400, "missing_required_parameter", "content",
                     "'content' is missing; give a text as 'content' or 'prompt', or 'messages'.");
  bool add = !content;
  if (!ch_field_bool(body, content ? "add_special" : "add_special_tokens", &add, refusal)) return false;
  unsigned flags = (add ? CH_TEXT_BEGINS : CH_TEXT_BARE) | (special ? CH_TEXT_SPECIAL : 0U);
  return ch_prompt_encode(server, content ? content : prompt, content ? content_size : prompt_size, flags,
                          content ? "content" : "prompt", ids, refusal);
}

bool ch_post_tokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  const ch_server *server = exchange->server;
  ch_ids ids = {0};
  bool pieces = false;
  (void)answers;
  bool fine = ch_field_bool(body, "with_pieces", &pieces, refusal) &&
              (ch_body_member(body, "messages") ? encode_messages(server, body, &ids, refusal)
                                                : encode_text(server, body, &ids, refusal));
  if (fine) put_ids(&exchange->reply.body, server, &ids, pieces);
  exchange->reply.status = 200;
  ch_ids_free(&ids);
  return fine;
}

/* --- /detokenize ---------------------------------------------------------------------------------------- */

bool ch_post_detokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  const ch_server *server = exchange->server;
  ch_ids ids = {0};
  char *text = NULL;
  size_t size = 0;
  (void)answers;
  const json_t *tokens = ch_body_member(body, "tokens");
  if (!tokens)
    return ch_refuse(refusal, 400, "missing_required_parameter", "tokens",
                     "'tokens' is missing; give a list of ids.");
  bool fine = ch_ids_read(server, tokens, "tokens", &ids, refusal) &&
              ch_prompt_decode(server, &ids, &text, &size, NULL, refusal);
  if (fine) {
    ch_text *json = &exchange->reply.body;
    ch_text_puts(json, "{\"content\":");
    ch_json_put_bytes(json, text, size);
    ch_put_member(json, "prompt", text, size);
    ch_text_puts(json, "}");
  }
  exchange->reply.status = 200;
  ch_ids_free(&ids);
  free(text);
  return fine;
}

/* --- /apply-template ------------------------------------------------------------------------------------ */

bool ch_post_apply_template(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_messages messages = {0};
  char *text = NULL;
  size_t size;
  (void)answers;
  bool fine = ch_messages_read(exchange->server, body, &messages, refusal) &&
              ch_messages_render(exchange->server, &messages, &text, &size, refusal);
  if (fine) {
    ch_text_puts(&exchange->reply.body, "{\"prompt\":");
    ch_json_put_bytes(&exchange->reply.body, text, size);
    ch_text_puts(&exchange->reply.body, "}");
  }
  exchange->reply.status = 200;
  ch_free(text);
  ch_messages_free(&messages);
  return fine;
}

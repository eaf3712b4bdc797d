/* Writes the answers of /v1/chat/completions. */
#include "serve/answer.h"

/* Returns true if the token's text is part of the content. The texts of end tokens, special tokens and stop strings are
   not. */
static bool has_text(const ch_view *view, const ch_token_record *record, int64_t bytes) {
  return !record->ends && record->byte < bytes &&
         !ch_tokenizer_is_special(view->server->tokenizer, record->token);
}

/* Writes the log-probability of a token and the likeliest alternatives. */
static void put_probabilities(ch_text *out, const ch_view *view, const ch_token_record *record,
                              const ch_token_probability *top) {
  const ch_tokenizer *tokenizer = view->server->tokenizer;
  ch_text_puts(out, "{");
  ch_put_token(out, tokenizer, record->token, record->log_probability);
  ch_text_puts(out, ",\"top_logprobs\":[");
  for (int64_t i = 0; i < view->job->fields.top; i++) {
    ch_text_puts(out, i ? ",{" : "{");
    ch_put_token(out, tokenizer, top[i].token, top[i].log_probability);
    ch_text_puts(out, "}");
  }
  ch_text_puts(out, "]}");
}

/* --- events --------------------------------------------------------------------------------------------- */

static void open_event(ch_text *out, const ch_exchange *exchange, const ch_view *view) {
  ch_text_puts(out, "data: {");
  ch_put_head(out, exchange, "chat.completion.chunk");
  ch_text_printf(out, ",\"choices\":[{\"index\":%lld,\"delta\":", (long long)view->index);
}

static void begin(ch_text *out, const ch_exchange *exchange, const ch_view *view) {
  open_event(out, exchange, view);
  ch_text_puts(out, "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null,\"logprobs\":null");
  ch_close_event(out, view);
}

/* Writes an event with content. If `record` is NULL, the event has no log-probabilities. */
static void put_content(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                        size_t size, const ch_token_record *record, const ch_token_probability *top) {
  open_event(out, exchange, view);
  ch_text_puts(out, "{\"content\":");
  ch_put_json_text(out, piece, size);
  ch_text_puts(out, "},\"finish_reason\":null,\"logprobs\":");
  if (record) {
    ch_text_puts(out, "{\"content\":[");
    put_probabilities(out, view, record, top);
    ch_text_puts(out, "],\"refusal\":null}");
  } else {
    ch_text_puts(out, "null");
  }
  ch_close_event(out, view);
}

static void token(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                  size_t size, const ch_token_record *record, const ch_token_probability *top) {
  bool probable = view->job->fields.top >= 0 && has_text(view, record, INT64_MAX);
  if (size > 0 || probable) put_content(out, exchange, view, piece, size, probable ? record : NULL, top);
}

static void finish(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                   size_t size) {
  if (size > 0) put_content(out, exchange, view, piece, size, NULL, NULL);
  open_event(out, exchange, view);
  ch_text_printf(out, "{},\"finish_reason\":\"%s\",\"logprobs\":null", ch_finish_reason(view->choice));
  ch_close_event(out, view);
}

static void end(ch_text *out, const ch_exchange *exchange) {
  ch_put_end(out, exchange, "chat.completion.chunk");
}

/* --- the whole answer ----------------------------------------------------------------------------------- */

static void put_choice(ch_text *out, const ch_view *view) {
  const ch_token_list *written = &view->choice->written;
  int64_t width = view->job->fields.top;
  bool first = true;
  ch_text_printf(out, "{\"index\":%lld,\"message\":{\"role\":\"assistant\"", (long long)view->index);
  ch_put_member(out, "content", written->text.data, written->text.size);
  ch_text_printf(out,
                 ",\"refusal\":null},\"finish_reason\":\"%s\",\"logprobs\":", ch_finish_reason(view->choice));
  if (width < 0) {
    ch_text_puts(out, "null}");
    return;
  }
  ch_text_puts(out, "{\"content\":[");
  for (size_t i = 0; i < written->count; i++) {
    if (!has_text(view, &written->records[i], view->choice->bytes)) continue;
    if (!first) ch_text_puts(out, ",");
    first = false;
    put_probabilities(out, view, &written->records[i], written->top + (int64_t)i * width);
  }
  ch_text_puts(out, "],\"refusal\":null}}");
}

static void whole(ch_text *out, const ch_exchange *exchange) {
  ch_text_puts(out, "{");
  ch_put_head(out, exchange, "chat.completion");
  ch_text_puts(out, ",\"choices\":[");
  for (int64_t i = 0; i < exchange->job->fields.n; i++) {
    ch_view view = ch_view_of(exchange, i);
    if (i) ch_text_puts(out, ",");
    put_choice(out, &view);
  }
  ch_text_puts(out, "],\"usage\":");
  ch_put_usage(out, exchange->job);
  ch_text_puts(out, "}");
}

const ch_answer_format ch_chat_format = {
    .begin = begin, .token = token, .finish = finish, .end = end, .whole = whole, .waits_for_text = true};

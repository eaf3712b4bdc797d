/* Writes the answers of /completion, llama.cpp's own API. */

#include "base/json.h"
#include "serve/answer.h"

static void put_probabilities(ch_text *out, const ch_view *view, const ch_token_record *record,
                              const ch_token_probability *top) {
  const ch_tokenizer *tokenizer = view->server->tokenizer;
  ch_text_printf(out, "{\"id\":%d,", record->token);
  ch_put_token(out, tokenizer, record->token, record->log_probability);
  ch_text_puts(out, ",\"top_logprobs\":[");
  for (int64_t i = 0; i < view->job->fields.top; i++) {
    ch_text_printf(out, "%s{\"id\":%d,", i ? "," : "", top[i].token);
    ch_put_token(out, tokenizer, top[i].token, top[i].log_probability);
    ch_text_puts(out, "}");
  }
  ch_text_puts(out, "]}");
}

static void token(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                  size_t size, const ch_token_record *record, const ch_token_probability *top) {
  (void)exchange;
  ch_text_puts(out, "data: {\"index\":0");
  ch_put_member(out, "content", piece, size);
  ch_text_printf(out, ",\"tokens\":[%d],\"stop\":false", record->token);
  if (view->job->fields.top > 0) {
    ch_text_puts(out, ",\"completion_probabilities\":[");
    put_probabilities(out, view, record, top);
    ch_text_puts(out, "]");
  }
  ch_text_puts(out, "}\n\n");
}

/* --- the end -------------------------------------------------------------------------------------------- */

static double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? (double)tokens / seconds : 0;
}

static void put_number(ch_text *out, const char *name, double value) {
  ch_text_printf(out, "\"%s\":", name);
  ch_json_put_number(out, value);
}

static void put_settings(ch_text *out, const ch_view *view) {
  const ch_request_fields *fields = &view->job->fields;
  ch_text_printf(out,
                 ",\"generation_settings\":{\"n_ctx\":%lld,\"n_predict\":%lld,\"seed\":%lld,\"top_k\":%lld,"
                 "\"min_tokens\":%lld,\"ignore_eos\":%s,\"n_probs\":%lld,\"stream\":%s,",
                 (long long)view->server->context, (long long)fields->max_tokens, (long long)fields->seed,
                 (long long)fields->top_k, (long long)fields->min_tokens,
                 fields->ignore_eos ? "true" : "false", (long long)(fields->top > 0 ? fields->top : 0),
                 fields->stream ? "true" : "false");
  put_number(out, "temperature", fields->temperature);
  ch_text_puts(out, ",");
  put_number(out, "top_p", fields->top_p);
  ch_text_puts(out, ",");
  put_number(out, "frequency_penalty", fields->frequency_penalty);
  ch_text_puts(out, ",");
  put_number(out, "presence_penalty", fields->presence_penalty);
  ch_text_puts(out, ",\"stop\":[");
  for (int i = 0; i < fields->stop_count; i++) {
    if (i) ch_text_puts(out, ",");
    ch_json_put_string(out, fields->stops[i]);
  }
  ch_text_puts(out, "]}");
}

static void put_timings(ch_text *out, const ch_view *view) {
  const ch_text_job *job = view->job;
  int64_t read = job->prompt_computed, written = view->choice->tokens;
  ch_text_printf(out, ",\"timings\":{\"prompt_n\":%lld,", (long long)read);
  put_number(out, "prompt_ms", 1e3 * job->prefill_seconds);
  ch_text_puts(out, ",");
  put_number(out, "prompt_per_second", per_second(read, job->prefill_seconds));
  ch_text_printf(out, ",\"predicted_n\":%lld,", (long long)written);
  put_number(out, "predicted_ms", 1e3 * job->decode_seconds);
  ch_text_puts(out, ",");
  put_number(out, "predicted_per_second", per_second(written, job->decode_seconds));
  ch_text_puts(out, "}");
}

/* Writes the members that follow the text and its tokens. */
static void put_rest(ch_text *out, const ch_view *view, bool newline) {
  const ch_choice *choice = view->choice;
  const char *type = choice->end == CH_END_TOKEN ? "eos" : choice->end == CH_END_STRING ? "word" : "limit";
  bool word = choice->end == CH_END_STRING && choice->stop >= 0;
  ch_text_printf(out, ",\"stop\":true,\"stop_type\":\"%s\",\"stopping_word\":", type);
  ch_json_put_string(out, word ? view->job->fields.stops[choice->stop] : "");
  ch_text_puts(out, ",\"model\":");
  ch_json_put_string(out, view->server->name);
  ch_text_printf(
      out,
      ",\"tokens_predicted\":%lld,\"tokens_evaluated\":%zu,\"tokens_cached\":%lld,\"truncated\":false,"
      "\"has_new_line\":%s",
      (long long)choice->tokens, view->prompt->ids.size, (long long)view->prompt->cached,
      newline ? "true" : "false");
  ch_put_member(out, "prompt", view->prompt->text, view->prompt->text_size);
  put_settings(out, view);
  put_timings(out, view);
}

static void finish(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                   size_t size) {
  (void)exchange;
  ch_text_puts(out, "data: {\"index\":0");
  ch_put_member(out, "content", piece, size);
  ch_text_puts(out, ",\"tokens\":[]");
  put_rest(out, view, view->job->newline);
  ch_text_puts(out, "}\n\n");
}

static void end(ch_text *out, const ch_exchange *exchange) {
  (void)out, (void)exchange; /* this API has no [DONE] event */
}

static void whole(ch_text *out, const ch_exchange *exchange) {
  ch_view view = ch_view_of(exchange, 0);
  const ch_token_list *written = &view.choice->written;
  ch_text_puts(out, "{\"index\":0");
  ch_put_member(out, "content", written->text.data, written->text.size);
  ch_text_puts(out, ",\"tokens\":[");
  for (size_t i = 0; view.job->fields.return_tokens && i < written->count; i++)
    ch_text_printf(out, "%s%d", i ? "," : "", written->records[i].token);
  ch_text_puts(out, "]");
  put_rest(out, &view, exchange->job->newline);
  if (view.job->fields.top > 0) {
    ch_text_puts(out, ",\"completion_probabilities\":[");
    for (size_t i = 0; i < written->count; i++) {
      if (i) ch_text_puts(out, ",");
      put_probabilities(out, &view, &written->records[i], written->top + (int64_t)i * view.job->fields.top);
    }
    ch_text_puts(out, "]");
  }
  ch_text_puts(out, "}");
}

const ch_answer_format ch_native_format = {.token = token, .finish = finish, .end = end, .whole = whole};

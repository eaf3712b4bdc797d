/* Writes the parts of an answer that every API shares: header, usage, tokens and log-probabilities. */
#include "serve/answer.h"

#include <math.h>

#include "base/json.h"

ch_view ch_view_of(const ch_exchange *exchange, int64_t index) {
  const ch_text_job *job = exchange->job;
  const ch_prompt *prompt = &job->prompts[index / job->fields.n];
  return (ch_view){.server = exchange->server,
                   .job = job,
                   .prompt = prompt,
                   .choice = &prompt->choices[index % job->fields.n],
                   .index = index};
}

const char *ch_finish_reason(const ch_choice *choice) {
  return choice->end == CH_END_TOKEN || choice->end == CH_END_STRING ? "stop" : "length";
}

void ch_put_usage(ch_text *json, const ch_text_job *job) {
  long long prompt = 0, written = 0, cached = 0;
  for (int p = 0; p < job->prompt_count; p++) {
    prompt += (long long)job->prompts[p].ids.size;
    cached += job->prompts[p].cached;
    for (int64_t k = 0; k < job->fields.n; k++) written += job->prompts[p].choices[k].tokens;
  }
  ch_text_printf(json,
                 "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                 prompt, written, prompt + written, cached);
}

void ch_put_json_text(ch_text *json, const char *text, size_t size) {
  ch_json_put_bytes(json, text ? text : "", size);
}

void ch_put_member(ch_text *json, const char *name, const char *text, size_t size) {
  ch_text_printf(json, ",\"%s\":", name);
  ch_put_json_text(json, text, size);
}

void ch_put_head(ch_text *json, const ch_exchange *exchange, const char *object) {
  const ch_server *server = exchange->server;
  ch_text_printf(json, "\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", exchange->job->id,
                 object, (long long)exchange->job->created);
  ch_json_put_string(json, server->name);
  ch_text_printf(json, ",\"system_fingerprint\":\"%s\"", server->fingerprint);
}

void ch_put_log_probability(ch_text *json, double value) {
  ch_json_put_number(json, isfinite(value) ? value : -9999);
}

void ch_put_token(ch_text *json, const ch_tokenizer *tokenizer, int32_t token, double log_probability) {
  size_t size;
  const char *bytes = ch_name_bytes(tokenizer, token, &size);
  ch_text_puts(json, "\"token\":");
  ch_put_name(json, tokenizer, token);
  ch_text_puts(json, ",\"logprob\":");
  ch_put_log_probability(json, log_probability);
  ch_text_puts(json, ",\"bytes\":");
  ch_put_bytes(json, bytes, size);
}

void ch_close_event(ch_text *out, const ch_view *view) {
  ch_text_puts(out, "}]");
  if (view->job->fields.continuous_usage) {
    ch_text_puts(out, ",\"usage\":");
    ch_put_usage(out, view->job);
  }
  ch_text_puts(out, "}\n\n");
}

void ch_put_end(ch_text *out, const ch_exchange *exchange, const char *object) {
  if (exchange->job->fields.include_usage) {
    ch_text_puts(out, "data: {");
    ch_put_head(out, exchange, object);
    ch_text_puts(out, ",\"choices\":[],\"usage\":");
    ch_put_usage(out, exchange->job);
    ch_text_puts(out, "}\n\n");
  }
  ch_text_puts(out, "data: [DONE]\n\n");
}

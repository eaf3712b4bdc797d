/* Writes replies, and refusals as OpenAI's error objects. */
#include "serve/reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "base/utf8.h"

bool ch_refuse(ch_refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
               ...) {
  va_list values;
  va_start(values, format);
  *refusal = (ch_refusal){.status = status, .code = code};
  vsnprintf(refusal->message, sizeof refusal->message, format, values);
  if (param) snprintf(refusal->param, sizeof refusal->param, "%s", param);
  va_end(values);
  return false;
}

bool ch_refuse_memory(ch_refusal *refusal) {
  return ch_refuse(refusal, 500, "out_of_memory", NULL, "The server has no memory for this request.");
}

static const char *type_of(unsigned status) {
  switch (status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
    return "not_found_error";
  case 429:
    return "overloaded_error";
  case 500:
    return "server_error";
  case 503:
    return "unavailable_error";
  default:
    return "invalid_request_error";
  }
}

/* Writes a string, which may have been truncated inside a character; null for "". */
static void put_string(ch_text *json, const char *string) {
  if (!string || !*string) {
    ch_text_puts(json, "null");
    return;
  }
  ch_text valid = {0};
  size_t size = 0;
  while (string[size]) size++;
  ch_put_valid_utf8(&valid, string, size);
  ch_json_put_bytes(json, valid.data ? valid.data : "", valid.size);
  json->failed |= valid.failed;
  ch_text_free(&valid);
}

void ch_put_refusal(ch_text *json, const ch_refusal *refusal) {
  ch_text_puts(json, "{\"error\":{\"message\":");
  put_string(json, refusal->message);
  ch_text_printf(json, ",\"type\":\"%s\",\"param\":", type_of(refusal->status));
  put_string(json, refusal->param);
  ch_text_puts(json, ",\"code\":");
  put_string(json, refusal->code);
  if (refusal->context > 0)
    ch_text_printf(json, ",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld", (long long)refusal->prompt_tokens,
                   (long long)refusal->context);
  ch_text_puts(json, "}}");
}

void ch_reply_refuse(ch_reply *reply, const ch_refusal *refusal) {
  ch_text_free(&reply->body);
  *reply = (ch_reply){.status = refusal->status, .close = refusal->status == 503};
  ch_put_refusal(&reply->body, refusal);
}

/* Reads the prompts of a body, as text or as ids, and converts between the two. */
#include "serve/prompt_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "serve/request_body.h"

bool ch_prompt_encode(const ch_server *server, const char *text, size_t size, unsigned flags,
                      const char *field, ch_ids *ids, ch_refusal *refusal) {
  ch_error error = {0};
  ch_status status = ch_tokenizer_encode(server->tokenizer, text, size, flags, ids, &error);
  if (status == CH_OK) return true;
  if (status == CH_ERROR_MEMORY) return ch_refuse_memory(refusal);
  return ch_refuse(refusal, 400, "invalid_value", field, "'%s' cannot be turned into tokens: %s.", field,
                   error.message);
}

bool ch_prompt_decode(const ch_server *server, const ch_ids *ids, char **text, size_t *size, bool *unfinished,
                      ch_refusal *refusal) {
  char *decoded = NULL;
  ch_text valid = {0};
  if (ids->size > 0 &&
      ch_tokenizer_decode(server->tokenizer, ids->data, ids->size, 0, &decoded, size, NULL) != CH_OK)
    return ch_refuse(refusal, 400, "invalid_value", "tokens", "An id is not one of the tokenizer's.");
  const size_t rest = unfinished && decoded ? ch_utf8_unfinished((const unsigned char *)decoded, *size) : 0;
  if (unfinished) *unfinished = rest > 0;
  if (decoded) ch_put_valid_utf8(&valid, decoded, *size - rest);
  ch_free(decoded);
  ch_text_put(&valid, "", 1);
  if (valid.failed) {
    ch_text_free(&valid);
    return ch_refuse_memory(refusal);
  }
  *text = valid.data;
  *size = valid.size - 1;
  return true;
}

static bool refuse_ids(ch_refusal *refusal, const char *field) {
  return ch_refuse(refusal, 400, "invalid_type", field, "'%s' must be a list of token ids.", field);
}

bool ch_ids_read(const ch_server *server, const json_t *list, const char *field, ch_ids *ids,
                 ch_refusal *refusal) {
  if (!json_is_array(list)) return refuse_ids(refusal, field);
  if (!ch_ids_reserve(ids, json_array_size(list))) return ch_refuse_memory(refusal);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *id = json_array_get(list, i);
    if (!json_is_integer(id)) return refuse_ids(refusal, field);
    json_int_t value = json_integer_value(id);
    if (value < 0 || value >= server->vocabulary)
      return ch_refuse(refusal, 400, "invalid_value", field,
                       "'%s' has the token id %lld, which is out of vocabulary; ids go from 0 to %lld.",
                       field, (long long)value, (long long)server->vocabulary - 1);
    ids->data[ids->size++] = (int32_t)value;
  }
  return true;
}

/* --- the field `prompt` --------------------------------------------------------------------------------- */

static bool refuse_prompt(ch_refusal *refusal, const char *code, const char *sentence) {
  return ch_refuse(refusal, 400, code, "prompt", "%s", sentence);
}

static bool read_text(const ch_server *server, const json_t *value, bool text, ch_prompt *prompt,
                      ch_refusal *refusal) {
  const char *string = json_string_value(value);
  size_t size = json_string_length(value);
  if (!ch_prompt_encode(server, string, size, CH_TEXT_BEGINS | CH_TEXT_SPECIAL, "prompt", &prompt->ids,
                        refusal))
    return false;
  if (!text) return true;
  prompt->text = malloc(size + 1);
  if (!prompt->text) return ch_refuse_memory(refusal);
  memcpy(prompt->text, string, size + 1);
  prompt->text_size = size;
  return true;
}

static bool read_ids(const ch_server *server, const json_t *value, bool text, bool echo, ch_prompt *prompt,
                     ch_refusal *refusal) {
  if (json_array_size(value) == 0)
    return refuse_prompt(refusal, "invalid_value", "'prompt' has an empty list of ids.");
  if (!ch_ids_read(server, value, "prompt", &prompt->ids, refusal)) return false;
  return !text || ch_prompt_decode(server, &prompt->ids, &prompt->text, &prompt->text_size,
                                   echo ? &prompt->unfinished : NULL, refusal);
}

static bool read_one(const ch_server *server, const json_t *value, bool text, bool echo, ch_prompt *prompt,
                     ch_refusal *refusal) {
  if (json_is_string(value)) return read_text(server, value, text, prompt, refusal);
  if (json_is_array(value)) return read_ids(server, value, text, echo, prompt, refusal);
  return refuse_prompt(
      refusal, "invalid_type",
      "'prompt' must be a string, a list of strings, a list of token ids, or a list of such lists.");
}

bool ch_prompts_read_body(const ch_server *server, json_t *body, int64_t most, bool text, ch_text_job *job,
                          ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, "prompt");
  if (!given)
    return refuse_prompt(refusal, "missing_required_parameter",
                         "'prompt' is missing; give a string, or token ids.");
  size_t size = json_array_size(given);
  if (json_is_array(given) && size == 0)
    return refuse_prompt(refusal, "invalid_value", "'prompt' is an empty list; give at least one prompt.");
  bool several = size > 0 && !json_is_integer(json_array_get(given, 0));
  size_t count = several ? size : 1;
  if ((int64_t)count > most)
    return ch_refuse(refusal, 400, "out_of_range", "prompt", "'prompt' has %zu prompts; the limit is %lld.",
                     count, (long long)most);
  job->prompts = calloc(count, sizeof *job->prompts);
  if (!job->prompts) return ch_refuse_memory(refusal);
  job->prompt_count = (int)count;
  for (size_t i = 0; i < count; i++)
    if (!read_one(server, several ? json_array_get(given, i) : given, text, job->fields.echo,
                  &job->prompts[i], refusal))
      return false;
  return true;
}

static int64_t characters(const char *text, size_t size) {
  int64_t count = 0;
  for (size_t i = 0; i < size; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
  return count;
}

/* The text of the tokens may have more characters at its beginning than the prompt, such as a begin token or a
   leading space. */
bool ch_prompt_place(const ch_server *server, ch_prompt *prompt) {
  ch_text_stream *stream;
  const char *piece;
  size_t size;
  int32_t stop;
  int64_t at = 0;
  if (prompt->echo.count == 0) return true;
  ch_status status = ch_text_stream_new(server->tokenizer, NULL, 0, 0, &stream, NULL);
  for (size_t i = 0; status == CH_OK && i < prompt->echo.count; i++) {
    prompt->echo.records[i].character = at;
    status = ch_text_stream_put(stream, prompt->echo.records[i].token, &piece, &size, &stop, NULL);
    if (status == CH_OK) at += characters(piece, size);
  }
  if (status == CH_OK) status = ch_text_stream_end(stream, &piece, &size, &stop, NULL);
  if (status == CH_OK) at += characters(piece, size);
  const int64_t more = at - characters(prompt->text, prompt->text_size) - prompt->unfinished;
  for (size_t i = 0; i < prompt->echo.count; i++) {
    ch_token_record *record = &prompt->echo.records[i];
    record->character = record->character > more ? record->character - more : 0;
  }
  ch_text_stream_free(stream);
  return status == CH_OK;
}

bool ch_prompts_fit(const ch_server *server, const ch_text_job *job, const char *field, ch_refusal *refusal) {
  for (int p = 0; p < job->prompt_count; p++) {
    long long size = (long long)job->prompts[p].ids.size, context = server->context;
    if (size == 0)
      return ch_refuse(refusal, 400, "invalid_value", field,
                       "'%s' has no tokens, and the tokenizer has no token that begins a text.", field);
    if (size < context) continue;
    ch_refuse(
        refusal, 400, "context_length_exceeded", field,
        "This model's maximum context length is %lld tokens; the prompt of %lld tokens exceeds the available "
        "context size.",
        context, size);
    refusal->prompt_tokens = size;
    refusal->context = context;
    return false;
  }
  return true;
}

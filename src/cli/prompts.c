/* Reads prompts and turns them into tokens. */
#include "cli/prompts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

enum { MOST_PROMPT_BYTES = 256 << 20 };

static ch_status add(ch_prompts *prompts, const char *text, size_t size, ch_error *error) {
  ch_prompt *list = realloc(prompts->list, (size_t)(prompts->count + 1) * sizeof *list);
  if (list) prompts->list = list;
  char *copy = list && text ? malloc(size + 1) : NULL;
  if (!list || (text && !copy)) return ch_no_memory(error);
  if (copy) {
    memcpy(copy, text, size);
    copy[size] = 0;
  }
  list[prompts->count++] = (ch_prompt){.text = copy, .size = text ? size : 0};
  return CH_OK;
}

static ch_status read_stream(FILE *stream, ch_text *text, ch_error *error) {
  char block[1 << 14];
  for (size_t got; (got = fread(block, 1, sizeof block, stream)) > 0 && text->size <= MOST_PROMPT_BYTES;)
    ch_text_put(text, block, got);
  if (text->failed || text->size > MOST_PROMPT_BYTES || ferror(stream))
    return ch_fail(error, CH_ERROR_IO,
                   "cannot read the prompt from standard input, or it is larger than %d MiB",
                   MOST_PROMPT_BYTES >> 20);
  return CH_OK;
}

/* Reads a file, or standard input for "-". */
static ch_status read_file(const char *path, ch_text *text, ch_error *error) {
  if (strcmp(path, "-") == 0) return read_stream(stdin, text, error);
  return ch_read_file(path, MOST_PROMPT_BYTES, &text->data, &text->size, error);
}

ch_status ch_prompts_read_one(const char *text, const char *file, ch_prompts *prompts, ch_error *error) {
  if (!file) return add(prompts, text, text ? strlen(text) : 0, error);
  ch_text read = {0};
  ch_status status = read_file(file, &read, error);
  if (status == CH_OK) {
    size_t size = read.size;
    if (size > 0 && read.data[size - 1] == '\n') size--; /* editors append a newline */
    status = add(prompts, size > 0 ? read.data : "", size, error);
  }
  ch_text_free(&read);
  return status;
}

/* --- lines -------------------------------------------------------------------------------------------------- */

static ch_status add_json(ch_prompts *prompts, const char *path, int64_t number, const char *line,
                          size_t size, ch_error *error) {
  json_t *value = json_loadb(line, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
  const json_t *text =
      json_is_object(value) && json_object_size(value) == 1 ? json_object_get(value, "prompt") : value;
  ch_status status =
      json_is_string(text)
          ? add(prompts, json_string_value(text), json_string_length(text), error)
          : ch_fail(error, CH_ERROR_FORMAT,
                    "line %lld of %s is not a prompt; it must be a JSON string, or an object with "
                    "the string \"prompt\" and nothing else",
                    (long long)number, path);
  json_decref(value);
  return status;
}

static ch_status add_line(ch_prompts *prompts, const char *path, int64_t number, const char *line,
                          size_t size, ch_error *error) {
  size_t length = strlen(path);
  if (size > 0 && line[size - 1] == '\r') size--;
  if (size == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "line %lld of %s is empty; every line must be a prompt",
                   (long long)number, path);
  if (length > 6 && strcmp(path + length - 6, ".jsonl") == 0)
    return add_json(prompts, path, number, line, size, error);
  return add(prompts, line, size, error);
}

ch_status ch_prompts_read_lines(const char *path, ch_prompts *prompts, ch_error *error) {
  ch_text read = {0};
  ch_status status = read_file(path, &read, error);
  const char *line = read.data, *end = read.data + (status == CH_OK ? read.size : 0);
  for (int64_t number = 1; status == CH_OK && line < end; number++) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    status = add_line(prompts, path, number, line, (size_t)(stop - line), error);
    line = stop + 1;
  }
  if (status == CH_OK && prompts->count == 0)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s is empty; it must have a prompt on every line", path);
  ch_text_free(&read);
  return status;
}

/* --- tokens ------------------------------------------------------------------------------------------------- */

static ch_status encode(ch_prompt *prompt, const ch_tokenizer *tokenizer, ch_error *error) {
  CH_TRY(ch_tokenizer_encode(tokenizer, prompt->text ? prompt->text : "", prompt->size,
                             CH_TEXT_SPECIAL | CH_TEXT_WHOLE, &prompt->ids, error));
  if (prompt->ids.size > 0) return CH_OK;
  int32_t start = ch_tokenizer_bos(tokenizer);
  if (start < 0) start = ch_tokenizer_eos(tokenizer); /* a text begins after an end token */
  if (start < 0)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the prompt is empty and the tokenizer has no token that a text begins with; give --prompt TEXT");
  if (!ch_ids_reserve(&prompt->ids, 1)) return ch_no_memory(error);
  prompt->ids.data[prompt->ids.size++] = start;
  return CH_OK;
}

ch_status ch_prompts_encode(ch_prompts *prompts, const ch_tokenizer *tokenizer, ch_error *error) {
  for (int64_t i = 0; i < prompts->count; i++) CH_TRY(encode(&prompts->list[i], tokenizer, error));
  return CH_OK;
}

ch_status ch_prompts_encode_chat(ch_prompts *prompts, ch_chat *chat, const char *system, ch_error *error) {
  for (int64_t i = 0; i < prompts->count; i++) {
    ch_prompt *prompt = &prompts->list[i];
    const ch_message messages[] = {{.role = "system", .content = system, .size = system ? strlen(system) : 0},
                                   {.role = "user", .content = prompt->text, .size = prompt->size}};
    const int first = system ? 0 : 1;
    const ch_chat_request request = {
        .messages = messages + first, .count = (size_t)(2 - first), .add_generation_prompt = true};
    if (!prompt->text)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--chat needs a message; give it with --prompt TEXT");
    CH_TRY(ch_chat_encode(chat, &request, &prompt->ids, error));
    if (prompt->ids.size == 0)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "the model's chat template turns the message into an empty prompt");
  }
  return CH_OK;
}

ch_status ch_prompts_context(const ch_prompts *prompts, const ch_model *model, int64_t asked,
                             int64_t max_tokens, int64_t *context, ch_error *error) {
  int64_t most = ch_model_context_length(model), longest = 0, which = 0;
  for (int64_t i = 0; i < prompts->count; i++)
    if ((int64_t)prompts->list[i].ids.size > longest) {
      longest = (int64_t)prompts->list[i].ids.size;
      which = i + 1;
    }
  if (asked > ch_model_context_limit(model))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--context %lld is more than the model's %lld positions",
                   (long long)asked, (long long)most);
  *context = asked > 0 ? asked : most;
  if (asked == 0 && max_tokens > 0 && longest + max_tokens < most) *context = longest + max_tokens;
  char name[40] = "the prompt";
  if (prompts->count > 1) snprintf(name, sizeof name, "prompt %lld", (long long)which);
  if (longest > *context)
    return ch_fail(error, CH_ERROR_FULL, "%s has %lld tokens and the context holds %lld", name,
                   (long long)longest, (long long)*context);
  return CH_OK;
}

static size_t unfinished(const ch_prompt *prompt) {
  return prompt->text ? ch_utf8_unfinished((const unsigned char *)prompt->text, prompt->size) : 0;
}

void ch_prompt_echo(const ch_prompt *prompt, ch_text *text) {
  if (prompt->text) ch_put_valid_utf8(text, prompt->text, prompt->size - unfinished(prompt));
}

void ch_prompt_echo_rest(const ch_prompt *prompt, bool completed, ch_text *text) {
  size_t rest = unfinished(prompt);
  if (!completed && rest) ch_put_valid_utf8(text, prompt->text + prompt->size - rest, rest);
}

void ch_prompts_free(ch_prompts *prompts) {
  for (int64_t i = 0; i < prompts->count; i++) {
    free(prompts->list[i].text);
    ch_ids_free(&prompts->list[i].ids);
  }
  free(prompts->list);
  *prompts = (ch_prompts){0};
}

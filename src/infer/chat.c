/* Converts messages to a prompt with the model's template. Control tokens spelled in contents stay plain text. */
#define _GNU_SOURCE
#include <crosshead/chat.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "io/chat_templates.h"
#include "template/template.h"
#include "text/tokenizer.h"

struct ch_chat {
  const ch_tokenizer *tokenizer;
  ch_template *template;
  char *text;
  json_t *names; /* object of the variables bos_token, eos_token, ... */
};

/* Contents may spell special tokens. In the messages that the template gets, a mark replaces each such spelling: a
   number between two noncharacters of Unicode. After rendering, the spelling replaces the mark. */
static const char OPEN[] = "\xef\xb7\x90", CLOSE[] = "\xef\xb7\x91"; /* U+FDD0, U+FDD1 */
enum { MARK = sizeof OPEN - 1 };

/* The spellings that marks replace. */
typedef struct spellings {
  ch_prompt_part *list; /* [count] parts of messages' contents */
  size_t count, capacity;
} spellings;

/* --- opening -------------------------------------------------------------------------------------------- */

/* Returns the text of a token, which is a string or an object with "content". Returns NULL for other values. */
static json_t *token_text(const json_t *value) {
  if (json_is_object(value)) value = json_object_get(value, "content");
  return json_is_string(value) ? json_incref((json_t *)(uintptr_t)value) : NULL;
}

static void name_token(json_t *names, const char *key, const ch_tokenizer *tokenizer, int32_t id) {
  size_t size = 0;
  const char *piece = id >= 0 ? ch_tokenizer_piece(tokenizer, id, &size) : NULL;
  if (piece && !json_object_get(names, key)) json_object_set_new(names, key, json_stringn(piece, size));
}

/* Reads the names of special tokens from tokenizer_config.json and special_tokens_map.json, or else from the
   tokenizer. */
static ch_status read_names(ch_chat *chat, const char *directory, ch_error *error) {
  static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
  static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
  chat->names = json_object();
  if (!chat->names) return ch_no_memory(error);
  for (int f = 0; f < 2; f++) {
    json_t *root = NULL;
    CH_TRY(ch_tokenizer_json_read(directory, files[f], &root, error));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      json_t *text = token_text(json_object_get(root, keys[k]));
      if (text && !json_object_get(chat->names, keys[k])) json_object_set(chat->names, keys[k], text);
      json_decref(text);
    }
    json_decref(root);
  }
  name_token(chat->names, "bos_token", chat->tokenizer, ch_tokenizer_bos(chat->tokenizer));
  name_token(chat->names, "eos_token", chat->tokenizer, ch_tokenizer_eos(chat->tokenizer));
  return CH_OK;
}

ch_status ch_chat_open_text(const char *directory, const ch_tokenizer *tokenizer, const char *text,
                            const char *name, ch_chat **result, ch_error *error) {
  if (!directory || !tokenizer || !text || !name || !result)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the directory, the tokenizer, the template, its name or the chat pointer is NULL");
  ch_chat *chat = calloc(1, sizeof *chat);
  *result = NULL;
  if (!chat) return ch_no_memory(error);
  chat->tokenizer = tokenizer;
  chat->text = strdup(text);
  ch_status status = chat->text ? read_names(chat, directory, error) : ch_no_memory(error);
  if (status == CH_OK) status = ch_template_parse(text, CH_TEMPLATE_CHAT, name, &chat->template, error);
  if (status == CH_OK)
    *result = chat;
  else
    ch_chat_free(chat);
  return status;
}

ch_status ch_chat_open(const char *directory, const ch_tokenizer *tokenizer, ch_chat **chat,
                       ch_error *error) {
  if (!directory || !tokenizer || !chat)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the directory, the tokenizer or the chat pointer is NULL");
  ch_chat_templates templates;
  *chat = NULL;
  ch_status status = ch_chat_templates_read(directory, &templates, error);
  const int usual = status == CH_OK ? ch_chat_templates_find(&templates, CH_USUAL_TEMPLATE) : -1;
  if (usual >= 0)
    status = ch_chat_open_text(directory, tokenizer, templates.list[usual].text, "the model's chat template",
                               chat, error);
  ch_chat_templates_free(&templates);
  return status;
}

void ch_chat_free(ch_chat *chat) {
  if (!chat) return;
  ch_template_free(chat->template);
  json_decref(chat->names);
  free(chat->text);
  free(chat);
}

const char *ch_chat_template(const ch_chat *chat) {
  return chat->text;
}

/* --- contents with marks -------------------------------------------------------------------------------- */

static bool add_spelling(spellings *all, const char *text, size_t size) {
  if (all->count == all->capacity) {
    const size_t capacity = all->capacity ? 2 * all->capacity : 16;
    ch_prompt_part *more = realloc(all->list, capacity * sizeof *more);
    if (!more) return false;
    all->list = more;
    all->capacity = capacity;
  }
  all->list[all->count++] = (ch_prompt_part){.text = text, .size = size};
  return true;
}

/* Finds the first spelling in a text that must be marked: a special token, or the character that begins a mark. */
static bool find_spelling(const ch_tokenizer *tokenizer, const char *text, size_t size, size_t *at,
                          size_t *length) {
  const char *mark = memmem(text, size, OPEN, MARK);
  const size_t before = mark ? (size_t)(mark - text) : size;
  if (ch_tokenizer_find_special(tokenizer, text, size, at, length) && *at <= before) return true;
  *at = before;
  *length = MARK;
  return mark;
}

static void put_marked(const ch_chat *chat, const ch_message *message, ch_text *content, spellings *all) {
  const char *text = message->content ? message->content : "";
  for (size_t from = 0;;) {
    size_t at, length;
    if (!find_spelling(chat->tokenizer, text + from, message->size - from, &at, &length)) {
      ch_text_put(content, text + from, message->size - from);
      return;
    }
    ch_text_put(content, text + from, at);
    ch_text_printf(content, "%s%zu%s", OPEN, all->count, CLOSE);
    content->failed |= !add_spelling(all, text + from + at, length);
    from += at + length;
  }
}

/* The mark at the end of the last content. If its space is missing after rendering, the template trims. */
static const char END_MARK[] = "\xef\xb7\x90"
                               "end"
                               "\xef\xb7\x91 ";

static json_t *messages_of(const ch_chat *chat, const ch_chat_request *request, spellings *all) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < request->count; i++) {
    const ch_message *message = &request->messages[i];
    ch_text content = {0};
    ch_text_put(&content, "", 0);
    put_marked(chat, message, &content, all);
    if (request->continue_final_message && i + 1 == request->count) ch_text_puts(&content, END_MARK);
    json_t *object = content.failed ? NULL
                                    : json_pack("{s:s, s:s%}", "role", message->role, "content", content.data,
                                                content.size);
    ch_text_free(&content);
    if (!object || json_array_append_new(list, object) < 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* --- rendering ------------------------------------------------------------------------------------------ */

static ch_status check_request(const ch_chat *chat, const ch_chat_request *request, ch_error *error) {
  if (!chat || !request || (!request->messages && request->count))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the chat, the request or its messages are NULL");
  if (request->add_generation_prompt && request->continue_final_message)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a prompt either continues the last message or begins an answer; choose one");
  if (request->continue_final_message && request->count == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "there is no message to continue");
  for (size_t i = 0; i < request->count; i++) {
    const ch_message *m = &request->messages[i];
    if (!m->role || (!m->content && m->size))
      return ch_fail(error, CH_ERROR_ARGUMENT, "message %zu has no %s", i, m->role ? "content" : "role");
  }
  return CH_OK;
}

/* Collects the variables of the template. */
static ch_status fields_of(const ch_chat *chat, const ch_chat_request *request, spellings *all,
                           json_t **fields, ch_error *error) {
  *fields = json_copy(chat->names);
  json_t *messages = messages_of(chat, request, all);
  if (!*fields || !messages) {
    json_decref(messages);
    return ch_fail(error, CH_ERROR_ARGUMENT, "a message is not UTF-8 text, or memory is exhausted");
  }
  json_object_set_new(*fields, "messages", messages);
  json_object_set_new(*fields, "tools", json_null());
  json_object_set_new(*fields, "documents", json_null());
  json_object_set_new(*fields, "add_generation_prompt", json_boolean(request->add_generation_prompt));
  if (!request->variables) return CH_OK;
  json_t *variables = NULL;
  CH_TRY(ch_json_parse(request->variables, strlen(request->variables), "the template's variables", &variables,
                       error));
  const int failed = json_object_update(*fields, variables);
  json_decref(variables);
  return failed ? ch_no_memory(error) : CH_OK;
}

/* Renders the prompt with marks in place of the spellings. */
static ch_status render(const ch_chat *chat, const ch_chat_request *request, spellings *all, ch_text *text,
                        ch_error *error) {
  ch_template_scope scope = {.now = request->now};
  json_t *value = NULL;
  ch_status status = fields_of(chat, request, all, &scope.fields, error);
  if (status == CH_OK) status = ch_template_value(chat->template, &scope, &value, error);
  if (status == CH_OK && json_is_string(value))
    ch_text_put(text, json_string_value(value), json_string_length(value));
  else if (status == CH_OK)
    status = ch_fail(error, CH_ERROR_FORMAT, "the chat template produces no text");
  if (status == CH_OK && text->failed) status = ch_no_memory(error);
  json_decref(value);
  json_decref(scope.fields);
  ch_template_scope_free(&scope);
  return status;
}

/* Cuts the text at the end of the last content. If the template trims contents, trims the text. */
static ch_status cut_at_end(ch_text *text, ch_error *error) {
  const size_t mark = sizeof END_MARK - 2;
  const char *found = NULL;
  for (const char *at = text->data; at;) {
    at = memmem(at, text->size - (size_t)(at - text->data), END_MARK, mark);
    if (at) found = at++;
  }
  if (!found)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the chat template does not print the content of the last message, so it cannot be continued");
  const bool trimmed = found + mark >= text->data + text->size || found[mark] != ' ';
  text->size = (size_t)(found - text->data);
  while (trimmed && text->size && strchr(" \t\n\r\f\v", text->data[text->size - 1])) text->size--;
  return CH_OK;
}

/* Returns the spelling of the mark at the beginning of a text, or NULL if there is none. *after receives the address
   after the mark. */
static const ch_prompt_part *mark_at(const char *text, const char *end, const spellings *all,
                                     const char **after) {
  const char *p = text + MARK;
  size_t index = 0;
  while (p < end && *p >= '0' && *p <= '9' && index < all->count) index = 10 * index + (size_t)(*p++ - '0');
  if (p == text + MARK || end - p < MARK || memcmp(p, CLOSE, MARK) != 0 || index >= all->count) return NULL;
  *after = p + MARK;
  return &all->list[index];
}

/* Cuts the text at its marks into the template's texts and the spellings. */
static ch_status cut_parts(const ch_text *text, const spellings *all, spellings *parts, ch_error *error) {
  const char *from = text->data, *at = from, *end = from + text->size;
  bool enough = true;
  while (at < end && (at = memmem(at, (size_t)(end - at), OPEN, MARK))) {
    const char *after;
    const ch_prompt_part *spelling = mark_at(at, end, all, &after);
    if (!spelling) {
      at += MARK;
      continue;
    }
    enough &= add_spelling(parts, from, (size_t)(at - from));
    if (enough) parts->list[parts->count - 1].special = true;
    enough &= add_spelling(parts, spelling->text, spelling->size);
    from = at = after;
  }
  enough &= add_spelling(parts, from, (size_t)(end - from));
  if (enough) parts->list[parts->count - 1].special = true;
  return enough ? CH_OK : ch_no_memory(error);
}

/* Renders the prompt into `text` and cuts it into parts. The parts point into `text` and into the contents of
   messages. */
static ch_status make_parts(const ch_chat *chat, const ch_chat_request *request, ch_text *text,
                            spellings *parts, ch_error *error) {
  spellings all = {0};
  CH_TRY(check_request(chat, request, error));
  ch_text_put(text, "", 0);
  ch_status status = render(chat, request, &all, text, error);
  if (status == CH_OK && request->continue_final_message) status = cut_at_end(text, error);
  if (status == CH_OK) status = cut_parts(text, &all, parts, error);
  free(all.list);
  return status;
}

ch_status ch_chat_render(ch_chat *chat, const ch_chat_request *request, char **text, size_t *size,
                         ch_error *error) {
  ch_text rendered = {0}, whole = {0};
  spellings parts = {0};
  if (!text || !size) return ch_fail(error, CH_ERROR_ARGUMENT, "the prompt pointer is NULL");
  ch_status status = make_parts(chat, request, &rendered, &parts, error);
  ch_text_put(&whole, "", 0);
  for (size_t i = 0; status == CH_OK && i < parts.count; i++)
    ch_text_put(&whole, parts.list[i].text, parts.list[i].size);
  if (status == CH_OK && whole.failed) status = ch_no_memory(error);
  free(parts.list);
  ch_text_free(&rendered);
  if (status != CH_OK) {
    ch_text_free(&whole);
    return status;
  }
  *text = whole.data;
  *size = whole.size;
  return CH_OK;
}

ch_status ch_chat_encode(ch_chat *chat, const ch_chat_request *request, ch_ids *ids, ch_error *error) {
  ch_text text = {0};
  spellings parts = {0};
  if (!ids) return ch_fail(error, CH_ERROR_ARGUMENT, "the ids pointer is NULL");
  ch_status status = make_parts(chat, request, &text, &parts, error);
  if (status == CH_OK)
    status = ch_tokenizer_encode_parts(chat->tokenizer, parts.list, parts.count, CH_TEXT_BARE, ids, error);
  free(parts.list);
  ch_text_free(&text);
  return status;
}

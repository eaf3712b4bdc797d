/* Chat templates. What a message says is not what the template says: special tokens spelled out in a content are marked before
   rendering, and the marks become plain text when the prompt is encoded. */
#include <crosshead/chat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "template/template.h"

enum { LARGEST_FILE = 64 << 20, LARGEST_TEMPLATE = 4 << 20 };

/* A mark is BEGIN, the number of a spelling in decimal, END: characters that Unicode assigns to no text. Where a content has one of
   them itself, it is marked too. */
static const char mark_begin[] = "\xef\xb7\x90", mark_end[] = "\xef\xb7\x91";
enum { MARK_SIZE = 3 };

typedef struct spelling {
  const char *text;
  size_t size;
} spelling;

struct ch_chat {
  const ch_tokenizer *tokenizer;
  char *text;
  ch_template *template;
  json_t *names;       /* "bos_token" and others: spellings of special tokens, which templates print */
  spelling *spellings; /* [count] of special tokens, then the two characters of marks */
  size_t count;
  bool begins[256]; /* bytes that a spelling begins with */
};

/* --- opening ---------------------------------------------------------------------------------------------------- */

static ch_status read_file(const char *directory, const char *name, size_t limit, char **text,
                           ch_error *error) {
  size_t size;
  char *path = ch_path_join(directory, name);
  *text = NULL;
  if (!path) return ch_no_memory(error);
  ch_status status = ch_is_file(path) ? ch_read_file(path, limit, text, &size, error) : CH_OK;
  free(path);
  return status;
}

/* The object of a file; NULL where there is no such file. */
static ch_status read_object(const char *directory, const char *name, json_t **object, ch_error *error) {
  char *path = ch_path_join(directory, name);
  *object = NULL;
  if (!path) return ch_no_memory(error);
  ch_status status = ch_is_file(path) ? ch_json_read(path, LARGEST_FILE, object, error) : CH_OK;
  free(path);
  return status;
}

/* "chat_template": a text, or a list of {"name", "template"}. NULL: none. */
static const char *template_in(const json_t *config) {
  const json_t *given = json_object_get(config, "chat_template");
  for (size_t i = 0; i < json_array_size(given); i++) {
    const json_t *one = json_array_get(given, i);
    const char *name = json_string_value(json_object_get(one, "name"));
    if (name && strcmp(name, "default") == 0) return json_string_value(json_object_get(one, "template"));
  }
  return json_string_value(given);
}

static ch_status copy_text(const char *text, char **copy, ch_error *error) {
  *copy = strdup(text);
  return *copy ? CH_OK : ch_no_memory(error);
}

/* The text of the directory's template; NULL: it has none. */
static ch_status find_text(const char *directory, const json_t *config, char **text, ch_error *error) {
  json_t *other = NULL;
  CH_TRY(read_file(directory, "chat_template.jinja", LARGEST_TEMPLATE, text, error));
  if (*text) return CH_OK;
  if (template_in(config)) return copy_text(template_in(config), text, error);
  CH_TRY(read_object(directory, "chat_template.json", &other, error));
  ch_status status = template_in(other) ? copy_text(template_in(other), text, error) : CH_OK;
  json_decref(other);
  return status;
}

/* The members of tokenizer_config.json whose names end in "_token": texts, or objects with their "content". */
static ch_status note_names(ch_chat *chat, json_t *config, ch_error *error) {
  const char *key;
  json_t *value;
  static const char ending[] = "_token";
  chat->names = json_object();
  if (!chat->names) return ch_no_memory(error);
  json_object_foreach(config, key, value) {
    size_t size = strlen(key);
    json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    if (size < sizeof ending || strcmp(key + size + 1 - sizeof ending, ending) != 0 ||
        !json_is_string(content))
      continue;
    if (json_object_set(chat->names, key, content) != 0) return ch_no_memory(error);
  }
  return CH_OK;
}

/* Names that the configuration leaves out are the tokenizer's. */
static ch_status note_token(ch_chat *chat, const char *name, int32_t id, ch_error *error) {
  size_t size;
  const char *piece = id < 0 ? NULL : ch_tokenizer_piece(chat->tokenizer, id, &size);
  if (!piece || json_object_get(chat->names, name)) return CH_OK;
  return json_object_set_new(chat->names, name, json_stringn(piece, size)) == 0 ? CH_OK : ch_no_memory(error);
}

static void add_spelling(ch_chat *chat, const char *text, size_t size) {
  chat->spellings[chat->count++] = (spelling){text, size};
  chat->begins[(unsigned char)*text] = true;
}

static ch_status note_spellings(ch_chat *chat, ch_error *error) {
  int32_t ids = ch_tokenizer_vocab_size(chat->tokenizer);
  size_t special = 0, size;
  for (int32_t id = 0; id < ids; id++) special += ch_tokenizer_is_special(chat->tokenizer, id);
  chat->spellings = malloc((special + 2) * sizeof *chat->spellings);
  if (!chat->spellings) return ch_no_memory(error);
  for (int32_t id = 0; id < ids; id++) {
    const char *piece =
        ch_tokenizer_is_special(chat->tokenizer, id) ? ch_tokenizer_piece(chat->tokenizer, id, &size) : NULL;
    if (piece && size > 0) add_spelling(chat, piece, size);
  }
  add_spelling(chat, mark_begin, MARK_SIZE);
  add_spelling(chat, mark_end, MARK_SIZE);
  return CH_OK;
}

/* Fills a chat. Its text may be set already. */
static ch_status open_chat(ch_chat *chat, const char *directory, const char *name, ch_error *error) {
  json_t *config = NULL;
  ch_status status;
  CH_TRY_GOTO(read_object(directory, "tokenizer_config.json", &config, error));
  if (!chat->text) CH_TRY_GOTO(find_text(directory, config, &chat->text, error));
  if (!chat->text) goto done;
  CH_TRY_GOTO(ch_template_parse(chat->text, CH_TEMPLATE_CHAT, name, &chat->template, error));
  CH_TRY_GOTO(note_names(chat, config, error));
  CH_TRY_GOTO(note_token(chat, "bos_token", ch_tokenizer_bos(chat->tokenizer), error));
  CH_TRY_GOTO(note_token(chat, "eos_token", ch_tokenizer_eos(chat->tokenizer), error));
  CH_TRY_GOTO(note_spellings(chat, error));
done:
  json_decref(config);
  return status;
}

ch_status ch_chat_open_text(const char *directory, const ch_tokenizer *tokenizer, const char *text,
                            const char *name, ch_chat **result, ch_error *error) {
  ch_chat *chat = calloc(1, sizeof *chat);
  *result = NULL;
  if (!chat) return ch_no_memory(error);
  chat->tokenizer = tokenizer;
  ch_status status = text ? copy_text(text, &chat->text, error) : CH_OK;
  if (status == CH_OK) status = open_chat(chat, directory, name, error);
  if (status == CH_OK && chat->text)
    *result = chat;
  else
    ch_chat_free(chat);
  return status;
}

ch_status ch_chat_open(const char *directory, const ch_tokenizer *tokenizer, ch_chat **chat,
                       ch_error *error) {
  return ch_chat_open_text(directory, tokenizer, NULL, "the chat template", chat, error);
}

void ch_chat_free(ch_chat *chat) {
  if (!chat) return;
  ch_template_free(chat->template);
  json_decref(chat->names);
  free(chat->spellings);
  free(chat->text);
  free(chat);
}

const char *ch_chat_template(const ch_chat *chat) {
  return chat->text;
}

/* --- contents ---------------------------------------------------------------------------------------------------- */

/* The longest spelling at a place of a text, or `count` where there is none. */
static size_t spelling_at(const ch_chat *chat, const char *text, size_t size) {
  size_t found = chat->count, longest = 0;
  if (!chat->begins[(unsigned char)*text]) return found;
  for (size_t i = 0; i < chat->count; i++) {
    const spelling *s = &chat->spellings[i];
    if (s->size <= longest || s->size > size || memcmp(text, s->text, s->size) != 0) continue;
    found = i;
    longest = s->size;
  }
  return found;
}

/* Appends a content with marks for the spellings in it. */
static void mark(const ch_chat *chat, const char *text, size_t size, ch_text *marked) {
  size_t done = 0;
  for (size_t at = 0; at < size;) {
    size_t index = spelling_at(chat, text + at, size - at);
    if (index == chat->count) {
      at++;
      continue;
    }
    ch_text_put(marked, text + done, at - done);
    ch_text_printf(marked, "%s%zu%s", mark_begin, index, mark_end);
    at += chat->spellings[index].size;
    done = at;
  }
  ch_text_put(marked, text + done, size - done);
}

/* The spelling that a mark at a place of a text stands for, and the mark's size; `count` where there is no mark. */
static size_t marked_at(const ch_chat *chat, const char *text, size_t size, size_t *mark_size) {
  size_t at = MARK_SIZE, index = 0;
  if (size < MARK_SIZE || memcmp(text, mark_begin, MARK_SIZE) != 0) return chat->count;
  while (at < size && text[at] >= '0' && text[at] <= '9' && index < chat->count)
    index = 10 * index + (size_t)(text[at++] - '0');
  if (at == MARK_SIZE || at + MARK_SIZE > size || memcmp(text + at, mark_end, MARK_SIZE) != 0)
    return chat->count;
  *mark_size = at + MARK_SIZE;
  return index < chat->count ? index : chat->count;
}

/* --- rendering ----------------------------------------------------------------------------------------------------- */

static ch_status check_request(const ch_chat_request *request, ch_error *error) {
  if (request->count == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "a chat needs at least one message");
  if (request->continue_final_message && request->add_generation_prompt)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "continue_final_message and add_generation_prompt exclude each other");
  return CH_OK;
}

/* A JSON string of a content, marked or as it is; NULL when memory is out or it is no UTF-8. */
static json_t *content_of(const ch_chat *chat, const ch_message *message, bool marks) {
  ch_text marked = {0};
  if (!marks) return json_stringn(message->content, message->size);
  mark(chat, message->content, message->size, &marked);
  json_t *content = marked.failed ? NULL : json_stringn(marked.data ? marked.data : "", marked.size);
  ch_text_free(&marked);
  return content;
}

static json_t *messages_of(const ch_chat *chat, const ch_chat_request *request, bool marks) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < request->count; i++) {
    json_t *message = json_pack("{s:s, s:o}", "role", request->messages[i].role, "content",
                                content_of(chat, &request->messages[i], marks));
    if (!message || json_array_append_new(list, message) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static ch_status check_contents(const ch_chat_request *request, ch_error *error) {
  for (size_t i = 0; i < request->count; i++) {
    const ch_message *m = &request->messages[i];
    if (ch_utf8_valid_prefix((const unsigned char *)m->content, m->size) != m->size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "messages[%zu] is no UTF-8", i);
  }
  return CH_OK;
}

/* What a template sees. */
static ch_status fields_of(const ch_chat *chat, const ch_chat_request *request, bool marks, json_t **fields,
                           ch_error *error) {
  json_t *variables = NULL;
  *fields = NULL;
  CH_TRY(check_contents(request, error));
  if (request->variables)
    CH_TRY(ch_json_parse(request->variables, strlen(request->variables), "the template's variables",
                         &variables, error));
  json_t *all = json_pack("{s:o, s:b, s:n, s:n}", "messages", messages_of(chat, request, marks),
                          "add_generation_prompt", request->add_generation_prompt, "tools", "documents");
  bool fine = all && json_object_update_missing(all, chat->names) == 0 &&
              (!variables || json_object_update(all, variables) == 0);
  json_decref(variables);
  if (fine) {
    *fields = all;
    return CH_OK;
  }
  json_decref(all);
  return ch_no_memory(error);
}

/* The place behind the last message's content, which is where a prompt that continues it ends: its last occurrence, without white
   space around it if the template has removed that. */
static ch_status find_end(const char *text, size_t size, const char *content, size_t length, size_t *end,
                          ch_error *error) {
  for (int trimmed = 0; trimmed < 2; trimmed++) {
    if (trimmed) {
      while (length > 0 && strchr(" \t\r\n", content[length - 1])) length--;
      while (length > 0 && strchr(" \t\r\n", *content)) content++, length--;
    }
    for (size_t at = size >= length ? size - length + 1 : 0; at-- > 0;)
      if (memcmp(text + at, content, length) == 0) {
        *end = at + length;
        return CH_OK;
      }
  }
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "the chat template changes the final message, so that it cannot be continued");
}

static ch_status cut(const ch_chat *chat, const ch_chat_request *request, bool marks, ch_text *text,
                     ch_error *error) {
  const ch_message *last = &request->messages[request->count - 1];
  ch_text content = {0};
  if (marks)
    mark(chat, last->content, last->size, &content);
  else
    ch_text_put(&content, last->content, last->size);
  size_t end = 0;
  ch_status status = content.failed ? ch_no_memory(error)
                                    : find_end(text->data, text->size, content.data ? content.data : "",
                                               content.size, &end, error);
  ch_text_free(&content);
  if (status == CH_OK) text->size = end;
  return status;
}

static ch_status render(ch_chat *chat, const ch_chat_request *request, bool marks, ch_text *text,
                        ch_error *error) {
  json_t *fields = NULL, *value = NULL;
  CH_TRY(check_request(request, error));
  CH_TRY(fields_of(chat, request, marks, &fields, error));
  ch_template_scope scope = {.fields = fields, .now = request->now};
  ch_status status = ch_template_value(chat->template, &scope, &value, error);
  ch_template_scope_free(&scope);
  json_decref(fields);
  if (status == CH_OK && json_is_string(value))
    ch_text_put(text, json_string_value(value), json_string_length(value));
  else if (status == CH_OK)
    status = ch_fail(error, CH_ERROR_FORMAT, "the chat template gives no text");
  ch_text_put(text, "", 0);
  json_decref(value);
  if (status == CH_OK && text->failed) status = ch_no_memory(error);
  if (status == CH_OK && request->continue_final_message) status = cut(chat, request, marks, text, error);
  return status;
}

ch_status ch_chat_render(ch_chat *chat, const ch_chat_request *request, char **text, size_t *size,
                         ch_error *error) {
  ch_text rendered = {0};
  *text = NULL;
  ch_status status = render(chat, request, false, &rendered, error);
  size_t length = rendered.size;
  if (status == CH_OK) ch_text_put(&rendered, "", 1);
  if (status == CH_OK && rendered.failed) status = ch_no_memory(error);
  if (status != CH_OK) {
    ch_text_free(&rendered);
    return status;
  }
  *text = rendered.data;
  *size = length;
  return CH_OK;
}

/* --- encoding --------------------------------------------------------------------------------------------------------- */

typedef struct parts {
  ch_prompt_part *list;
  size_t count, capacity;
} parts;

static bool add_part(parts *p, const char *text, size_t size, bool special) {
  if (size == 0) return true;
  if (p->count == p->capacity) {
    size_t capacity = p->capacity ? 2 * p->capacity : 16;
    ch_prompt_part *list = realloc(p->list, capacity * sizeof *list);
    if (!list) return false;
    p->list = list;
    p->capacity = capacity;
  }
  p->list[p->count++] = (ch_prompt_part){text, size, special};
  return true;
}

/* Cuts a rendered text at its marks. */
static bool divide(const ch_chat *chat, const ch_text *text, parts *p) {
  size_t done = 0, mark_size = 0;
  for (size_t at = 0; at < text->size;) {
    size_t index = marked_at(chat, text->data + at, text->size - at, &mark_size);
    if (index == chat->count) {
      at++;
      continue;
    }
    const spelling *s = &chat->spellings[index];
    if (!add_part(p, text->data + done, at - done, true) || !add_part(p, s->text, s->size, false))
      return false;
    at += mark_size;
    done = at;
  }
  return add_part(p, text->data + done, text->size - done, true);
}

ch_status ch_chat_encode(ch_chat *chat, const ch_chat_request *request, ch_ids *ids, ch_error *error) {
  ch_text text = {0};
  parts p = {0};
  ch_status status = render(chat, request, true, &text, error);
  if (status == CH_OK && !divide(chat, &text, &p)) status = ch_no_memory(error);
  if (status == CH_OK)
    status = ch_tokenizer_encode_parts(chat->tokenizer, p.list, p.count, CH_TEXT_BARE, ids, error);
  free(p.list);
  ch_text_free(&text);
  return status;
}

/* Reads and validates the messages of a chat. Errors name the position: "messages[1].content". */
#include "serve/chat_messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "serve/request_body.h"

/* Refuses a member of a message. The error names the member and the position of the message. */
static bool refuse_place(ch_refusal *refusal, size_t index, const char *member, const char *code,
                         const char *sentence) {
  char place[64];
  snprintf(place, 64, "messages[%zu]%s%s", index, *member ? "." : "", member);
  return ch_refuse(refusal, 400, code, place, "'%s' %s", place, sentence);
}

static bool read_role(const json_t *message, size_t index, const char **role, ch_refusal *refusal) {
  static const char *const known[] = {"system", "developer", "user", "assistant"};
  const json_t *given = ch_body_member(message, "role");
  if (!given) return refuse_place(refusal, index, "role", "missing_required_parameter", "is missing.");
  if (!json_is_string(given))
    return refuse_place(refusal, index, "role", "invalid_type", "must be a string.");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(json_string_value(given), known[i]) == 0) {
      *role = i == 1 ? "system" : known[i];
      return true;
    }
  return refuse_place(refusal, index, "role", "invalid_value",
                      "is not supported; it must be system, developer, user or assistant.");
}

/* Joins the text parts of a content list. */
static bool join_parts(const json_t *parts, size_t index, char **joined, size_t *size, ch_refusal *refusal) {
  ch_text text = {0};
  for (size_t i = 0; i < json_array_size(parts); i++) {
    const json_t *part = json_array_get(parts, i), *piece = json_object_get(part, "text");
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type || strcmp(type, "text") != 0 || !json_is_string(piece)) {
      ch_text_free(&text);
      return refuse_place(
          refusal, index, "content", "unsupported_parameter",
          "has a part that is not text; only {\"type\": \"text\", \"text\": ...} is supported.");
    }
    ch_text_put(&text, json_string_value(piece), json_string_length(piece));
  }
  ch_text_put(&text, "", 1);
  if (text.failed) {
    ch_text_free(&text);
    return ch_refuse_memory(refusal);
  }
  *joined = text.data;
  *size = text.size - 1;
  return true;
}

static bool read_message(const json_t *message, size_t index, ch_messages *messages, ch_refusal *refusal) {
  ch_message *m = &messages->list[index];
  if (!json_is_object(message)) return refuse_place(refusal, index, "", "invalid_type", "must be an object.");
  if (!read_role(message, index, &m->role, refusal)) return false;
  const json_t *content = ch_body_member(message, "content");
  if (!content) return refuse_place(refusal, index, "content", "missing_required_parameter", "is missing.");
  if (json_is_array(content)) {
    if (!join_parts(content, index, &messages->joined[index], &m->size, refusal)) return false;
    m->content = messages->joined[index];
    return true;
  }
  if (!json_is_string(content))
    return refuse_place(refusal, index, "content", "invalid_type", "must be a string or a list of parts.");
  m->content = json_string_value(content);
  m->size = json_string_length(content);
  return true;
}

/* Reads chat_template_kwargs, and adds reasoning_effort to them. */
static bool read_variables(const json_t *body, ch_messages *messages, ch_refusal *refusal) {
  json_t *given = ch_body_member(body, "chat_template_kwargs"),
         *effort = ch_body_member(body, "reasoning_effort");
  if (given && !json_is_object(given))
    return ch_refuse(refusal, 400, "invalid_type", "chat_template_kwargs",
                     "'chat_template_kwargs' must be an object.");
  if (effort && !json_is_string(effort))
    return ch_refuse(refusal, 400, "invalid_type", "reasoning_effort",
                     "'reasoning_effort' must be a string.");
  if (!given && !effort) return true;
  json_t *all = json_object();
  bool fine = all && (!effort || json_object_set(all, "reasoning_effort", effort) == 0) &&
              (!given || json_object_update(all, given) == 0);
  if (fine) messages->variables = ch_json_dump(all, JSON_COMPACT);
  json_decref(all);
  return messages->variables || ch_refuse_memory(refusal);
}

/* Reads the ending of the prompt: the start of a new message, or the last message left open. */
static bool read_ending(const json_t *body, ch_chat_request *request, ch_refusal *refusal) {
  bool given = ch_body_member(body, "add_generation_prompt") != NULL;
  request->add_generation_prompt = true;
  if (!ch_field_bool(body, "add_generation_prompt", &request->add_generation_prompt, refusal) ||
      !ch_field_bool(body, "continue_final_message", &request->continue_final_message, refusal))
    return false;
  if (!request->continue_final_message) return true;
  if (given && request->add_generation_prompt)
    return ch_refuse(refusal, 400, "invalid_value", "continue_final_message",
                     "'continue_final_message' cannot be combined with 'add_generation_prompt'.");
  request->add_generation_prompt = false;
  return true;
}

bool ch_messages_read(const ch_server *server, json_t *body, ch_messages *messages, ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, "messages");
  if (!given)
    return ch_refuse(refusal, 400, "missing_required_parameter", "messages", "'messages' is missing.");
  if (!json_is_array(given))
    return ch_refuse(refusal, 400, "invalid_type", "messages", "'messages' must be a list of objects.");
  if (json_array_size(given) == 0)
    return ch_refuse(refusal, 400, "invalid_value", "messages",
                     "'messages' is empty; give at least one message.");
  messages->count = json_array_size(given);
  messages->list = calloc(messages->count, sizeof *messages->list);
  messages->joined = calloc(messages->count, sizeof *messages->joined);
  if (!messages->list || !messages->joined) return ch_refuse_memory(refusal);
  for (size_t i = 0; i < messages->count; i++)
    if (!read_message(json_array_get(given, i), i, messages, refusal)) return false;
  if (!read_ending(body, &messages->request, refusal) || !read_variables(body, messages, refusal))
    return false;
  messages->request.messages = messages->list;
  messages->request.count = messages->count;
  messages->request.variables = messages->variables;
  if (server->chat) return true;
  if (*server->chat_error)
    return ch_refuse(refusal, 400, "no_chat_template", "messages",
                     "The model's chat template failed: %.700s.", server->chat_error);
  return ch_refuse(
      refusal, 400, "no_chat_template", "messages",
      "The model has no chat template; use /v1/completions, or start the server with --chat-template.");
}

void ch_messages_free(ch_messages *messages) {
  for (size_t i = 0; messages->joined && i < messages->count; i++) free(messages->joined[i]);
  free(messages->joined);
  free(messages->list);
  free(messages->variables);
}

static bool refuse_template(ch_refusal *refusal, ch_status status, const ch_error *error) {
  if (status == CH_ERROR_MEMORY) return ch_refuse_memory(refusal);
  return ch_refuse(refusal, 400, "invalid_value", "messages", "%s", error->message);
}

bool ch_messages_render(const ch_server *server, const ch_messages *messages, char **text, size_t *size,
                        ch_refusal *refusal) {
  ch_error error = {0};
  ch_status status = ch_chat_render(server->chat, &messages->request, text, size, &error);
  return status == CH_OK || refuse_template(refusal, status, &error);
}

bool ch_messages_encode(const ch_server *server, const ch_messages *messages, ch_ids *ids,
                        ch_refusal *refusal) {
  ch_error error = {0};
  ch_status status = ch_chat_encode(server->chat, &messages->request, ids, &error);
  return status == CH_OK || refuse_template(refusal, status, &error);
}

/* Copies chat templates, and the tokens that end a turn, from model directories to GGUF and back. */
#include "formats/chat_metadata.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/pieces.h"

static const char gguf_key[] = "tokenizer.chat_template";

void ch_chat_metadata_free(ch_chat_metadata *chat) {
  ch_chat_templates_free(&chat->templates);
  *chat = (ch_chat_metadata){0};
}

static void add_end(ch_chat_metadata *chat, int64_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size || chat->end_count == CH_MAX_END_TOKENS) return;
  for (int i = 0; i < chat->end_count; i++)
    if (chat->ends[i] == id) return;
  chat->ends[chat->end_count++] = (int32_t)id;
}

/* --- directories ---------------------------------------------------------------------------------------- */

ch_status ch_chat_from_directory(const char *directory, const ch_config *config, ch_chat_metadata *chat,
                                 ch_error *error) {
  *chat = (ch_chat_metadata){0};
  int count = 0;
  int32_t ids[CH_MAX_END_TOKENS];
  CH_TRY(ch_chat_templates_read(directory, &chat->templates, error));
  CH_TRY(ch_end_tokens(directory, config, NULL, ids, &count, error));
  for (int i = 0; i < count; i++) add_end(chat, ids[i], config->vocab_size);
  return CH_OK;
}

/* --- from GGUF ------------------------------------------------------------------------------------------ */

/* llama.cpp's names of special tokens that end a text or a turn. In gpt-oss <|end|> ends only a part of a turn;
   add_named_ends skips it there. */
static const char *const end_names[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<end_of_turn>",
                                        "<|end_of_turn|>",
                                        "<turn|>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<eos>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|eot|>",
                                        "<|eom|>",
                                        "<|end_of_text|>",
                                        "<|im_stop|>",
                                        "<end_of_utterance>"};

static bool ends_by_name(ch_gguf_string text) {
  for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
    if (ch_gguf_is(text, end_names[i])) return true;
  return false;
}

/* Adds special tokens by their names. gpt-oss ends its turns with <|return|> and <|call|>, and parts of them
   with <|end|>. */
static void add_named_ends(const ch_gguf *file, int64_t vocab_size, ch_chat_metadata *chat) {
  const ch_gguf_value *tokens = ch_gguf_find(file, "tokenizer.ggml.tokens"),
                      *kinds = ch_gguf_find(file, "tokenizer.ggml.token_type");
  if (!tokens || !tokens->list || tokens->type != CH_GGUF_STRING || !kinds || !kinds->list ||
      kinds->type == CH_GGUF_STRING || kinds->count != tokens->count)
    return;
  const unsigned char *at = tokens->data;
  int64_t part = -1, whole = 0;
  for (uint64_t i = 0; i < tokens->count; i++) {
    ch_gguf_string text = ch_gguf_next_string(&at);
    int64_t kind = 0;
    bool special = ch_gguf_whole_at(kinds, i, &kind) && (kind == CH_PIECE_CONTROL || kind == CH_PIECE_USER);
    if (!special || !ends_by_name(text)) continue;
    if (ch_gguf_is(text, "<|end|>")) {
      part = (int64_t)i;
      continue;
    }
    whole += ch_gguf_is(text, "<|return|>") || ch_gguf_is(text, "<|call|>");
    add_end(chat, (int64_t)i, vocab_size);
  }
  if (whole < 2) add_end(chat, part, vocab_size);
}

static ch_status add_ends(const ch_gguf *file, int64_t vocab_size, ch_chat_metadata *chat, ch_error *error) {
  static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
  const ch_gguf_value *list = ch_gguf_find(file, "tokenizer.ggml.eos_token_ids");
  for (int i = 0; i < 3; i++) {
    int64_t id = -1;
    CH_TRY(ch_gguf_whole(file, keys[i], false, &id, error));
    add_end(chat, id, vocab_size);
  }
  for (uint64_t i = 0; list && list->list && list->type != CH_GGUF_STRING && i < list->count; i++) {
    int64_t id = -1;
    if (!ch_gguf_whole_at(list, i, &id))
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: \"tokenizer.ggml.eos_token_ids\" must be a list of whole numbers", file->where);
    add_end(chat, id, vocab_size);
  }
  add_named_ends(file, vocab_size, chat);
  return CH_OK;
}

static ch_status add_templates(const ch_gguf *file, ch_chat_metadata *chat, ch_error *error) {
  for (int64_t i = 0; i < file->value_count; i++) {
    const char *key = file->values[i].key, *name = key + strlen(gguf_key);
    ch_gguf_string text = {0};
    if (strncmp(key, gguf_key, strlen(gguf_key)) != 0 || (*name && *name != '.')) continue;
    CH_TRY(ch_gguf_text(file, key, true, &text, error));
    CH_TRY(ch_chat_templates_add(&chat->templates, file->where, *name ? name + 1 : CH_USUAL_TEMPLATE,
                                 text.data, text.size, error));
  }
  return CH_OK;
}

ch_status ch_chat_from_gguf(const ch_gguf *file, int64_t vocab_size, ch_chat_metadata *chat,
                            ch_error *error) {
  *chat = (ch_chat_metadata){0};
  CH_TRY(add_templates(file, chat, error));
  return add_ends(file, vocab_size, chat, error);
}

/* --- into files ----------------------------------------------------------------------------------------- */

static void put_templates(const ch_chat_metadata *chat, ch_gguf_header *header) {
  uint64_t named = 0;
  for (int i = 0; i < chat->templates.count; i++) {
    ch_text key = {0};
    bool is_usual = strcmp(chat->templates.list[i].name, CH_USUAL_TEMPLATE) == 0;
    ch_text_printf(&key, is_usual ? "%s" : "%s.%s", gguf_key, chat->templates.list[i].name);
    if (key.data) ch_gguf_put_text(header, key.data, chat->templates.list[i].text);
    header->values.failed = header->values.failed || key.failed;
    ch_text_free(&key);
    named += !is_usual;
  }
  if (!named) return;
  ch_gguf_put_list(header, "tokenizer.chat_templates", CH_GGUF_STRING, named);
  for (int i = 0; i < chat->templates.count; i++) {
    const char *name = chat->templates.list[i].name;
    if (strcmp(name, CH_USUAL_TEMPLATE) != 0) ch_gguf_add_text(header, name, strlen(name));
  }
}

void ch_chat_put_gguf(const ch_chat_metadata *chat, int32_t end, ch_gguf_header *header) {
  static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  int others = 0;
  put_templates(chat, header);
  for (int i = 0; i < chat->end_count && others < 2; i++)
    if (chat->ends[i] != end) ch_gguf_put_u32(header, keys[others++], (uint32_t)chat->ends[i]);
  if (!others) return;
  ch_gguf_put_list(header, "tokenizer.ggml.eos_token_ids", CH_GGUF_I32, (uint64_t)chat->end_count);
  for (int i = 0; i < chat->end_count; i++) ch_gguf_add_i32(header, chat->ends[i]);
}

static json_t *templates_as_json(const ch_chat_metadata *chat) {
  if (chat->templates.count == 1 && strcmp(chat->templates.list[0].name, CH_USUAL_TEMPLATE) == 0)
    return json_string(chat->templates.list[0].text);
  json_t *list = json_array();
  for (int i = 0; i < chat->templates.count; i++)
    json_array_append_new(list, json_pack("{s:s, s:s}", "name", chat->templates.list[i].name, "template",
                                          chat->templates.list[i].text));
  return list;
}

ch_status ch_chat_put_config(const ch_chat_metadata *chat, const char *where, ch_text *config,
                             ch_error *error) {
  json_t *root = NULL;
  if (chat->templates.count == 0) return CH_OK;
  CH_TRY(ch_json_parse(config->data, config->size, where, &root, error));
  json_object_set_new(root, "chat_template", templates_as_json(chat));
  char *text = ch_json_dump(root, JSON_INDENT(2));
  json_decref(root);
  config->size = 0;
  if (text) ch_text_puts(config, text);
  if (text) ch_text_puts(config, "\n");
  free(text);
  return text && !config->failed ? CH_OK : ch_no_memory(error);
}

void ch_chat_put_template(const ch_chat_metadata *chat, ch_text *jinja) {
  int i = ch_chat_templates_find(&chat->templates, CH_USUAL_TEMPLATE);
  if (i >= 0) ch_text_puts(jinja, chat->templates.list[i].text);
}

void ch_chat_put_generation(const ch_chat_metadata *chat, const ch_config *config, ch_text *json) {
  if (chat->end_count < 2) return;
  ch_text_puts(json, "{\n");
  if (config->bos_token_id >= 0)
    ch_text_printf(json, "  \"bos_token_id\": %" PRId64 ",\n", config->bos_token_id);
  ch_text_puts(json, "  \"eos_token_id\": [");
  for (int i = 0; i < chat->end_count; i++) ch_text_printf(json, "%s%d", i ? ", " : "", chat->ends[i]);
  ch_text_puts(json, "]\n}\n");
}

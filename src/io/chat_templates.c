/* Reads chat templates from the files of a model directory. template/ renders them. */
#include "io/chat_templates.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "io/extra_files.h"

enum { MOST_BYTES = 64 << 20 };

void ch_chat_templates_free(ch_chat_templates *templates) {
  for (int i = 0; i < templates->count; i++) {
    free(templates->list[i].name);
    free(templates->list[i].text);
  }
  *templates = (ch_chat_templates){0};
}

int ch_chat_templates_find(const ch_chat_templates *templates, const char *name) {
  int i = 0;
  while (i < templates->count && strcmp(templates->list[i].name, name) != 0) i++;
  return i < templates->count ? i : -1;
}

ch_status ch_chat_templates_add(ch_chat_templates *templates, const char *where, const char *name,
                                const char *text, size_t size, ch_error *error) {
  if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3; /* a byte order mark */
  if (ch_chat_templates_find(templates, name) >= 0 || size == 0) return CH_OK;
  if (ch_utf8_valid_prefix((const unsigned char *)text, size) != size || memchr(text, 0, size))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: its chat template is not UTF-8 text", where);
  if (templates->count == CH_MAX_CHAT_TEMPLATES)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has more than %d chat templates", where,
                   CH_MAX_CHAT_TEMPLATES);
  char *own_name = strdup(name), *own_text = strndup(text, size);
  templates->list[templates->count].name = own_name;
  templates->list[templates->count++].text = own_text;
  return own_name && own_text ? CH_OK : ch_no_memory(error);
}

static ch_status add_file(ch_chat_templates *templates, const char *directory, const char *file,
                          const char *name, ch_error *error) {
  char *path = ch_path_join(directory, file), *text = NULL;
  size_t size = 0;
  if (!path) return ch_no_memory(error);
  ch_status status = ch_is_file(path) ? ch_read_file(path, MOST_BYTES, &text, &size, error) : CH_OK;
  if (status == CH_OK && text) status = ch_chat_templates_add(templates, path, name, text, size, error);
  free(text);
  free(path);
  return status;
}

static ch_status add_named_files(ch_chat_templates *templates, const char *directory, ch_error *error) {
  char *path = ch_path_join(directory, CH_CHAT_TEMPLATES);
  DIR *listing = path ? opendir(path) : NULL;
  ch_status status = CH_OK;
  for (const struct dirent *entry; listing && status == CH_OK && (entry = readdir(listing));) {
    char name[sizeof entry->d_name];
    const char *end = strrchr(entry->d_name, '.');
    if (!end || end == entry->d_name || strcmp(end, ".jinja") != 0) continue;
    snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name), entry->d_name);
    status = add_file(templates, path, entry->d_name, name, error);
  }
  if (listing) closedir(listing);
  free(path);
  return status;
}

/* Adds the value of "chat_template": a text, or a list of {"name", "template"}. */
static ch_status add_value(ch_chat_templates *templates, const char *where, const json_t *value,
                           ch_error *error) {
  if (json_is_string(value))
    return ch_chat_templates_add(templates, where, CH_USUAL_TEMPLATE, json_string_value(value),
                                 json_string_length(value), error);
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *item = json_array_get(value, i), *text = json_object_get(item, "template");
    const char *name = json_string_value(json_object_get(item, "name"));
    if (!name || !json_is_string(text)) continue;
    CH_TRY(ch_chat_templates_add(templates, where, name, json_string_value(text), json_string_length(text),
                                 error));
  }
  return CH_OK;
}

ch_status ch_tokenizer_json_read(const char *directory, const char *file, json_t **root, ch_error *error) {
  char *path = ch_path_join(directory, file), *text = NULL;
  size_t size = 0, mark = 0;
  json_error_t why;
  *root = NULL;
  if (!path) return ch_no_memory(error);
  ch_status status = ch_is_file(path) ? ch_read_file(path, MOST_BYTES, &text, &size, error) : CH_OK;
  if (text && size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) mark = 3;
  if (text) *root = json_loadb(text + mark, size - mark, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);
  if (text && !*root)
    status = json_error_code(&why) == json_error_out_of_memory
                 ? ch_no_memory(error)
                 : ch_fail(error, CH_ERROR_FORMAT, "%s is not a JSON object: %s", path, why.text);
  free(text);
  free(path);
  return status;
}

static ch_status add_json(ch_chat_templates *templates, const char *directory, const char *file,
                          ch_error *error) {
  json_t *root = NULL;
  CH_TRY(ch_tokenizer_json_read(directory, file, &root, error));
  ch_status status = add_value(templates, file, json_object_get(root, "chat_template"), error);
  json_decref(root);
  return status;
}

ch_status ch_chat_templates_read(const char *directory, ch_chat_templates *templates, ch_error *error) {
  *templates = (ch_chat_templates){0};
  CH_TRY(add_file(templates, directory, "chat_template.jinja", CH_USUAL_TEMPLATE, error));
  CH_TRY(add_named_files(templates, directory, error));
  CH_TRY(add_json(templates, directory, "tokenizer_config.json", error));
  return add_json(templates, directory, "chat_template.json", error);
}

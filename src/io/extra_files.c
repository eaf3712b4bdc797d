/* Copies the small files of a model directory: tokenizer, templates, generation settings, settings of image
 * processors. */
#include "io/extra_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { MOST_CONFIG_BYTES = 1 << 20 };

static const char *const tokenizers[] = {"tokenizer.json", "tokenizer.bin", NULL};
/* Other files from which transformers builds a tokenizer and formats chats. */
static const char *const beside_tokenizers[] = {"tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "tokenizer.model",
                                                "vocab.json",
                                                "merges.txt",
                                                "chat_template.jinja",
                                                "chat_template.json",
                                                NULL};
/* Settings of image processors. */
static const char *const processors[] = {"preprocessor_config.json", "processor_config.json", NULL};
static const char generation[] = "generation_config.json";

/* Copies a file if it exists. */
static ch_status copy_one(const char *from, const char *to, const char *name, ch_error *error) {
  char *source = ch_path_join(from, name), *target = ch_path_join(to, name);
  ch_status status = CH_OK;
  if (!source || !target)
    status = ch_no_memory(error);
  else if (ch_is_file(source))
    status = ch_copy_file(source, target, error);
  free(source);
  free(target);
  return status;
}

static ch_status copy_all(const char *from, const char *to, const char *const *names, ch_error *error) {
  for (int i = 0; names[i]; i++) CH_TRY(copy_one(from, to, names[i], error));
  return CH_OK;
}

static bool is_template(const char *name) {
  size_t length = strlen(name);
  return length > 6 && name[0] != '.' && strcmp(name + length - 6, ".jinja") == 0;
}

/* Copies the templates of a directory. Creates directory `to` if there are any. */
static ch_status copy_templates(const char *from, const char *to, ch_error *error) {
  DIR *listing = opendir(from);
  ch_status status = CH_OK;
  for (const struct dirent *entry; listing && status == CH_OK && (entry = readdir(listing));) {
    if (!is_template(entry->d_name)) continue;
    status = ch_make_directory(to, error);
    if (status == CH_OK) status = copy_one(from, to, entry->d_name, error);
  }
  if (listing) closedir(listing);
  return status;
}

ch_status ch_copy_tokenizer_files(const char *from, const char *to, ch_error *error) {
  CH_TRY(copy_all(from, to, beside_tokenizers, error));
  char *source = ch_path_join(from, CH_CHAT_TEMPLATES), *target = ch_path_join(to, CH_CHAT_TEMPLATES);
  ch_status status = source && target ? copy_templates(source, target, error) : ch_no_memory(error);
  free(source);
  free(target);
  return status;
}

/* Returns the list of end token ids in config.json, or NULL if there are fewer than two. ch_config_write writes only
   the first. */
static json_t *ends_of(const char *directory) {
  char *path = ch_path_join(directory, "config.json");
  json_t *root = NULL, *ends = NULL;
  if (path && ch_is_file(path) && ch_json_read(path, MOST_CONFIG_BYTES, &root, NULL) == CH_OK)
    ends = json_incref(json_object_get(root, "eos_token_id"));
  json_decref(root);
  free(path);
  if (json_array_size(ends) > 1) return ends;
  json_decref(ends);
  return NULL;
}

static ch_status write_ends(const char *directory, json_t *ends, ch_error *error) {
  return ch_json_write(directory, generation, json_pack("{s:O}", "eos_token_id", ends), JSON_INDENT(2),
                       error);
}

ch_status ch_copy_generation_settings(const char *from, const char *to, ch_error *error) {
  json_t *ends = ch_directory_has(from, generation) ? NULL : ends_of(from);
  ch_status status = ends ? write_ends(to, ends, error) : copy_one(from, to, generation, error);
  json_decref(ends);
  return status;
}

ch_status ch_copy_extra_files(const char *from, const char *to, ch_error *error) {
  CH_TRY(copy_all(from, to, tokenizers, error));
  CH_TRY(ch_copy_tokenizer_files(from, to, error));
  CH_TRY(ch_copy_generation_settings(from, to, error));
  return copy_all(from, to, processors, error);
}

/* The compressed model's files: written beside --out, measured there, put into place all at once. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/shrinking.h"
#include "io/companions.h"

/* What we write, the configuration last: a directory without it is no model. */
static const char *const files[] = {"model.safetensors",
                                    "tokenizer.json",
                                    "tokenizer.bin",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "generation_config.json",
                                    "report.json",
                                    "report.html",
                                    "config.json",
                                    NULL};

static ch_status no_memory(const char *out, ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", out);
}

/* One of ours, or what a run that was killed had of it so far: "model.safetensors.tmp.4711". */
static bool is_ours(const char *name) {
  for (int i = 0; files[i]; i++) {
    size_t length = strlen(files[i]);
    if (strncmp(name, files[i], length) != 0) continue;
    if (!name[length] || strncmp(name + length, ".tmp.", strlen(".tmp.")) == 0) return true;
  }
  return false;
}

static void remove_files(const char *directory) {
  DIR *listing = opendir(directory);
  for (struct dirent *entry; listing && (entry = readdir(listing));) {
    char *path = is_ours(entry->d_name) ? ch_path_join(directory, entry->d_name) : NULL;
    if (path) unlink(path);
    free(path);
  }
  if (listing) closedir(listing);
  rmdir(directory);
}

static ch_status check_out(const char *out, ch_error *error) {
  char *index = ch_path_join(out, "model.safetensors.index.json");
  bool sharded = index && ch_is_file(index);
  free(index);
  if (!sharded) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "--out %s holds a model in several files, which one file would not replace; choose another directory",
      out);
}

static char *staging_of(const char *out) {
  size_t length = strlen(out);
  while (length > 1 && out[length - 1] == '/') length--;
  char *path = malloc(length + sizeof ".partial");
  if (path) sprintf(path, "%.*s.partial", (int)length, out);
  return path;
}

/* Whether the tensor stands for one that the model's files have as several: it is F32, whatever they are. */
static bool is_written_out(const ch_model *model, const ch_tensor *tensor) {
  const char *data = tensor->data, *first = model->restated;
  return first && tensor->rank == 2 && data >= first && data < first + model->restated_bytes;
}

static ch_status write_model(ch_shrinking *s, ch_error *error) {
  const ch_restated *made = &s->compressed.model;
  ch_dtype *dtypes = malloc(((size_t)made->params.count + 1) * sizeof *dtypes);
  if (!dtypes) return no_memory(s->out, error);
  for (int i = 0; i < made->params.count; i++) {
    const ch_tensor *tensor = &made->tensors[i];
    dtypes[i] = is_written_out(s->own, tensor) ? s->dtype : tensor->dtype;
  }
  ch_model_writing writing = {.read = &s->own->weights, .step = ch_shrinking_step, .context = s};
  ch_status status =
      ch_model_write_as(s->staging, &made->config, &made->params, made->tensors, dtypes, &writing, error);
  free(dtypes);
  return status;
}

ch_status ch_shrinking_write(ch_shrinking *s, ch_error *error) {
  CH_TRY(check_out(s->out, error));
  s->staging = staging_of(s->out);
  if (!s->staging) return no_memory(s->out, error);
  remove_files(s->staging); /* of a run that was killed */
  CH_TRY(ch_make_directory(s->staging, error));
  CH_TRY(write_model(s, error));
  return ch_companions_copy(s->directory, s->staging, error);
}

static ch_status put_file(const char *directory, const char *name, const char *data, size_t size,
                          ch_error *error) {
  char *path = ch_path_join(directory, name);
  ch_status status = path ? ch_write_file(path, data, size, error) : no_memory(directory, error);
  free(path);
  return status;
}

static ch_status write_report(const ch_shrinking *s, ch_error *error) {
  ch_text page = {0};
  json_t *object = ch_compression_to_json(&s->report);
  char *json = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
  ch_status status =
      json ? put_file(s->staging, "report.json", json, strlen(json), error) : no_memory(s->out, error);
  if (status == CH_OK) status = ch_compression_page(&s->report, &page, error);
  if (status == CH_OK) status = put_file(s->staging, "report.html", page.data, page.size, error);
  ch_text_free(&page);
  json_decref(object);
  free(json);
  return status;
}

/* Into a directory that is there already, file by file; until the last one it is no model. */
static ch_status move_files(const ch_shrinking *s, ch_error *error) {
  char *config = ch_path_join(s->out, "config.json");
  if (config) unlink(config);
  free(config);
  for (int i = 0; files[i]; i++) {
    char *from = ch_path_join(s->staging, files[i]), *to = ch_path_join(s->out, files[i]);
    bool moved = from && to && (!ch_is_file(from) || rename(from, to) == 0);
    int why = errno;
    free(from);
    free(to);
    if (!moved)
      return ch_fail(error, CH_ERROR_IO, "%s cannot be put into %s: %s", files[i], s->out, strerror(why));
  }
  rmdir(s->staging);
  return CH_OK;
}

ch_status ch_shrinking_publish(ch_shrinking *s, ch_error *error) {
  CH_TRY(write_report(s, error));
  CH_TRY(ch_shrinking_step(s, "writing", 1, 1, error));
  if (rename(s->staging, s->out) != 0) CH_TRY(move_files(s, error));
  free(s->staging);
  s->staging = NULL;
  return CH_OK;
}

void ch_shrinking_clean(ch_shrinking *s) {
  if (s->staging) remove_files(s->staging);
  free(s->staging);
  s->staging = NULL;
}

/* Tensors whose shape, or being there, a configuration leaves to the files: declared as the files have them. */
#include <stdlib.h>
#include <string.h>

#include "io/model_files.h"
#include "model/transformer.h"

static int by_name(const void *a, const void *b) {
  return strcmp(((const ch_known_shape *)a)->name, ((const ch_known_shape *)b)->name);
}

/* The shapes of all tensors in the files whose names begin with `prefix`, without it; names stay the files'. */
static ch_status collect(const ch_safetensors *files, int file_count, const char *prefix,
                         ch_known_shapes *shapes, ch_error *error) {
  int64_t count = 0;
  for (int s = 0; s < file_count; s++) count += files[s].count;
  shapes->rows = calloc((size_t)count + 1, sizeof *shapes->rows);
  if (!shapes->rows)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the shapes of %lld tensors", (long long)count);
  for (int s = 0; s < file_count; s++)
    for (int64_t i = 0; i < files[s].count; i++) {
      const ch_stored_tensor *stored = &files[s].tensors[i];
      if (strncmp(stored->name, prefix, strlen(prefix)) != 0) continue;
      ch_known_shape *row = &shapes->rows[shapes->count++];
      *row = (ch_known_shape){.name = stored->name + strlen(prefix), .rank = stored->tensor.rank};
      memcpy(row->shape, stored->tensor.shape, sizeof row->shape);
    }
  qsort(shapes->rows, (size_t)shapes->count, sizeof *shapes->rows, by_name);
  return CH_OK;
}

/* Whether the configuration alone does not say all shapes. */
static bool leaves_open(const ch_config *config) {
  const ch_sharing *s = &config->sharing;
  return s->type != CH_SHARING_NONE && s->atoms == 0 && s->rank == 0;
}

static ch_status declare_from(const char *where, const ch_safetensors *files, int file_count,
                              const char *prefix, const ch_config *config, ch_params *params,
                              ch_error *error) {
  ch_known_shapes shapes = {0};
  CH_TRY(collect(files, file_count, prefix, &shapes, error));
  params->known = &shapes;
  ch_error inner = {0}; /* which does not know the files */
  ch_status status = ch_model_declare(config, params, &inner);
  if (status != CH_OK) ch_fail(error, status, "%s: %s", where, inner.message);
  params->known = NULL;
  free(shapes.rows);
  return status;
}

ch_status ch_model_declare_stored(const char *directory, const ch_config *config, ch_params *params,
                                  ch_error *error) {
  ch_weights files = {0};
  bool ours = strncmp(config->model_type, "crosshead", strlen("crosshead")) == 0;
  if (!ours) return ch_model_declare(config, params, error);
  if (ch_is_directory(directory)) {
    ch_status found = ch_weights_find(directory, &files, error);
    if (found != CH_OK && leaves_open(config)) return found;
    if (found != CH_OK) return ch_model_declare(config, params, error);
  }
  ch_status status = declare_from(directory, files.shards, files.shard_count, "", config, params, error);
  ch_weights_close(&files);
  return status;
}

ch_status ch_model_declare_saved(const char *path, const char *prefix, const ch_config *config,
                                 ch_params *params, ch_error *error) {
  ch_safetensors file;
  CH_TRY(ch_safetensors_open(path, &file, error));
  ch_status status = declare_from(path, &file, 1, prefix, config, params, error);
  ch_safetensors_close(&file);
  return status;
}

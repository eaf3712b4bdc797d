/* Tensors whose shape a configuration leaves to the files: declared as the files have them. */
#include <stdlib.h>
#include <string.h>

#include "io/model_files.h"
#include "model/transformer.h"

static int by_name(const void *a, const void *b) {
  return strcmp(((const ch_known_shape *)a)->name, ((const ch_known_shape *)b)->name);
}

/* The shapes of all tensors in the shards; names stay the shards'. */
static ch_status collect(const ch_weights *files, ch_known_shapes *shapes, ch_error *error) {
  int64_t count = 0;
  for (int s = 0; s < files->shard_count; s++) count += files->shards[s].count;
  shapes->rows = calloc((size_t)count + 1, sizeof *shapes->rows);
  if (!shapes->rows)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the shapes of %lld tensors", (long long)count);
  for (int s = 0; s < files->shard_count; s++)
    for (int64_t i = 0; i < files->shards[s].count; i++) {
      const ch_stored_tensor *stored = &files->shards[s].tensors[i];
      ch_known_shape *row = &shapes->rows[shapes->count++];
      *row = (ch_known_shape){.name = stored->name, .rank = stored->tensor.rank};
      memcpy(row->shape, stored->tensor.shape, sizeof row->shape);
    }
  qsort(shapes->rows, (size_t)shapes->count, sizeof *shapes->rows, by_name);
  return CH_OK;
}

ch_status ch_model_declare_stored(const char *directory, const ch_config *config, ch_params *params,
                                  ch_error *error) {
  bool left_open = config->sharing.type == CH_SHARING_LOW_RANK && config->sharing.rank == 0;
  if (!left_open) return ch_model_declare(config, params, error);
  ch_weights files = {0};
  ch_known_shapes shapes = {0};
  ch_status status = CH_OK;
  if (ch_is_directory(directory)) status = ch_weights_find(directory, &files, error);
  if (status == CH_OK) status = collect(&files, &shapes, error);
  params->known = &shapes;
  if (status == CH_OK) {
    ch_error inner = {0}; /* which does not know the directory */
    status = ch_model_declare(config, params, &inner);
    if (status != CH_OK) ch_fail(error, status, "%s: %s", directory, inner.message);
  }
  params->known = NULL;
  free(shapes.rows);
  ch_weights_close(&files);
  return status;
}

/* Reads from a model's weights what its configuration leaves open: shapes of tensors, and if the head is separate from
   the embedding. */
#include <stdlib.h>
#include <string.h>

#include "config_file/config_json.h"
#include "io/model_files.h"
#include "io/tensor_layout.h"
#include "model/transformer.h"
#include "tensor/kernels.h"

/* --- the head ------------------------------------------------------------------------------------------- */

enum { PIECE = 4096 };

/* Returns the stored tensor of a parameter, whose name may lack GPT-2's prefix, or NULL if the files have none. */
static const ch_tensor *find_row(const ch_weights *files, const ch_config *config, const char *row) {
  static const char prefix[] = "transformer.";
  ch_param param = {.name = row, .rank = 2};
  ch_tensor_place place;
  const char *name = ch_tensor_place_of(config, &param, &place) ? place.name : row;
  for (int i = 0; i < files->shard_count; i++) {
    const ch_stored_tensor *stored = ch_safetensors_find(&files->shards[i], name);
    if (!stored && strncmp(name, prefix, strlen(prefix)) == 0)
      stored = ch_safetensors_find(&files->shards[i], name + strlen(prefix));
    if (stored && !stored->foreign) return &stored->tensor;
  }
  return NULL;
}

/* Converts `n` values from `first` on to double. */
static void widen(const ch_tensor *tensor, int64_t first, int64_t n, double *values) {
  char straight[PIECE * sizeof(double)]; /* the data may be unaligned */
  memcpy(straight, (const char *)tensor->data + ch_dtype_bytes(tensor->dtype, first),
         ch_dtype_bytes(tensor->dtype, n));
  ch_kernels_best(CH_F64)->convert_from(&ch_alone, n, straight, tensor->dtype, values);
}

static bool is_float(const ch_tensor *tensor) {
  return tensor->dtype == CH_F32 || tensor->dtype == CH_F16 || tensor->dtype == CH_BF16 ||
         tensor->dtype == CH_F64;
}

static bool equal_values(const ch_tensor *a, const ch_tensor *b) {
  double left[PIECE], right[PIECE];
  int64_t count = ch_tensor_count(a);
  if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0) return false;
  if (a->dtype == b->dtype) return memcmp(a->data, b->data, ch_tensor_bytes(a)) == 0;
  if (!is_float(a) || !is_float(b)) return false;
  for (int64_t first = 0; first < count; first += PIECE) {
    int64_t n = count - first < PIECE ? count - first : PIECE;
    widen(a, first, n, left);
    widen(b, first, n, right);
    for (int64_t i = 0; i < n; i++)
      if (left[i] != right[i]) return false;
  }
  return true;
}

ch_status ch_config_read_stored(const char *path, ch_config *config, ch_error *error) {
  ch_weights files;
  CH_TRY(ch_config_read(path, config, error));
  if (!config->tie_word_embeddings || !ch_is_directory(path)) return CH_OK;
  /* damaged weights are reported when they are opened */
  if (ch_weights_find(path, &files, NULL) != CH_OK) return CH_OK;
  const ch_tensor *embedding = find_row(&files, config, "model.embed_tokens.weight"),
                  *head = find_row(&files, config, "lm_head.weight");
  if (embedding && head) config->tie_word_embeddings = equal_values(embedding, head);
  ch_weights_close(&files);
  return CH_OK;
}

/* --- shapes --------------------------------------------------------------------------------------------- */

/* Collects the shapes of all tensors whose names begin with `prefix`, under their names without it. The names point
   into `files`. */
static ch_status collect(const ch_safetensors *files, int file_count, const char *prefix,
                         ch_known_shapes *shapes, ch_error *error) {
  int64_t count = 0;
  for (int s = 0; s < file_count; s++) count += files[s].count;
  shapes->rows = calloc((size_t)count + 1, sizeof *shapes->rows);
  if (!shapes->rows) return ch_no_memory(error);
  for (int s = 0; s < file_count; s++)
    for (int64_t i = 0; i < files[s].count; i++) {
      const ch_stored_tensor *stored = &files[s].tensors[i];
      if (strncmp(stored->name, prefix, strlen(prefix)) != 0) continue;
      ch_known_shape *row = &shapes->rows[shapes->count++];
      *row = (ch_known_shape){.name = stored->name + strlen(prefix), .rank = stored->tensor.rank};
      memcpy(row->shape, stored->tensor.shape, sizeof row->shape);
    }
  qsort(shapes->rows, (size_t)shapes->count, sizeof *shapes->rows, ch_known_shape_order);
  return CH_OK;
}

static ch_status declare_from(const char *where, const ch_safetensors *files, int file_count,
                              const char *prefix, const ch_config *config, ch_params *params,
                              ch_error *error) {
  ch_known_shapes shapes = {0};
  CH_TRY(collect(files, file_count, prefix, &shapes, error));
  params->known = &shapes;
  ch_error inner = {0}; /* ch_model_declare does not name the file */
  ch_status status = ch_model_declare(config, params, &inner);
  if (status != CH_OK) {
    ch_fail_as(error, status, &inner);
    ch_fail_in(error, where);
  }
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
    const ch_sharing *s = &config->sharing;
    /* true if the configuration gives all shapes */
    bool complete = s->type == CH_SHARING_NONE || s->atoms > 0 || s->rank > 0;
    if (found != CH_OK) return complete ? ch_model_declare(config, params, error) : found;
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

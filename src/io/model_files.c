/* Opens a model directory's weights: finds the files, matches their tensors with the parameter table, and copies
 * tensors that need another type, layout or alignment. Other tensors stay mapped, so that processes share them.
 *
 * The index is untrusted: names that lead out of the directory and deep nesting are refused. safetensors.c checks the
 * weight files, config_file/ reads config.json. */
#include "io/model_files.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/mistaken.h"
#include "base/text.h"
#include "io/tensor_layout.h"
#include "io/tensor_names.h"
#include "tensor/kernels.h"

enum { MOST_INDEX_BYTES = 8 << 20, MOST_INDEX_OBJECTS = 64, MOST_SHARDS = 10000 };
/* PIECE: elements that a thread converts at once, few enough that kernels use no other threads. SMALL_COPY: maximum
   number of bytes that one thread copies alone. */
enum { PIECE = 4096, SMALL_COPY = 1 << 20 };
/* A block of MXFP4 has 32 numbers of 4 bits, the lower half of a byte first. Another tensor has a byte for each block,
   the exponent of its scale. */
enum { MXFP4_VALUES = 32, MXFP4_BYTES = 16, MXFP4_BIAS = 127, MXFP4_NAN = 255 };

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* --- files ---------------------------------------------------------------------------------------------- */

static ch_status open_shard(const char *directory, const char *name, ch_weights *weights, ch_error *error) {
  char *path = ch_path_join(directory, name);
  if (!path) return ch_no_memory(error);
  ch_status status = strcmp(name, single_name) == 0 || ch_is_file(path)
                         ? CH_OK
                         : ch_fail(error, CH_ERROR_IO, "%s/%s names %s, which is missing; download it too",
                                   directory, index_name, name);
  if (status == CH_OK) status = ch_safetensors_open(path, &weights->shards[weights->shard_count], error);
  if (status == CH_OK) weights->shard_count++;
  free(path);
  return status;
}

/* Returns true for a plain file name, which cannot lead out of the directory. Symbolic links are allowed, because the
   Hugging Face cache consists of them. */
static bool plain_name(const char *name) {
  return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Returns true if a text has few objects and lists. An index is one object with two inside. Thousands of nested ones
   would exhaust the JSON library's memory. */
static bool shallow(const char *text) {
  int objects = 0;
  for (const char *p = text; *p; p++) objects += *p == '{' || *p == '[';
  return objects <= MOST_INDEX_OBJECTS;
}

/* Adds the names of the shards in the weight map to `shards`, each once. */
static ch_status list_shards(const json_t *map, const char *where, json_t *shards, ch_error *error) {
  const char *tensor;
  json_t *file;
  char quoted[100], shown[100];
  json_object_foreach((json_t *)map, tensor, file) {
    const char *name = json_string_value(file);
    if (!name || !plain_name(name))
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: tensor %s is listed in %s; it must be a file in the same directory", where,
                     ch_json_quote(tensor, quoted, sizeof quoted), ch_json_show(file, shown, sizeof shown));
    if (json_object_set_new(shards, name, json_true()) != 0) return ch_no_memory(error);
  }
  if (json_object_size(shards) == 0 || json_object_size(shards) > MOST_SHARDS)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: \"weight_map\" names %zu shards; 1 to %d are supported",
                   where, json_object_size(shards), MOST_SHARDS);
  return CH_OK;
}

/* Fails if a tensor is not in the shard that the index names. `shards` maps names to indices of weights->shards. */
static ch_status check_index(const json_t *map, const json_t *shards, const char *where,
                             const ch_weights *weights, ch_error *error) {
  const char *tensor;
  json_t *file;
  json_object_foreach((json_t *)map, tensor, file) {
    const char *name = json_string_value(file);
    int64_t shard = (int64_t)json_integer_value(json_object_get(shards, name));
    char quoted[100], shown[100];
    if (!ch_safetensors_find(&weights->shards[shard], tensor))
      return ch_fail(error, CH_ERROR_FORMAT, "%s: tensor %s should be in %s but is missing", where,
                     ch_json_quote(tensor, quoted, sizeof quoted), ch_json_quote(name, shown, sizeof shown));
  }
  return CH_OK;
}

static ch_status open_by_map(const char *directory, const json_t *root, const char *where,
                             ch_weights *weights, ch_error *error) {
  const json_t *map = json_object_get(root, "weight_map");
  if (!json_is_object(map))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s has no \"weight_map\", an object of tensor names and file names", where);
  json_t *shards = json_object();
  ch_status status = shards ? list_shards(map, where, shards, error) : ch_no_memory(error);
  if (status == CH_OK) {
    weights->shards = calloc(json_object_size(shards), sizeof *weights->shards);
    if (!weights->shards) status = ch_no_memory(error);
  }
  const char *name;
  json_t *number;
  void *next;
  json_object_foreach_safe(shards, next, name, number) {
    if (status != CH_OK) break;
    int shard = weights->shard_count;
    status = open_shard(directory, name, weights, error);
    json_object_set_new(shards, name, json_integer(shard));
  }
  if (status == CH_OK) status = check_index(map, shards, where, weights, error);
  json_decref(shards);
  return status;
}

static ch_status open_sharded(const char *directory, const char *index, ch_weights *weights,
                              ch_error *error) {
  char *text = NULL;
  size_t size = 0;
  json_t *root = NULL;
  CH_TRY(ch_read_file(index, MOST_INDEX_BYTES, &text, &size, error));
  ch_status status = shallow(text) ? ch_json_parse(text, size, index, &root, error)
                                   : ch_fail(error, CH_ERROR_FORMAT,
                                             "%s is not an index of shards: it is nested too deeply", index);
  free(text);
  CH_TRY(status);
  status = open_by_map(directory, root, index, weights, error);
  json_decref(root);
  return status;
}

static ch_status open_files(const char *directory, ch_weights *weights, ch_error *error) {
  char *single = ch_path_join(directory, single_name), *index = ch_path_join(directory, index_name);
  ch_status status;
  if (!single || !index)
    status = ch_no_memory(error);
  else if (!ch_is_directory(directory))
    status = ch_fail(error, CH_ERROR_IO, "%s is not a directory with a model in it", directory);
  else if (!ch_is_file(single) && ch_is_file(index))
    status = open_sharded(directory, index, weights, error);
  else if (!ch_is_file(single)) {
    status = ch_refuse_directory(directory, false, error);
    if (status == CH_OK)
      status = ch_fail(error, CH_ERROR_IO, "%s holds neither %s nor %s", directory, single_name, index_name);
  } else {
    weights->shards = calloc(1, sizeof *weights->shards);
    status = weights->shards ? open_shard(directory, single_name, weights, error) : ch_no_memory(error);
  }
  free(single);
  free(index);
  return status;
}

/* --- matching ------------------------------------------------------------------------------------------- */

/* The state of opening a model. */
typedef struct load_state {
  const char *directory;
  const ch_config *config;
  const ch_params *params;
  ch_weights *weights;
  ch_stored_tensor *stored; /* [params->count] stored tensor of each parameter; name NULL: not found yet */
  ch_tensor_place *places;  /* [params->count] place in another layout; empty name: stored as in the table */
  ch_error *error;
} load_state;

/* Fails with an error about a tensor. The message names the file, or the directory if there are several files. */
static ch_status tensor_error(const load_state *o, ch_status code, const char *name, const char *what) {
  char quoted[100];
  bool single = o->weights->shard_count == 1;
  ch_fail(o->error, code, "%s%s%s: tensor %s %s", o->directory, single ? "/" : "", single ? single_name : "",
          ch_json_quote(name, quoted, sizeof quoted), what);
  return code;
}

/* Returns true if a tensor has the parameter's elements in their order. The tensor may have leading dimensions of 1.
   It may split the parameter's last dimension into several, as in a convolution's weight. */
static bool same_elements(const ch_tensor *tensor, const ch_param *row) {
  int first = 0;
  while (tensor->rank - first > row->rank && tensor->shape[first] == 1) first++;
  if (tensor->rank - first < row->rank) return false;
  int64_t last = 1;
  for (int i = first + row->rank - 1; i < tensor->rank; i++) last *= tensor->shape[i];
  bool same = last == row->shape[row->rank - 1];
  for (int i = 0; same && i + 1 < row->rank; i++) same = tensor->shape[first + i] == row->shape[i];
  return same;
}

static ch_status check_shape(const load_state *o, const ch_param *row, const ch_stored_tensor *stored) {
  const ch_tensor *tensor = &stored->tensor;
  bool same = tensor->rank == row->rank || strcmp(stored->name, row->name) != 0;
  if (same) same = same_elements(tensor, row);
  char what[300], has[100], wants[100];
  if (stored->foreign) {
    bool number = stored->foreign[0] == 'F' || stored->foreign[0] == 'I' || stored->foreign[0] == 'U';
    snprintf(what, sizeof what, "has type %s; weights are F32, F16, BF16, F64 or block-quantised%s",
             stored->foreign, number ? "; use an unquantised copy of the model" : "");
    return tensor_error(o, CH_ERROR_FORMAT, stored->name, what);
  }
  if (!same) {
    snprintf(what, sizeof what, "has shape %s, but the configuration requires %s",
             ch_shape_text(tensor->rank, tensor->shape, has, sizeof has),
             ch_shape_text(row->rank, row->shape, wants, sizeof wants));
    return tensor_error(o, CH_ERROR_FORMAT, stored->name, what);
  }
  if (tensor->dtype == CH_F32 || tensor->dtype == CH_F64 || tensor->dtype == CH_F16 ||
      tensor->dtype == CH_BF16 || ch_dtype_is_block_quantised(tensor->dtype))
    return CH_OK;
  snprintf(what, sizeof what, "has type %s; weights are F32, F16, BF16, F64 or block-quantised",
           ch_dtype_name(tensor->dtype));
  return tensor_error(o, CH_ERROR_FORMAT, stored->name, what);
}

static ch_status unknown_tensor(const load_state *o, const char *name) {
  const char **names = calloc((size_t)o->params->count + 1, sizeof *names);
  char what[400] = "is not a tensor of this model", quoted[100];
  for (int i = 0; names && i < o->params->count; i++) names[i] = o->params->rows[i].name;
  const char *near = names ? ch_nearest_name(name, names) : NULL;
  if (near)
    snprintf(what, sizeof what, "is not a tensor of this model; the nearest is %s",
             ch_json_quote(near, quoted, sizeof quoted));
  free(names);
  return tensor_error(o, CH_ERROR_FORMAT, name, what);
}

/* Returns true for tensors that other programs write and that are ignored: tables of frequencies, indices of positions,
   masks, and DeepSeek-V3's additional layers, which predict further tokens. */
static bool is_left_over(const ch_config *config, const char *name) {
  static const char *const buffers[] = {"inv_freq",   "original_inv_freq", "long_inv_freq", "cos_cached",
                                        "sin_cached", "position_ids",      "causal_mask",   NULL};
  const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
  long long layer = -1;
  if (ch_in_list(last, buffers)) return true;
  return strcmp(config->model_type, "deepseek_v3") == 0 && sscanf(name, "model.layers.%lld.", &layer) == 1 &&
         layer >= config->num_hidden_layers;
}

static ch_status missing(const load_state *o, const char *name) {
  bool head = strcmp(name, "lm_head.weight") == 0;
  return tensor_error(o, CH_ERROR_FORMAT, name,
                      head ? "is missing; if the head is the embedding, set \"tie_word_embeddings\" to true"
                           : "is missing");
}

static ch_status match(load_state *o) {
  bool tied = o->config->tie_word_embeddings;
  const ch_stored_tensor *head = NULL;
  for (int s = 0; s < o->weights->shard_count; s++)
    for (int64_t i = 0; i < o->weights->shards[s].count; i++) {
      const ch_stored_tensor *stored = &o->weights->shards[s].tensors[i];
      char buffer[CH_TENSOR_NAME_SIZE];
      const char *ours = ch_config_is_vision(o->config) ? ch_tensor_name_of_vit(stored->name, buffer) : NULL;
      int row = ch_params_find(o->params, ours ? ours : stored->name);
      if (row >= 0) {
        if (o->stored[row].name) return tensor_error(o, CH_ERROR_FORMAT, stored->name, "is in two shards");
        o->stored[row] = *stored;
      } else if (tied && strcmp(stored->name, "lm_head.weight") == 0)
        head = stored;
      else if (!is_left_over(o->config, stored->name))
        return unknown_tensor(o, stored->name);
    }
  int embedding = ch_params_find(o->params, "model.embed_tokens.weight");
  if (head && embedding >= 0 && !o->stored[embedding].name) o->stored[embedding] = *head;
  for (int row = 0; row < o->params->count; row++) {
    if (!o->stored[row].name) return missing(o, o->params->rows[row].name);
    CH_TRY(check_shape(o, &o->params->rows[row], &o->stored[row]));
  }
  return CH_OK;
}

/* --- matching files with another layout ----------------------------------------------------------------- */

/* Finds a tensor in any shard, with or without GPT-2's prefix, and marks it in used [tensors of all shards]. */
static ch_status find_used(const load_state *o, const char *name, bool *used,
                           const ch_stored_tensor **found) {
  static const char prefix[] = "transformer.";
  const size_t length = strlen(prefix);
  *found = NULL;
  for (int s = 0; s < o->weights->shard_count; s++) {
    const ch_safetensors *shard = &o->weights->shards[s];
    const ch_stored_tensor *stored = ch_safetensors_find(shard, name);
    if (!stored && strncmp(name, prefix, length) == 0) stored = ch_safetensors_find(shard, name + length);
    if (stored && *found) return tensor_error(o, CH_ERROR_FORMAT, name, "is in two shards");
    if (stored) used[stored - shard->tensors] = true, *found = stored;
    used += shard->count;
  }
  return CH_OK;
}

/* Describes the whole tensor of the file of which a parameter is a part: an expert, some rows, or some columns. */
static ch_param whole_of(const ch_param *row, const ch_tensor_place *place, const char *name) {
  ch_param whole = *row;
  whole.name = name;
  whole.shape[0] = place->rows;
  if (place->transposed && row->rank == 2) {
    whole.shape[0] = row->shape[1];
    whole.shape[1] = place->rows;
  }
  if (place->experts == 0) return whole;
  memmove(whole.shape + 1, whole.shape, (size_t)whole.rank++ * sizeof *whole.shape);
  whole.shape[0] = place->experts;
  return whole;
}

/* Finds a parameter's rows in a stored tensor. In a transposed tensor, finds the whole matrix of the expert. */
static ch_status take_part(const load_state *o, const ch_param *row, const ch_tensor_place *place,
                           const ch_stored_tensor *found, ch_stored_tensor *part) {
  const ch_tensor *tensor = &found->tensor;
  const ch_param whole = whole_of(row, place, found->name);
  int64_t columns = row->rank == 2 ? row->shape[1] : 1;
  CH_TRY(check_shape(o, &whole, found));
  *part = *found;
  if (place->transposed && ch_dtype_is_block_quantised(tensor->dtype))
    return tensor_error(o, CH_ERROR_FORMAT, found->name, "is block-quantised, but stored by columns");
  int64_t before = place->expert * place->rows * columns + (place->transposed ? 0 : place->first * columns);
  part->tensor.shape[0] = row->shape[0];
  part->tensor.data = (char *)tensor->data + ch_dtype_bytes(tensor->dtype, before);
  return CH_OK;
}

/* Finds an expert's part of a tensor of MXFP4: scales [experts, rows, columns / 32] (`bytes` = 1), or blocks
   [experts, rows, columns / 32, 16] (`bytes` = 16). `half` ends the tensor's name. */
static ch_status find_mxfp4(const load_state *o, const ch_param *row, const ch_tensor_place *place,
                            const char *half, int64_t bytes, bool *used, const ch_stored_tensor **found,
                            const char **part) {
  char name[CH_TENSOR_NAME_SIZE + 16], what[200], has[100];
  snprintf(name, sizeof name, "%s_%s", place->name, half);
  CH_TRY(find_used(o, name, used, found));
  if (!*found) return CH_OK;
  const ch_tensor *t = &(*found)->tensor;
  int64_t of_row = row->shape[1] / MXFP4_VALUES, rank = bytes > 1 ? 4 : 3;
  bool right = t->dtype == CH_U8 && !(*found)->foreign && t->rank == rank && t->shape[0] == place->experts &&
               t->shape[1] == place->rows && t->shape[2] == of_row && row->shape[1] % MXFP4_VALUES == 0 &&
               (rank == 3 || t->shape[3] == bytes);
  *part = (const char *)t->data + (size_t)(place->expert * place->rows * of_row * bytes);
  if (right) return CH_OK;
  snprintf(what, sizeof what, "has type %s and shape %s; it must be U8 [%lld, %lld, %lld%s]",
           ch_dtype_name(t->dtype), ch_shape_text(t->rank, t->shape, has, sizeof has),
           (long long)place->experts, (long long)place->rows, (long long)of_row, rank == 4 ? ", 16" : "");
  return tensor_error(o, CH_ERROR_FORMAT, (*found)->name, what);
}

/* Finds blocks and scales of an expert in MXFP4. *found stays NULL if experts have another type. */
static ch_status take_mxfp4(const load_state *o, const ch_param *row, ch_tensor_place *place, bool *used,
                            const ch_stored_tensor **found, ch_stored_tensor *part) {
  const ch_stored_tensor *scales;
  const char *blocks = NULL, *exponents = NULL;
  if (place->experts == 0 || row->rank != 2) return CH_OK;
  CH_TRY(find_mxfp4(o, row, place, "blocks", MXFP4_BYTES, used, found, &blocks));
  if (!*found) return CH_OK;
  CH_TRY(find_mxfp4(o, row, place, "scales", 1, used, &scales, &exponents));
  if (!scales) return tensor_error(o, CH_ERROR_FORMAT, (*found)->name, "has no scales");
  *part = **found;
  part->tensor.data = (void *)(uintptr_t)blocks;
  place->scales = exponents;
  return CH_OK;
}

static ch_status match_part(load_state *o, int index, bool *used) {
  const ch_param *row = &o->params->rows[index];
  ch_tensor_place *place = &o->places[index];
  const ch_stored_tensor *found;
  bool tied = strcmp(row->name, "model.embed_tokens.weight") == 0 && o->config->tie_word_embeddings;
  bool placed = ch_tensor_place_of(o->config, row, place);
  CH_TRY(find_used(o, placed ? place->name : row->name, used, &found));
  if (tied) {
    const ch_stored_tensor *head;
    CH_TRY(find_used(o, "lm_head.weight", used, &head));
    if (!found) found = head;
  }
  if (!found && placed) {
    CH_TRY(take_mxfp4(o, row, place, used, &found, &o->stored[index]));
    if (found) return CH_OK;
  }
  if (!found) return missing(o, placed ? place->name : row->name);
  if (placed) return take_part(o, row, place, found, &o->stored[index]);
  o->stored[index] = *found;
  return check_shape(o, row, found);
}

static ch_status match_parts(load_state *o, bool *used) {
  for (int i = 0; i < o->params->count; i++) CH_TRY(match_part(o, i, used));
  for (int s = 0; s < o->weights->shard_count; s++)
    for (int64_t i = 0; i < o->weights->shards[s].count; i++) {
      const char *name = o->weights->shards[s].tensors[i].name;
      if (!*used++ && !is_left_over(o->config, name) && !ch_tensor_is_ballast(o->config, name))
        return unknown_tensor(o, name);
    }
  return CH_OK;
}

static ch_status match_layout(load_state *o) {
  size_t count = 1;
  for (int s = 0; s < o->weights->shard_count; s++) count += (size_t)o->weights->shards[s].count;
  bool *used = calloc(count, sizeof *used);
  if (!used) return ch_no_memory(o->error);
  ch_status status = match_parts(o, used);
  free(used);
  return status;
}

/* --- conversion ----------------------------------------------------------------------------------------- */

/* Returns the type of a loaded tensor. With CH_WEIGHTS_MAPPED, MXFP4 becomes BF16, which has all its values. */
static ch_dtype wanted_dtype(const ch_param *row, const ch_tensor *stored, ch_weights_mode mode) {
  if (mode == CH_WEIGHTS_F64) return CH_F64;
  if (stored->dtype == CH_U8) return mode == CH_WEIGHTS_MAPPED ? CH_BF16 : CH_F32;
  bool stays = mode == CH_WEIGHTS_MAPPED && !row->always_real && stored->dtype != CH_F64;
  if (ch_dtype_is_block_quantised(stored->dtype) && !row->block_quantisable) stays = false;
  return stays ? stored->dtype : CH_F32;
}

static bool aligned(const void *data, ch_dtype dtype) {
  return ch_dtype_is_block_quantised(dtype) || (uintptr_t)data % ch_dtype_size(dtype) == 0;
}

/* Returns true if a tensor is copied. always_real tensors always are, so their values are checked to be finite. */
static bool is_copied(const ch_param *row, const ch_tensor *stored, const ch_tensor_place *place,
                      ch_dtype wanted) {
  return row->always_real || place->transposed || wanted != stored->dtype ||
         !aligned(stored->data, stored->dtype);
}

static bool all_finite(const void *values, int64_t n, ch_dtype dtype) {
  double sum = 0;
  if (dtype == CH_F32) return isfinite(ch_kernels_best(CH_F32)->sum_squares(&ch_alone, n, values));
  if (dtype == CH_F64) {
    for (int64_t i = 0; i < n; i++) sum += 0 * ((const double *)values)[i];
    return sum == 0;
  }
  uint16_t exponent = dtype == CH_F16 ? 0x7c00 : 0x7f80;
  bool finite = true;
  for (int64_t i = 0; i < n; i++) finite = finite && (((const uint16_t *)values)[i] & exponent) != exponent;
  return finite;
}

/* Copies n values as type `to`. Returns false if one of them is not finite. `in` may be unaligned. */
static bool copy_piece(const char *in, ch_dtype from, ch_dtype to, int64_t n, char *out) {
  double straight[PIECE];
  if (!aligned(in, from)) in = memcpy(straight, in, ch_dtype_bytes(from, n));
  if (from == to)
    memcpy(out, in, (size_t)n * ch_dtype_size(to));
  else if (from == CH_F32 && to != CH_F64)
    ch_kernels_best(CH_F32)->convert_to(ch_team_here(), n, in, to, out);
  else
    ch_kernels_best(to == CH_F64 ? CH_F64 : CH_F32)->convert_from(ch_team_here(), n, in, from, out);
  return all_finite(out, n, to);
}

/* Copies this thread's pieces of a tensor. Returns false if a value is not finite. */
static bool copy_share(const ch_tensor *stored, const ch_tensor_place *place, const ch_tensor *copy) {
  int64_t count = ch_tensor_count(stored), pieces = (count + PIECE - 1) / PIECE;
  size_t to_size = ch_dtype_size(copy->dtype);
  bool finite = true;
#pragma omp for schedule(dynamic, 16) nowait
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * PIECE, n = count - first < PIECE ? count - first : PIECE;
    const char *in = (const char *)stored->data + ch_dtype_bytes(stored->dtype, first);
    char *out = (char *)copy->data + (size_t)first * to_size;
    finite = copy_piece(in, stored->dtype, copy->dtype, n, out) && finite;
    for (int64_t i = 0; place->plus_one && i < n; i++) { /* a vector of F32 or F64 */
      if (copy->dtype == CH_F64)
        ((double *)(void *)out)[i] += 1;
      else
        ((float *)(void *)out)[i] += 1;
    }
  }
  return finite;
}

/* Decodes a block as F32. Returns false if its scale is NaN. */
static bool widen_mxfp4(const uint8_t *block, uint8_t scale, float *values) {
  static const float numbers[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (int i = 0; i < MXFP4_VALUES; i++) {
    int bits = i % 2 ? block[i / 2] >> 4 : block[i / 2] & 15;
    float number = ldexpf(numbers[bits & 7], scale - MXFP4_BIAS);
    values[i] = bits & 8 ? -number : number;
  }
  return scale != MXFP4_NAN;
}

/* Copies this thread's rows of a matrix in MXFP4. Returns false if a value is not finite. */
static bool copy_mxfp4(const ch_tensor *stored, const ch_tensor_place *place, const ch_tensor *copy) {
  int64_t rows = copy->shape[0], blocks = copy->shape[1] / MXFP4_VALUES;
  bool finite = true;
#pragma omp for schedule(dynamic, 16) nowait
  for (int64_t r = 0; r < rows; r++)
    for (int64_t b = 0; b < blocks; b++) {
      int64_t from = (place->first + r * place->step) * blocks + b;
      float values[MXFP4_VALUES];
      char *out = (char *)copy->data + (size_t)((r * blocks + b) * MXFP4_VALUES) * ch_dtype_size(copy->dtype);
      finite = widen_mxfp4((const uint8_t *)stored->data + from * MXFP4_BYTES,
                           ((const uint8_t *)place->scales)[from], values) &&
               finite;
      finite = copy_piece((const char *)values, CH_F32, copy->dtype, MXFP4_VALUES, out) && finite;
    }
  return finite;
}

/* Copies this thread's rows of a transposed tensor. Returns false if a value is not finite. */
static bool copy_transposed(const ch_tensor *stored, const ch_tensor_place *place, const ch_tensor *copy) {
  int64_t rows = copy->shape[0], columns = copy->rank == 2 ? copy->shape[1] : 1;
  int64_t step = place->step > 0 ? place->step : 1;
  size_t size = ch_dtype_size(stored->dtype), to_size = ch_dtype_size(copy->dtype);
  bool finite = true;
#pragma omp for schedule(dynamic, 16) nowait
  for (int64_t r = 0; r < rows; r++)
    for (int64_t first = 0; first < columns; first += PIECE) {
      double piece[PIECE];
      int64_t n = columns - first < PIECE ? columns - first : PIECE;
      const char *in =
          (const char *)stored->data + (size_t)(first * place->rows + place->first + r * step) * size;
      for (int64_t i = 0; i < n; i++)
        memcpy((char *)piece + (size_t)i * size, in + (size_t)(i * place->rows) * size, size);
      char *out = (char *)copy->data + (size_t)(r * columns + first) * to_size;
      finite = copy_piece((char *)piece, stored->dtype, copy->dtype, n, out) && finite;
    }
  return finite;
}

/* Returns true if all values of an F64 tensor are finite. */
static bool are_finite(const ch_tensor *tensor) {
  int64_t count = ch_tensor_count(tensor);
  for (int64_t i = 0; i < count; i++) {
    double value;
    memcpy(&value, (const char *)tensor->data + (size_t)i * sizeof value, sizeof value);
    if (!isfinite(value)) return false;
  }
  return true;
}

/* Fills the copies. All tensors are in one parallel region, because a barrier after each would take longer than the
   copying. */
static ch_status copy_all(const load_state *o) {
  int count = o->params->count, damaged = count; /* the first damaged row */
#pragma omp parallel reduction(min : damaged) if (o->weights->owned_bytes > SMALL_COPY)
  for (int i = 0; i < count; i++) {
    const ch_tensor *stored = &o->stored[i].tensor, *copy = &o->weights->tensors[i];
    if (copy->data == stored->data) continue;
    bool finite = o->places[i].scales       ? copy_mxfp4(stored, &o->places[i], copy)
                  : o->places[i].transposed ? copy_transposed(stored, &o->places[i], copy)
                                            : copy_share(stored, &o->places[i], copy);
    if (!finite && i < damaged) damaged = i;
  }
  if (damaged == count) return CH_OK;
  const ch_tensor *stored = &o->stored[damaged].tensor;
  if (stored->dtype == CH_F64 && o->weights->tensors[damaged].dtype != CH_F64 && are_finite(stored))
    return tensor_error(o, CH_ERROR_NUMERIC, o->stored[damaged].name,
                        "holds a value beyond the range of F32 (3.4e38), in which models compute");
  return tensor_error(o, CH_ERROR_NUMERIC, o->stored[damaged].name,
                      "holds a value that is not finite; the model is damaged");
}

static ch_status fill(load_state *o, ch_weights_mode mode) {
  ch_weights *weights = o->weights;
  for (int i = 0; i < o->params->count; i++) {
    const ch_tensor *stored = &o->stored[i].tensor;
    ch_dtype dtype = wanted_dtype(&o->params->rows[i], stored, mode);
    weights->tensors[i] = (ch_tensor){.dtype = dtype, .rank = o->params->rows[i].rank, .data = stored->data};
    memcpy(weights->tensors[i].shape, o->params->rows[i].shape, sizeof weights->tensors[i].shape);
    if (is_copied(&o->params->rows[i], stored, &o->places[i], dtype))
      weights->owned_bytes += ch_param_place_bytes(&o->params->rows[i], dtype);
  }
  weights->owned = ch_pages_alloc(weights->owned_bytes);
  if (!weights->owned)
    return ch_fail(o->error, CH_ERROR_MEMORY, "no memory for the weights of %s (%zu bytes)", o->directory,
                   weights->owned_bytes);
  char *place = weights->owned;
  for (int i = 0; i < o->params->count; i++) {
    ch_dtype dtype = weights->tensors[i].dtype;
    if (!is_copied(&o->params->rows[i], &o->stored[i].tensor, &o->places[i], dtype)) continue;
    weights->tensors[i].data = place;
    place += ch_param_place_bytes(&o->params->rows[i], dtype);
  }
  return copy_all(o);
}

/* Fails if a tensor's name shows that it belongs to an adapter or to packed weights. */
static ch_status refuse_packed(const load_state *o) {
  static const char *const marks[][2] = {{"qweight", "GPTQ or AWQ"},
                                         {"qzeros", "GPTQ or AWQ"},
                                         {"g_idx", "GPTQ"},
                                         {"absmax", "bitsandbytes"},
                                         {"quant_map", "bitsandbytes"},
                                         {"SCB", "bitsandbytes"},
                                         {"weight_packed", "compressed-tensors"},
                                         {"weight_scale_inv", "FP8"},
                                         {"weight_scale", "a quantiser"},
                                         {"trellis", "EXL3"},
                                         {"q_weight", "EXL2"},
                                         {"W_q", "HQQ"}};
  for (int s = 0; s < o->weights->shard_count; s++)
    for (int64_t i = 0; i < o->weights->shards[s].count; i++) {
      const char *name = o->weights->shards[s].tensors[i].name, *dot = strrchr(name, '.');
      char what[200];
      if (strstr(name, ".lora_A.") || strstr(name, ".lora_B."))
        return tensor_error(
            o, CH_ERROR_FORMAT, name,
            "is part of a LoRA adapter; merge it into the model it was trained on (peft: merge_and_unload)");
      for (size_t m = 0; dot && m < sizeof marks / sizeof *marks; m++) {
        if (strcmp(dot + 1, marks[m][0]) != 0 || ch_params_find(o->params, name) >= 0) continue;
        snprintf(what, sizeof what,
                 "is part of a matrix that %s packed, which is not supported; use an unquantised copy of the "
                 "model",
                 marks[m][1]);
        return tensor_error(o, CH_ERROR_FORMAT, name, what);
      }
    }
  return CH_OK;
}

static ch_status open_all(load_state *o, ch_weights_mode mode) {
  CH_TRY(open_files(o->directory, o->weights, o->error));
  CH_TRY(refuse_packed(o));
  CH_TRY(o->config->layout[0] ? match_layout(o) : match(o));
  return fill(o, mode);
}

ch_status ch_weights_open(const char *directory, const ch_config *config, const ch_params *params,
                          ch_weights_mode mode, ch_weights *weights, ch_error *error) {
  *weights = (ch_weights){0};
  load_state o = {
      .directory = directory, .config = config, .params = params, .weights = weights, .error = error};
  o.stored = calloc((size_t)params->count + 1, sizeof *o.stored);
  o.places = calloc((size_t)params->count + 1, sizeof *o.places);
  weights->tensors = calloc((size_t)params->count + 1, sizeof *weights->tensors);
  ch_status status = o.stored && o.places && weights->tensors ? open_all(&o, mode) : ch_no_memory(error);
  free(o.stored);
  free(o.places);
  if (status != CH_OK) ch_weights_close(weights);
  return status;
}

ch_status ch_weights_find(const char *directory, ch_weights *weights, ch_error *error) {
  *weights = (ch_weights){0};
  ch_status status = open_files(directory, weights, error);
  if (status != CH_OK) ch_weights_close(weights);
  return status;
}

void ch_weights_close(ch_weights *weights) {
  for (int i = 0; i < weights->shard_count; i++) ch_safetensors_close(&weights->shards[i]);
  free(weights->shards);
  free(weights->tensors);
  ch_pages_free(weights->owned, weights->owned_bytes);
  *weights = (ch_weights){0};
}

void ch_weights_forget(const ch_weights *weights, const void *data, size_t bytes) {
  for (int i = 0; i < weights->shard_count; i++) ch_map_forget(&weights->shards[i].map, data, bytes);
}

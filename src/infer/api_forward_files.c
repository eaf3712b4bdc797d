/* Reads the inputs of ch_forward from safetensors files, and writes its results. */
#include "infer/api_forward.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/safetensors.h"

/* --- reading -------------------------------------------------------------------------------------------- */

static bool is_integer(const ch_tensor *tensor) {
  return tensor->dtype == CH_I64 || tensor->dtype == CH_I32;
}

/* Copies the integers of an I32 or I64 tensor. Fails if one is below `least`. The caller frees *ids. */
static ch_status copy_ids(const ch_tensor *tensor, const char *path, const char *what, int64_t least,
                          const int32_t **ids, ch_error *error) {
  int64_t count = ch_tensor_count(tensor);
  int32_t *copy = malloc((size_t)count * sizeof *copy);
  *ids = copy;
  if (!copy) return ch_no_memory(error);
  for (int64_t i = 0; i < count; i++) {
    int64_t id = 0;
    int32_t narrow = 0;
    if (tensor->dtype == CH_I64) {
      memcpy(&id, (const char *)tensor->data + i * 8, 8);
    } else {
      memcpy(&narrow, (const char *)tensor->data + i * 4, 4);
      id = narrow;
    }
    if (id < least || id > INT32_MAX)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: %s %lld is not one", path, what, (long long)id);
    copy[i] = (int32_t)id;
  }
  return CH_OK;
}

static ch_status copy_tokens(const ch_tensor *tensor, const char *path, ch_forward_request *request,
                             ch_error *error) {
  if (tensor->rank != 2 || !is_integer(tensor))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: tokens must be an I32 or I64 tensor [B, T]", path);
  if (ch_tensor_count(tensor) < 1)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: tokens is empty; it must hold at least one id", path);
  request->sequences = tensor->shape[0];
  request->length = tensor->shape[1];
  return copy_ids(tensor, path, "token id", 0, &request->tokens, error);
}

static ch_status copy_pixels(const ch_tensor *tensor, const char *path, const ch_config *c,
                             ch_forward_request *request, ch_error *error) {
  char shape[96];
  bool fits = tensor->dtype == CH_F32 && tensor->rank == 4 && tensor->shape[0] > 0 &&
              tensor->shape[1] == c->num_channels && tensor->shape[2] == c->image_size &&
              tensor->shape[3] == c->image_size;
  if (!fits)
    return ch_fail(
        error, CH_ERROR_FORMAT, "%s: pixels are %s %s where the model needs F32 [B, %lld, %lld, %lld]", path,
        ch_dtype_name(tensor->dtype), ch_shape_text(tensor->rank, tensor->shape, shape, sizeof shape),
        (long long)c->num_channels, (long long)c->image_size, (long long)c->image_size);
  request->sequences = tensor->shape[0];
  request->length = 1;
  float *copy = malloc(ch_tensor_bytes(tensor));
  request->pixels = copy;
  if (!copy) return ch_no_memory(error);
  memcpy(copy, tensor->data, ch_tensor_bytes(tensor));
  return CH_OK;
}

static ch_status copy_labels(const ch_tensor *tensor, const char *path, ch_forward_request *request,
                             ch_error *error) {
  if (tensor->rank != 1 || !is_integer(tensor) || tensor->shape[0] != request->sequences)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: labels must be an I32 or I64 tensor [%lld], one per image",
                   path, (long long)request->sequences);
  return copy_ids(tensor, path, "label", -1, &request->labels, error);
}

static ch_status copy_images(const ch_safetensors *file, const char *path, const ch_config *config,
                             ch_forward_request *request, ch_error *error) {
  const ch_stored_tensor *pixels = ch_safetensors_find(file, "pixels"),
                         *labels = ch_safetensors_find(file, "labels");
  if (!pixels) pixels = ch_safetensors_find(file, "pixel_values");
  if (!pixels) return ch_fail(error, CH_ERROR_FORMAT, "%s has no tensor named pixels", path);
  CH_TRY(copy_pixels(&pixels->tensor, path, config, request, error));
  return labels ? copy_labels(&labels->tensor, path, request, error) : CH_OK;
}

ch_status ch_forward_read(const char *path, const ch_model *model, ch_forward_request *request,
                          ch_error *error) {
  if (!path || !model || !request)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the file's name, the model or the request is NULL");
  ch_safetensors file;
  CH_TRY(ch_safetensors_open(path, &file, error));
  const ch_stored_tensor *tokens = ch_safetensors_find(&file, "tokens");
  ch_status status = CH_OK;
  request->tokens = request->labels = NULL;
  request->pixels = NULL;
  if (ch_config_is_vision(&model->config))
    status = copy_images(&file, path, &model->config, request, error);
  else
    status = tokens ? copy_tokens(&tokens->tensor, path, request, error)
                    : ch_fail(error, CH_ERROR_FORMAT, "%s has no tensor named tokens", path);
  ch_safetensors_close(&file);
  if (status != CH_OK) ch_forward_request_free(request);
  return status;
}

void ch_forward_request_free(ch_forward_request *request) {
  if (!request) return;
  free((void *)(uintptr_t)request->tokens);
  free((void *)(uintptr_t)request->pixels);
  free((void *)(uintptr_t)request->labels);
  request->tokens = request->labels = NULL;
  request->pixels = NULL;
}

/* --- writing -------------------------------------------------------------------------------------------- */

/* Returns the logits as a tensor [B, T, V], or [B, classes] for images. */
static ch_tensor logits_of(const ch_forward_result *r) {
  if (r->images) return (ch_tensor){CH_F32, 2, {r->sequences, r->classes}, r->logits};
  return (ch_tensor){CH_F32, 3, {r->sequences, r->length, r->classes}, r->logits};
}

static ch_status put_gradient(const ch_gradient *gradient, ch_arena *names, ch_stored_tensor *stored,
                              ch_error *error) {
  char *name = ch_arena_printf(names, "grad.%s", gradient->name);
  if (!name) return ch_no_memory(error);
  *stored = (ch_stored_tensor){.name = name,
                               .tensor = {.dtype = gradient->type == CH_PRECISION_F64 ? CH_F64 : CH_F32,
                                          .rank = gradient->rank,
                                          .data = (void *)(uintptr_t)gradient->data}};
  memcpy(stored->tensor.shape, gradient->shape, sizeof stored->tensor.shape);
  return CH_OK;
}

ch_status ch_forward_write(const char *path, const ch_forward_result *result, ch_error *error) {
  if (!path || !result) return ch_fail(error, CH_ERROR_ARGUMENT, "the file's name or the result is NULL");
  int count = 0;
  float loss = (float)result->loss;
  ch_arena names = {0};
  ch_status status = CH_OK;
  ch_stored_tensor *all = calloc((size_t)result->gradient_count + 2, sizeof *all);
  if (!all) return ch_no_memory(error);
  if (result->logits) all[count++] = (ch_stored_tensor){.name = "logits", .tensor = logits_of(result)};
  if (result->has_loss) all[count++] = (ch_stored_tensor){.name = "loss", .tensor = {CH_F32, 1, {1}, &loss}};
  for (int64_t i = 0; status == CH_OK && i < result->gradient_count; i++)
    status = put_gradient(&result->gradients[i], &names, &all[count++], error);
  if (status == CH_OK) status = ch_safetensors_write(path, all, count, NULL, error);
  ch_arena_free(&names);
  free(all);
  return status;
}

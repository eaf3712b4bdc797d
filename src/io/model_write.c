/* Writes a model directory: weights converted as they go, then the configuration. */
#include <stdlib.h>
#include <string.h>

#include "io/model_files.h"
#include "config/config_families.h"
#include "tensor/kernels.h"

/* Elements converted at once: so few that the kernels do not call for more threads, whose start would cost more. */
enum { PIECE = 1 << 13 };

/* Values on their way from one float type to another, through F32, or through F64 when either is. */
typedef struct converter {
  double middle[PIECE], out[PIECE];
} converter;

static ch_status put_tensor(ch_writer *writer, const ch_tensor *tensor, ch_dtype dtype, converter *convert,
                            ch_error *error) {
  if (tensor->dtype == dtype) return ch_writer_put(writer, tensor->data, ch_tensor_bytes(tensor), error);
  bool wide = tensor->dtype == CH_F64 || dtype == CH_F64;
  const ch_kernels *kernels = ch_kernels_best(wide ? CH_F64 : CH_F32);
  int64_t count = ch_tensor_count(tensor);
  for (int64_t first = 0; first < count; first += PIECE) {
    int64_t n = count - first < PIECE ? count - first : PIECE;
    const char *in = (const char *)tensor->data + (size_t)first * ch_dtype_size(tensor->dtype);
    kernels->convert_from(n, in, tensor->dtype, convert->middle);
    kernels->convert_to(n, convert->middle, dtype, convert->out);
    CH_TRY(ch_writer_put(writer, convert->out, (size_t)n * ch_dtype_size(dtype), error));
  }
  return CH_OK;
}

static ch_status put_all(ch_writer *writer, const ch_stored_tensor *stored, const ch_tensor *tensors,
                         const int64_t *order, int64_t count, ch_error *error) {
  converter *convert = malloc(sizeof *convert);
  if (!convert) return ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", writer->path);
  ch_status status = CH_OK;
  for (int64_t i = 0; i < count && status == CH_OK; i++)
    status = put_tensor(writer, &tensors[order[i]], stored[order[i]].tensor.dtype, convert, error);
  free(convert);
  return status;
}

static ch_status write_weights(const char *path, const ch_params *params, const ch_tensor *tensors,
                               ch_dtype dtype, ch_error *error) {
  int64_t count = params->count;
  ch_stored_tensor *stored = calloc((size_t)count + 1, sizeof *stored);
  int64_t *order = calloc((size_t)count + 1, sizeof *order);
  ch_text header = {0};
  ch_writer writer = {0};
  ch_status status = CH_OK;
  if (!stored || !order) {
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", path);
    goto done;
  }
  for (int64_t i = 0; i < count; i++) {
    const ch_param *row = &params->rows[i];
    stored[i] = (ch_stored_tensor){(char *)row->name, {.dtype = dtype, .rank = row->rank}};
    memcpy(stored[i].tensor.shape, row->shape, sizeof row->shape);
  }
  CH_TRY_GOTO(ch_safetensors_layout(stored, count, "{\"format\":\"pt\"}", &header, order, error));
  CH_TRY_GOTO(ch_writer_open(&writer, path, error));
  CH_TRY_GOTO(ch_writer_put(&writer, header.data, header.size, error));
  CH_TRY_GOTO(put_all(&writer, stored, tensors, order, count, error));
  status = ch_writer_commit(&writer, error);
done:
  ch_writer_abort(&writer);
  ch_text_free(&header);
  free(order);
  free(stored);
  return status;
}

static ch_status write_config(const char *path, const ch_config *config, ch_error *error) {
  ch_text json = {0};
  ch_config_write(config, &json);
  ch_status status = json.failed ? ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", path)
                                 : ch_write_file(path, json.data, json.size, error);
  ch_text_free(&json);
  return status;
}

ch_status ch_model_write(const char *directory, const ch_config *config, const ch_params *params,
                         const ch_tensor *tensors, ch_dtype dtype, ch_error *error) {
  CH_TRY(ch_config_validate(config, directory, error));
  CH_TRY(ch_config_check_writable(config, directory, error));
  CH_TRY(ch_make_directory(directory, error));
  char *weights_path = ch_path_join(directory, "model.safetensors");
  char *config_path = ch_path_join(directory, "config.json");
  ch_status status = CH_OK;
  if (!weights_path || !config_path)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", directory);
  if (status == CH_OK) status = write_weights(weights_path, params, tensors, dtype, error);
  if (status == CH_OK) status = write_config(config_path, config, error);
  free(weights_path);
  free(config_path);
  return status;
}

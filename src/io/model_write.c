/* Writes a model directory: first the weights, converted piece by piece, then the configuration. A
 * directory with a config.json is therefore complete. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/model_files.h"
#include "config_file/config_json.h"
#include "tensor/encode_blocks.h"
#include "tensor/kernels.h"

/* PIECE: elements converted at once, few enough that kernels use one thread, which is faster. STEP_VALUES: elements
   that are converted between two calls of `step`. */
enum { PIECE = 1 << 13, STEP_VALUES = 1 << 22 };
/* Bytes that are copied between two calls of `step`. */
static const size_t stride = (size_t)16 << 20;

/* The state of writing tensors. */
typedef struct converter {
  const ch_tensor *tensors;
  const ch_params *params;
  const ch_model_writing *writing;
  double done, total; /* done: bytes written so far; total: bytes of all tensors */
  /* middle: a piece in F32, or in F64 if the source or the result is F64; out: the piece in the type of the file */
  double middle[PIECE], out[PIECE];
} converter;

static ch_status tell(const converter *convert, ch_error *error) {
  const ch_model_writing *w = convert->writing;
  return w->step ? w->step(w->context, "writing", convert->done, convert->total, error) : CH_OK;
}

/* --- values that a type can hold ------------------------------------------------------------------------ */

/* Converts stored values to F32, or to F64 if `wide`. */
static void widen(const char *stored, ch_dtype dtype, int64_t n, bool wide, double *out) {
  ch_kernels_best(wide ? CH_F64 : CH_F32)->convert_from(ch_team_here(), n, stored, dtype, out);
}

/* Returns the largest magnitude of n values of F32, or NaN if one is not finite. It compares bits, whose order is that
   of magnitudes. */
static double largest_of_floats(const float *values, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  float value;
  memcpy(&value, &most, sizeof value);
  return isfinite(value) ? (double)value : NAN;
}

/* Returns the largest magnitude of n values, F64 if `wide` and else F32; NaN if one is not finite. */
static double largest(const double *values, bool wide, int64_t n) {
  double most = 0;
  if (!wide) return largest_of_floats((const float *)(const void *)values, n);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(values[i])) return NAN;
    most = fmax(most, fabs(values[i]));
  }
  return most;
}

static ch_status damaged(const converter *convert, int index, ch_error *error) {
  return ch_fail(error, CH_ERROR_NUMERIC, "tensor %s holds a value that is not finite; the model is damaged",
                 convert->params->rows[index].name);
}

/* Fails if values became infinite in the type of the file, which may have a smaller range. convert->out has n values;
   `most` is the largest magnitude before the conversion. */
static ch_status check_stored(converter *convert, int index, ch_dtype dtype, bool wide, int64_t n,
                              double most, ch_error *error) {
  const double most_of_bf16 = 0x1.FFp127;
  widen((const char *)convert->out, dtype, n, wide, convert->middle);
  if (isfinite(largest(convert->middle, wide, n))) return CH_OK;
  return ch_fail(error, CH_ERROR_NUMERIC, "tensor %s holds %g, which %s cannot; %s can",
                 convert->params->rows[index].name, most, ch_dtype_name(dtype),
                 dtype == CH_F32        ? "f64"
                 : most >= most_of_bf16 ? "f32"
                                        : "bf16 and f32");
}

/* --- tensors -------------------------------------------------------------------------------------------- */

/* Fails if values that come from a file (writing->read) are not finite. Computed values were checked before. */
static ch_status check_copied(converter *convert, int index, ch_error *error) {
  const ch_tensor *tensor = &convert->tensors[index];
  int64_t count = ch_tensor_count(tensor);
  bool wide = tensor->dtype == CH_F64;
  for (int64_t first = 0; convert->writing->read && first < count; first += PIECE) {
    int64_t n = count - first < PIECE ? count - first : PIECE;
    widen((const char *)tensor->data + ch_dtype_bytes(tensor->dtype, first), tensor->dtype, n, wide,
          convert->middle);
    if (isnan(largest(convert->middle, wide, n))) return damaged(convert, index, error);
  }
  return CH_OK;
}

static ch_status copy_tensor(converter *convert, int index, ch_writer *writer, ch_error *error) {
  const ch_tensor *tensor = &convert->tensors[index];
  size_t bytes = ch_tensor_bytes(tensor);
  CH_TRY(check_copied(convert, index, error));
  for (size_t at = 0, n; at < bytes; at += n) {
    n = bytes - at < stride ? bytes - at : stride;
    CH_TRY(tell(convert, error));
    CH_TRY(ch_writer_put(writer, (const char *)tensor->data + at, n, error));
    convert->done += (double)n;
  }
  return CH_OK;
}

/* Converts a tensor piece by piece. Rows are whole blocks, and so is PIECE. */
static ch_status convert_tensor(converter *convert, int index, ch_dtype dtype, ch_writer *writer,
                                ch_error *error) {
  const ch_tensor *tensor = &convert->tensors[index];
  if (tensor->dtype == dtype) return copy_tensor(convert, index, writer, error);
  bool blocks = ch_dtype_is_block_quantised(dtype),
       wide = !blocks && (tensor->dtype == CH_F64 || dtype == CH_F64);
  int64_t count = ch_tensor_count(tensor), told = 0;
  for (int64_t first = 0; first < count; first += PIECE) {
    int64_t n = count - first < PIECE ? count - first : PIECE;
    size_t bytes = ch_dtype_bytes(dtype, n);
    if (first >= told) CH_TRY(tell(convert, error));
    if (first >= told) told += STEP_VALUES;
    widen((const char *)tensor->data + ch_dtype_bytes(tensor->dtype, first), tensor->dtype, n, wide,
          convert->middle);
    double most = largest(convert->middle, wide, n);
    if (isnan(most)) return damaged(convert, index, error);
    if (blocks)
      ch_encode_blocks(dtype, (const float *)(const void *)convert->middle, n, convert->out);
    else
      ch_kernels_best(wide ? CH_F64 : CH_F32)
          ->convert_to(ch_team_here(), n, convert->middle, dtype, convert->out);
    CH_TRY(check_stored(convert, index, dtype, wide, n, most, error));
    CH_TRY(ch_writer_put(writer, convert->out, bytes, error));
    convert->done += (double)bytes;
  }
  return CH_OK;
}

static ch_status put_converted(void *context, int index, ch_dtype dtype, ch_writer *writer, ch_error *error) {
  converter *convert = context;
  const ch_tensor *tensor = &convert->tensors[index];
  ch_status status = convert_tensor(convert, index, dtype, writer, error);
  const ch_weights *read = convert->writing->read;
  if (read) ch_weights_forget(read, tensor->data, ch_tensor_bytes(tensor));
  return status;
}

static ch_status write_tensors(const char *path, const ch_params *params, const ch_dtype *dtypes,
                               ch_tensor_put *put, void *context, ch_error *error) {
  int64_t count = params->count;
  ch_stored_tensor *stored = calloc((size_t)count + 1, sizeof *stored);
  int64_t *order = calloc((size_t)count + 1, sizeof *order);
  ch_text header = {0};
  ch_writer writer = {0};
  ch_status status = CH_OK;
  if (!stored || !order) {
    status = ch_no_memory(error);
    goto done;
  }
  for (int64_t i = 0; i < count; i++) {
    const ch_param *row = &params->rows[i];
    stored[i] =
        (ch_stored_tensor){.name = (char *)row->name, .tensor = {.dtype = dtypes[i], .rank = row->rank}};
    memcpy(stored[i].tensor.shape, row->shape, sizeof row->shape);
  }
  CH_TRY_GOTO(ch_safetensors_layout(stored, count, "{\"format\":\"pt\"}", &header, order, error));
  CH_TRY_GOTO(ch_writer_open(&writer, path, error));
  CH_TRY_GOTO(ch_writer_put(&writer, header.data, header.size, error));
  for (int64_t i = 0; i < count; i++)
    CH_TRY_GOTO(put(context, (int)order[i], dtypes[order[i]], &writer, error));
  status = ch_writer_commit(&writer, error);
done:
  ch_writer_abort(&writer);
  ch_text_free(&header);
  free(order);
  free(stored);
  return status;
}

ch_status ch_weights_write(const char *directory, const ch_params *params, const ch_dtype *dtypes,
                           ch_tensor_put *put, void *context, ch_error *error) {
  CH_TRY(ch_make_directory(directory, error));
  char *path = ch_path_join(directory, "model.safetensors");
  ch_status status = path ? write_tensors(path, params, dtypes, put, context, error) : ch_no_memory(error);
  free(path);
  return status;
}

ch_status ch_config_store(const char *directory, const ch_config *config, ch_error *error) {
  char *path = ch_path_join(directory, "config.json");
  ch_text json = {0};
  ch_config_write(config, &json);
  ch_status status =
      json.failed || !path ? ch_no_memory(error) : ch_write_file(path, json.data, json.size, error);
  ch_text_free(&json);
  free(path);
  return status;
}

ch_status ch_model_write_as(const char *directory, const ch_config *config, const ch_params *params,
                            const ch_tensor *tensors, const ch_dtype *dtypes, const ch_model_writing *writing,
                            ch_error *error) {
  CH_TRY(ch_config_validate(config, directory, error));
  converter *convert = malloc(sizeof *convert);
  if (!convert) return ch_no_memory(error);
  convert->tensors = tensors;
  convert->params = params;
  convert->writing = writing;
  convert->done = convert->total = 0;
  for (int i = 0; i < params->count; i++)
    convert->total += (double)ch_dtype_bytes(dtypes[i], ch_tensor_count(&tensors[i]));
  ch_status status = ch_weights_write(directory, params, dtypes, put_converted, convert, error);
  if (status == CH_OK) status = ch_config_store(directory, config, error);
  free(convert);
  return status;
}

ch_status ch_model_write(const char *directory, const ch_config *config, const ch_params *params,
                         const ch_tensor *tensors, ch_dtype dtype, ch_error *error) {
  ch_dtype *dtypes = malloc(((size_t)params->count + 1) * sizeof *dtypes);
  if (!dtypes) return ch_no_memory(error);
  for (int i = 0; i < params->count; i++) dtypes[i] = dtype;
  ch_status status =
      ch_model_write_as(directory, config, params, tensors, dtypes, &(ch_model_writing){0}, error);
  free(dtypes);
  return status;
}

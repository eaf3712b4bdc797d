/* Writes a source, a model in any format, as a model directory. Also has the functions that readers share: orders
   of rows, declaring the tensors. The readers are the files *_source.c and llama2c.c. */
#define _GNU_SOURCE
#include "formats/source.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "config_file/config_json.h"
#include "io/extra_files.h"
#include "io/model_files.h"
#include "tensor/kernels.h"

enum { PIECE_ELEMENTS = 1 << 20 }; /* elements of a tensor in memory at a time, or one row if it is longer */

int64_t ch_interleaved_row(int64_t row, int64_t size) {
  int64_t head = row / size, i = row % size, half = size / 2;
  return head * size + (i < half ? 2 * i : 2 * (i - half) + 1);
}

int64_t ch_halved_row(int64_t row, int64_t size) {
  int64_t head = row / size, i = row % size;
  return head * size + i % 2 * (size / 2) + i / 2;
}

void ch_rows_of(const ch_param *param, int64_t *rows, int64_t *columns) {
  *rows = param->rank == 1 ? 1 : param->shape[0];
  *columns = ch_param_count(param) / *rows;
}

ch_status ch_source_declare(ch_source *source, const char *where, ch_error *error) {
  CH_TRY(ch_config_validate(&source->config, where, error));
  CH_TRY(ch_model_declare_stored(where, &source->config, &source->params, error));
  source->dtypes = calloc((size_t)source->params.count + 1, sizeof *source->dtypes);
  if (!source->dtypes) return ch_no_memory(error);
  for (int i = 0; i < source->params.count; i++) source->dtypes[i] = CH_F32;
  return CH_OK;
}

void ch_source_close(ch_source *source) {
  if (source->close) source->close(source->context);
  ch_params_free(&source->params);
  free(source->dtypes);
  free(source->companions);
  ch_text_free(&source->config_json);
  ch_text_free(&source->tokenizer);
  ch_text_free(&source->tokenizer_config);
  ch_text_free(&source->generation_config);
  ch_text_free(&source->chat_template);
  *source = (ch_source){0};
}

/* --- writing -------------------------------------------------------------------------------------------- */

typedef struct conversion {
  const ch_source *source;
  const ch_source_writing *how;
  double done, total; /* done: elements written so far; total: elements of all tensors */
  float *values;      /* [room] a piece as F32 */
  void *stored;       /* [room] the piece in its written type */
  int64_t room;
} conversion;

/* Fails if a value is not finite or does not fit the type. The largest F16 is 65504, the largest BF16 3.39e38. Values
   less than half a step above are rounded down. */
static ch_status check_values(const ch_param *param, const float *values, int64_t count, ch_dtype dtype,
                              ch_error *error) {
  float most = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    finite = finite && isfinite(values[i]);
    most = fmaxf(most, fabsf(values[i]));
  }
  if (!finite)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "tensor %s holds a value that is not finite; the model is damaged", param->name);
  if (dtype == CH_F16 && most >= 65520)
    return ch_fail(error, CH_ERROR_NUMERIC, "tensor %s holds %g, which F16 cannot; bf16 and f32 can",
                   param->name, (double)most);
  if (dtype == CH_BF16 && most >= 0x1.FFp127F)
    return ch_fail(error, CH_ERROR_NUMERIC, "tensor %s holds %g, which BF16 cannot; f32 can", param->name,
                   (double)most);
  return CH_OK;
}

/* Copies blocks unchanged, after a check of the values that they encode. */
static ch_status take_blocks(conversion *w, int index, int64_t first, int64_t rows, int64_t count,
                             ch_error *error) {
  CH_TRY(w->source->blocks(w->source, index, first, rows, w->stored, error));
  CH_TRY(w->source->rows(w->source, index, first, rows, w->values, error));
  return check_values(&w->source->params.rows[index], w->values, count, CH_F32, error);
}

static ch_status take_values(conversion *w, int index, int64_t first, int64_t rows, int64_t count,
                             ch_dtype dtype, ch_error *error) {
  CH_TRY(w->source->rows(w->source, index, first, rows, w->values, error));
  CH_TRY(check_values(&w->source->params.rows[index], w->values, count, dtype, error));
  ch_kernels_best(CH_F32)->convert_to(ch_team_here(), count, w->values, dtype, w->stored);
  return CH_OK;
}

static ch_status put_piece(conversion *w, int index, int64_t first, int64_t rows, int64_t columns,
                           ch_dtype dtype, ch_writer *writer, ch_error *error) {
  int64_t count = rows * columns;
  if (w->how->stop && w->how->stop(w->how->context))
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; nothing was written");
  CH_TRY(ch_dtype_is_block_quantised(dtype) ? take_blocks(w, index, first, rows, count, error)
                                            : take_values(w, index, first, rows, count, dtype, error));
  w->done += (double)count;
  if (w->how->progress) w->how->progress(w->how->context, w->done / w->total);
  return ch_writer_put(writer, w->stored, ch_dtype_bytes(dtype, count), error);
}

static ch_status put_tensor(void *context, int index, ch_dtype dtype, ch_writer *writer, ch_error *error) {
  conversion *w = context;
  int64_t rows, columns;
  ch_rows_of(&w->source->params.rows[index], &rows, &columns);
  int64_t at_once = w->room / columns;
  for (int64_t first = 0; first < rows; first += at_once)
    CH_TRY(put_piece(w, index, first, rows - first < at_once ? rows - first : at_once, columns, dtype, writer,
                     error));
  return CH_OK;
}

/* Allocates buffers of at least one row. */
static ch_status open_conversion(conversion *w, ch_error *error) {
  w->room = PIECE_ELEMENTS;
  for (int i = 0; i < w->source->params.count; i++) {
    int64_t rows, columns;
    ch_rows_of(&w->source->params.rows[i], &rows, &columns);
    w->total += (double)rows * (double)columns;
    if (columns > w->room) w->room = columns;
  }
  w->values = malloc((size_t)w->room * sizeof(float));
  w->stored = malloc((size_t)w->room * sizeof(double));
  return w->values && w->stored ? CH_OK : ch_no_memory(error);
}

static ch_dtype dtype_to_write(const ch_source_writing *how, ch_dtype own) {
  if (how->keep_blocks && ch_dtype_is_block_quantised(own)) return own;
  if (how->dtype) return *how->dtype;
  return ch_dtype_is_block_quantised(own) ? CH_F32 : own;
}

static ch_status write_weights(const ch_source *source, const char *directory, const ch_source_writing *how,
                               ch_error *error) {
  conversion w = {.source = source, .how = how};
  ch_dtype *dtypes = malloc(((size_t)source->params.count + 1) * sizeof *dtypes);
  ch_status status = dtypes ? open_conversion(&w, error) : ch_no_memory(error);
  for (int i = 0; dtypes && i < source->params.count; i++) dtypes[i] = dtype_to_write(how, source->dtypes[i]);
  if (status == CH_OK) status = ch_weights_write(directory, &source->params, dtypes, put_tensor, &w, error);
  free(dtypes);
  free(w.values);
  free(w.stored);
  return status;
}

static ch_status write_text(const char *directory, const char *name, const ch_text *text, ch_error *error) {
  if (!text->size) return CH_OK;
  char *path = ch_path_join(directory, name);
  ch_status status = path ? ch_write_file(path, text->data, text->size, error) : ch_no_memory(error);
  free(path);
  return status;
}

static ch_status write_all(const ch_source *source, const char *directory, const ch_source_writing *writing,
                           ch_error *error) {
  CH_TRY(write_weights(source, directory, writing, error));
  if (source->companions) CH_TRY(ch_copy_extra_files(source->companions, directory, error));
  CH_TRY(write_text(directory, "tokenizer.json", &source->tokenizer, error));
  CH_TRY(write_text(directory, "tokenizer_config.json", &source->tokenizer_config, error));
  CH_TRY(write_text(directory, "chat_template.jinja", &source->chat_template, error));
  CH_TRY(write_text(directory, "generation_config.json", &source->generation_config, error));
  return writing->finish ? writing->finish(source, directory, error)
                         : ch_config_store(directory, &source->config, error);
}

ch_status ch_source_write(const ch_source *source, const char *directory, const ch_source_writing *writing,
                          ch_error *error) {
  char *config = ch_path_join(directory, "config.json");
  if (!config) return ch_no_memory(error);
  bool taken = ch_is_file(config), there = ch_is_directory(directory);
  free(config);
  if (taken)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s already holds a model; give another directory", directory);
  ch_status status = write_all(source, directory, writing, error);
  if (status != CH_OK && !there) rmdir(directory); /* succeeds only if the directory is empty */
  return status;
}

/* Writes the compressed model's files. */
#include <stdlib.h>

#include "api/compress_private.h"
#include "base/file.h"
#include "base/json.h"
#include "io/extra_files.h"

/* Returns true if the tensor was materialised from several tensors of the files. It is F32, whatever their types
   are. */
static bool is_written_out(const ch_model *model, const ch_tensor *tensor) {
  const char *data = tensor->data, *first = model->materialised;
  return first && tensor->rank == 2 && data >= first && data < first + model->materialised_bytes;
}

static ch_status write_model(ch_compress_job *c, ch_error *error) {
  const ch_materialised_model *made = &c->compressed.model;
  ch_dtype *dtypes = malloc(((size_t)made->params.count + 1) * sizeof *dtypes);
  if (!dtypes) return ch_no_memory(error);
  for (int i = 0; i < made->params.count; i++) {
    const ch_tensor *tensor = &made->tensors[i];
    dtypes[i] = is_written_out(c->own, tensor) ? c->dtype : tensor->dtype;
  }
  ch_model_writing writing = {.read = &c->own->weights, .step = ch_compress_job_step, .context = c};
  ch_status status =
      ch_model_write_as(c->out, &made->config, &made->params, made->tensors, dtypes, &writing, error);
  free(dtypes);
  return status;
}

ch_status ch_compress_job_write(ch_compress_job *c, ch_error *error) {
  CH_TRY(ch_make_directory(c->out, error));
  CH_TRY(write_model(c, error));
  return ch_copy_extra_files(c->directory, c->out, error);
}

ch_status ch_compress_job_write_report(const ch_compress_job *c, ch_error *error) {
  ch_text page = {0};
  CH_TRY(ch_json_write(c->out, "report.json", ch_compression_to_json(&c->report),
                       JSON_INDENT(2) | JSON_REAL_PRECISION(9), error));
  ch_status status = ch_compression_page(&c->report, &page, error);
  return ch_api_report(c->out, &page, status, error);
}

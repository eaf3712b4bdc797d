/* The compressed model's files. */
#include <stdlib.h>
#include <string.h>

#include "api/compress_private.h"
#include "base/file.h"
#include "base/json.h"
#include "io/extra_files.h"

/* Returns true if the tensor replaces several tensors of the model's files. It is F32, whatever they are. */
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

static ch_status put_file(const char *directory, const char *name, const char *data, size_t size,
                          ch_error *error) {
  char *path = ch_path_join(directory, name);
  ch_status status = path ? ch_write_file(path, data, size, error) : ch_no_memory(error);
  free(path);
  return status;
}

ch_status ch_compress_job_write_report(const ch_compress_job *c, ch_error *error) {
  ch_text page = {0};
  json_t *object = ch_compression_to_json(&c->report);
  char *json = object ? ch_json_dump(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
  ch_status status = json ? put_file(c->out, "report.json", json, strlen(json), error) : ch_no_memory(error);
  if (status == CH_OK) status = ch_compression_page(&c->report, &page, error);
  if (status == CH_OK) status = put_file(c->out, "report.html", page.data, page.size, error);
  ch_text_free(&page);
  json_decref(object);
  free(json);
  return status;
}

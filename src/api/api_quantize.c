/* The public function that rounds a model's matrices. */
#include <crosshead/quantize.h>

#include <stdlib.h>

#include "api/adapters.h"
#include "base/file.h"
#include "compress/quantise.h"
#include "io/extra_files.h"

void ch_quantize_defaults(ch_quantize_settings *settings) {
  *settings = (ch_quantize_settings){.type = CH_PRECISION_Q8_0};
}

static ch_status quantised_type(ch_precision precision, ch_dtype *dtype, ch_error *error) {
  int known = ch_api_dtype(precision, CH_Q8_0);
  if (known < 0 || known == CH_F32)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "type is %d; matrices can become BF16, F16, Q8_0, Q6_K, Q4_K or Q4_0", (int)precision);
  *dtype = (ch_dtype)known;
  return CH_OK;
}

static ch_status write_model(const ch_model *model, const char *out, ch_dtype type,
                             const ch_quantize_settings *settings, ch_quantised_sizes *sizes,
                             ch_error *error) {
  ch_api_progress progress = {settings->progress, settings->user, false};
  const ch_model_writing writing = {.read = &model->weights, .step = ch_api_step, .context = &progress};
  ch_dtype *dtypes = malloc(((size_t)model->params.count + 1) * sizeof *dtypes);
  if (!dtypes) return ch_no_memory(error);
  ch_status status = ch_quantise_types(model, type, settings->keep_embedding, dtypes, sizes, error);
  if (status == CH_OK)
    status = ch_model_write_as(out, &model->config, &model->params, model->weights.tensors, dtypes, &writing,
                               error);
  if (status == CH_OK) status = ch_copy_extra_files(model->directory, out, error);
  free(dtypes);
  return status;
}

ch_status ch_quantize(const char *directory, const char *out, const ch_quantize_settings *settings,
                      char **json, ch_error *error) {
  if (!directory || !out) return ch_refuse_null(error, "a directory's name");
  ch_quantize_settings own;
  ch_quantize_defaults(&own);
  if (!settings) settings = &own;
  ch_dtype type = CH_Q8_0;
  CH_TRY(quantised_type(settings->type, &type, error));
  if (ch_same_file(directory, out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is the input model; choose another output directory", out);
  ch_model *model;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, error));
  ch_quantised_sizes sizes;
  ch_status status = write_model(model, out, type, settings, &sizes, error);
  ch_model_unload(model);
  return status == CH_OK
             ? ch_api_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "type", ch_api_type_name(type),
                                     "bytes_before", (json_int_t)sizes.before, "bytes",
                                     (json_int_t)sizes.after, "matrices", (json_int_t)sizes.in_blocks,
                                     "matrices_of_other_widths", (json_int_t)sizes.fallen_back,
                                     "matrices_left", (json_int_t)sizes.left),
                           json, error)
             : status;
}

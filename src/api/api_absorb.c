/* The public function that folds modules into a model's weights. */
#include <crosshead/compress.h>

#include <stdlib.h>

#include "api/adapters.h"
#include "base/file.h"
#include "compress/absorb.h"
#include "io/extra_files.h"

void ch_absorb_defaults(ch_absorb_settings *settings) {
  *settings = (ch_absorb_settings){0};
}

/* Chooses the type of the written tensors: the type in the settings. Its default is F32 if tensors were folded, so
 * that they are rounded once, and otherwise the type of the embedding. */
static ch_status absorbed_type(const ch_absorb_settings *settings, const ch_model *model,
                               const ch_absorption *absorbed, ch_dtype *dtype, ch_error *error) {
  bool folded = absorbed->knocked || absorbed->mixed_layers || absorbed->shared || absorbed->residuals;
  int known = ch_api_dtype(settings->type, folded ? CH_F32 : model->weights.tensors[0].dtype);
  if (settings->type != CH_PRECISION_DEFAULT && known != CH_F32 && known != CH_F16 && known != CH_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; a model is written in F32, F16 or BF16",
                   (int)settings->type);
  *dtype = (ch_dtype)known;
  return CH_OK;
}

static json_t *letters(unsigned on) {
  json_t *list = json_array();
  if (on & CH_ON_Q) json_array_append_new(list, json_string("q"));
  if (on & CH_ON_K) json_array_append_new(list, json_string("k"));
  if (on & CH_ON_V) json_array_append_new(list, json_string("v"));
  return list;
}

static ch_status write_model(const ch_model *model, const ch_absorption *absorbed, const char *out,
                             ch_dtype dtype, const ch_absorb_settings *settings, ch_error *error) {
  ch_api_progress progress = {settings->progress, settings->user, false};
  const ch_model_writing writing = {.read = &model->weights, .step = ch_api_step, .context = &progress};
  const int count = absorbed->params.count;
  ch_dtype *dtypes = malloc(((size_t)count + 1) * sizeof *dtypes);
  if (!dtypes) return ch_no_memory(error);
  for (int i = 0; i < count; i++) dtypes[i] = dtype;
  ch_status status = ch_model_write_as(out, &absorbed->config, &absorbed->params, absorbed->tensors, dtypes,
                                       &writing, error);
  free(dtypes);
  return status == CH_OK ? ch_copy_extra_files(model->directory, out, error) : status;
}

static ch_status fold(const ch_model *model, const char *out, const ch_absorb_settings *settings, char **json,
                      ch_error *error) {
  ch_absorption absorbed;
  ch_dtype dtype = CH_F32;
  CH_TRY(ch_model_check_plain(model, "be folded", error));
  CH_TRY(ch_absorb(model, &(ch_absorb_options){.keep_cache = settings->keep_cache}, &absorbed, error));
  ch_status status = absorbed_type(settings, model, &absorbed, &dtype, error);
  if (status == CH_OK) status = write_model(model, &absorbed, out, dtype, settings, error);
  if (status == CH_OK)
    status = ch_api_json(
        json_pack("{s:s, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I}", "model_type", absorbed.config.model_type,
                  "shared_projections_written", (json_int_t)absorbed.shared, "residuals_added",
                  (json_int_t)absorbed.residuals, "knocking_folded", letters(absorbed.knocked),
                  "mixed_layers_folded", (json_int_t)absorbed.mixed_layers, "knocking_left",
                  letters(absorbed.knocks_left), "mixed_layers_left", (json_int_t)absorbed.mixes_left,
                  "cache_elements_per_token_before", (json_int_t)absorbed.cache_before,
                  "cache_elements_per_token", (json_int_t)absorbed.cache_after),
        json, error);
  if (status == CH_OK && settings->nonlinear_left)
    *settings->nonlinear_left =
        absorbed.knocks_left && absorbed.config.attention.knocking.type != CH_KNOCKING_LINEAR;
  ch_absorbed_free(&absorbed);
  return status;
}

ch_status ch_absorb_model(const char *directory, const char *out, const ch_absorb_settings *settings,
                          char **json, ch_error *error) {
  if (!directory || !out) return ch_refuse_null(error, "a directory's name");
  ch_absorb_settings own = {0};
  if (ch_same_file(directory, out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is the input model; choose another output directory", out);
  ch_model *model;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, error));
  ch_status status = fold(model, out, settings ? settings : &own, json, error);
  ch_model_unload(model);
  return status;
}

/* The public functions that import and export models. */
#include <crosshead/convert.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/adapters.h"
#include "base/file.h"
#include "compress/absorb.h"
#include "config_file/adopted.h"
#include "config_file/config_json.h"
#include "formats/chat_metadata.h"
#include "formats/gguf_architectures.h"
#include "formats/gguf_export.h"
#include "formats/source.h"
#include "formats/transformers.h"

/* Converts the type in the settings to *dtype. *chosen becomes `dtype`, or NULL if each tensor keeps its type. */
static ch_status float_type(ch_precision precision, ch_dtype *dtype, const ch_dtype **chosen,
                            ch_error *error) {
  int known = ch_api_dtype(precision, CH_F32);
  if (known != CH_F32 && known != CH_F16 && known != CH_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; a model directory is written in F32, F16 or BF16",
                   (int)precision);
  *dtype = (ch_dtype)known;
  *chosen = precision == CH_PRECISION_DEFAULT ? NULL : dtype;
  return CH_OK;
}

/* --- import ---------------------------------------------------------------------------------------------------- */

void ch_import_defaults(ch_import_settings *settings) {
  *settings = (ch_import_settings){0};
}

/* Returns the number of matrices that are block-quantised in the source. */
static int64_t in_blocks(const ch_source *source) {
  int64_t count = 0;
  for (int i = 0; i < source->params.count; i++) count += ch_dtype_is_block_quantised(source->dtypes[i]);
  return count;
}

static json_t *imported(const ch_source *source, const char *out, bool keep_blocks) {
  json_int_t parameters = 0, blocks = (json_int_t)in_blocks(source);
  for (int i = 0; i < source->params.count; i++) parameters += ch_param_count(&source->params.rows[i]);
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "format", source->format, "model_type",
                   source->config.model_type, "parameters_total", parameters, "tensors",
                   (json_int_t)source->params.count, "matrices_in_blocks", keep_blocks ? blocks : 0,
                   "tokenizer", ch_directory_has(out, "tokenizer.json"));
}

ch_status ch_import(const char *path, const char *out, const ch_import_settings *settings, char **json,
                    ch_error *error) {
  if (!path || !out) return ch_refuse_null(error, "the model's name");
  ch_import_settings own = {0};
  if (!settings) settings = &own;
  ch_api_progress progress = {settings->progress, settings->user, false};
  ch_dtype dtype = CH_F32;
  ch_source_writing writing = {.keep_blocks = settings->keep_blocks,
                               .stop = ch_api_cancelled,
                               .progress = ch_api_share,
                               .context = &progress};
  ch_source source;
  CH_TRY(float_type(settings->type, &dtype, &writing.dtype, error));
  CH_TRY(ch_source_open(path, settings->tokenizer, &source, error));
  ch_status status = ch_source_write(&source, out, &writing, error);
  if (status == CH_OK) status = ch_api_json(imported(&source, out, settings->keep_blocks), json, error);
  if (status == CH_OK && settings->matrices_quantised) *settings->matrices_quantised = in_blocks(&source);
  ch_source_close(&source);
  return status;
}

/* --- export ---------------------------------------------------------------------------------------------------- */

void ch_export_defaults(ch_export_settings *settings) {
  *settings = (ch_export_settings){0};
}

/* Returns the members of the report that all formats have. */
static json_t *exported(const char *format, const char *model_type, const char *type, bool tokenizer,
                        const char *loss) {
  return json_pack("{s:s, s:s, s:s, s:b, s:b, s:s?}", "format", format, "model_type", model_type, "dtype",
                   type, "tokenizer", tokenizer, "tokenizer_exact", !loss, "tokenizer_loss", loss);
}

/* If an adopted family can express the model, converts it to the family's class, names and shapes. *family is its
 * name, or NULL. */
static ch_status choose_family(ch_source *source, const char **family, ch_error *error) {
  ch_text json = {0};
  *family = ch_config_spell_adopted(&source->config, &json);
  if (!*family) return CH_OK;
  ch_source outer;
  ch_status status = ch_family_source_open(source, *family, &json, &outer, error);
  *source = outer;
  return status;
}

static ch_status export_directory(const char *directory, const char *out, const ch_export_settings *settings,
                                  char **json, ch_error *error) {
  ch_api_progress progress = {settings->progress, settings->user, false};
  ch_dtype dtype = CH_F32;
  ch_source_writing writing = {.stop = ch_api_cancelled, .progress = ch_api_share, .context = &progress};
  const char *family = NULL;
  ch_source source;
  CH_TRY(float_type(settings->type, &dtype, &writing.dtype, error));
  writing.keep_blocks = !writing.dtype;
  CH_TRY(ch_directory_source_open(directory, !settings->no_tokenizer, &source, error));
  ch_status status = CH_OK;
  if (settings->format == CH_EXPORT_TRANSFORMERS) {
    writing.finish = ch_transformers_finish;
    writing.keep_blocks = false; /* PyTorch has no block-quantised types */
    ch_transformers_choose(&source, &((const ch_model *)source.context)->config, settings->own_code);
    if (!settings->own_code) status = choose_family(&source, &family, error);
  }
  if (status == CH_OK) status = ch_source_write(&source, out, &writing, error);
  const char *type = writing.dtype ? ch_api_type_name(dtype) : "each tensor in its own type";
  const char *format = settings->format == CH_EXPORT_TRANSFORMERS ? "transformers" : "safetensors";
  if (status == CH_OK)
    status = ch_api_json(exported(format, family ? family : source.config.model_type, type,
                                  ch_directory_has(out, "tokenizer.json"), NULL),
                         json, error);
  ch_source_close(&source);
  return status;
}

static ch_status check_tokenizer(const ch_tokenizer *tokenizer, const char *path, const ch_config *config,
                                 ch_error *error) {
  int32_t size = ch_tokenizer_vocab_size(tokenizer);
  if (!ch_tokenizer_is_json(tokenizer))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "transformers does not read %s, a tokenizer.bin of llama2.c; give a tokenizer.json", path);
  if (ch_config_is_vision(config))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s is not needed: image models have no tokenizer; leave out {tokenizer}", path);
  if (size > config->vocab_size)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the tokenizer in %s has %d tokens, but the configuration has a vocabulary of %lld; give "
                   "another {tokenizer}, or {no_tokenizer}",
                   path, size, (long long)config->vocab_size);
  return CH_OK;
}

/* Opens the tokenizer of a model without weights. *tokenizer is NULL if there is none or none is wanted. */
static ch_status open_tokenizer(const char *path, const ch_export_settings *settings, const ch_config *config,
                                ch_tokenizer **tokenizer, ch_error *error) {
  *tokenizer = NULL;
  if (settings->no_tokenizer) return CH_OK;
  char *directory = ch_is_directory(path) ? strdup(path) : ch_path_directory(path);
  const char *from = settings->tokenizer ? settings->tokenizer : directory;
  bool wanted = settings->tokenizer ||
                (directory && ch_directory_has(directory, "tokenizer.json") && !ch_config_is_vision(config));
  ch_status status = directory ? CH_OK : ch_no_memory(error);
  if (status == CH_OK && wanted) status = ch_tokenizer_open(from, tokenizer, error);
  if (status == CH_OK && *tokenizer) status = check_tokenizer(*tokenizer, from, config, error);
  free(directory);
  return status;
}

/* Exports the code and configuration of a model without weights, and a tokenizer. */
static ch_status export_untrained(const char *path, const char *out, const ch_export_settings *settings,
                                  char **json, ch_error *error) {
  ch_source source = {.format = "configuration"};
  ch_tokenizer *tokenizer = NULL;
  CH_TRY(ch_config_read(path, &source.config, error));
  const ch_config own = source.config;
  ch_choose_model_type(&source.config);
  /* transformers' classes cannot express these initial weights */
  bool starts = own.init != CH_INIT_DEFAULT || own.parametrization != CH_PARAMETRIZATION_STANDARD;
  bool own_code = settings->own_code || starts;
  ch_transformers_choose(&source, &own, own_code);
  const char *family = own_code ? NULL : ch_config_spell_adopted(&source.config, &source.config_json);
  ch_status status = ch_source_declare(&source, path, error);
  if (status == CH_OK) status = open_tokenizer(path, settings, &own, &tokenizer, error);
  if (status == CH_OK) status = ch_make_directory(out, error);
  if (status == CH_OK && tokenizer) status = ch_tokenizer_copy_to(tokenizer, out, error);
  if (status == CH_OK) status = ch_transformers_write_untrained(&source, out, error);
  if (status == CH_OK)
    status = ch_api_json(exported("transformers", family ? family : source.config.model_type, "no weights",
                                  tokenizer != NULL, NULL),
                         json, error);
  ch_tokenizer_free(tokenizer);
  ch_source_close(&source);
  return status;
}

/* Chooses the type of matrices: the type in the settings. By default, matrices keep their types or, if some were
 * folded, all get the type of the embedding. */
static ch_status gguf_type(ch_precision precision, const ch_absorption *plain, ch_gguf_export *how,
                           ch_error *error) {
  bool folded = plain->knocked || plain->mixed_layers || plain->shared || plain->residuals;
  int known = ch_api_dtype(precision, CH_F32);
  if (known != CH_F32 && known != CH_F16 && known != CH_BF16 && known != CH_Q8_0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; GGUF files are written in F32, F16, BF16 or Q8_0",
                   (int)precision);
  how->own = precision == CH_PRECISION_DEFAULT && !folded;
  how->type = precision ? ch_block_format_for((ch_dtype)known)->type
              : folded  ? ch_block_format_for(plain->tensors[0].dtype)->type
                        : ch_gguf_main_type(&plain->params, plain->tensors);
  return CH_OK;
}

/* Fails for a model whose cache would grow, unless expand_heads is set. */
static ch_status check_cache(const ch_absorption *plain, const ch_export_settings *settings,
                             ch_error *error) {
  if (plain->cache_after <= plain->cache_before || settings->expand_heads) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "GGUF does not support virtual heads; {expand_heads} expands them, which needs %lld cache "
                 "elements per token instead of %lld ({format} transformers keeps the small cache)",
                 (long long)plain->cache_after, (long long)plain->cache_before);
}

static ch_status write_gguf(const ch_model *model, const char *out, const ch_export_settings *settings,
                            const ch_absorption *plain, const ch_tokenizer *tokenizer,
                            const ch_chat_metadata *chat, char **json, ch_error *error) {
  ch_api_progress progress = {settings->progress, settings->user, false};
  char name[64], type[16] = "";
  ch_path_stem(model->directory, name, sizeof name);
  ch_gguf_export how = {.name = name,
                        .tokenizer = tokenizer,
                        .chat = chat,
                        .stop = ch_api_cancelled,
                        .progress = ch_api_share,
                        .context = &progress,
                        .mapped = &model->weights};
  const ch_gguf_architecture *of;
  CH_TRY(ch_gguf_architecture_of(&plain->config, &of, error));
  CH_TRY(check_cache(plain, settings, error));
  CH_TRY(gguf_type(settings->type, plain, &how, error));
  const char *called = ch_block_format_of(how.type)->name;
  for (size_t i = 0; called[i] && i + 1 < sizeof type; i++) type[i] = (char)tolower((unsigned char)called[i]);
  const char *loss;
  CH_TRY(ch_gguf_write(out, &plain->config, &plain->params, plain->tensors, &how, &loss, error));
  json_t *report = exported("gguf", of->family, type, tokenizer != NULL, loss);
  if (report && plain->cache_after != plain->cache_before) {
    json_object_set_new(report, "cache_elements_per_token_before", json_integer(plain->cache_before));
    json_object_set_new(report, "cache_elements_per_token", json_integer(plain->cache_after));
  }
  return ch_api_json(report, json, error);
}

/* Exports a model with all modules folded into matrices, because llama.cpp supports only plain models. */
static ch_status export_plain(const ch_model *model, const char *out, const ch_export_settings *settings,
                              char **json, ch_error *error) {
  ch_absorption plain;
  ch_tokenizer *tokenizer = NULL;
  ch_chat_metadata chat = {0};
  if (settings->type == CH_PRECISION_Q8_0) CH_TRY(ch_model_check_plain(model, "be quantised again", error));
  CH_TRY(ch_absorb(model, &(ch_absorb_options){.keep_cache = false}, &plain, error));
  ch_status status = CH_OK;
  /* a tokenizer.bin alone cannot be written as GGUF */
  if (!settings->no_tokenizer && ch_directory_has(model->directory, "tokenizer.json"))
    status = ch_tokenizer_open(model->directory, &tokenizer, error);
  if (status == CH_OK && tokenizer)
    status = ch_chat_from_directory(model->directory, &model->config, &chat, error);
  if (status == CH_OK) status = write_gguf(model, out, settings, &plain, tokenizer, &chat, json, error);
  ch_chat_metadata_free(&chat);
  ch_tokenizer_free(tokenizer);
  ch_absorbed_free(&plain);
  return status;
}

static ch_status export_gguf(const char *directory, const char *out, const ch_export_settings *settings,
                             char **json, ch_error *error) {
  ch_model *model;
  if (ch_is_file(out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s already exists; choose another name", out);
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, error));
  ch_status status = export_plain(model, out, settings, json, error);
  ch_model_unload(model);
  return status;
}

static ch_status export_model(const char *directory, const char *out, const ch_export_settings *settings,
                              char **json, ch_error *error) {
  switch (settings->format) {
  case CH_EXPORT_SAFETENSORS:
    return export_directory(directory, out, settings, json, error);
  case CH_EXPORT_TRANSFORMERS:
    if (settings->untrained) return export_untrained(directory, out, settings, json, error);
    return export_directory(directory, out, settings, json, error);
  case CH_EXPORT_GGUF:
    return export_gguf(directory, out, settings, json, error);
  }
  return ch_fail(error, CH_ERROR_ARGUMENT, "format is %d, which is not a ch_export_format",
                 (int)settings->format);
}

ch_status ch_export(const char *directory, const char *out, const ch_export_settings *settings, char **json,
                    ch_error *error) {
  if (!directory || !out) return ch_refuse_null(error, "the model's name");
  ch_export_settings own = {0};
  if (!settings) settings = &own;
  if (settings->tokenizer && !(settings->untrained && settings->format == CH_EXPORT_TRANSFORMERS))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{tokenizer} needs {untrained}; a model with weights has its own tokenizer");
  if (settings->tokenizer && settings->no_tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{tokenizer} and {no_tokenizer} exclude each other; give one of them");
  return export_model(directory, out, settings, json, error);
}

/* The public function that compresses a model: open, calibrate, compress, write, measure, report. */
#include <stdlib.h>
#include <time.h>

#include "api/compress_private.h"
#include "base/file.h"
#include "base/progress.h"
#include "bench/machine.h"
#include "compress/virtual_heads.h"
#include "tensor/team.h"

static const double kept_back = 0.2; /* share of the calibration text that is held out for measuring */

void ch_compress_defaults(ch_compress_settings *settings) {
  *settings = (ch_compress_settings){
      .component_heads = -1, .last_layer = -1, .group_size = 2, .calibration_tokens = 65536};
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

/* Materialises shared and factored matrices. For mea, also folds mixed heads into the projections, because their
 * components are computed again. */
static ch_status settle_model(ch_compress_job *c, ch_error *error) {
  c->model = c->own;
  if (ch_materialise_changes(&c->own->config, &c->own->params, CH_MATERIALISE_DENSE))
    CH_TRY(ch_model_materialise(c->own, CH_MATERIALISE_DENSE, error));
  if (!c->mea || !c->own->config.attention.head_mix.on) return CH_OK;
  if (c->s->budget > 0 || c->s->profile || c->s->cache > 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s already has virtual heads and cannot be profiled; give {layers} and "
                   "{component_heads}, or profile the original model",
                   c->directory);
  CH_TRY(ch_absorb(c->own, &(ch_absorb_options){0}, &c->absorbed, error));
  c->plain =
      (ch_model){.directory = c->own->directory, .config = c->absorbed.config, .params = c->absorbed.params};
  c->plain.weights.tensors = c->absorbed.tensors;
  c->model = &c->plain;
  return CH_OK;
}

static ch_status open_texts(ch_compress_job *c, ch_error *error) {
  const ch_compress_settings *s = c->s;
  if (!s->calibration && !s->text) return CH_OK;
  CH_TRY(ch_tokenizer_open(c->directory, &c->tokenizer, error));
  if (s->calibration) {
    CH_TRY(ch_document_set_open(s->calibration, CH_DOCUMENTS_AUTO, &c->calibration_text, error));
    c->report.calibration = s->data_free && s->budget == 0 && !s->profile ? NULL : s->calibration;
    if (s->report && !s->text) {
      CH_TRY(ch_document_set_split(&c->calibration_text, kept_back, &c->text, error));
      c->report.text = s->calibration;
      c->report.text_kept_back = true;
    }
    CH_TRY(ch_encode_joined(c->tokenizer, c->calibration_text.documents, c->calibration_text.count,
                            ch_token_between(c->tokenizer, &c->own->config), s->calibration_tokens,
                            &c->tokens, error));
  }
  if (!s->text) return CH_OK;
  CH_TRY(ch_document_set_open(s->text, CH_DOCUMENTS_AUTO, &c->text, error));
  c->report.text = s->text;
  return CH_OK;
}

/* Fails if neither keys nor values of the model have heads that can be decomposed. */
static ch_status check_heads(const ch_compress_job *c, ch_error *error) {
  unsigned states;
  ch_error why = {0};
  ch_status status = ch_virtual_heads_check(c->model, &states, &why);
  if (status != CH_OK && c->s->cache > 0)
    return ch_fail(error, status, "%.500s; a cache of type q8_0 or q4_0 is smaller without compression",
                   why.message);
  return status == CH_OK ? CH_OK : ch_fail_as(error, status, &why);
}

static ch_status open_compression(ch_compress_job *c, ch_error *error) {
  CH_TRY(ch_model_load(c->directory, CH_WEIGHTS_MAPPED, &c->own, error));
  const ch_config *config = &c->own->config;
  CH_TRY(ch_config_needs_text(config, "compressing", error));
  CH_TRY(ch_model_check_plain(c->own, "be compressed", error));
  if (ch_linear_layers(config))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s has %lld layers of linear attention (\"layer_types\"); only models whose layers all "
                   "have the same projections can be compressed",
                   c->directory, (long long)ch_linear_layers(config));
  if (config->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(error, CH_ERROR_CONFIG, "%s has %lld layers; at most %d are supported here", c->directory,
                   (long long)config->num_hidden_layers, (int)CH_MAX_LISTED_LAYERS);
  CH_TRY(ch_compress_job_read(c, error));
  c->report.layers = config->num_hidden_layers;
  c->report.groups = config->num_key_value_heads;
  CH_TRY(ch_compress_job_count(c->own, &c->report.before, error));
  CH_TRY(settle_model(c, error));
  if (c->mea) CH_TRY(check_heads(c, error));
  CH_TRY(open_texts(c, error));
  if (!c->s->report) return CH_OK;
  CH_TRY(ch_model_load(c->directory, CH_WEIGHTS_MAPPED, &c->before, error));
  return ch_model_materialise(c->before, CH_MATERIALISE_SERVING, error);
}

static void close_all(ch_compress_job *c) {
  ch_compressed_free(&c->compressed);
  ch_sensitivity_free(&c->sensitivity);
  ch_calibration_free(c->calibration);
  ch_ids_free(&c->tokens);
  ch_document_set_close(&c->text);
  ch_document_set_close(&c->calibration_text);
  ch_tokenizer_free(c->tokenizer);
  ch_absorbed_free(&c->absorbed);
  ch_model_unload(c->after);
  ch_model_unload(c->before);
  ch_model_unload(c->own);
}

/* --- compressing ------------------------------------------------------------------------------------------------- */

/* Compresses the model. The calibration text has been read. */
static ch_status compress(ch_compress_job *c, ch_error *error) {
  static ch_compress_method *const methods[] = {ch_compress_mea, ch_compress_masa, ch_compress_svd_llm,
                                                ch_compress_svd, ch_compress_basis_sharing};
  const ch_compress_options options = {.component_heads = c->heads,
                                       .ratio = c->s->ratio,
                                       .before = c->report.before.parameters_attention,
                                       .groups = c->s->groups,
                                       .atoms = c->s->atoms,
                                       .group_size = c->s->group_size,
                                       .ranks = c->s->ranks,
                                       .unweighted = c->s->weighting == CH_ERROR_WEIGHTING_PAPER,
                                       .keep = c->keep,
                                       .keep_count = c->keep_count,
                                       .dtype = c->dtype,
                                       .step = ch_compress_job_step,
                                       .context = c};
  CH_TRY(methods[c->s->method](c->model, c->calibration, &options, &c->compressed, error));
  c->report.compressed = &c->compressed;
  return ch_compress_job_write(c, error);
}

/* Collects the statistics that the method needs from the calibration text. For mea, also chooses heads and cache
   types. */
static ch_status look_at_text(ch_compress_job *c, ch_error *error) {
  if (c->s->cache > 0) return ch_compress_job_agree(c, ch_compress_job_pursue(c, error), error);
  CH_TRY(ch_compress_job_agree(c, ch_compress_job_calibrate(c, error), error));
  return ch_compress_job_agree(c, c->mea ? ch_compress_job_choose_heads(c, error) : CH_OK, error);
}

static ch_status materialise_after(ch_compress_job *c, ch_error *error) {
  /* only rank 0 knows where the model was written */
  char out[4096]; /* longer paths cannot be opened */
  snprintf(out, sizeof out, "%s", c->out);
  ch_ranks_broadcast(c->s->job, 0, out, sizeof out);
  CH_TRY(ch_model_load(out, CH_WEIGHTS_MAPPED, &c->after, error));
  CH_TRY(ch_compress_job_count(c->after, &c->report.after, error));
  return c->s->report ? ch_model_materialise(c->after, CH_MATERIALISE_SERVING, error) : CH_OK;
}

/* Counts the parameters and bytes of the written model. With a report, also measures its perplexity and speed. */
static ch_status measure_after(ch_compress_job *c, ch_error *error) {
  CH_TRY(ch_compress_job_agree(c, materialise_after(c, error), error));
  if (!c->s->report) return CH_OK;
  const ch_cache_types *types = c->report.cache_types ? &c->types : NULL;
  if (types) c->report.after.cache_bytes_per_token = ch_state_bytes(&c->after->config, types);
  c->report.after.cache_types = c->report.cache_types;
  CH_TRY(ch_compress_job_perplexity(c, c->after, "perplexity after", types, &c->report.after, error));
  return ch_compress_job_by_first(c, ch_compress_job_race, error);
}

static ch_status write_report(ch_compress_job *c, ch_error *error) {
  CH_TRY(ch_compress_job_write_report(c, error));
  return ch_compress_job_step(c, "writing", 1, 1, error);
}

static ch_status run_compression(ch_compress_job *c, ch_error *error) {
  double began = ch_clock();
  CH_TRY(ch_compress_job_compare(c, false, error));
  CH_TRY(ch_compress_job_agree(c, open_compression(c, error), error));
  CH_TRY(ch_compress_job_compare(c, true, error));
  if (c->s->report)
    CH_TRY(ch_compress_job_perplexity(c, c->before, "perplexity before", NULL, &c->report.before, error));
  if (c->s->report && c->mea) CH_TRY(ch_compress_job_eight_bit(c, error));
  CH_TRY(look_at_text(c, error));
  CH_TRY(ch_compress_job_by_first(c, compress, error));
  ch_calibration_free(c->calibration); /* gigabytes for a large model, which are needed for measuring */
  c->calibration = NULL;
  CH_TRY(measure_after(c, error));
  c->report.seconds = ch_clock() - began;
  return c->s->report ? ch_compress_job_by_first(c, write_report, error) : CH_OK;
}

/* Sets *json and *settings->table on rank 0. Both are NULL on other ranks and after a failure. */
static ch_status answer(const ch_compress_job *c, char **json, ch_error *error) {
  ch_text table = {0};
  if (c->s->table) *c->s->table = NULL;
  if (json) *json = NULL;
  if (!ch_ranks_leads(c->s->job)) return CH_OK;
  if (c->s->table) ch_compression_write(&c->report, &table);
  ch_status status =
      table.failed ? ch_no_memory(error) : ch_api_json(ch_compression_to_json(&c->report), json, error);
  if (status == CH_OK && c->s->table)
    *c->s->table = table.data;
  else
    ch_text_free(&table);
  return status;
}

static ch_status check_compress_settings(const char *directory, const char *out,
                                         const ch_compress_settings *settings, ch_error *error) {
  if (!directory || !out) return ch_refuse_null(error, "a directory's name");
  CH_TRY(ch_compress_job_check(settings, error));
  if (!ch_same_file(directory, out)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s is the input model; choose another output directory", out);
}

ch_status ch_compress_model(const char *directory, const char *out, const ch_compress_settings *settings,
                            char **json, ch_error *error) {
  if (!settings) return ch_refuse_null(error, "the settings");
  ch_compress_job *c = calloc(1, sizeof *c);
  ch_status status = c ? check_compress_settings(directory, out, settings, error) : ch_no_memory(error);
  status = ch_agree(settings->job, status, error);
  if (status != CH_OK) {
    free(c);
    return status;
  }
  c->s = settings;
  c->directory = directory;
  c->out = out;
  c->mea = settings->method == CH_COMPRESSION_MEA;
  c->progress = (ch_api_progress){settings->progress, settings->user, false};
  c->report = (ch_compression_report){.command = settings->command ? settings->command : "ch_compress_model",
                                      .version = CH_VERSION_STRING,
                                      .model = directory,
                                      .out = settings->name ? settings->name : out,
                                      .method = ch_compression_names[settings->method],
                                      .ratio = settings->ratio,
                                      .goal = settings->cache};
  if (!c->mea) c->report.ranks = ch_compression_ranks_name(settings);
  if (ch_compression_weighs(settings)) c->report.weighting = ch_compression_weightings[settings->weighting];
  ch_format_utc(time(NULL), c->report.created);
  c->report.machine = ch_machine_here();
  ch_team team = ch_team_of(settings->threads);
  ch_team_before before = ch_team_enter(&team);
  status = run_compression(c, error);
  ch_team_leave(before);
  if (status == CH_OK) status = answer(c, json, error);
  status = ch_compress_job_agree(c, status, error);
  close_all(c);
  free(c);
  return status;
}

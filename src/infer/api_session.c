/* The public functions that create sessions: they check settings and estimate memory. */
#include "infer/api.h"

#include <math.h>
#include <stdlib.h>

#include "attention/registry.h"

void ch_session_defaults(ch_session_settings *settings) {
  *settings = (ch_session_settings){.sequences = 1};
}

ch_status ch_api_cache_types(const ch_precision asked[1 + CH_STATE_ROLES], ch_cache_types *types,
                             ch_error *error) {
  static const ch_dtype known[] = {CH_F32, CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0};
  static const char *const names[] = {"cache", "cache_keys", "cache_values", "cache_latents"};
  for (int i = 0; i < 1 + CH_STATE_ROLES; i++)
    if ((unsigned)asked[i] >= sizeof known / sizeof *known)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "%s is %d, which is not a ch_precision of a cache; it stores F32, F16, BF16, Q8_0 or Q4_0",
          names[i], (int)asked[i]);
  for (int role = 0; role < CH_STATE_ROLES; role++)
    types->of[role] = known[asked[1 + role] ? asked[1 + role] : asked[0]];
  return CH_OK;
}

ch_status ch_api_compute_type(ch_precision asked, ch_dtype fallback, ch_dtype *dtype, ch_error *error) {
  if (asked != CH_PRECISION_DEFAULT && asked != CH_PRECISION_F32 && asked != CH_PRECISION_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "compute is %d; CH_PRECISION_F32 and CH_PRECISION_BF16 are possible", (int)asked);
  *dtype = asked == CH_PRECISION_DEFAULT ? fallback : asked == CH_PRECISION_BF16 ? CH_BF16 : CH_F32;
  return CH_OK;
}

ch_status ch_api_cache_roles(const ch_config *config, unsigned *roles, ch_error *error) {
  static const unsigned bits[] = {CH_CACHE_KEYS, CH_CACHE_VALUES, CH_CACHE_LATENTS};
  ch_layer_parts *parts = calloc((size_t)config->num_hidden_layers + 1, sizeof *parts);
  if (!parts) return ch_no_memory(error);
  *roles = 0;
  if (!ch_config_is_vision(config)) ch_state_parts(config, parts);
  for (int64_t l = 0; l < config->num_hidden_layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &parts[l].part[p];
      if (part->width > 0 && part->kind == CH_PART_ELEMENTS) *roles |= bits[part->role];
    }
  free(parts);
  return CH_OK;
}

ch_status ch_api_session_options(const ch_model *model, const ch_session_settings *settings,
                                 ch_session_options *options, ch_error *error) {
  CH_TRY(ch_config_needs_text(&model->config, "decoding", error));
  ch_session_options_default(&model->config, options);
  options->compute = model->compute;
  if (!settings) return CH_OK;
  if (settings->max_tokens < 0 || settings->max_tokens > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "max_tokens is %lld; it must be from 1 to %d, or 0 for the default",
                   (long long)settings->max_tokens, INT32_MAX);
  if (settings->sequences < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "sequences is %d; a session has at least 1",
                   settings->sequences);
  if (settings->threads < 0 || settings->threads > 4096)
    return ch_fail(error, CH_ERROR_ARGUMENT, "threads is %d; it must be from 1 to 4096, or 0 for the default",
                   settings->threads);
  if (settings->max_tokens) options->context = settings->max_tokens;
  options->sequences = settings->sequences;
  options->threads = settings->threads;
  options->precompute_gates = settings->precompute_gates;
  CH_TRY(ch_api_compute_type(settings->compute, options->compute, &options->compute, error));
  const ch_precision cache[] = {settings->cache, settings->cache_keys, settings->cache_values,
                                settings->cache_latents};
  return ch_api_cache_types(cache, &options->cache, error);
}

ch_status ch_session_pass_bytes(const ch_config *config, const ch_params *params,
                                const ch_session_options *options, int64_t length, size_t *bytes,
                                ch_error *error) {
  ch_model_graph shape = {.sequences = options->sequences,
                          .length = length,
                          .dtype = CH_F32,
                          .head = CH_HEAD_LAST_LOGITS,
                          .cached = true,
                          .cache = options->cache,
                          .capacity = options->context,
                          .compute = options->compute};
  ch_plan_options none = {0};
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_plan *plan = NULL;
  ch_model_build(config, params, &shape, &graph, &root);
  const ch_team team = ch_team_of(options->threads);
  CH_TRY(ch_plan_create(graph, root, ch_kernels_best(CH_F32), &team, &none, &plan, error));
  *bytes = ch_plan_bytes(plan);
  ch_plan_free(plan);
  return CH_OK;
}

double ch_session_cache_needs(const ch_config *config, const ch_session_options *options) {
  const double sequences = (double)options->sequences, context = (double)options->context,
               vocabulary = (double)config->vocab_size,
               row = (double)ch_state_elements_of(config, CH_PART_BY_ID, 1) * sizeof(float),
               ids = row > 0 ? context * sizeof(int32_t) : 0,
               scalars =
                   (double)ch_state_elements_of(config, CH_PART_SCALARS, options->context) * sizeof(float);
  return sequences * ((double)ch_state_bytes_at(config, &options->cache, options->context) + scalars + ids +
                      (double)ch_fixed_state_bytes(config)) +
         row * (options->precompute_gates ? vocabulary : fmin(vocabulary, sequences * context));
}

ch_status ch_api_memory_of(const ch_model *model, const ch_session_options *options, ch_memory *memory,
                           ch_error *error) {
  const double cache = ch_session_cache_needs(&model->config, options);
  if (cache > 9e18)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a cache of %lld sequences of %lld tokens is larger than any memory",
                   (long long)options->sequences, (long long)options->context);
  *memory = (ch_memory){.cache = (uint64_t)cache};
  for (int i = 0; i < model->params.count; i++)
    memory->weights += ch_tensor_bytes(&model->weights.tensors[i]);
  return CH_OK;
}

ch_status ch_memory_estimate(const ch_model *model, const ch_session_settings *settings, ch_memory *memory,
                             ch_error *error) {
  if (!model || !memory) return ch_refuse_null(error, "the model or the result pointer");
  ch_session_options options;
  CH_TRY(ch_api_session_options(model, settings, &options, error));
  size_t prefill = 0, step = 0;
  int64_t chunk = options.chunk < options.context ? options.chunk : options.context;
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &options, chunk, &prefill, error));
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &options, 1, &step, error));
  CH_TRY(ch_api_memory_of(model, &options, memory, error));
  memory->workspace = prefill > step ? prefill : step;
  return CH_OK;
}

ch_status ch_api_session_open(const ch_model *model, const ch_session_options *options, ch_session **session,
                              ch_error *error) {
  CH_TRY(ch_session_new(&model->config, &model->params, model->weights.tensors, options, session, error));
  ch_session_set_model(*session, model);
  int32_t ids[CH_MAX_END_TOKENS]; /* end tokens within the vocabulary; the model cannot generate others */
  size_t count = 0;
  for (int i = 0; i < model->end_token_count; i++)
    if (model->end_tokens[i] < model->config.vocab_size) ids[count++] = model->end_tokens[i];
  ch_session_set_end_tokens(*session, ids, count, NULL);
  return CH_OK;
}

ch_status ch_session_create(const ch_model *model, const ch_session_settings *settings, ch_session **session,
                            ch_error *error) {
  if (!model || !session) return ch_refuse_null(error, "the model or the session pointer");
  *session = NULL;
  ch_session_options options;
  CH_TRY(ch_api_session_options(model, settings, &options, error));
  return ch_api_session_open(model, &options, session, error);
}

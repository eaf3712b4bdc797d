/* Prepares compression: collects statistics of the matrices' inputs over a text, and chooses the number of heads that
 * each layer keeps. The methods are in src/compress. */
#include <string.h>

#include "api/compress_private.h"

enum { PROFILE_TOKENS = 1 << 14, FINEST_CHOICES = 4 };

/* Fails, except for mea, unless there are more tokens than inputs. Whitened methods would cut arbitrarily along
 * directions without data. */
static ch_status check_calibration(const ch_compress_job *c, ch_error *error) {
  int64_t tokens = (int64_t)c->tokens.size, inputs = c->model->config.hidden_size;
  if (c->mea || tokens > inputs) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s has %lld tokens, too few to calibrate a projection with %lld inputs; use a text of "
                 "several times %lld tokens, or {%s}%s",
                 c->s->calibration, (long long)tokens, (long long)inputs, (long long)inputs,
                 c->s->method == CH_COMPRESSION_MASA ? "data_free" : "method",
                 c->s->method == CH_COMPRESSION_MASA ? "" : " svd");
}

/* Returns true if the method needs the drift: masa groups layers by it, and CH_ERROR_WEIGHTING_MEASURED uses
 * attention's share of the residual stream. */
static bool needs_drift(const ch_compress_settings *s) {
  return s->method == CH_COMPRESSION_MASA ||
         (ch_compression_weighs(s) && s->weighting == CH_ERROR_WEIGHTING_MEASURED);
}

ch_status ch_compress_job_calibrate(ch_compress_job *c, ch_error *error) {
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS];
  int count = 0;
  if (!c->s->calibration || c->s->data_free || c->s->method == CH_COMPRESSION_SVD) return CH_OK;
  CH_TRY(check_calibration(c, error));
  CH_TRY(ch_list_projections(&c->model->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) {
    const char *name = shapes.rows[i].name;
    bool kept = c->mea && strcmp(name, "k_proj") != 0 && strcmp(name, "v_proj") != 0;
    for (int k = 0; k < c->keep_count; k++) kept |= strcmp(c->keep[k], name) == 0;
    if (!kept) names[count++] = name;
  }
  ch_calibration_options options = {.projections = names,
                                    .projection_count = count,
                                    .drift = needs_drift(c->s),
                                    .step = ch_compress_job_step,
                                    .context = c,
                                    .ranks = c->s->job};
  CH_TRY(ch_calibrate(c->model, c->tokens.data, (int64_t)c->tokens.size, &options, &c->calibration, error));
  c->report.calibration_tokens = ch_calibration_tokens(c->calibration);
  c->report.calibration_loss = ch_calibration_loss(c->calibration);
  return CH_OK;
}

/* Lists the numbers of component heads to try: the requested number or, without a request, numbers below `groups`, all
   of them if `groups` is at most FINEST_CHOICES, else evenly spaced ones. Returns the length of the list, 0 if the
   requested number is not below `groups`. */
static int choices_of(const ch_compress_job *c, int64_t groups, int64_t heads[CH_MAX_HEAD_CHOICES]) {
  int count = 0;
  if (c->s->component_heads > 0) {
    heads[0] = c->s->component_heads;
    return heads[0] < groups;
  }
  int64_t step = groups <= FINEST_CHOICES ? 1 : (groups + FINEST_CHOICES - 1) / FINEST_CHOICES;
  for (int64_t h = step; h < groups && count < CH_MAX_HEAD_CHOICES; h += step) heads[count++] = h;
  return count;
}

static ch_status choose_by_budget(ch_compress_job *c, ch_error *error) {
  double layers = (double)c->sensitivity.layers;
  if (c->s->component_heads > 0) {
    int64_t count = (int64_t)(c->s->budget * layers + 0.5);
    return ch_choose_layers(&c->sensitivity, 0, count > 0 ? count : 1, c->heads, error);
  }
  double saved = c->s->budget * layers * (double)c->sensitivity.groups;
  return ch_choose_heads(&c->sensitivity, (int64_t)(saved + 0.999999), c->heads, error);
}

ch_status ch_compress_job_profile(ch_compress_job *c, ch_error *error) {
  int64_t tried[CH_MAX_HEAD_CHOICES], groups = c->own->config.num_key_value_heads;
  ch_sensitivity_options options = {.first = c->first,
                                    .last = c->last,
                                    .heads = tried,
                                    .step = ch_compress_job_step,
                                    .context = c,
                                    .ranks = c->s->job};
  options.choices = choices_of(c, groups, tried);
  if (!options.choices)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{component_heads} keeps all %lld key-value heads, so there is nothing to profile; give fewer",
        (long long)groups);
  int64_t count = (int64_t)c->tokens.size < PROFILE_TOKENS ? (int64_t)c->tokens.size : PROFILE_TOKENS;
  CH_TRY(ch_sensitivity_measure(c->model, c->calibration, c->tokens.data, count, &options, &c->sensitivity,
                                error));
  c->report.sensitivity = &c->sensitivity;
  return CH_OK;
}

ch_status ch_compress_job_choose_heads(ch_compress_job *c, ch_error *error) {
  const ch_config *config = &c->own->config;
  int64_t groups = config->num_key_value_heads;
  for (int l = 0; l < config->num_hidden_layers; l++) {
    int64_t now = ch_mixed_components(config, l, CH_ON_K | CH_ON_V);
    c->heads[l] = now && now < groups ? now : groups;
    if (l >= c->first && l <= c->last && c->s->component_heads > 0 && c->s->component_heads < c->heads[l])
      c->heads[l] = c->s->component_heads;
  }
  c->report.component_heads = c->heads;
  if (!c->s->profile && !(c->s->budget > 0)) return CH_OK;
  CH_TRY(ch_compress_job_profile(c, error));
  return c->s->budget > 0 ? choose_by_budget(c, error) : CH_OK;
}

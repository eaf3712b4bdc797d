/* Before matrices are compressed: what inputs look like, and how many heads each layer keeps. */
#include "cli/compress_request.h"

#include <string.h>

enum { PROFILE_TOKENS = 1 << 14, FINEST_CHOICES = 4 };

/* Fewer tokens than inputs leave directions that nothing was seen of, along which whitened methods would cut as they
   please. */
static ch_status check_calibration(const ch_compress_request *r, ch_error *error) {
  int64_t tokens = (int64_t)r->s->tokens.size, inputs = r->s->model->config.hidden_size;
  if (r->mea || tokens > inputs) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s gives %lld tokens to calibrate on, too few for the %lld inputs of a projection; take a "
                 "text of some times %lld, or %s",
                 r->a->calibration, (long long)tokens, (long long)inputs, (long long)inputs,
                 strcmp(r->a->method, "masa") == 0 ? "--data-free" : "--method svd");
}

ch_status ch_compress_calibrate(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS];
  int count = 0;
  if (!r->a->calibration || r->a->data_free || strcmp(r->a->method, "svd") == 0) return CH_OK;
  CH_TRY(check_calibration(r, error));
  CH_TRY(ch_list_projections(&s->model->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) {
    const char *name = shapes.rows[i].name;
    bool kept = r->mea && strcmp(name, "k_proj") != 0 && strcmp(name, "v_proj") != 0;
    for (int k = 0; k < r->keep_count; k++) kept |= strcmp(r->keep[k], name) == 0;
    if (!kept) names[count++] = name;
  }
  ch_calibration_options options = {.projections = names,
                                    .projection_count = count,
                                    .drift = strcmp(r->a->method, "masa") == 0,
                                    .step = ch_shrinking_step,
                                    .context = s};
  CH_TRY(ch_calibrate(s->model, s->tokens.data, (int64_t)s->tokens.size, &options, &s->calibration, error));
  s->report.calibration_tokens = ch_calibration_tokens(s->calibration);
  s->report.calibration_loss = ch_calibration_loss(s->calibration);
  return CH_OK;
}

/* h' to try: the one asked for; else all below G, or four at even distances where there are many. */
static int choices_of(const ch_compress_request *r, int64_t groups, int64_t heads[CH_MAX_HEAD_CHOICES]) {
  int count = 0;
  if (r->a->component_heads) {
    heads[0] = r->a->component_heads;
    return heads[0] < groups;
  }
  int64_t step = groups <= FINEST_CHOICES ? 1 : (groups + FINEST_CHOICES - 1) / FINEST_CHOICES;
  for (int64_t h = step; h < groups && count < CH_MAX_HEAD_CHOICES; h += step) heads[count++] = h;
  return count;
}

static ch_status choose_by_budget(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  double layers = (double)s->sensitivity.layers;
  if (r->a->component_heads) {
    int64_t count = (int64_t)(r->budget * layers + 0.5);
    return ch_choose_layers(&s->sensitivity, 0, count > 0 ? count : 1, s->heads, error);
  }
  double saved = r->budget * layers * (double)s->sensitivity.groups;
  return ch_choose_heads(&s->sensitivity, (int64_t)(saved + 0.999999), s->heads, error);
}

ch_status ch_compress_choose_heads(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  const ch_config *c = &s->own->config;
  int64_t tried[CH_MAX_HEAD_CHOICES], groups = c->num_key_value_heads;
  for (int l = 0; l < c->num_hidden_layers; l++) {
    int64_t now = ch_mixed_components(c, l, CH_ON_K | CH_ON_V);
    s->heads[l] = now && now < groups ? now : groups;
    if (l >= r->first && l <= r->last && r->a->component_heads && r->a->component_heads < s->heads[l])
      s->heads[l] = r->a->component_heads;
  }
  s->report.component_heads = s->heads;
  if (!r->a->profile && !r->a->budget) return CH_OK;
  ch_sensitivity_options options = {
      .first = r->first, .last = r->last, .heads = tried, .step = ch_shrinking_step, .context = s};
  options.choices = choices_of(r, groups, tried);
  if (!options.choices)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "with %lld key-value heads and as many components nothing is compressed; there is nothing to profile",
        (long long)groups);
  int64_t count = (int64_t)s->tokens.size < PROFILE_TOKENS ? (int64_t)s->tokens.size : PROFILE_TOKENS;
  CH_TRY(ch_sensitivity_measure(s->model, s->calibration, s->tokens.data, count, &options, &s->sensitivity,
                                error));
  s->report.sensitivity = &s->sensitivity;
  return r->a->budget ? choose_by_budget(r, error) : CH_OK;
}

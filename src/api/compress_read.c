/* Checks the settings of a compression, alone and for a model, and converts layers, projections and element type. */
#include <stdio.h>
#include <string.h>

#include "api/compress_private.h"

/* --- settings alone ---------------------------------------------------------------------------------------------- */

const char *const ch_compression_names[] = {"mea", "masa", "svd-llm", "svd", "basis-sharing", NULL};
const char *const ch_compression_weightings[] = {"measured", "paper", NULL};

bool ch_compression_weighs(const ch_compress_settings *s) {
  return s->method == CH_COMPRESSION_MASA || s->ranks == CH_RANKS_SEARCHED;
}

const char *ch_compression_ranks_name(const ch_compress_settings *s) {
  static const char *const names[] = {"", "share", "projection", "searched"};
  if (s->ranks != CH_RANKS_DEFAULT) return names[s->ranks];
  if (s->method != CH_COMPRESSION_MASA) return names[CH_RANKS_SHARE];
  return names[s->weighting == CH_ERROR_WEIGHTING_PAPER ? CH_RANKS_PROJECTION : CH_RANKS_SEARCHED];
}

static ch_status wrong_compress_setting(const ch_compress_settings *s, const char *sentence,
                                        ch_error *error) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s %s", ch_compression_names[s->method], sentence);
}

static ch_status check_goal(const ch_compress_settings *s, ch_error *error) {
  if (!(s->cache > 0 && s->cache < 1))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{cache} is %g; it is a share above 0 and below 1", s->cache);
  if (s->component_heads != -1 || s->budget != 0 || s->profile || s->first_layer != 0 || s->last_layer != -1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{cache} chooses heads and layers itself; leave {component_heads}, {layers}, {budget} and "
                   "{profile} out");
  if (s->calibration && s->report) return CH_OK;
  if (s->calibration)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{cache} needs {report}, which measures the options");
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "{cache} needs {calibration} FILE, a text to measure each option on");
}

static ch_status check_mea(const ch_compress_settings *s, ch_error *error) {
  if (s->ratio != 0)
    return wrong_compress_setting(s, "needs component_heads or a budget instead of a ratio", error);
  if (s->keep || s->groups || s->atoms)
    return wrong_compress_setting(s, "has no dictionaries: keep, groups and atoms are for the other methods",
                                  error);
  if (s->ranks || s->weighting)
    return wrong_compress_setting(s, "has no ranks: ranks and weighting are for the other methods", error);
  if (s->cache != 0) return check_goal(s, error);
  if (s->component_heads == -1 && s->budget == 0)
    return wrong_compress_setting(s, "needs component_heads, a budget, or a share of the cache", error);
  if (!(s->budget >= 0 && s->budget <= 1))
    return wrong_compress_setting(s, "needs a budget above 0 and at most 1", error);
  if ((s->budget > 0 || s->profile) && !s->calibration)
    return wrong_compress_setting(
        s, "needs a calibration text for a budget and a profile, which measure on it", error);
  return CH_OK;
}

static ch_status check_others(const ch_compress_settings *s, ch_error *error) {
  if (s->cache != 0)
    return wrong_compress_setting(
        s, "does not make the cache smaller; leave cache out, or set it without a method", error);
  if (s->component_heads > 0 || s->budget != 0 || s->profile || s->first_layer != 0 || s->last_layer != -1)
    return wrong_compress_setting(s, "needs a ratio; component_heads, layers, budget and profile are for mea",
                                  error);
  if (!(s->ratio > 0 && s->ratio < 1))
    return wrong_compress_setting(s, "needs a ratio above 0 and below 1", error);
  if (s->method != CH_COMPRESSION_MASA && (s->groups || s->atoms))
    return wrong_compress_setting(s, "has no dictionaries: groups and atoms are for masa", error);
  if (s->weighting && !ch_compression_weighs(s))
    return wrong_compress_setting(
        s, "weights errors only if ranks are searched; set ranks to searched, or leave weighting out", error);
  bool whitens = s->method == CH_COMPRESSION_SVD_LLM || s->method == CH_COMPRESSION_BASIS_SHARING;
  if (whitens && s->data_free)
    return wrong_compress_setting(s, "needs typical inputs; leave out data_free", error);
  if (whitens && !s->calibration)
    return wrong_compress_setting(s, "needs a calibration text with typical inputs", error);
  return CH_OK;
}

ch_status ch_compress_job_check(const ch_compress_settings *s, ch_error *error) {
  if ((unsigned)s->method > CH_COMPRESSION_BASIS_SHARING)
    return ch_fail(error, CH_ERROR_ARGUMENT, "method is %d, which is not a ch_compression", (int)s->method);
  if ((unsigned)s->ranks > CH_RANKS_SEARCHED || (unsigned)s->weighting > CH_ERROR_WEIGHTING_PAPER)
    return ch_fail(error, CH_ERROR_ARGUMENT, "ranks is %d and weighting is %d; one of them is out of range",
                   (int)s->ranks, (int)s->weighting);
  if (s->group_size < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "group_size is %lld; at least one layer makes a group",
                   (long long)s->group_size);
  if (s->groups < 0 || s->atoms < 0 || s->calibration_tokens < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "groups and atoms cannot be negative, and calibration_tokens must be at least 2");
  if (s->threads < 0 || s->threads > 4096)
    return ch_fail(error, CH_ERROR_ARGUMENT, "threads is %d; it must be from 1 to 4096, or 0 for the default",
                   s->threads);
  if (s->text && !s->report) return ch_fail(error, CH_ERROR_ARGUMENT, "text needs report");
  return s->method == CH_COMPRESSION_MEA ? check_mea(s, error) : check_others(s, error);
}

/* --- settings for a model ---------------------------------------------------------------------------------------- */

static ch_status read_layers(ch_compress_job *c, ch_error *error) {
  int64_t layers = c->own->config.num_hidden_layers;
  c->first = c->s->first_layer;
  c->last = c->s->last_layer == -1 ? layers - 1 : c->s->last_layer;
  if (c->first >= 0 && c->first <= c->last && c->last < layers) return CH_OK;
  char range[64];
  snprintf(range, sizeof range, c->first == c->last ? "%lld" : "%lld-%lld", (long long)c->first,
           (long long)c->last);
  return ch_fail(error, CH_ERROR_ARGUMENT, "{layers} %s is outside the model's layers, 0-%lld", range,
                 (long long)layers - 1);
}

static ch_status read_heads(const ch_compress_job *c, ch_error *error) {
  int64_t groups = c->own->config.num_key_value_heads, heads = c->s->component_heads;
  if (!c->mea || heads == -1 || (heads >= 1 && heads <= groups)) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "{component_heads} %lld: %s has %lld key-value heads, so 1 to %lld can remain; the nearest is %lld",
      (long long)heads, c->directory, (long long)groups, (long long)groups,
      (long long)(heads < 1 ? 1 : groups));
}

static ch_status read_keep(ch_compress_job *c, ch_error *error) {
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS + 1] = {NULL};
  if (!c->s->keep) return CH_OK;
  CH_TRY(ch_list_projections(&c->own->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) names[i] = shapes.rows[i].name;
  for (const char *p = c->s->keep; *p;) {
    size_t length = strcspn(p, ",");
    char *name = c->names[c->keep_count];
    int i = 0;
    snprintf(name, CH_PROJECTION_NAME_SIZE, "%.*s%s", (int)(length < 24 ? length : 24), p,
             length == 1 ? "_proj" : "");
    while (names[i] && strcmp(names[i], name) != 0) i++;
    if (!names[i]) {
      const char *near = ch_nearest_name(name, names);
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "{keep} names '%.*s', which is not a projection of %s; give names such as %s",
                     (int)length, p, c->directory, near ? near : names[0]);
    }
    c->keep[c->keep_count++] = name;
    p += length;
    if (*p) p++;
    if (*p && c->keep_count == CH_MAX_PROJECTIONS)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{keep} names more than %d projections", CH_MAX_PROJECTIONS);
  }
  return CH_OK;
}

static ch_status read_type(ch_compress_job *c, ch_error *error) {
  ch_precision asked = c->s->type;
  int dtype = ch_api_dtype(asked, c->own->weights.tensors[0].dtype);
  if (asked != CH_PRECISION_DEFAULT && dtype != CH_F32 && dtype != CH_F16 && dtype != CH_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; it must be F32, F16 or BF16", (int)asked);
  c->dtype = (ch_dtype)dtype;
  c->report.dtype = ch_api_type_name(c->dtype);
  return CH_OK;
}

ch_status ch_compress_job_read(ch_compress_job *c, ch_error *error) {
  CH_TRY(read_layers(c, error));
  CH_TRY(read_heads(c, error));
  CH_TRY(read_keep(c, error));
  return read_type(c, error);
}

/* What the arguments of crosshead compress mean: ranges of layers, shares, names of projections. */
#include "cli/compress_request.h"

#include <stdio.h>
#include <string.h>

#include "cli/element_types.h"

static ch_status wrong(ch_error *error, const char *method, const char *sentence) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "--method %s %s", method, sentence);
}

ch_status ch_compress_check(const ch_compress_request *r, ch_error *error) {
  const ch_compress_arguments *a = r->a;
  if (r->mea) {
    if (a->ratio != 0)
      return wrong(error, a->method, "counts heads: give --component-heads N or --budget P%, not --ratio");
    if (a->keep || a->groups || a->atoms)
      return wrong(error, a->method,
                   "changes keys and values alone: --keep, --groups and --atoms are for masa");
    if (!ch_option_given(a, "component-heads") && !a->budget)
      return wrong(error, a->method, "needs --component-heads N, or --budget P% to choose them by");
    if ((a->budget || a->profile) && !a->calibration)
      return wrong(error, a->method,
                   "profiles layers on text: --budget and --profile need --calibration FILE");
    return CH_OK;
  }
  if (a->component_heads || a->layers || a->budget || a->profile)
    return wrong(error, a->method,
                 "takes --ratio R: --component-heads, --layers, --budget and --profile are for --method mea");
  if (a->ratio == 0)
    return wrong(error, a->method, "needs --ratio R, the share of attention parameters to save");
  if ((a->groups || a->atoms) && strcmp(a->method, "masa") != 0)
    return wrong(error, a->method, "has no dictionaries: --groups and --atoms are for masa");
  if (strcmp(a->method, "svd-llm") == 0 && (!a->calibration || a->data_free))
    return wrong(error, a->method, "whitens by what inputs look like: it needs --calibration FILE");
  return CH_OK;
}

/* "11-34", or "11": layers from 0 on, as in the names of tensors; both ends are meant. */
static ch_status read_layers(ch_compress_request *r, ch_error *error) {
  int64_t layers = r->s->own->config.num_hidden_layers;
  long long first = 0, last = layers - 1;
  int end = 0;
  const char *text = r->a->layers;
  if (text) {
    bool one = sscanf(text, "%lld%n", &first, &end) == 1 && !text[end];
    bool two = !one && sscanf(text, "%lld-%lld%n", &first, &last, &end) == 2 && !text[end];
    if (one) last = first;
    if (!one && !two)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--layers needs a range like 0-%lld, not '%s'",
                     (long long)layers - 1, text);
  }
  if (first < 0 || first > last || last >= layers)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--layers %s is outside the model's layers, 0-%lld", text,
                   (long long)layers - 1);
  r->first = first;
  r->last = last;
  return CH_OK;
}

static ch_status read_budget(ch_compress_request *r, ch_error *error) {
  char number[32];
  const char *text = r->a->budget;
  if (!text) return CH_OK;
  size_t length = strlen(text);
  if (length && text[length - 1] == '%') length--;
  snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : sizeof number - 1), text);
  if (!ch_parse_number(number, &r->budget) || r->budget <= 0 || r->budget > 100)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--budget needs a share from above 0 to 100%%, not '%s'", text);
  r->budget /= 100;
  return CH_OK;
}

static ch_status read_keep(ch_compress_request *r, ch_error *error) {
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS + 1] = {NULL};
  if (!r->a->keep) return CH_OK;
  CH_TRY(ch_list_projections(&r->s->own->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) names[i] = shapes.rows[i].name;
  for (const char *p = r->a->keep; *p;) {
    size_t length = strcspn(p, ",");
    char *name = r->names[r->keep_count];
    int i = 0;
    snprintf(name, CH_PROJECTION_NAME_SIZE, "%.*s%s", (int)(length < 24 ? length : 24), p,
             length == 1 ? "_proj" : "");
    while (names[i] && strcmp(names[i], name) != 0) i++;
    if (!names[i]) {
      const char *near = ch_nearest_name(name, names);
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--keep names '%.*s', which is no projection of %s; there is %s", (int)length, p,
                     r->s->directory, near ? near : names[0]);
    }
    r->keep[r->keep_count++] = name;
    p += length;
    if (*p) p++;
    if (*p && r->keep_count == CH_MAX_PROJECTIONS)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--keep names more than the %d projections there can be",
                     CH_MAX_PROJECTIONS);
  }
  return CH_OK;
}

static ch_status read_heads(const ch_compress_request *r, ch_error *error) {
  int64_t groups = r->s->own->config.num_key_value_heads, heads = r->a->component_heads;
  if (!r->mea || !ch_option_given(r->a, "component-heads") || (heads >= 1 && heads <= groups)) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "--component-heads %lld: %s has %lld key-value heads, so 1 to %lld can be kept; the nearest is %lld",
      (long long)heads, r->s->directory, (long long)groups, (long long)groups,
      (long long)(heads < 1 ? 1 : groups));
}

static void choose_dtype(ch_compress_request *r) {
  const ch_dtype *asked = ch_element_type(r->a->dtype);
  r->s->dtype = asked ? *asked : r->s->own->weights.tensors[0].dtype;
  r->s->report.dtype = ch_element_type_name(r->s->dtype);
}

ch_status ch_compress_read(ch_compress_request *r, ch_error *error) {
  CH_TRY(read_layers(r, error));
  CH_TRY(read_budget(r, error));
  CH_TRY(read_heads(r, error));
  CH_TRY(read_keep(r, error));
  choose_dtype(r);
  return CH_OK;
}

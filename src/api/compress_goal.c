/* Finds the cheapest way to save a given share of the cache: smaller element types of the cache and, if they
 * do not suffice or raise the loss too much, fewer heads. Element types leave the weights unchanged. */
#include <math.h>

#include "api/compress_private.h"

/* Cache types in the order of rising savings. */
static const struct {
  const char *name;
  ch_dtype of[CH_STATE_ROLES];
} remedies[] = {{"q8_0", {CH_Q8_0, CH_Q8_0, CH_Q8_0}},
                {"k=q8_0,v=q4_0", {CH_Q8_0, CH_Q4_0, CH_Q8_0}},
                {"q4_0", {CH_Q4_0, CH_Q4_0, CH_Q4_0}}};
enum { EIGHT_BIT, REMEDIES = sizeof remedies / sizeof *remedies };

/* If types smaller than 8 bits raise the perplexity by at most this share, fewer heads are not tried. */
static const double little = 0.01;

static ch_cache_types types_of(int remedy) {
  ch_cache_types types;
  for (int r = 0; r < CH_STATE_ROLES; r++) types.of[r] = remedies[remedy].of[r];
  return types;
}

/* Returns the share of a 16-bit cache that a remedy's types save. */
static double saved_by(const ch_compress_job *c, int remedy) {
  const ch_cache_types types = types_of(remedy);
  return 1 - (double)ch_state_bytes(&c->own->config, &types) / (double)c->report.before.cache_bytes_per_token;
}

static ch_status measure_remedy(ch_compress_job *c, int remedy, ch_compression_figures *figures,
                                ch_error *error) {
  const ch_cache_types types = types_of(remedy);
  *figures = c->report.before;
  figures->measured = false;
  figures->cache_types = remedies[remedy].name;
  figures->cache_bytes_per_token = ch_state_bytes(&c->own->config, &types);
  return ch_compress_job_perplexity(c, c->before, "perplexity with a smaller type", &types, figures, error);
}

ch_status ch_compress_job_eight_bit(ch_compress_job *c, ch_error *error) {
  return measure_remedy(c, EIGHT_BIT, &c->report.eight_bit, error);
}

static void take_types(ch_compress_job *c, int remedy) {
  c->types = types_of(remedy);
  c->report.cache_types = remedies[remedy].name;
}

static void keep_heads(ch_compress_job *c) {
  for (int64_t l = 0; l < c->report.layers; l++) c->heads[l] = c->report.groups;
}

/* Returns the share of a 16-bit cache that c->heads with 8-bit elements save. */
static double saved_by_heads(const ch_compress_job *c) {
  int64_t bytes = 0;
  for (int64_t l = 0; l < c->report.layers; l++) {
    int64_t width = ch_stored_width(c->heads[l] * c->own->config.head_dim, CH_Q8_0);
    bytes += 2 * (int64_t)ch_dtype_bytes(CH_Q8_0, width);
  }
  return 1 - (double)bytes / (double)c->report.before.cache_bytes_per_token;
}

/* Chooses the number of heads of each layer so that they reach the goal with 8-bit elements. *loss becomes the
 * expected loss of the model, if the changes of single layers add up. */
static ch_status choose_heads(ch_compress_job *c, double *loss, ch_error *error) {
  const ch_sensitivity *s = &c->sensitivity;
  CH_TRY(ch_compress_job_calibrate(c, error));
  CH_TRY(ch_compress_job_profile(c, error));
  for (int64_t gone = 1; saved_by_heads(c) < c->s->cache; gone++)
    CH_TRY(ch_choose_heads(s, gone, c->heads, error));
  *loss = c->report.eight_bit.loss;
  for (int64_t l = s->first; l <= s->last; l++)
    for (int i = 0; i < s->choices; i++)
      if (s->heads[i] == c->heads[l]) *loss += s->change[l * s->choices + i];
  return CH_OK;
}

ch_status ch_compress_job_pursue(ch_compress_job *c, ch_error *error) {
  ch_compression_figures found = c->report.eight_bit;
  ch_error why = {.message = "this model has one key-value head"};
  double loss = INFINITY;
  int reaching = 0;
  keep_heads(c);
  c->report.component_heads = c->heads;
  while (reaching < REMEDIES && saved_by(c, reaching) < c->s->cache) reaching++;
  if (reaching > EIGHT_BIT && reaching < REMEDIES) CH_TRY(measure_remedy(c, reaching, &found, error));
  if (reaching < REMEDIES) c->report.types_alone = found;
  bool cheap =
      reaching == EIGHT_BIT || (reaching < REMEDIES && found.loss - c->report.before.loss <= log1p(little));
  ch_status status = CH_ERROR_ARGUMENT;
  if (!cheap && c->report.groups > 1) status = choose_heads(c, &loss, &why);
  if (status != CH_OK && status != CH_ERROR_ARGUMENT) return ch_fail_as(error, status, &why);
  if (!cheap && status == CH_OK && (reaching == REMEDIES || loss < found.loss)) {
    take_types(c, EIGHT_BIT);
    return CH_OK;
  }
  if (reaching == REMEDIES)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{cache} %.3g%% cannot be reached: a cache of type q4_0 saves %.1f %%, and fewer heads with q8_0 do "
        "not suffice (%.300s)",
        100 * c->s->cache, 100 * saved_by(c, REMEDIES - 1), why.message);
  keep_heads(c);
  take_types(c, reaching);
  return CH_OK;
}

/* RoPE's frequencies, with the linear, llama3, yarn and longrope scalings. */
#include <math.h>

#include "attention/mechanism.h"

/* Llama 3.1's scaling stretches long wavelengths by `factor`, leaves short ones unchanged and interpolates between
   them. */
static double llama3(double frequency, const ch_rope_scaling *scaling) {
  const double pi = 3.14159265358979323846;
  double context = (double)scaling->original_max_position_embeddings;
  double wavelength = 2 * pi / frequency;
  if (wavelength < context / scaling->high_freq_factor) return frequency;
  if (wavelength > context / scaling->low_freq_factor) return frequency / scaling->factor;
  double smooth = (context / wavelength - scaling->low_freq_factor) /
                  (scaling->high_freq_factor - scaling->low_freq_factor);
  return (1 - smooth) * frequency / scaling->factor + smooth * frequency;
}

/* Returns the pair that turns `turns` times in the original context, for YaRN (Peng et al. 2023). Pairs that turn
   beta_fast times or more in that context keep their frequency. The wavelengths of pairs that turn beta_slow times or
   less are stretched by `factor`. A ramp connects the two ranges. */
static double correction_pair(double turns, const ch_config *config, int64_t rotary) {
  const double pi = 3.14159265358979323846;
  double context = (double)config->rope_scaling.original_max_position_embeddings;
  return (double)rotary * log(context / (turns * 2 * pi)) / (2 * log(config->rope_theta));
}

static void yarn(const ch_config *config, int64_t rotary, double *frequencies) {
  const ch_rope_scaling *scaling = &config->rope_scaling;
  double fast = scaling->beta_fast ? scaling->beta_fast : 32,
         slow = scaling->beta_slow ? scaling->beta_slow : 1;
  double low = correction_pair(fast, config, rotary), high = correction_pair(slow, config, rotary);
  if (scaling->truncate) low = floor(low), high = ceil(high);
  low = fmax(low, 0);
  high = fmin(high, (double)rotary - 1);
  if (low == high) high += 0.001;
  for (int64_t i = 0; i < rotary / 2; i++) {
    double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    frequencies[i] = frequencies[i] / scaling->factor * ramp + frequencies[i] * (1 - ramp);
  }
}

static double yarn_mscale(double factor, double mscale) {
  return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

static double longrope_scale(const ch_config *config) {
  const ch_rope_scaling *s = &config->rope_scaling;
  double original = (double)s->original_max_position_embeddings,
         factor = s->factor ? s->factor : (double)config->max_position_embeddings / original;
  if (s->attention_factor) return s->attention_factor;
  return factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
}

double ch_rope_score_scale(const ch_config *config) {
  const ch_rope_scaling *s = &config->rope_scaling;
  if (s->type == CH_ROPE_LONGROPE) return longrope_scale(config) * longrope_scale(config);
  if (s->type != CH_ROPE_YARN) return 1;
  double factor = s->attention_factor;
  if (!factor)
    factor = s->mscale && s->mscale_all_dim
                 ? yarn_mscale(s->factor, s->mscale) / yarn_mscale(s->factor, s->mscale_all_dim)
                 : yarn_mscale(s->factor, 1);
  return factor * factor;
}

double ch_latent_score_scale(const ch_config *config) {
  const ch_rope_scaling *s = &config->rope_scaling;
  if (s->type != CH_ROPE_YARN || !s->mscale_all_dim) return 1;
  double scale = yarn_mscale(s->factor, s->mscale_all_dim);
  return scale * scale;
}

void ch_rope_frequencies(const ch_config *config, int64_t rotary, int64_t tokens, double *frequencies) {
  const ch_rope_scaling *scaling = &config->rope_scaling;
  /* LongRoPE (Ding et al. 2024): every pair has a factor for texts up to the original context, and another one for
     longer texts. */
  bool long_text = tokens > scaling->original_max_position_embeddings;
  const ch_pair_factors *factors = long_text ? &scaling->long_factor : &scaling->short_factor;
  for (int64_t i = 0; i < rotary / 2; i++) {
    double frequency = pow(config->rope_theta, -2.0 * (double)i / (double)rotary);
    if (scaling->type == CH_ROPE_LINEAR) frequency /= scaling->factor;
    if (scaling->type == CH_ROPE_LONGROPE) frequency /= factors->factor[i];
    if (scaling->type == CH_ROPE_LLAMA3) frequency = llama3(frequency, scaling);
    frequencies[i] = frequency;
  }
  if (scaling->type == CH_ROPE_YARN) yarn(config, rotary, frequencies);
}

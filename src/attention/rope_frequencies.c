/* RoPE's frequencies, with the linear and llama3 scalings. */
#include <math.h>

#include "attention/mechanism.h"

/* Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between interpolated. */
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

void ch_rope_frequencies(const ch_config *config, int64_t rotary, double *frequencies) {
  const ch_rope_scaling *scaling = &config->rope_scaling;
  for (int64_t i = 0; i < rotary / 2; i++) {
    double frequency = pow(config->rope_theta, -2.0 * (double)i / (double)rotary);
    if (scaling->type == CH_ROPE_LINEAR) frequency /= scaling->factor;
    if (scaling->type == CH_ROPE_LLAMA3) frequency = llama3(frequency, scaling);
    frequencies[i] = frequency;
  }
}

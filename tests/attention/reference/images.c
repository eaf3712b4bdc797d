/* Computes the reference's tokens of an image: a class token and linear maps of patches, with learned positions. */
#include "private.h"

/* Returns pixel (line, column) of patch t in one channel. */
static double pixel(const reference_config *c, const double *pixels, int64_t t, int64_t channel, int64_t line,
                    int64_t column) {
  int64_t size = c->image.size, patch = c->image.patch, side = size / patch;
  int64_t y = t / side * patch + line, x = t % side * patch + column;
  return pixels[(channel * size + y) * size + x];
}

double *reference_image_tokens(reference_run *run, const double *pixels) {
  const reference_config *c = run->config;
  int64_t patch = c->image.patch, inputs = c->image.channels * patch * patch;
  const double *weight = reference_model_tensor(run, "model.patch_embed.weight", 2, c->hidden, inputs),
               *bias = reference_model_tensor(run, "model.patch_embed.bias", 1, c->hidden, 1),
               *token = reference_model_tensor(run, "model.cls_token", 1, c->hidden, 1),
               *position =
                   reference_model_tensor(run, "model.position_embeddings", 2, run->length, c->hidden);
  double *tokens = reference_zeros(run, run->length * c->hidden);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t i = 0; i < c->hidden; i++) {
      double sum = t ? bias[i] : token[i];
      for (int64_t channel = 0; t && channel < c->image.channels; channel++)
        for (int64_t line = 0; line < patch; line++)
          for (int64_t column = 0; column < patch; column++)
            sum += weight[i * inputs + (channel * patch + line) * patch + column] *
                   pixel(c, pixels, t - 1, channel, line, column);
      tokens[t * c->hidden + i] = sum + position[t * c->hidden + i];
    }
  return tokens;
}

/* Reorders and scales the rows of latent attention for DeepSeek's classes.
 *
 * A latent's norm is w z / sqrt(mean(z^2) + eps). With z' = f z and f^2 = 1e-6 / eps it equals w z' /
 * sqrt(mean(z'^2) + 1e-6), so the rows that compute z are multiplied by f. Of r rotated rows, a rotation pairs
 * rows i and i + r/2, or neighbours 2 i and 2 i + 1. The products of queries and keys do not change if both have
 * the same order. */
#include "formats/deepseek_layout.h"

#include <math.h>
#include <string.h>

#include "compress/absorb.h"
#include "formats/source.h"

static const double family_eps = 1e-6;

void ch_deepseek_choose(ch_config *config, bool scalable, ch_deepseek_layout *layout) {
  const ch_attention_config *a = &config->attention;
  double eps = a->latent_norm_eps ? a->latent_norm_eps : config->rms_norm_eps;
  ch_config as = *config;
  *layout = (ch_deepseek_layout){0};
  if (strcmp(config->model_type, "crosshead") != 0 || strcmp(a->type, "mla") != 0) return;
  if (eps != family_eps && !scalable) return;
  as.attention.latent_norm_eps = family_eps;
  as.rope_interleaved = true;
  ch_choose_model_type(&as);
  if (strcmp(as.model_type, "crosshead") == 0) return;
  *layout = (ch_deepseek_layout){.latent_scale = eps != family_eps ? sqrt(family_eps / eps) : 0,
                                 .pairs = !config->rope_interleaved,
                                 .latent = a->kv_lora_rank,
                                 .nope = a->qk_nope_head_dim,
                                 .rope = a->qk_rope_head_dim};
  *config = as;
}

static bool is(const char *name, const char *projection) {
  const char *at = strstr(name, ".self_attn.");
  size_t size = strlen(projection);
  return at && strncmp(at + 11, projection, size) == 0 && strcmp(at + 11 + size, ".weight") == 0;
}

bool ch_deepseek_makes_latent(const char *name) {
  return is(name, "q_a_proj") || is(name, "kv_a_proj_with_mqa");
}

static bool makes_queries(const char *name) {
  return is(name, "q_proj") || is(name, "q_b_proj");
}

bool ch_deepseek_changes(const ch_deepseek_layout *layout, const char *name) {
  return (layout->latent_scale != 0 && ch_deepseek_makes_latent(name)) ||
         (layout->pairs && (makes_queries(name) || is(name, "kv_a_proj_with_mqa")));
}

int64_t ch_deepseek_row(const ch_deepseek_layout *layout, const char *name, int64_t row) {
  if (!layout->pairs) return row;
  int64_t size = layout->nope + layout->rope, first = -1; /* first rotated row of the head */
  if (makes_queries(name)) first = row / size * size + layout->nope;
  if (is(name, "kv_a_proj_with_mqa")) first = layout->latent;
  return first < 0 || row < first ? row : first + ch_halved_row(row - first, layout->rope);
}

double ch_deepseek_scale(const ch_deepseek_layout *layout, const char *name, int64_t row) {
  bool latent = is(name, "q_a_proj") || (is(name, "kv_a_proj_with_mqa") && row < layout->latent);
  return layout->latent_scale != 0 && latent ? layout->latent_scale : 1;
}

/* Sets initial standard deviations and learning rates by the spectral rule. Hidden matrices of any shape start with
 * gain 1. Their learning rate falls with the number of inputs, so that a step changes their outputs by the same share
 * at every width (Yang, Simon & Bernstein 2023). Additions to the residual stream are scaled to the embeddings that it
 * begins with, and start smaller the more layers there are. */
#include "config/spectral.h"

#include <math.h>

#include "base/text.h"

/* On three texts this rate is nearly as good as the best rate of each mechanism (bench/measurements.md). */
const double ch_spectral_rate = 4e-3;

/* The width at which a hidden matrix learns at the run's own rate. */
static const double base_width = 128;
/* The standard deviation of embeddings at the base width, times the square root of that width. A smaller one lets
   logits start nearer to zero; a larger one separates tokens. */
static const double embedding_scale = 0.5;
/* Rates relative to those of hidden matrices of the base width. Each row of an embedding gets few gradients, and
   logits have one row per token to learn. */
static const double embedding_rate = 8, table_rate = 4, residual_rate = 0.5;
/* The rate of each of two factors of a product. A step changes the product through both. */
static const double factor_rate = 0.70710678118654752440;
/* The rate of matrices before a LayerNorm, which divides their scale out, relative to other hidden matrices. As
   they grow, a step of the same size changes their direction less. */
static const double normed_rate = 2;

/* Returns the standard deviation of embeddings, with which the residual stream begins. If they also compute the
   logits, a token's own logit starts at about width * std, whatever token follows. 1 / width gives every width
   the same start. With 1 / sqrt(width), wide models would begin by predicting that every token is repeated. */
static double unit_of(double width) {
  return embedding_scale * sqrt(base_width) / width;
}

/* Returns true for the matrices before EG-MLA's LayerNorm, which norms the product of the expanded latents and the
   gate. */
static bool is_normed(const ch_config *config, const ch_param *row) {
  const ch_attention_config *a = &config->attention;
  if (!a->gate_embedding_dim || !a->gate_norm || a->gate_op != CH_GATE_MULTIPLY) return false;
  return row->role == CH_PARAM_GATE || ch_ends_with(row->name, ".kv_b_proj.weight");
}

static void parametrise(const ch_config *config, const ch_params *params, ch_param *row) {
  double width = (double)config->hidden_size, inputs = (double)row->shape[row->rank - 1];
  double unit = unit_of(width), growth = unit / unit_of(base_width);
  double additions = row->kind == CH_PARAM_PATCH ? 1 : 2.0 * (double)config->num_hidden_layers;
  double product = (row->factor ? factor_rate : 1) * (is_normed(config, row) ? normed_rate : 1) /
                   (row->input_scale > 0 ? row->input_scale : 1);
  switch (row->role) {
  case CH_PARAM_HIDDEN:
    row->std = 1 / (sqrt(inputs) * (row->input_scale > 0 ? row->input_scale : 1));
    row->lr_factor = product * base_width / inputs;
    break;
  case CH_PARAM_GATE: /* the matrix and its tables keep their declared std */
    row->lr_factor = product * base_width / inputs;
    break;
  case CH_PARAM_RESIDUAL:
    row->std = unit / sqrt(inputs * additions);
    row->lr_factor = product * residual_rate * growth * base_width / inputs;
    break;
  case CH_PARAM_TIED:
  case CH_PARAM_HEAD:
    row->std = unit;
    row->lr_factor = embedding_rate * base_width / width;
    break;
  case CH_PARAM_LOOKUP:
    row->std = unit;
    row->lr_factor = embedding_rate * growth;
    break;
  case CH_PARAM_TABLE:
    row->lr_factor = table_rate;
    break;
  case CH_PARAM_RESIDUAL_COEFFICIENTS:
    if (params->rows[row->atoms].role == CH_PARAM_RESIDUAL) break; /* the atoms have the residual's spread */
    row->std = unit / sqrt((double)row->shape[0] * additions);
    row->lr_factor = unit / sqrt(additions);
    break;
  case CH_PARAM_MIX:
  case CH_PARAM_COEFFICIENTS:
  case CH_PARAM_VECTOR:
    break;
  case CH_PARAM_COEFFICIENT_MLP:
    /* coefficients then change by about the run's rate, as without a network */
    row->lr_factor = 1 / inputs;
    break;
  }
}

void ch_spectral(const ch_config *config, ch_params *params) {
  for (int p = 0; p < params->count; p++) parametrise(config, params, &params->rows[p]);
}

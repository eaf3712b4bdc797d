/* The block that all models share: x += r f(norm(x)), for attention and then for the feed-forward network.
 * Norms may be elsewhere (config/config.h, ch_norm_placement), and both halves may read the same normed x. */
#include "model/block.h"

#include <stdio.h>

#include "attention/registry.h"
#include "model/ffn.h"
#include "model/norm.h"

enum { NAME_SIZE = 96 };

/* The names of the norms of a half of a block. before: the norm of f's input. after: the norm of f's output, or of the
   sum with CH_NORM_POST. NULL: no norm. */
typedef struct half_norms {
  const char *before, *after;
} half_norms;

static const half_norms attention_norms[] = {
    [CH_NORM_PRE] = {"input_layernorm", NULL},
    [CH_NORM_POST] = {NULL, "post_attention_layernorm"},
    [CH_NORM_BRANCH] = {NULL, "post_attention_layernorm"},
    [CH_NORM_BOTH] = {"input_layernorm", "post_attention_layernorm"}};
static const half_norms ffn_norms[] = {
    [CH_NORM_PRE] = {"post_attention_layernorm", NULL},
    [CH_NORM_POST] = {NULL, "post_feedforward_layernorm"},
    [CH_NORM_BRANCH] = {NULL, "post_feedforward_layernorm"},
    [CH_NORM_BOTH] = {"pre_feedforward_layernorm", "post_feedforward_layernorm"}};

static void declare_norm(ch_declaration *declaration, const char *norm) {
  char name[NAME_SIZE];
  if (!norm) return;
  snprintf(name, sizeof name, "model.layers.%d.%s", declaration->layer, norm);
  ch_model_norm_declare(declaration->config, declaration->params, name);
}

void ch_block_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  const half_norms *attention = &attention_norms[c->norm_placement], *ffn = &ffn_norms[c->norm_placement];
  declare_norm(declaration, attention->before);
  ch_attention_declare(declaration);
  declare_norm(declaration, attention->after);
  if (!c->parallel_residual) declare_norm(declaration, ffn->before);
  ch_ffn_declare(declaration);
  declare_norm(declaration, ffn->after);
}

/* Applies a norm of this layer to x, or returns x if there is none. */
static ch_node *normed(ch_builder *builder, ch_node *x, const char *norm) {
  char name[NAME_SIZE];
  if (!norm) return x;
  snprintf(name, sizeof name, "model.layers.%d.%s", builder->layer, norm);
  return ch_model_norm(builder, x, name);
}

/* Adds the output of a half of the block to x. */
static ch_node *added(ch_builder *builder, ch_node *x, ch_node *y) {
  double factor = builder->config->residual_multiplier;
  if (factor != 1 && y) y = ch_op_scale(builder->graph, y, factor);
  return ch_op_add(builder->graph, x, y);
}

/* Adds one half of the block, f with its norms, to x. */
static ch_node *half(ch_builder *builder, ch_node *x, ch_node *(*f)(ch_builder *builder, ch_node *x),
                     const half_norms norms[]) {
  ch_norm_placement placement = builder->config->norm_placement;
  ch_node *y = f(builder, normed(builder, x, norms[placement].before));
  if (placement == CH_NORM_POST) return normed(builder, added(builder, x, y), norms[placement].after);
  return added(builder, x, normed(builder, y, norms[placement].after));
}

ch_node *ch_block(ch_builder *builder, ch_node *x) {
  if (builder->config->parallel_residual) {
    ch_node *y = normed(builder, x, attention_norms[CH_NORM_PRE].before);
    return added(builder, added(builder, x, ch_attention(builder, y)), ch_ffn(builder, y));
  }
  return half(builder, half(builder, x, ch_attention, attention_norms), ch_ffn, ffn_norms);
}

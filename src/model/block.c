/* The block that all models share: x += f(norm(x)) with norms in front, x = norm(x + f(x)) with norms behind. */
#include "model/block.h"

#include <stdio.h>

#include "attention/registry.h"
#include "model/ffn.h"
#include "model/norm.h"

enum { NAME_SIZE = 96 };

/* The names of the norms beside attention and beside the FFN, by their placement. */
static const char *const attention_norm[] = {
    [CH_NORM_PRE] = "input_layernorm", [CH_NORM_POST] = "post_attention_layernorm"};
static const char *const ffn_norm[] = {
    [CH_NORM_PRE] = "post_attention_layernorm", [CH_NORM_POST] = "post_feedforward_layernorm"};

static void declare_norm(ch_declaration *declaration, const char *const names[]) {
  const ch_config *config = declaration->config;
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "model.layers.%d.%s", declaration->layer, names[config->norm_placement]);
  ch_model_norm_declare(config, declaration->params, name);
}

void ch_block_declare(ch_declaration *declaration) {
  declare_norm(declaration, attention_norm);
  ch_mechanism_of(declaration->config)->declare(declaration);
  declare_norm(declaration, ffn_norm);
  ch_ffn_declare(declaration);
}

/* x with one half of the block, f, and its norm. */
static ch_node *half(ch_builder *builder, ch_node *x, ch_node *(*f)(ch_builder *builder, ch_node *x),
                     const char *const names[]) {
  ch_norm_placement placement = builder->config->norm_placement;
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "model.layers.%d.%s", builder->layer, names[placement]);
  if (placement == CH_NORM_POST)
    return ch_model_norm(builder, ch_op_add(builder->graph, x, f(builder, x)), name);
  return ch_op_add(builder->graph, x, f(builder, ch_model_norm(builder, x, name)));
}

ch_node *ch_block(ch_builder *builder, ch_node *x) {
  return half(builder, half(builder, x, ch_attention, attention_norm), ch_ffn, ffn_norm);
}

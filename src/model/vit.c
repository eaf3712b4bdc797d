/* A patch embedding with learned positions and a class token, and a classifier over the class token after the final
   norm. */
#include "model/vit.h"

#include "config/initial_std.h"
#include "model/norm.h"

static const char patch_weight[] = "model.patch_embed.weight", patch_bias[] = "model.patch_embed.bias",
                  class_token[] = "model.cls_token", positions[] = "model.position_embeddings",
                  head_weight[] = "classifier.weight", head_bias[] = "classifier.bias";

/* Initialises the class token or the positions like embeddings, without weight decay. They are read as F32 (or F64)
   whatever the file holds. */
static void learned(const ch_config *c, ch_params *params, int index) {
  if (index < 0) return;
  params->rows[index].always_real = true;
  params->rows[index].std = ch_initial_embedding_std(c);
  params->rows[index].role = CH_PARAM_LOOKUP;
  params->rows[index].decay = false;
}

void ch_vit_declare_embedding(const ch_config *c, ch_params *params) {
  int64_t patch = c->num_channels * c->patch_size * c->patch_size;
  int patches =
      ch_params_matrix(params, CH_PARAM_PATCH, ch_initial_std(c, patch), c->hidden_size, patch, patch_weight);
  ch_params_set_role(params, patches, CH_PARAM_RESIDUAL);
  ch_params_vector(params, CH_PARAM_PATCH, 0, c->hidden_size, patch_bias);
  learned(c, params, ch_params_vector(params, CH_PARAM_POSITION, 0, c->hidden_size, class_token));
  learned(c, params,
          ch_params_matrix(params, CH_PARAM_POSITION, ch_initial_embedding_std(c), ch_config_image_tokens(c),
                           c->hidden_size, positions));
}

void ch_vit_declare_head(const ch_config *c, ch_params *params) {
  int head = ch_params_matrix(params, CH_PARAM_CLASSIFIER, ch_initial_std(c, c->hidden_size), c->num_classes,
                              c->hidden_size, head_weight);
  ch_params_set_role(params, head, CH_PARAM_HEAD);
  ch_params_vector(params, CH_PARAM_CLASSIFIER, 0, c->num_classes, head_bias);
}

ch_node *ch_vit_embedding(ch_builder *builder) {
  const ch_config *c = builder->config;
  ch_graph *graph = builder->graph;
  ch_node *pixels = ch_graph_pixels(graph, c->num_channels, c->image_size);
  ch_node *patches =
      ch_op_linear(graph, ch_op_patches(graph, pixels, c->patch_size),
                   ch_builder_param(builder, patch_weight), ch_builder_param(builder, patch_bias));
  return ch_op_image_tokens(graph, patches, ch_builder_param(builder, class_token),
                            ch_builder_param(builder, positions));
}

ch_node *ch_vit_head(ch_builder *builder, ch_node *x, const ch_model_graph *shape) {
  ch_graph *graph = builder->graph;
  x = ch_final_norm(builder, ch_op_sequence_row(graph, x, 0));
  ch_node *logits =
      ch_op_linear(graph, x, ch_builder_param(builder, head_weight), ch_builder_param(builder, head_bias));
  if (shape->head == CH_HEAD_LOGITS) return logits;
  ch_node *labels = ch_graph_input(graph, CH_INPUT_LABELS);
  if (shape->head == CH_HEAD_LOSS) return ch_op_cross_entropy(graph, logits, labels, shape->label_smoothing);
  ch_node *both[] = {ch_op_cross_entropy(graph, logits, labels, 0), ch_op_target_rank(graph, logits, labels)};
  return ch_op_join_heads(graph, 1, 2, both, (ch_head_slice[]){{0, 0, 1}, {0, 0, 1}});
}

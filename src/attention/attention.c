/* Declares the parameters of a layer's attention, and builds its graph: writes the states, appends them
 * to the cache if there is one, and reads them. registry.c lists the mechanisms. */
#include "attention/registry.h"

void ch_attention_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_mechanism_in(c, declaration->layer)->declare(declaration);
  if (c->attention.sink_logits && !ch_layer_is_linear(c, declaration->layer) && !declaration->shapes)
    ch_declare_vector(declaration, "sinks", c->num_attention_heads, 0, 0);
}

static ch_status write_states(ch_builder *builder, const ch_mechanism *mechanism, ch_node *x) {
  ch_state_part parts[CH_MAX_STATE_PARTS];
  ch_node *state[CH_MAX_STATE_PARTS] = {0};
  int count = ch_layer_state(builder->config, builder->layer, parts);
  if (count == 0 || !mechanism->write) return CH_OK;
  mechanism->write(builder, x, state);
  const ch_config *c = builder->config;
  const ch_ring ring = {c->sliding_window, c->attention_sinks, builder->capacity},
                *kept = ch_layer_slides(c, builder->layer) ? &ring : NULL;
  for (int p = 0; p < count; p++) {
    if (parts[p].width == 0) continue; /* the part of an earlier layer is read */
    if (state[p] && ch_node_columns(state[p]) != parts[p].width) {
      ch_graph_fail(builder->graph, "%s writes %lld elements of %s where its state has %lld", mechanism->name,
                    (long long)ch_node_columns(state[p]), parts[p].name, (long long)parts[p].width);
      return CH_ERROR_CONFIG;
    }
    builder->written[p] = state[p];
    builder->states[p] = builder->cached
                             ? ch_op_append(builder->graph, state[p], builder->layer, p, parts[p].kind,
                                            ch_part_type(&parts[p], &builder->cache), kept)
                             : state[p];
  }
  return CH_OK;
}

ch_node *ch_attention(ch_builder *builder, ch_node *x) {
  const ch_mechanism *mechanism = ch_mechanism_in(builder->config, builder->layer);
  if (write_states(builder, mechanism, x) != CH_OK) return NULL;
  return mechanism->read(builder, x, builder->states);
}

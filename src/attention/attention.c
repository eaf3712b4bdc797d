/* The attention of a layer: write the states, append them to the cache if there is one, read. */
#include "attention/registry.h"

static ch_status write_states(ch_builder *builder, const ch_mechanism *mechanism, ch_node *x) {
  ch_state_part parts[CH_MAX_STATE_PARTS];
  ch_node *state[CH_MAX_STATE_PARTS] = {0};
  int count = mechanism->state(builder->config, builder->layer, parts);
  if (count == 0) return CH_OK;
  mechanism->write(builder, x, state);
  for (int p = 0; p < count; p++) {
    if (parts[p].width == 0) continue; /* an earlier layer's */
    if (state[p] && ch_node_columns(state[p]) != parts[p].width) {
      ch_graph_fail(builder->graph, "%s writes %lld elements of %s where its state has %lld", mechanism->name,
                    (long long)ch_node_columns(state[p]), parts[p].name, (long long)parts[p].width);
      return CH_ERROR_CONFIG;
    }
    builder->written[p] = state[p];
    builder->states[p] = builder->cached
                             ? ch_op_append(builder->graph, state[p], builder->layer, p, parts[p].kind,
                                            ch_part_type(&parts[p], &builder->cache))
                             : state[p];
  }
  return CH_OK;
}

ch_node *ch_attention(ch_builder *builder, ch_node *x) {
  const ch_mechanism *mechanism = ch_mechanism_of(builder->config);
  if (write_states(builder, mechanism, x) != CH_OK) return NULL;
  return mechanism->read(builder, x, builder->states);
}

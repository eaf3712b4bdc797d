/* Positions: RoPE of this run's tokens and of cached states, ALiBi's slopes, and attention with them. */
#include <math.h>

#include "attention/mechanism.h"

/* Returns true if the layer being built rotates its queries and keys. */
static bool turns(const ch_builder *builder) {
  const ch_config *c = builder->config;
  return c->position == CH_POSITION_ROPE && !ch_layer_is_listed(c->nope_layers, builder->layer);
}

/* Returns true if RoPE rotates the first dims of a head, as it does if only a part of head_dim is rotated. Mechanisms
   with separate rotated dims rotate the last ones. */
static bool leading(const ch_builder *builder) {
  return builder->config->partial_rotary_factor != 1;
}

/* Returns true if the layer being built has the base frequency local_rope_theta, and no scaling. */
static bool is_local(const ch_builder *builder) {
  return ch_layer_is_listed(builder->config->local_rope_layers, builder->layer);
}

/* Returns the frequencies of RoPE in `rotary` dims. They are computed once for all layers that have them. */
static ch_angles *angles_of(ch_builder *builder, int64_t rotary) {
  ch_angles *angles = *builder->angles;
  bool local = is_local(builder);
  while (angles && (angles->rotary != rotary || angles->local != local)) angles = angles->next;
  if (angles) return angles;
  ch_arena *arena = &builder->graph->arena;
  angles = ch_arena_alloc(arena, sizeof *angles);
  double *frequencies = ch_arena_alloc(arena, (size_t)(rotary / 2 + 1) * sizeof *frequencies);
  if (!angles || !frequencies) {
    ch_graph_no_memory(builder->graph);
    return NULL;
  }
  const ch_config *c = builder->config;
  ch_rope_frequencies(c, rotary, builder->context, frequencies);
  for (int64_t i = 0; is_local(builder) && i < rotary / 2; i++)
    frequencies[i] = pow(c->local_rope_theta, -2.0 * (double)i / (double)rotary);
  *angles =
      (ch_angles){.rotary = rotary, .local = local, .frequencies = frequencies, .next = *builder->angles};
  return *builder->angles = angles;
}

/* Returns the table of cosines and sines at this run's positions. */
static ch_node *table_of(ch_builder *builder, ch_angles *angles) {
  ch_graph *graph = builder->graph;
  if (!angles->table)
    angles->table = ch_op_rope_table(graph, ch_graph_input(graph, CH_INPUT_POSITIONS), angles->rotary,
                                     angles->frequencies);
  return angles->table;
}

ch_node *ch_apply_rope(ch_builder *builder, ch_node *x, int64_t head_dim, int64_t rotary) {
  if (!turns(builder) || !x) return x;
  ch_angles *angles = angles_of(builder, rotary);
  if (!angles) return NULL;
  if (x->streamed) {
    if (!angles->levels)
      angles->levels = ch_rope_levels_for(builder->graph, angles->rotary, angles->frequencies);
    return ch_op_rope_states(builder->graph, x, angles->levels, angles->rotary, head_dim, leading(builder),
                             builder->config->rope_interleaved);
  }
  return ch_op_rope(builder->graph, x, table_of(builder, angles), head_dim, leading(builder),
                    builder->config->rope_interleaved);
}

/* YaRN scales the cosines and sines of queries and of keys. Here queries are multiplied by both factors. */
ch_node *ch_rotate_queries(ch_builder *builder, ch_node *q, int64_t head_dim, int64_t rotary) {
  double scale = is_local(builder) ? 1 : ch_rope_score_scale(builder->config);
  if (scale == 1 || !turns(builder) || !q) return ch_apply_rope(builder, q, head_dim, rotary);
  ch_angles *angles = angles_of(builder, rotary);
  if (!angles) return NULL;
  if (!angles->query_table)
    angles->query_table = ch_op_scale(builder->graph, table_of(builder, angles), scale);
  return ch_op_rope(builder->graph, q, angles->query_table, head_dim, leading(builder),
                    builder->config->rope_interleaved);
}

/* Writes ALiBi's published slopes: 2^(-8(h+1)/H) if H is a power of two. Otherwise writes the slopes of the next
   lower power of two, then every second slope of twice that power. */
static void alibi_slopes(int64_t heads, double *slopes) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  for (int64_t h = 0; h < heads; h++)
    slopes[h] = h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                          : exp2(-4.0 * (double)(2 * (h - power) + 1) / (double)power);
}

const double *ch_alibi_slopes(ch_builder *builder, int64_t first, int64_t step, int64_t count) {
  if (builder->config->position != CH_POSITION_ALIBI) return NULL;
  int64_t heads = builder->config->num_attention_heads;
  double *slopes = ch_arena_alloc(&builder->graph->arena, (size_t)heads * sizeof *slopes);
  if (!slopes) {
    ch_graph_no_memory(builder->graph);
    return NULL;
  }
  alibi_slopes(heads, slopes);
  for (int64_t i = 0; i < count; i++) slopes[i] = slopes[first + i * step];
  return slopes;
}

ch_node *ch_attend_states(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values,
                          ch_attend_spec spec) {
  spec.causal = builder->causal;
  if (!spec.slopes) spec.slopes = ch_alibi_slopes(builder, 0, 1, spec.heads);
  spec.soft_cap = builder->config->attn_logit_softcapping;
  const ch_visibility seen = ch_visibility_of(builder);
  spec.window = seen.window;
  spec.sinks = seen.sinks;
  return ch_op_attend(builder->graph, q, keys, values, builder->document_start, seen.logits, &spec);
}

ch_visibility ch_visibility_of(ch_builder *builder) {
  const ch_config *c = builder->config;
  ch_visibility seen = {.logits = c->attention.sink_logits ? ch_attention_param(builder, "sinks") : NULL};
  if (!ch_layer_slides(c, builder->layer)) return seen;
  seen.window = c->sliding_window;
  seen.sinks = c->attention_sinks;
  return seen;
}

/* A mix of component heads, moved to the other side of attention: queries are spread over the components that
 * their group mixes, and the attended components are mixed afterwards. Inference only. */
#include "graph/ops/shapes.h"

typedef struct mix_by_head {
  int64_t heads;
  bool collapse;
} mix_by_head;

static int64_t components(const ch_node *node) {
  return node->in[1]->shape[1];
}

/* Returns the elements of a head before mixing. width_out returns those after mixing. */
static int64_t width_in(const ch_node *node) {
  return ch_node_columns(node->in[0]) / ((const mix_by_head *)node->attributes)->heads;
}

static int64_t width_out(const ch_node *node) {
  bool collapse = ((const mix_by_head *)node->attributes)->collapse;
  return collapse ? width_in(node) / components(node) : width_in(node) * components(node);
}

static ch_status mix_by_head_shape(ch_node *node, ch_error *error) {
  const mix_by_head *attributes = node->attributes;
  const ch_node *mix = node->in[1];
  if (mix->rank != 2 || attributes->heads % mix->shape[0] != 0 ||
      ch_node_columns(node->in[0]) % (attributes->heads * (attributes->collapse ? mix->shape[1] : 1)) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld heads do not fit the mix and its input",
                   (long long)attributes->heads);
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), attributes->heads * width_out(node));
}

static ch_status mix_by_head_forward(ch_run *run, const ch_node *node) {
  const mix_by_head *attributes = node->attributes;
  int64_t heads = attributes->heads, count = components(node), in = width_in(node), out = width_out(node);
  size_t element = ch_dtype_size(run->kernels->dtype);
  const char *mix = ch_run_value(run, node->in[1]), *x = ch_run_value(run, node->in[0]);
  char *y = ch_run_output(run, node);
  for (int64_t i = 0; i < ch_node_rows(node) * heads; i++) {
    int64_t group = i % heads * node->in[1]->shape[0] / heads;
    const void *row = mix + (size_t)(group * count) * element, *from = x + (size_t)(i * in) * element;
    void *to = y + (size_t)(i * out) * element;
    if (attributes->collapse)
      run->kernels->head_mix(run->team, 1, count, 1, out, row, count, 1, from, to, false);
    else
      run->kernels->head_mix(run->team, 1, 1, count, in, row, 1, 1, from, to, false);
  }
  return CH_OK;
}

static double mix_by_head_flops(const ch_node *node) {
  int64_t wide = width_in(node) > width_out(node) ? width_in(node) : width_out(node);
  return 2.0 * (double)(ch_node_rows(node) * ((const mix_by_head *)node->attributes)->heads * wide);
}

static const ch_op op = {.name = "mix_by_head",
                         .shape = mix_by_head_shape,
                         .forward = mix_by_head_forward,
                         .flops = mix_by_head_flops};

ch_node *ch_op_spread_heads(ch_graph *graph, ch_node *x, ch_node *mix, int64_t heads) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, mix}, &(mix_by_head){.heads = heads},
                       sizeof(mix_by_head));
}

ch_node *ch_op_collapse_heads(ch_graph *graph, ch_node *x, ch_node *mix, int64_t heads) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, mix}, &(mix_by_head){.heads = heads, .collapse = true},
                       sizeof(mix_by_head));
}

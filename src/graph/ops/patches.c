/* Square patches of images as rows, which a patch embedding multiplies. */
#include "graph/ops/shapes.h"

typedef struct patches {
  int64_t size; /* pixels of a patch's side */
} patches;

static ch_status patches_shape(ch_node *node, ch_error *error) {
  const ch_node *pixels = node->in[0];
  int64_t patch = ((const patches *)node->attributes)->size;
  if (pixels->rank != 4 || patch < 1 || pixels->shape[2] != pixels->shape[3] || pixels->shape[2] % patch != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "needs square images whose side patches of %lld divide",
                   (long long)patch);
  int64_t side = pixels->shape[2] / patch;
  return ch_shape_matrix(node, pixels->shape[0] * side * side, pixels->shape[1] * patch * patch);
}

static ch_status patches_forward(ch_run *run, const ch_node *node) {
  const ch_node *pixels = node->in[0];
  run->kernels->patches(run->team, pixels->shape[0], pixels->shape[1], pixels->shape[2],
                        ((const patches *)node->attributes)->size, ch_run_value(run, pixels),
                        ch_run_output(run, node));
  return CH_OK;
}

static const ch_op op = {.name = "patches", .shape = patches_shape, .forward = patches_forward};

ch_node *ch_op_patches(ch_graph *graph, ch_node *pixels, int64_t patch) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){pixels}, &(patches){patch}, sizeof(patches));
}

/* The tokens of images: a class token, then the patches, each with its position added. */
#include "graph/ops/shapes.h"

static ch_status image_tokens_shape(ch_node *node, ch_error *error) {
  const ch_graph *graph = node->graph;
  const ch_node *patches = node->in[0], *positions = node->in[2];
  int64_t width = ch_node_columns(patches);
  CH_TRY(ch_vector_of(node->in[1], width, "class token", error));
  if (ch_node_rows(patches) != graph->sequences * (graph->length - 1))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%lld patches are not one less than %lld tokens for each of %lld images",
                   (long long)ch_node_rows(patches), (long long)graph->length, (long long)graph->sequences);
  if (positions->rank != 2 || positions->shape[0] != graph->length || positions->shape[1] != width)
    return ch_fail(error, CH_ERROR_CONFIG, "needs positions [%lld, %lld]", (long long)graph->length,
                   (long long)width);
  return ch_shape_matrix(node, graph->sequences * graph->length, width);
}

typedef struct sizes {
  int64_t width, patches; /* width: elements of a token; patches: elements of all patches of an image */
  size_t token, image;    /* token: bytes of a token; image: bytes of all tokens of an image */
} sizes;

static sizes image_tokens_sizes_of(const ch_node *node) {
  int64_t width = ch_node_columns(node);
  size_t token = (size_t)width * ch_dtype_size(node->dtype);
  return (sizes){width, (node->graph->length - 1) * width, token, (size_t)node->graph->length * token};
}

static size_t image_tokens_scratch(const ch_run *run, const ch_node *node, bool backward) {
  return backward ? run->kernels->sum_scratch(run->team, ch_node_columns(node) * node->graph->length) : 0;
}

static ch_status image_tokens_forward(ch_run *run, const ch_node *node) {
  sizes size = image_tokens_sizes_of(node);
  const char *patches = ch_run_value(run, node->in[0]), *positions = ch_run_value(run, node->in[2]);
  char *y = ch_run_output(run, node);
  for (int64_t s = 0; s < node->graph->sequences; s++, y += size.image, patches += size.image - size.token) {
    run->kernels->add(run->team, size.width, ch_run_value(run, node->in[1]), positions, y);
    run->kernels->add(run->team, size.patches, patches, positions + size.token, y + size.token);
  }
  return CH_OK;
}

static ch_status image_tokens_backward(ch_run *run, const ch_node *node) {
  sizes size = image_tokens_sizes_of(node);
  const char *dy = ch_run_output_gradient(run, node);
  bool add_patches, add_token, add_positions;
  char *dpatches = ch_run_gradient(run, node, 0, &add_patches);
  void *dtoken = ch_run_gradient(run, node, 1, &add_token);
  void *dpositions = ch_run_gradient(run, node, 2, &add_positions);
  if (dpositions)
    run->kernels->sum_rows(run->team, node->graph->sequences, size.width + size.patches, dy, dpositions,
                           add_positions, ch_run_scratch(run));
  for (int64_t s = 0; s < node->graph->sequences; s++, dy += size.image) {
    if (dtoken) run->kernels->copy_or_add(run->team, size.width, dy, dtoken, add_token || s > 0);
    if (!dpatches) continue;
    run->kernels->copy_or_add(run->team, size.patches, dy + size.token, dpatches, add_patches);
    dpatches += size.image - size.token;
  }
  return CH_OK;
}

static const ch_op op = {.name = "image_tokens",
                         .shape = image_tokens_shape,
                         .scratch = image_tokens_scratch,
                         .forward = image_tokens_forward,
                         .backward = image_tokens_backward};

ch_node *ch_op_image_tokens(ch_graph *graph, ch_node *patches, ch_node *token, ch_node *positions) {
  return ch_graph_node(graph, &op, 3, (ch_node *[]){patches, token, positions}, NULL, 0);
}

/* Checks shared by shape rules. */
#include "graph/ops/shapes.h"

ch_status ch_same_shapes(const ch_node *a, const ch_node *b, ch_error *error) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
  if (same) return CH_OK;
  char left[96], right[96];
  return ch_fail(error, CH_ERROR_CONFIG, "shapes %s and %s differ where they must be equal",
                 ch_shape_text(a->rank, a->shape, left, sizeof left),
                 ch_shape_text(b->rank, b->shape, right, sizeof right));
}

ch_status ch_vector_of(const ch_node *node, int64_t n, const char *what, ch_error *error) {
  if (node->rank == 1 && node->shape[0] == n) return CH_OK;
  char shape[96];
  return ch_fail(error, CH_ERROR_CONFIG, "%s has shape %s; it must be [%lld]", what,
                 ch_shape_text(node->rank, node->shape, shape, sizeof shape), (long long)n);
}

ch_status ch_shape_of_first_input(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_as_input(node, 0);
}

ch_status ch_shape_of_equal_inputs(ch_node *node, ch_error *error) {
  CH_TRY(ch_same_shapes(node->in[0], node->in[1], error));
  return ch_shape_as_input(node, 0);
}

ch_status ch_shape_of_table_rows(ch_node *node, ch_error *error) {
  if (node->in[0]->dtype != CH_I32 || node->in[1]->rank != 2)
    return ch_fail(error, CH_ERROR_CONFIG, "needs integer ids and a weight [vocabulary, width]");
  return ch_shape_matrix(node, ch_node_count(node->in[0]), node->in[1]->shape[1]);
}

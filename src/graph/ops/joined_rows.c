/* Rows of a table whose columns are divided between processes. The input is not the table but the rows of this
 * run's tokens, share after share: [N, columns of the first share], [N, columns of the second share] ... Its
 * gradient also has this layout. */
#include "base/share.h"
#include "graph/ops/shapes.h"

typedef struct joined_rows {
  int shares;
} joined_rows;

/* Copies or adds the shares to whole rows if `join`, else whole rows to the shares. */
static void move(const ch_run *run, const ch_node *node, const char *from, char *to, bool join, bool add) {
  const int all = ((const joined_rows *)node->attributes)->shares;
  int64_t rows = ch_node_rows(node), columns = ch_node_columns(node),
          size = (int64_t)ch_dtype_size(node->dtype);
  for (int s = 0; s < all; s++) {
    int64_t first = ch_share_begin(columns, s, all), count = ch_share_begin(columns, s + 1, all) - first;
    for (int64_t r = 0; r < rows && count > 0; r++) {
      int64_t row = (r * columns + first) * size, part = (rows * first + r * count) * size;
      run->kernels->copy_or_add(run->team, count, from + (join ? part : row), to + (join ? row : part), add);
    }
  }
}

static ch_status joined_rows_forward(ch_run *run, const ch_node *node) {
  move(run, node, ch_run_value(run, node->in[1]), ch_run_output(run, node), true, false);
  return CH_OK;
}

static ch_status joined_rows_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *gradient = ch_run_gradient(run, node, 1, &accumulate);
  if (gradient) move(run, node, ch_run_output_gradient(run, node), gradient, false, accumulate);
  return CH_OK;
}

static double joined_rows_parameters_read(const ch_node *node) {
  return (double)ch_node_rows(node) / (double)node->in[1]->shape[0];
}

static const ch_op op = {.name = "joined_rows",
                         .shape = ch_shape_of_table_rows,
                         .forward = joined_rows_forward,
                         .backward = joined_rows_backward,
                         .parameters_read = joined_rows_parameters_read};

ch_node *ch_op_joined_rows(ch_graph *graph, ch_node *ids, ch_node *weight, int shares) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){ids, weight}, &(joined_rows){.shares = shares},
                       sizeof(joined_rows));
}

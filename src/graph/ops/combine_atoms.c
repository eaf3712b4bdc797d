/* W = sum over s of c[s] D[s] (MASA eq. 2), or one atom alone: a layer's weight as a sum of atoms that layers
 * share. */
#include "graph/ops/shapes.h"

enum { ATOMS, COEFFICIENTS };

typedef struct combine_atoms {
  int64_t row; /* row of the coefficients; without coefficients, index of the atom */
} combine_atoms;

static int64_t combine_atoms_row_of(const ch_node *node) {
  return ((const combine_atoms *)node->attributes)->row;
}

static int64_t atom_count(const ch_node *node) {
  return node->in[ATOMS]->shape[0];
}

static bool picks(const ch_node *node) {
  return node->inputs == 1;
}

static ch_status combine_atoms_shape(ch_node *node, ch_error *error) {
  const ch_node *atoms = node->in[ATOMS], *c = picks(node) ? NULL : node->in[COEFFICIENTS];
  int64_t rows = !c ? atoms->shape[0] : c->rank == 2 ? c->shape[0] : 1;
  if (atoms->rank != 3 || combine_atoms_row_of(node) < 0 || combine_atoms_row_of(node) >= rows ||
      (c && ch_node_columns(c) != atoms->shape[0]))
    return ch_fail(error, CH_ERROR_CONFIG, "row %lld does not say how to combine %lld atoms",
                   (long long)combine_atoms_row_of(node), (long long)atoms->shape[0]);
  return ch_shape_matrix(node, atoms->shape[1], atoms->shape[2]);
}

static size_t combine_atoms_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward || picks(node)) return 0;
  return run->kernels->sum_scratch(run->team, atom_count(node));
}

/* Returns the address of this node's row in `data`, the coefficients or their gradient. */
static char *coefficients_in(const ch_run *run, const ch_node *node, const void *data) {
  return (char *)data +
         (size_t)(combine_atoms_row_of(node) * atom_count(node)) * ch_dtype_size(run->kernels->dtype);
}

static ch_status combine_atoms_forward(ch_run *run, const ch_node *node) {
  ch_dtype dtype = ch_run_dtype(run, node->in[ATOMS]);
  const char *atoms = ch_run_value(run, node->in[ATOMS]);
  int64_t n = ch_node_count(node);
  if (picks(node))
    run->kernels->convert_from(run->team, n,
                               atoms + (size_t)(combine_atoms_row_of(node) * n) * ch_dtype_size(dtype), dtype,
                               ch_run_output(run, node));
  else
    run->kernels->combine_forward(run->team, n, atom_count(node),
                                  coefficients_in(run, node, ch_run_value(run, node->in[COEFFICIENTS])),
                                  atoms, dtype, ch_run_output(run, node));
  return CH_OK;
}

/* Adds the gradient of this layer's atom. The atoms of other layers get none. */
static void pass_to_atom(ch_run *run, const ch_node *node, const void *dy) {
  bool accumulate;
  char *gradient = ch_run_gradient(run, node, ATOMS, &accumulate);
  int64_t n = ch_node_count(node);
  if (!gradient) return;
  if (!accumulate) run->kernels->fill(run->team, ch_node_count(node->in[ATOMS]), 0, gradient);
  gradient += (size_t)(combine_atoms_row_of(node) * n) * ch_dtype_size(run->kernels->dtype);
  run->kernels->copy_or_add(run->team, n, dy, gradient, accumulate);
}

static ch_status combine_atoms_backward(ch_run *run, const ch_node *node) {
  const void *dy = ch_run_output_gradient(run, node);
  if (picks(node)) {
    pass_to_atom(run, node, dy);
    return CH_OK;
  }
  const ch_node *c = node->in[COEFFICIENTS];
  bool accumulate, accumulate_coefficients;
  void *atoms = ch_run_gradient(run, node, ATOMS, &accumulate);
  void *coefficients = ch_run_gradient(run, node, COEFFICIENTS, &accumulate_coefficients);
  if (coefficients && !accumulate_coefficients)
    run->kernels->fill(run->team, ch_node_count(c), 0, coefficients);
  run->kernels->combine_backward(
      run->team, ch_node_count(node), atom_count(node), coefficients_in(run, node, ch_run_value(run, c)),
      ch_run_value(run, node->in[ATOMS]), dy, atoms, accumulate,
      coefficients ? coefficients_in(run, node, coefficients) : NULL, true, ch_run_scratch(run));
  return CH_OK;
}

static double combine_atoms_flops(const ch_node *node) {
  return picks(node) ? 0 : 2.0 * (double)ch_node_count(node->in[ATOMS]);
}

static const ch_op op = {.name = "combine_atoms",
                         .shape = combine_atoms_shape,
                         .scratch = combine_atoms_scratch,
                         .forward = combine_atoms_forward,
                         .backward = combine_atoms_backward,
                         .backward_reads = CH_READS_INPUT(ATOMS) | CH_READS_INPUT(COEFFICIENTS),
                         .flops = combine_atoms_flops};

ch_node *ch_op_combine_atoms(ch_graph *graph, ch_node *atoms, ch_node *coefficients, int64_t row) {
  return ch_graph_node(graph, &op, coefficients ? 2 : 1, (ch_node *[]){atoms, coefficients},
                       &(combine_atoms){row}, sizeof(combine_atoms));
}

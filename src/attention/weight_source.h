/* The source of a projection's matrix. A mechanism requests "the q_proj of this layer". The matrix may be a separate
 * tensor, a combination of shared atoms, another layer's matrix, or a product of two matrices ("sharing" in
 * config.json; MASA eq. 2 and other methods). */
#ifndef CH_ATTENTION_WEIGHT_SOURCE_H
#define CH_ATTENTION_WEIGHT_SOURCE_H

#include "attention/mechanism.h"

typedef struct ch_weight_source {
  /* Declares the tensors from which projection `name` [out, in] of the declaration's layer is computed; `role` is the
     role that a dense matrix would have. */
  void (*declare)(ch_declaration *declaration, const char *name, int64_t out, int64_t in, ch_param_role role);
  /* Returns the matrix [out, in] of the layer being built: a leaf, or operations on leaves. */
  ch_node *(*weight)(ch_builder *builder, const char *name);
  /* Returns x W^T (+ bias), without computing W if that is less work. NULL: W is always computed. */
  ch_node *(*project)(ch_builder *builder, ch_node *x, const char *name, ch_node *bias);
} ch_weight_source;

/* Returns the source of one projection ("q_proj"): dense, or that of "sharing" if it names this one. */
const ch_weight_source *ch_weight_source_of(const ch_config *config, const char *name);

/* shared_atoms.c: W_l = sum over s of c[l, s] D_s (masa), and W_l = one atom, number floor(l S / L) (sequential) or
   l mod S (repeat). low_rank.c: W_l = B_l A_l. */
extern const ch_weight_source ch_source_masa, ch_source_one_atom, ch_source_low_rank;

/* residual.c: checkpoints may add a product to any projection's matrix, W_l = What_l + b_l a_l
   ("{name}.residual.a.weight" [rank, in] and "{name}.residual.b.weight" [out, rank]). The factors are declared if
   ch_params.known has the first one and model_type begins with "crosshead". */
void ch_residual_declare(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
bool ch_has_residual(const ch_params *params, int layer, const char *name);
/* Adds the residual to the matrix. ch_add_residual_of adds x a^T b^T to y = x What^T. Without a residual, both
   return their input. */
ch_node *ch_add_residual(ch_builder *builder, ch_node *weight, const char *name);
ch_node *ch_add_residual_of(ch_builder *builder, ch_node *y, ch_node *x, const char *name);

/* Returns the atom that is layer l's matrix under `sequential` and `repeat`, or -1 under other types, where
   the matrix is a sum of atoms. */
int64_t ch_atom_of_layer(const ch_config *config, int layer);

/* Returns the parameter index of the atoms of a layer's matrix, or -1 if it has no atoms or they were not declared. */
int ch_atoms_row(const ch_config *config, const ch_params *params, int layer, const char *name);
/* Returns the coefficients of a masa projection: [L, S], of which row *row is the layer's, or the layer's own [S]
   with *row 0. */
ch_node *ch_masa_coefficients(ch_builder *builder, const char *name, int64_t *row);

#endif

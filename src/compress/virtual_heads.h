/* MEA's virtual heads: G heads of keys or values as combinations of h' component heads (eqs. 23, 36-38).
 *
 * W [G d, D] seen as a matrix with a column W_g, of d D numbers, for every head is U L V^T by SVD. With h' columns
 * kept, the component heads are those of U and the mix is M = V L: W_g ~ sum over j of M[g, j] U_j. A bias is one
 * more column of W, so one more row of d numbers in each head. With calibration the SVD is that of the heads'
 * outputs: W_g R for E[x x^T] = R R^T. All of it comes from the G x G matrix of inner products of heads, whose
 * eigenvectors are V. R itself is not needed, so E[x x^T] may be singular. */
#ifndef CH_COMPRESS_VIRTUAL_HEADS_H
#define CH_COMPRESS_VIRTUAL_HEADS_H

#include "compress/compress.h"

/* One layer's keys or values, decomposed. Any number of components may remain. */
typedef struct ch_head_factors {
  int64_t heads, dim, inputs; /* G, d, D */
  float *weight;              /* [G d, D]: the matrix itself */
  float *bias;                /* [G d], or NULL */
  double *vectors;            /* [G, G]: V, one column per component, the largest singular value first */
  double *values;             /* [G]: singular values */
  /* [G]: relative squared errors of the matrix and of its outputs with 1 ... G components; `weighted` is all -1
   * without calibration */
  double *plain, *weighted;
} ch_head_factors;

/* Finds the factors of a layer's heads. state: CH_ON_K or CH_ON_V; calibration may be NULL. Release with
 * ch_head_factors_free. */
ch_status ch_head_factors_find(const ch_model *model, int layer, unsigned state,
                               const ch_calibration *calibration, ch_head_factors *factors, ch_error *error);
void ch_head_factors_free(ch_head_factors *factors);
/* Writes h' component heads [h' d, D], their biases [h' d] (if there are any) and the mix [G, h']. */
ch_status ch_head_factors_keep(const ch_head_factors *factors, int64_t components, float *weight, float *bias,
                               float *mix, ch_error *error);
/* Writes the matrix [G d, D] (and bias) that h' components approximate. */
ch_status ch_head_factors_rebuild(const ch_head_factors *factors, int64_t components, float *weight,
                                  float *bias, ch_error *error);

/* Checks that the model's heads of keys or values can be decomposed. *states receives the CH_ON_ bits of the states
 * that can. */
ch_status ch_virtual_heads_check(const ch_model *model, unsigned *states, ch_error *error);

#endif

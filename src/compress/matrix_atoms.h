/* Matrix PCA: the atoms of one projection in one group of layers (MASA; "Matrix PCA").
 *
 * Matrices w_1 W_1 ... w_L W_L as long vectors are the rows of a matrix W. The atoms are the top S eigenvectors of
 * W^T W, which minimise the sum over l of w_l^2 |W_l - W'_l|^2 (MASA eq. 4; the paper's w_l are 1). They come from the
 * L x L Gram matrix G = W W^T: with G = U diag(s^2) U^T, atom s is the sum over l of U[l, s] w_l W_l / s_s, of length
 * one, and c[l, s] = tr(D_s^T W_l) = U[l, s] s_s / w_l. Stored atoms are scaled to the size of the matrices, which
 * suits 16-bit types. */
#ifndef CH_COMPRESS_MATRIX_ATOMS_H
#define CH_COMPRESS_MATRIX_ATOMS_H

#include "compress/matrices.h"

/* Computes tr(W_l^T W_m) [count, count] of matrices of one shape. It reads them piece by piece. */
ch_status ch_gram_of_matrices(const ch_model *model, const ch_matrix *const *matrices, int count,
                              double *gram, ch_error *error);

typedef struct ch_atoms {
  int count;       /* number L of matrices */
  double *values;  /* [L]: s^2, the largest first */
  double *vectors; /* [L, L]: U^T, one row per atom */
  double *weights; /* [L]: w */
  double scale;    /* length of the stored atoms: sqrt(mean |W_l|^2) */
} ch_atoms;

/* Finds the atoms. gram [count, count] is that of the unweighted matrices; squares [count]: the weights w^2 of their
 * squared errors. Release with ch_atoms_free. */
ch_status ch_atoms_find(int count, const double *gram, const double *squares, ch_atoms *atoms,
                        ch_error *error);
void ch_atoms_free(ch_atoms *atoms);
/* Computes W_l minus its approximation by the first `kept` atoms, [out, in]. */
ch_status ch_atoms_missing(const ch_model *model, const ch_matrix *const *matrices, const ch_atoms *atoms,
                           int kept, int l, double *missing, ch_error *error);
/* Writes the first `kept` atoms as the tensor `name`, and every layer's coefficients. */
ch_status ch_atoms_write(const ch_model *model, const ch_matrix *const *matrices, const ch_atoms *atoms,
                         int kept, const char *name, ch_compressed_model *compressed, ch_error *error);
/* Computes W_l minus its approximation by the stored atoms and coefficients. */
ch_status ch_atoms_missing_written(const ch_model *model, const ch_matrix *matrix, int kept, const char *name,
                                   const ch_compressed_model *compressed, double *missing, ch_error *error);

#endif

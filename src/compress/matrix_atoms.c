/* Computes atoms from the Gram matrix. All matrices are read together, piece by piece, so that they are never whole
   in memory. */
#include "compress/matrix_atoms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/linear_algebra.h"

enum { PIECE = 1 << 14 }; /* elements of each matrix that are read at a time */

/* Reads elements first ... first + n - 1 of all matrices, [count, n]. */
static void read_piece(const ch_model *model, const ch_matrix *const *matrices, int count, int64_t first,
                       int64_t n, double *piece) {
  for (int l = 0; l < count; l++) ch_matrix_read(model, matrices[l], first, n, piece + l * n);
}

static int64_t piece_at(int64_t first, int64_t elements) {
  return elements - first < PIECE ? elements - first : PIECE;
}

ch_status ch_gram_of_matrices(const ch_model *model, const ch_matrix *const *matrices, int count,
                              double *gram, ch_error *error) {
  int64_t elements = matrices[0]->out * matrices[0]->in;
  double *piece = malloc((size_t)count * PIECE * sizeof *piece);
  if (!piece) return ch_no_memory(error);
  memset(gram, 0, (size_t)count * (size_t)count * sizeof *gram);
  for (int64_t at = 0, n; at < elements; at += n) {
    n = piece_at(at, elements);
    read_piece(model, matrices, count, at, n, piece);
    ch_multiply_self(count, n, piece, gram);
  }
  free(piece);
  return CH_OK;
}

/* Computes weights w with mean square 1. None is below a thousandth of the largest, because coefficients are divided
 * by weights. */
static void find_weights(int count, const double *squares, double *weights) {
  double most = 0, sum = 0;
  for (int l = 0; l < count; l++) most = fmax(most, squares[l]);
  for (int l = 0; l < count; l++) {
    weights[l] = most > 0 ? fmax(squares[l], 1e-6 * most) : 1;
    sum += weights[l] / count;
  }
  for (int l = 0; l < count; l++) weights[l] = sqrt(weights[l] / sum);
}

ch_status ch_atoms_find(int count, const double *gram, const double *squares, ch_atoms *atoms,
                        ch_error *error) {
  *atoms = (ch_atoms){.count = count};
  atoms->weights = malloc((size_t)count * sizeof(double));
  atoms->values = malloc((size_t)count * sizeof(double));
  atoms->vectors = malloc((size_t)count * (size_t)count * sizeof(double));
  ch_status status = CH_OK;
  if (!atoms->values || !atoms->vectors || !atoms->weights) status = ch_no_memory(error);
  for (int l = 0; status == CH_OK && l < count; l++) atoms->scale += gram[l * count + l] / count;
  atoms->scale = sqrt(atoms->scale);
  if (status == CH_OK) {
    find_weights(count, squares, atoms->weights);
    for (int l = 0; l < count; l++)
      for (int m = 0; m < count; m++)
        atoms->vectors[l * count + m] = atoms->weights[l] * atoms->weights[m] * gram[l * count + m];
    status = ch_eigen(count, atoms->vectors, atoms->values, true, error);
  }
  if (status != CH_OK) ch_atoms_free(atoms);
  return status;
}

void ch_atoms_free(ch_atoms *atoms) {
  free(atoms->values), free(atoms->vectors), free(atoms->weights);
  *atoms = (ch_atoms){0};
}

/* Computes W_l - sum over m of P[l, m] w_m / w_l W_m with P = U_S U_S^T. */
ch_status ch_atoms_missing(const ch_model *model, const ch_matrix *const *matrices, const ch_atoms *atoms,
                           int kept, int l, double *missing, ch_error *error) {
  int count = atoms->count;
  int64_t elements = matrices[0]->out * matrices[0]->in;
  double *shares = calloc((size_t)count, sizeof *shares),
         *piece = malloc((size_t)count * PIECE * sizeof *piece);
  ch_status status = shares && piece ? CH_OK : ch_no_memory(error);
  for (int m = 0; status == CH_OK && m < count; m++) {
    shares[m] = m == l ? 1 : 0;
    double ratio = atoms->weights[m] / atoms->weights[l];
    for (int s = 0; s < kept; s++)
      shares[m] -= ratio * atoms->vectors[s * count + l] * atoms->vectors[s * count + m];
  }
  for (int64_t at = 0, n; status == CH_OK && at < elements; at += n) {
    n = piece_at(at, elements);
    read_piece(model, matrices, count, at, n, piece);
    ch_multiply(false, false, 1, n, count, shares, count, piece, n, missing + at, false);
  }
  free(shares), free(piece);
  return status;
}

/* Returns 1 / s_s, the inverse of singular value `s`; 0 if it is negligible. */
static double inverse_length(const ch_atoms *atoms, int s) {
  return atoms->values[s] > 1e-24 * atoms->values[0] && atoms->values[s] > 0 ? 1 / sqrt(atoms->values[s]) : 0;
}

static ch_status write_coefficients(const ch_matrix *matrix, const ch_atoms *atoms, int kept, int l,
                                    ch_compressed_model *compressed, ch_error *error) {
  char name[160];
  double *c = malloc((size_t)kept * sizeof *c);
  if (!c) return ch_no_memory(error);
  for (int s = 0; s < kept; s++)
    c[s] = atoms->scale > 0 ? atoms->vectors[s * atoms->count + l] * sqrt(fmax(atoms->values[s], 0)) /
                                  (atoms->scale * atoms->weights[l])
                            : 0;
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.coefficients", matrix->layer, matrix->name);
  ch_status status = ch_compressed_put(compressed, name, 0, kept, c, error);
  free(c);
  return status;
}

ch_status ch_atoms_write(const ch_model *model, const ch_matrix *const *matrices, const ch_atoms *atoms,
                         int kept, const char *name, ch_compressed_model *compressed, ch_error *error) {
  int count = atoms->count;
  int64_t elements = matrices[0]->out * matrices[0]->in;
  double *mix = malloc((size_t)kept * (size_t)count * sizeof *mix),
         *piece = malloc((size_t)count * PIECE * sizeof *piece),
         *made = malloc((size_t)kept * PIECE * sizeof *made);
  ch_status status = mix && piece && made ? CH_OK : ch_no_memory(error);
  for (int s = 0; status == CH_OK && s < kept; s++)
    for (int l = 0; l < count; l++)
      mix[s * count + l] =
          atoms->scale * inverse_length(atoms, s) * atoms->vectors[s * count + l] * atoms->weights[l];
  for (int64_t at = 0, n; status == CH_OK && at < elements; at += n) {
    n = piece_at(at, elements);
    read_piece(model, matrices, count, at, n, piece);
    ch_multiply(false, false, kept, n, count, mix, count, piece, n, made, false);
    for (int s = 0; status == CH_OK && s < kept; s++)
      status = ch_compressed_put(compressed, name, s * elements + at, n, made + s * n, error);
  }
  for (int l = 0; status == CH_OK && l < count; l++)
    status = write_coefficients(matrices[l], atoms, kept, l, compressed, error);
  free(mix), free(piece), free(made);
  return status;
}

ch_status ch_atoms_missing_written(const ch_model *model, const ch_matrix *matrix, int kept, const char *name,
                                   const ch_compressed_model *compressed, double *missing, ch_error *error) {
  char coefficients[160];
  int64_t elements = matrix->out * matrix->in;
  double *c = malloc((size_t)kept * sizeof *c), *piece = malloc(PIECE * sizeof *piece);
  ch_status status = c && piece ? CH_OK : ch_no_memory(error);
  snprintf(coefficients, sizeof coefficients, "model.layers.%d.self_attn.%s.coefficients", matrix->layer,
           matrix->name);
  if (status == CH_OK) status = ch_compressed_get(compressed, coefficients, 0, kept, c, error);
  if (status == CH_OK) ch_matrix_read(model, matrix, 0, elements, missing);
  for (int s = 0; s < kept; s++)
    for (int64_t at = 0, n; status == CH_OK && at < elements; at += n) {
      n = piece_at(at, elements);
      status = ch_compressed_get(compressed, name, s * elements + at, n, piece, error);
      for (int64_t i = 0; i < n; i++) missing[at + i] -= c[s] * piece[i];
    }
  free(c), free(piece);
  return status;
}

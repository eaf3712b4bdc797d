/* Shared by the methods of compression: their input, their output and their report.
 *
 * A method reads an open model (its matrices stay mapped), works on one matrix at a time, and returns a new model. Its
 * unchanged tensors are in the old one's mapping. */
#ifndef CH_COMPRESS_COMPRESS_H
#define CH_COMPRESS_COMPRESS_H

#include <crosshead/compress.h>

#include "infer/model.h"

/* E[x x^T] [n, n] of a projection's input x over calibration text, symmetric. */
typedef struct ch_autocorrelation {
  int64_t n;
  const float *c;
  const float *mean; /* E[x] [n], for projections with a bias */
} ch_autocorrelation;

typedef struct ch_calibration ch_calibration; /* created by ch_calibrate (calibration.h) */
/* Returns the autocorrelation of the input of `projection` ("q_proj") in `layer`; NULL if it was not
 * requested. */
const ch_autocorrelation *ch_calibration_of(const ch_calibration *calibration, int layer,
                                            const char *projection);
/* Returns [layers - 1] distances: how far the token-averaged output of block l + 1 is from that of block l,
 * as a KL divergence of the next-token distributions after the final norm and the head. NULL if it was not
 * measured. */
const double *ch_calibration_drift(const ch_calibration *calibration);
/* Returns [layers] E|a|^2 / E|x + a|^2 for an attention that adds a to the stream x: its share of the stream. NULL if
 * the drift was not measured: both are measured together. */
const double *ch_calibration_shares(const ch_calibration *calibration);

/* Called before and after each piece of work; `done` and `total` are in one unit. A status other than CH_OK stops the
   method, which returns it. */
typedef ch_status ch_compress_step(void *context, const char *what, double done, double total,
                                   ch_error *error);

typedef struct ch_compress_options {
  const int64_t *component_heads; /* mea: [layers] h' of each layer; 0 or G leaves a layer unchanged */
  double ratio; /* share of attention parameters to remove, inside (0, 1); 0: no limit, the result is exact */
  int64_t before; /* attention parameters that the ratio refers to; 0: those of the model */
  /* masa: number of layer groups, number of atoms per group; 0: chosen by the error */
  int64_t groups, atoms;
  int64_t group_size; /* basis sharing: adjacent layers that share a basis */
  ch_ranks ranks;
  /* true if errors count as |(W' - W) R|^2 without weights: in the atoms of masa, and where ranks are searched */
  bool unweighted;
  const char *const *keep; /* [keep_count]: names of projections to leave alone, such as "o_proj" */
  int keep_count;
  ch_dtype dtype;         /* type of the new matrices: CH_F32, CH_F16 or CH_BF16 */
  ch_compress_step *step; /* progress callback, or NULL */
  void *context;          /* context of `step` */
} ch_compress_options;

/* One matrix before and after compression. Parameters that several matrices share are only in the totals. */
typedef struct ch_compressed_matrix {
  int layer;
  char projection[CH_PROJECTION_NAME_SIZE];
  /* before: parameters of the matrix; after: parameters of its coefficients and factors, without shared ones */
  int64_t before, after;
  int64_t rank; /* rank of its factors or residual, or h' for mea; 0: none */
  double error; /* |W' - W| / |W| in the Frobenius norm */
  /* error of outputs, |(W' - W) R| / |W R| with E[x x^T] = R R^T; -1 without calibration */
  double whitened_error;
} ch_compressed_matrix;

typedef struct ch_compressed_model {
  /* new model; unchanged tensors are in the old model's memory, which must outlive it */
  ch_materialised_model model;
  ch_compressed_matrix *matrices; /* [matrix_count], by layer, then projection */
  int matrix_count;
  /* attention parameters as `info` counts them; after <= (1 - ratio) before if there is a ratio */
  int64_t before, after;
  int64_t shared; /* parameters of atoms, and of bases of several layers */
  /* groups: number of layer groups of masa and basis sharing; atoms: number of atoms of all dictionaries of masa */
  int64_t groups, atoms;
} ch_compressed_model;

void ch_compressed_free(ch_compressed_model *compressed);

/* Changes `config`, a copy of the model's, to our own model type, which can express the changes of all methods. */
void ch_compressed_config(ch_config *config);

/* A method. calibration may be NULL if the method does not need it. */
typedef ch_status ch_compress_method(const ch_model *model, const ch_calibration *calibration,
                                     const ch_compress_options *options, ch_compressed_model *compressed,
                                     ch_error *error);

/* mea.c: fewer key and value heads, mixed (MEA eqs. 23, 36-38). The matrices are those of keys and values; `rank` is
 * h'. With calibration, the error of their outputs is minimised. */
ch_compress_method ch_compress_mea;
/* matrix_pca.c: atoms of groups of layers and whitened residuals (MASA). Without calibration nothing is whitened, and
   groups have equal sizes. If ranks are not searched, all groups and projections have one number of atoms. */
ch_compress_method ch_compress_masa;
/* svd_methods.c: truncated SVD of every matrix: of W R (svd_llm, needs calibration), or of W (svd, ignores it).
 * Basis sharing: SVD of the stacked matrices of adjacent layers, which then share the first factor (needs
 * calibration). */
ch_compress_method ch_compress_svd_llm, ch_compress_svd, ch_compress_basis_sharing;

#endif

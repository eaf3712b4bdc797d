/* Chooses the number of groups for Matrix PCA, and for every projection of every group (or for all of them
 * alike) the number of atoms, with the least error (MASA, "Matrix Weight-Sharing for Pretrained Models"). */
#ifndef CH_COMPRESS_PCA_SEARCH_H
#define CH_COMPRESS_PCA_SEARCH_H

#include "compress/matrix_atoms.h"
#include "compress/matrix_ranks.h"

/* The matrices of one projection in one group of layers: sorted[first ... first + count - 1]. `projection` is an
   index into list.names. */
typedef struct ch_pca_family {
  int projection, group, first, count;
  int kept; /* number of atoms: 1 ... count */
} ch_pca_family;

typedef struct ch_pca {
  const ch_model *model;
  const ch_calibration *calibration; /* calibration, or NULL */
  const ch_compress_options *options;
  ch_ranks rule; /* rule for the residuals' ranks; not CH_RANKS_DEFAULT */
  ch_error *error;
  ch_matrices list;
  const ch_matrix **sorted; /* [list.count] by projection, then layer */
  double **grams;           /* [list.name_count]: Gram matrix of all matrices of a projection */
  double *weights;          /* [list.count] in the order of `sorted`: weight of a matrix's squared error */
  double *matrix;           /* memory for the largest matrix */
  double done, total;       /* progress: matrices examined and written */
  int groups;               /* chosen number of groups */
  uint16_t spans[CH_MAX_GROUPS][2]; /* [groups]: first and last layer of each chosen group */
  ch_pca_family *families;          /* [family_count] chosen families, in the order of `sorted` */
  int family_count;
  ch_ranked_matrix *ranks; /* [list.count] ranks in the order of `sorted`; their `values` have been freed */
} ch_pca;

/* Chooses groups, families and ranks; fails when no choice meets the ratio. `families` and `ranks` have room for
 * list.count. */
ch_status ch_pca_search(ch_pca *pca);
/* Computes the atoms of a family from its part of the projection's Gram matrix. */
ch_status ch_pca_atoms(const ch_pca *pca, const ch_pca_family *family, ch_atoms *atoms);
/* Returns the autocorrelation of a matrix's inputs; NULL without calibration. */
const ch_autocorrelation *ch_pca_inputs(const ch_pca *pca, const ch_matrix *matrix);
/* Reports that a matrix is being examined or written. */
ch_status ch_pca_tell(ch_pca *pca, const char *what);

#endif

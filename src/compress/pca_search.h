/* Chooses the number of groups for Matrix PCA, and for every projection of every group (or for all of them
 * alike) the number of atoms, so that least is lost (MASA, "Matrix Weight-Sharing for Pretrained Models"). */
#ifndef CH_COMPRESS_PCA_SEARCH_H
#define CH_COMPRESS_PCA_SEARCH_H

#include "compress/matrix_atoms.h"
#include "compress/matrix_ranks.h"

/* The matrices of one projection in one group of layers: sorted[first ... first + count - 1]. */
typedef struct ch_pca_family {
  int projection, group, first, count;
  int kept; /* atoms: 1 ... count */
} ch_pca_family;

typedef struct ch_pca {
  const ch_model *model;
  const ch_calibration *calibration; /* or NULL */
  const ch_compress_options *options;
  ch_ranks rule; /* of the residuals; not CH_RANKS_DEFAULT */
  ch_error *error;
  ch_matrices list;
  const ch_matrix **sorted; /* [list.count] by projection, then layer */
  double **grams;           /* [list.name_count] of all matrices of a projection */
  double *weights;          /* [list.count] of each one's squared error in what is lost */
  double *matrix;           /* room for the largest */
  double done, total;       /* matrices looked at */
  /* what is chosen */
  int groups;
  uint16_t spans[CH_MAX_GROUPS][2];
  ch_pca_family *families; /* [family_count], in the order of `sorted` */
  int family_count;
  ch_ranked_matrix *ranks; /* [list.count], as `sorted`; their values are gone */
} ch_pca;

/* Fills what is chosen; fails when no choice meets the ratio. `families` and `ranks` have room for list.count. */
ch_status ch_pca_search(ch_pca *pca);
/* Computes the atoms of a family from its part of the projection's Gram matrix. */
ch_status ch_pca_atoms(const ch_pca *pca, const ch_pca_family *family, ch_atoms *atoms);
const ch_autocorrelation *ch_pca_inputs(const ch_pca *pca, const ch_matrix *matrix);
ch_status ch_pca_tell(ch_pca *pca, const char *what);

#endif

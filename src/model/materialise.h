/* Rewrites a model with other tensors: shared and factored matrices materialised, and what only training
   needs dropped. */
#ifndef CH_MODEL_MATERIALISE_H
#define CH_MODEL_MATERIALISE_H

#include "config/params.h"

typedef enum ch_materialise_for {
  CH_MATERIALISE_INFERENCE, /* coefficients instead of the MLP and block embeddings that compute them */
  /* the form that decodes fastest: sums of atoms and residuals as matrices in the type of their terms. An
     atom that is a layer's matrix is not copied, and low-rank factors remain unless decoding needs their
     product */
  CH_MATERIALISE_SERVING,
  CH_MATERIALISE_DENSE, /* every projection as a separate matrix, computed ones in F32 (or F64) */
  /* for timing only: every projection a matrix, an atom in place of a sum; the results are meaningless */
  CH_MATERIALISE_STAND_IN
} ch_materialise_for;

typedef struct ch_materialised_model {
  ch_config config;
  ch_params params;
  ch_tensor *tensors; /* [params.count], from malloc; data in the given tensors, or in `data` */
  void *data;
  size_t data_bytes;
} ch_materialised_model;

/* Counts the matrices that have a residual added. */
int64_t ch_count_residuals(const ch_params *params);
/* Returns true if materialising the model changes its tensors. */
bool ch_materialise_changes(const ch_config *config, const ch_params *params, ch_materialise_for as);
/* Materialises a model's shared matrices. params, tensors [params->count]: the model's own; they must outlive
   the result. Release it with ch_materialised_model_free. */
ch_status ch_materialise(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                         ch_materialise_for as, ch_materialised_model *materialised, ch_error *error);
void ch_materialised_model_free(ch_materialised_model *materialised);
/* Writes one layer's matrix of a projection, from whatever source, to `matrix`: F32, of its shape, with
   memory. */
ch_status ch_write_projection(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                              int layer, const char *name, const ch_tensor *matrix, ch_error *error);

#endif

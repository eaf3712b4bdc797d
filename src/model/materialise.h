/* Rewrites a model with other tensors: materialises shared and factored matrices, and drops tensors that only training
   needs. */
#ifndef CH_MODEL_MATERIALISE_H
#define CH_MODEL_MATERIALISE_H

#include "config/params.h"

typedef enum ch_materialise_for {
  CH_MATERIALISE_INFERENCE, /* coefficients instead of the MLP and block embeddings that compute them */
  /* the form that decodes fastest: sums of atoms and residuals become matrices in the type of their terms. An atom
     that is a layer's matrix is not copied. Low-rank factors remain unless decoding needs their product */
  CH_MATERIALISE_SERVING,
  CH_MATERIALISE_DENSE, /* every projection as a separate matrix; computed ones are F32 (or F64) */
  /* for timing only: every projection as a matrix, with an atom instead of a sum of atoms; results are meaningless */
  CH_MATERIALISE_STAND_IN
} ch_materialise_for;

typedef struct ch_materialised_model {
  ch_config config;
  ch_params params;
  ch_tensor *tensors; /* [params.count] tensors, whose data belong to the given tensors or are in `data` */
  void *data;         /* memory of computed tensors */
  size_t data_bytes;
} ch_materialised_model;

/* Returns the number of matrices to which a residual is added. */
int64_t ch_count_residuals(const ch_params *params);
/* Returns true if materialising the model changes its tensors. */
bool ch_materialise_changes(const ch_config *config, const ch_params *params, ch_materialise_for as);
/* Materialises a model's shared matrices. params and tensors [params->count] must outlive the result. Release it with
   ch_materialised_model_free. */
ch_status ch_materialise(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                         ch_materialise_for as, ch_materialised_model *materialised, ch_error *error);
void ch_materialised_model_free(ch_materialised_model *materialised);
/* Computes one layer's matrix of a projection from its source. `matrix`: an F32 tensor of its shape, with memory. */
ch_status ch_write_projection(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                              int layer, const char *name, const ch_tensor *matrix, ch_error *error);

#endif

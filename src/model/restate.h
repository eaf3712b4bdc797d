/* The same model out of other tensors: what training alone needs dropped, shared matrices written out. */
#ifndef CH_MODEL_RESTATE_H
#define CH_MODEL_RESTATE_H

#include "config/params.h"

typedef enum ch_form {
  CH_FORM_INFERENCE, /* coefficients in place of the MLP and block embeddings that gave them */
  CH_FORM_SERVING, /* what decodes fastest: sums of atoms and residuals written out in the type of what they are
                        made of; an atom that is a layer's matrix stays where it is; low-rank factors too, unless
                        decoding needs their product */
  CH_FORM_DENSE,   /* every projection a matrix of its own, computed ones in F32 (or F64) */
  CH_FORM_STAND_IN /* to time against: every projection a matrix, an atom in place of a sum; computes nonsense */
} ch_form;

typedef struct ch_restated {
  ch_config config;
  ch_params params;
  ch_tensor *tensors; /* [params.count], from malloc; data in the given tensors, or in `data` */
  void *data;
  size_t data_bytes;
} ch_restated;

/* Matrices that have a residual beside them. */
int64_t ch_count_residuals(const ch_params *params);
/* Whether the form has other tensors than the config says. */
bool ch_form_differs(const ch_config *config, const ch_params *params, ch_form form);
/* params, tensors [params->count]: the model's own; they must outlive the result, which ch_restated_free releases. */
ch_status ch_restate(const ch_config *config, const ch_params *params, const ch_tensor *tensors, ch_form form,
                     ch_restated *restated, ch_error *error);
void ch_restated_free(ch_restated *restated);
/* One layer's matrix of a projection, whatever it is made of, in F32: `matrix` has its shape and the room. */
ch_status ch_write_projection(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                              int layer, const char *name, const ch_tensor *matrix, ch_error *error);

#endif

/* Folds linear modules around a projection into it: knocking heads, head mixing and matrices shared by layers become
   part of the weights. The result is a plainer model that computes the same. */
#ifndef CH_COMPRESS_ABSORB_H
#define CH_COMPRESS_ABSORB_H

#include "infer/model.h"

typedef struct ch_absorb_options {
  bool keep_cache; /* true to leave head mixing alone where folding it would make the cache larger */
} ch_absorb_options;

/* A plainer model that computes the same. Tensors that nothing was folded into are still in the original
   model, which must outlive it. Release with ch_absorbed_free. */
typedef struct ch_absorption {
  ch_config config; /* configuration of the first model type that can express the result */
  ch_params params;
  ch_tensor *tensors;                /* [params.count] */
  unsigned knocked;                  /* CH_ON_ bits of knocking that was folded into projections */
  unsigned knocks_left;              /* CH_ON_ bits of knocking that could not be folded */
  int64_t mixed_layers;              /* layers whose head mixing was folded into projections */
  int64_t mixes_left;                /* layers whose head mixing remains */
  int64_t cache_before, cache_after; /* cache elements per token */
  int64_t shared;                    /* projections that layers shared; each layer has its own matrix now */
  int64_t residuals;                 /* matrices to which a low-rank residual was added */
  ch_materialised_model dense;       /* memory of matrices that were shared or had residuals */
  ch_arena arena;
} ch_absorption;

/* Folds the modules of a model. Errors: a model whose tensors are not plain (ch_model_check_plain) where something has
   to be folded, or CH_ERROR_CONFIG if the result's list of component heads would be too long. */
ch_status ch_absorb(const ch_model *model, const ch_absorb_options *options, ch_absorption *absorbed,
                    ch_error *error);
void ch_absorbed_free(ch_absorption *absorbed);

/* Changes a config of our own model type to a family that other programs load, if one expresses the same model. */
void ch_choose_model_type(ch_config *config);

#endif

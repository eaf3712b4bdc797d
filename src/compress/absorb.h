/* Folds linear modules around a projection into it: knocking heads, head mixing and what layers share become
   part of the weights. The result is a plainer model that computes the same. */
#ifndef CH_COMPRESS_ABSORB_H
#define CH_COMPRESS_ABSORB_H

#include "infer/model.h"

typedef struct ch_absorb_options {
  bool keep_cache; /* leave head mixing alone where folding it would make the cache larger */
} ch_absorb_options;

/* A plainer model that computes the same. Tensors that nothing was folded into are still in the original
   model, which must outlive it. Release with ch_absorbed_free. */
typedef struct ch_absorption {
  ch_config config; /* of the plainest model type that can express it */
  ch_params params;
  ch_tensor *tensors;                /* [params.count] */
  unsigned knocked;                  /* CH_ON_ bits of the knocking that went into projections, */
  unsigned knocks_left;              /* and of what could not */
  int64_t mixed_layers;              /* layers whose head mixing went into projections, */
  int64_t mixes_left;                /* and that keep it */
  int64_t cache_before, cache_after; /* elements per token */
  int64_t shared;                    /* projections that were shared and are matrices of their layers now */
  int64_t residuals;                 /* matrices that absorbed their neighbours */
  ch_materialised_model dense;       /* their memory */
  ch_arena arena;
} ch_absorption;

ch_status ch_absorb(const ch_model *model, const ch_absorb_options *options, ch_absorption *absorbed,
                    ch_error *error);
void ch_absorbed_free(ch_absorption *absorbed);

/* Makes one of our own configs one of a family that other programs load, where such a one says the same. */
void ch_choose_model_type(ch_config *config);

#endif

/* Chooses which of a model's tensors are stored in 16 bits or block-quantised to 8, 6 or 4 bits, and in which
 * type. */
#ifndef CH_COMPRESS_QUANTISE_H
#define CH_COMPRESS_QUANTISE_H

#include "infer/model.h"

/* The result of the choice. */
typedef struct ch_quantised_sizes {
  double before, after; /* bytes of the files' tensors */
  /* in_blocks: matrices in the requested type; fallen_back: matrices in Q8_0 or F16, because rows are not whole blocks;
     left: unchanged matrices */
  int64_t in_blocks, fallen_back, left;
} ch_quantised_sizes;

/* Returns the type of a tensor that is stored as `stored`, by the rule of ch_quantise_types, and counts it in
 * *sizes. */
ch_dtype ch_quantised_type(const ch_param *row, ch_dtype stored, ch_dtype dtype, bool keep_embedding,
                           ch_quantised_sizes *sizes);

/* Fills dtypes [model->params.count]: `dtype` (CH_Q8_0 ... CH_Q6_K, CH_F16 or CH_BF16) for matrices that inference
   reads block-quantised (ch_param). If a row is not a whole number of blocks, the type is Q8_0, or F16 if Q8_0 does
   not divide it either. With `keep_embedding` the embedding and the LM head keep their types, as do all other
   tensors. Fails with CH_ERROR_CONFIG if the model's matrices are composed of parts that layers share, or are
   block-quantised already, because they would be rounded twice. Also fails if no matrix can be quantised. */
ch_status ch_quantise_types(const ch_model *model, ch_dtype dtype, bool keep_embedding, ch_dtype *dtypes,
                            ch_quantised_sizes *sizes, ch_error *error);

#endif

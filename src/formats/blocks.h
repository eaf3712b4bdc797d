/* ggml's element types. Most are block-quantised: blocks of small integers with a scale. */
#ifndef CH_FORMATS_BLOCKS_H
#define CH_FORMATS_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

/* The numbers are those of GGUF files. */
typedef enum ch_block_type {
  CH_BLOCK_F32 = 0,
  CH_BLOCK_F16 = 1,
  CH_BLOCK_Q4_0 = 2,
  CH_BLOCK_Q4_1 = 3,
  CH_BLOCK_Q5_0 = 6,
  CH_BLOCK_Q5_1 = 7,
  CH_BLOCK_Q8_0 = 8,
  CH_BLOCK_Q2_K = 10,
  CH_BLOCK_Q3_K = 11,
  CH_BLOCK_Q4_K = 12,
  CH_BLOCK_Q5_K = 13,
  CH_BLOCK_Q6_K = 14,
  CH_BLOCK_IQ4_NL = 20,
  CH_BLOCK_IQ4_XS = 23,
  CH_BLOCK_BF16 = 30,
  CH_BLOCK_MXFP4 = 39
} ch_block_type;

typedef struct ch_block_format {
  ch_block_type type;
  const char *name;
  int64_t values; /* values per block */
  size_t bytes;   /* bytes per block */
  ch_dtype dtype; /* dtype of tensors that inference reads in place; CH_U8: blocks must be decoded */
  /* function that decodes a block; NULL if inference reads the blocks in place */
  void (*decode)(const unsigned char *block, float *values);
} ch_block_format;

/* Returns the format of a type number of ggml, or NULL for an unsupported type. */
const ch_block_format *ch_block_format_of(uint32_t type);
/* Returns the format of tensors of this dtype, or NULL for integers and F64. */
const ch_block_format *ch_block_format_for(ch_dtype dtype);
/* The names of all formats, for messages: "F32, F16, BF16, ...". */
extern const char ch_block_names[];

/* Decodes `count` values, a multiple of format->values, to F32. `data` need not be aligned. */
void ch_blocks_decode(const ch_block_format *format, const unsigned char *data, int64_t count, float *values);

#endif

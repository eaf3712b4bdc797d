/* The places of a model's tensors in the files of other families: under other names, several in one, or
 * transposed. */
#ifndef CH_IO_TENSOR_LAYOUT_H
#define CH_IO_TENSOR_LAYOUT_H

#include "config/config.h"
#include "config/params.h"
#include "io/tensor_names.h"

/* The place of a tensor: rows [first, first + its own) of a tensor [rows, ...], or those columns of a tensor
   [..., rows]. A vector is one column. */
typedef struct ch_tensor_place {
  char name[CH_TENSOR_NAME_SIZE];
  int64_t first, rows;
  bool transposed;
  int64_t step; /* distance between two of those columns; 0: adjacent */
  /* the tensor is the expert's of one of all experts, [experts, ...]; 0: it is not */
  int64_t experts, expert;
  bool plus_one; /* the file has the differences from 1 */
  /* of 32 values each in MXFP4, where that is what the file holds: rows, as they are multiplied */
  const void *scales;
} ch_tensor_place;

/* Finds the place of a row of the parameter table in files of config->layout. Returns false if it has the
   row's own name and shape. */
bool ch_tensor_place_of(const ch_config *config, const ch_param *param, ch_tensor_place *place);
/* Returns true if files of config->layout hold a tensor that no model reads: GPT-2's masks. */
bool ch_tensor_is_ballast(const ch_config *config, const char *name);

#endif

/* The places of a model's tensors in the files of other families, which have other names, transposed tensors, or
 * several tensors in one. */
#ifndef CH_IO_TENSOR_LAYOUT_H
#define CH_IO_TENSOR_LAYOUT_H

#include "config/config.h"
#include "config/params.h"
#include "io/tensor_names.h"

/* The place of a tensor with n rows: rows [first, first + n) of a tensor [rows, ...] of the file, or the columns with
   these numbers of a transposed tensor [..., rows]. A vector is one column. */
typedef struct ch_tensor_place {
  char name[CH_TENSOR_NAME_SIZE];
  int64_t first, rows;
  bool transposed;
  int64_t step; /* distance between two columns of a transposed tensor, or two rows of MXFP4; 0: adjacent */
  /* experts: number of experts in a tensor [experts, ...] of the file, 0 if the tensor is of no or one expert;
     expert: index of the tensor's expert */
  int64_t experts, expert;
  bool plus_one;      /* true if the file has the differences from 1 */
  const void *scales; /* MXFP4: scales of every 32 values, row by row; else NULL */
} ch_tensor_place;

/* Finds the place of a row of the parameter table in files of config->layout. Returns false if the file's tensor has
   the row's own name and shape. */
bool ch_tensor_place_of(const ch_config *config, const ch_param *param, ch_tensor_place *place);
/* Returns true for a tensor in files of config->layout that no model reads: GPT-2's masks. */
bool ch_tensor_is_ballast(const ch_config *config, const char *name);

#endif

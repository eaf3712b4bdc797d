/* Bounds on the speed of a model on a machine with given limits. bench/limits.h measures the limits. */
#ifndef CH_BENCH_SPEED_LIMITS_H
#define CH_BENCH_SPEED_LIMITS_H

#include <crosshead/bench.h>

#include "infer/model.h"

/* Returns the peak rate of arithmetic for a type: of BF16 dot products for BF16 and of integer dot products
 * for block-quantised types, if the machine has them and they are faster; otherwise of F32 multiply-adds.
 * *name (may be NULL) receives "F32", "BF16" or "INT8". */
double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name);
/* Returns the least time for so many FLOPs on values of a type and so many bytes from memory. */
double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes);

/* Bytes of the matrices that a decoding step of so many sequences reads (ch_speed_matrices). */
double ch_speed_matrix_bytes(const ch_model *model, int64_t sequences);
/* Returns the type of most elements of the matrices. */
ch_dtype ch_matrix_type(const ch_model *model);

#endif

/* Bounds on the speed of a model on a machine with given limits. bench/limits.h measures the limits. */
#ifndef CH_BENCH_SPEED_LIMITS_H
#define CH_BENCH_SPEED_LIMITS_H

#include <crosshead/bench.h>

#include "infer/model.h"

/* Returns the peak rate of arithmetic for a type, in operations per second: of BF16 dot products for BF16 if they are
   faster than F32, of integer dot products for block-quantised types if the machine has them, else of F32
   multiply-adds. *name (may be NULL) receives "BF16", "INT8" or "F32". */
double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name);
/* Returns the shortest possible time, in seconds, for `flops` FLOPs on values of a type and for reading `bytes` bytes
   from memory. */
double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes);

/* Returns the bytes of matrices that a decoding step of `sequences` sequences reads (ch_speed_matrices). */
double ch_speed_matrix_bytes(const ch_model *model, int64_t sequences);
/* Returns the most common element type of the matrices. */
ch_dtype ch_matrix_type(const ch_model *model);

#endif

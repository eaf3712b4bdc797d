/* oneDNN's matmul with B packed at every call into the layout that the library prefers. bench_gemm compares it with
 * other products. */
#ifndef BENCH_PACKED_H
#define BENCH_PACKED_H

#include "tensor/gemm_library.h"

typedef struct ch_packed ch_packed;

ch_packed *ch_packed_create(void);
void ch_packed_free(ch_packed *packed);
/* Forgets the prepared shape, so that the next product may have another one. */
void ch_packed_forget(ch_packed *packed);
/* Computes C = op(A) op(B), or adds to C. The first call prepares the shape; until ch_packed_forget all calls must
   have that shape. Returns false if oneDNN fails. */
bool ch_packed_run(ch_packed *packed, const ch_gemm_shape *shape, float *a, float *b, float *c);

#endif

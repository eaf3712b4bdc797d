/* oneDNN's matmul with B in the layout of the library's choice, packed at every call: to compare with the others. */
#ifndef BENCH_PACKED_H
#define BENCH_PACKED_H

#include "tensor/gemm_library.h"

typedef struct ch_packed ch_packed;

ch_packed *ch_packed_create(void);
void ch_packed_free(ch_packed *packed);
/* Forgets the shape that was prepared. */
void ch_packed_forget(ch_packed *packed);
/* C = op(A) op(B), preparing the shape at the first call; false when the library refuses. */
bool ch_packed_run(ch_packed *packed, const ch_gemm_shape *shape, float *a, float *b, float *c);

#endif

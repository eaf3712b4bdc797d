/* What this machine can do at most, measured: the yardsticks of the benchmarks. */
#ifndef CH_TENSOR_LIMITS_H
#define CH_TENSOR_LIMITS_H

#include <stdint.h>

/* Fused multiply-adds of F32 vectors in registers on all OpenMP threads, best of several short runs: FLOP/s (two per
   multiply-add) of the widest instruction set this processor has. */
double ch_measure_fma_peak_f32(void);

/* The same for sums of two products of BF16 (vdpbf16ps) and of four of 8-bit integers (vpdpbusd), as 512-bit vectors: FLOP/s, or
   integer operations a second, two per product; 0 where the processor or the instruction set in use (CROSSHEAD_ISA) has none. */
double ch_measure_dot_peak_bf16(void);
double ch_measure_dot_peak_int8(void);

/* Reading memory that is far larger than the caches on all OpenMP threads, best of several passes: bytes/s; 0 when
   memory for it is out. */
double ch_measure_read_bandwidth(void);
/* Reading again and again what fits into every core's second cache, or into the third and not into the second: bytes/s of
   all threads; 0 where the system does not say how large the caches are. */
double ch_measure_read_bandwidth_l2(void);
double ch_measure_read_bandwidth_l3(void);

/* The same as it is at a moment: memory for it, and one pass of a few hundredths of a second. `data` is NULL when memory
   is out; rates are 0 then. */
typedef struct ch_read_probe {
  float *data;
  int64_t count;
} ch_read_probe;

ch_read_probe ch_read_probe_open(void);
double ch_read_probe_rate(const ch_read_probe *probe);
void ch_read_probe_close(ch_read_probe *probe);

#endif

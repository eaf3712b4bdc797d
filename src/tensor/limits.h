/* What this machine can do at most, measured: the yardsticks of the benchmarks. */
#ifndef CH_TENSOR_LIMITS_H
#define CH_TENSOR_LIMITS_H

/* Fused multiply-adds of F32 vectors in registers on all OpenMP threads, best of several short runs: FLOP/s (two per
   multiply-add) of the widest instruction set this processor has. */
double ch_measure_fma_peak_f32(void);

/* Reading memory that is far larger than the caches on all OpenMP threads, best of several passes: bytes/s; 0 when
   memory for it is out. */
double ch_measure_read_bandwidth(void);

#endif

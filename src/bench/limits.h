/* The limits of this machine, measured: what benchmarks compare with. */
#ifndef CH_BENCH_LIMITS_H
#define CH_BENCH_LIMITS_H

#include <stdint.h>

/* Which of several short runs counts: the best, which is what the machine can do, or the median, which is
   what it does now, next to other programs. */
typedef enum ch_limit_kind { CH_LIMIT_BEST, CH_LIMIT_USUAL } ch_limit_kind;

/* FLOP/s (two per multiply-add) of F32 fused multiply-adds in registers, with the widest instruction set in
   use, on all OpenMP threads. */
double ch_measure_fma_peak_f32(ch_limit_kind kind);

/* Like ch_measure_fma_peak_f32, for BF16 dot products (vdpbf16ps) and dot products of 8-bit integers
   (vpdpbusd) on 512-bit vectors: FLOP/s, or integer operations per second, two per product. 0 where the
   processor or the instruction set in use (CROSSHEAD_ISA) has none. */
double ch_measure_dot_peak_bf16(ch_limit_kind kind);
double ch_measure_dot_peak_int8(ch_limit_kind kind);

/* Read bandwidth of memory far larger than the caches, on all OpenMP threads, in bytes per second; 0 when
   memory for it is out. */
double ch_measure_read_bandwidth(ch_limit_kind kind);
/* Read bandwidth of data that fits into every core's L2, or into the L3 and not into the L2, on all threads,
   in bytes per second, the best of several runs. 0 where the system does not say how large the caches are. */
double ch_measure_read_bandwidth_l2(void);
double ch_measure_read_bandwidth_l3(void);
/* Read bandwidth of so many bytes, which all threads read again and again, each its own part. */
double ch_measure_read_bandwidth_of(int64_t bytes, ch_limit_kind kind);

/* Read bandwidth of memory at one moment: one pass of a few hundredths of a second. `data` is NULL when
   memory is out; rates are 0 then. */
typedef struct ch_read_probe {
  float *data;
  int64_t count;
} ch_read_probe;

ch_read_probe ch_read_probe_open(void);
double ch_read_probe_rate(const ch_read_probe *probe);
void ch_read_probe_close(ch_read_probe *probe);

#endif

/* The limits of this machine, measured: what benchmarks compare with. */
#ifndef CH_BENCH_LIMITS_H
#define CH_BENCH_LIMITS_H

#include <stdint.h>

/* The one of several short runs that counts: the best shows what the machine can do, the median what it does
   now, next to other programs. */
typedef enum ch_limit_kind { CH_LIMIT_BEST, CH_LIMIT_USUAL } ch_limit_kind;

/* Measures F32 fused multiply-adds in registers: FLOP/s (two per multiply-add) with the widest instruction
 * set in use, on all OpenMP threads. */
double ch_measure_fma_peak_f32(ch_limit_kind kind);

/* Measure BF16 dot products (vdpbf16ps) and dot products of 8-bit integers (vpdpbusd) on 512-bit vectors:
 * FLOP/s, or integer operations per second, two per product. 0 if the processor or the instruction set in use
 * (CROSSHEAD_ISA) has none. */
double ch_measure_dot_peak_bf16(ch_limit_kind kind);
double ch_measure_dot_peak_int8(ch_limit_kind kind);

/* Measures the read bandwidth of memory far larger than the caches, on all OpenMP threads, in bytes per
 * second; 0 when out of memory. */
double ch_measure_read_bandwidth(ch_limit_kind kind);
/* Measure the read bandwidth of data that fits into every core's L2, or into the L3 and not into the L2, on
 * all threads, in bytes per second, the best of several runs. 0 if the system does not report the sizes of
 * the caches. */
double ch_measure_read_bandwidth_l2(void);
double ch_measure_read_bandwidth_l3(void);
/* Measures the read bandwidth of so many bytes that all threads read repeatedly, each its own part. */
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

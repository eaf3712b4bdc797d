/* Measures the limits of this machine, with which benchmarks compare. */
#ifndef CH_BENCH_LIMITS_H
#define CH_BENCH_LIMITS_H

#include <stdint.h>

/* Selects one of several short runs: the best one, which shows the machine's capability, or the median, which includes
   the effect of other programs. */
typedef enum ch_limit_kind { CH_LIMIT_BEST, CH_LIMIT_USUAL } ch_limit_kind;

/* Measures F32 fused multiply-adds in registers, with the widest instruction set in use, on all OpenMP threads. Returns
   FLOP/s, two per multiply-add. */
double ch_measure_fma_peak_f32(ch_limit_kind kind);

/* Measures BF16 dot products (vdpbf16ps) on 512-bit vectors. Returns FLOP/s, two per product, or 0 if the processor or
   the instruction set in use (CROSSHEAD_ISA) has none. */
double ch_measure_dot_peak_bf16(ch_limit_kind kind);
/* Like ch_measure_dot_peak_bf16, for dot products of 8-bit integers (vpdpbusd). Returns integer operations per
   second. */
double ch_measure_dot_peak_int8(ch_limit_kind kind);

/* Measures the read bandwidth of memory far larger than the caches, on all OpenMP threads, in bytes per second; 0 if
   out of memory. */
double ch_measure_read_bandwidth(ch_limit_kind kind);
/* Measures the read bandwidth of data that fits into every core's L2, on all threads, in bytes per second: the best of
   several runs. Returns 0 if the system does not report the sizes of the caches. */
double ch_measure_read_bandwidth_l2(void);
/* Like ch_measure_read_bandwidth_l2, for data that fits into the L3 but not into the L2. Also returns 0 if a thread's
   share of the L3 is less than twice its share of the L2. */
double ch_measure_read_bandwidth_l3(void);
/* Measures the read bandwidth of `bytes` bytes that all threads read repeatedly, each its own part. Returns bytes per
   second. */
double ch_measure_read_bandwidth_of(int64_t bytes, ch_limit_kind kind);

/* A measurement of the read bandwidth of memory at one moment: one pass of a few hundredths of a second. */
typedef struct ch_read_probe {
  float *data;   /* NULL if out of memory; the rate is then 0 */
  int64_t count; /* number of floats in `data` */
} ch_read_probe;

ch_read_probe ch_read_probe_open(void);
/* Returns bytes per second of one pass. */
double ch_read_probe_rate(const ch_read_probe *probe);
void ch_read_probe_close(ch_read_probe *probe);

#endif

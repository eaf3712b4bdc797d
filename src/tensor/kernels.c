/* Choosing a kernel table: what was built, what this processor runs, what CROSSHEAD_ISA allows. */
#include "tensor/kernels.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#ifdef CH_HAVE_KERNELS_f64
extern const ch_kernels ch_kernel_table_f64;
#endif
#ifdef CH_HAVE_KERNELS_f32
extern const ch_kernels ch_kernel_table_f32;
#endif
#ifdef CH_HAVE_KERNELS_f32_avx2
extern const ch_kernels ch_kernel_table_f32_avx2;
#endif
#ifdef CH_HAVE_KERNELS_f32_avx512
extern const ch_kernels ch_kernel_table_f32_avx512;
#endif
#ifdef CH_HAVE_KERNELS_f32_avx512_vnni
extern const ch_kernels ch_kernel_table_f32_avx512_vnni;
#endif
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
extern const ch_kernels ch_kernel_table_f32_avx512_bf16;
#endif

/* The built-in also asks whether the operating system keeps the registers. Every processor with AVX2 and FMA
   has the rest of x86-64-v3 that compilers use (F16C, BMI, LZCNT, MOVBE). */
#ifdef CH_HAVE_KERNELS_f32_avx2
static bool have_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
#endif

#ifdef CH_HAVE_KERNELS_f32_avx512
static bool have_avx512(void) {
  return have_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

#ifdef CH_HAVE_KERNELS_f32_avx512_vnni
static bool have_avx512_vnni(void) {
  return have_avx512() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
}
#endif

#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
static bool have_avx512_bf16(void) {
  return have_avx512_vnni() && __builtin_cpu_supports("avx512bf16");
}
#endif

const ch_kernels *ch_kernels_for(ch_dtype dtype, ch_isa isa) {
  if (dtype == CH_F64) return isa == CH_ISA_PLAIN ? &ch_kernel_table_f64 : NULL;
  if (dtype != CH_F32) return NULL;
  switch (isa) {
  case CH_ISA_PLAIN:
    return &ch_kernel_table_f32;
  case CH_ISA_AVX2:
#ifdef CH_HAVE_KERNELS_f32_avx2
    return have_avx2() ? &ch_kernel_table_f32_avx2 : NULL;
#else
    return NULL;
#endif
  case CH_ISA_AVX512:
#ifdef CH_HAVE_KERNELS_f32_avx512
    return have_avx512() ? &ch_kernel_table_f32_avx512 : NULL;
#else
    return NULL;
#endif
  case CH_ISA_AVX512_VNNI:
#ifdef CH_HAVE_KERNELS_f32_avx512_vnni
    return have_avx512_vnni() ? &ch_kernel_table_f32_avx512_vnni : NULL;
#else
    return NULL;
#endif
  case CH_ISA_AVX512_BF16:
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
    return have_avx512_bf16() ? &ch_kernel_table_f32_avx512_bf16 : NULL;
#else
    return NULL;
#endif
  case CH_ISA_COUNT:
    break;
  }
  return NULL;
}

/* Multiplying pairs of BF16 is an Intel core's slower way. */
static ch_isa isa_unasked(void) {
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
  if (__builtin_cpu_is("intel")) return CH_ISA_AVX512_VNNI;
#endif
  return CH_ISA_COUNT - 1;
}

/* The highest instruction set that the environment names; an unknown name is none. */
static ch_isa isa_limit(void) {
  static const char *const names[CH_ISA_COUNT] = {"plain", "avx2", "avx512", "avx512_vnni", "avx512_bf16"};
  const char *wanted = getenv("CROSSHEAD_ISA");
  for (int isa = 0; wanted && isa < CH_ISA_COUNT; isa++)
    if (strcmp(wanted, names[isa]) == 0) return (ch_isa)isa;
  return isa_unasked();
}

const ch_kernels *ch_kernels_best(ch_dtype dtype) {
  for (int isa = (int)isa_limit(); isa >= 0; isa--) {
    const ch_kernels *kernels = ch_kernels_for(dtype, (ch_isa)isa);
    if (kernels) return kernels;
  }
  return NULL;
}

int ch_threads(void) {
  return omp_get_max_threads();
}

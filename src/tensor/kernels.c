/* Chooses a kernel table among those of this build that the processor runs and CROSSHEAD_ISA allows. */
#include "tensor/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const ch_kernels ch_kernel_table_f64;
extern const ch_kernels ch_kernel_table_f32;

static bool have_plain(void) {
  return true;
}

/* A build has all variants for x86-64 or none (kernels/variants.cmake). */
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
extern const ch_kernels ch_kernel_table_f32_avx2;
extern const ch_kernels ch_kernel_table_f32_avx512;
extern const ch_kernels ch_kernel_table_f32_avx512_vnni;
extern const ch_kernels ch_kernel_table_f32_avx512_bf16;

/* Returns true if the processor has AVX2, FMA and BMI and the operating system saves their registers. Every
   such processor has the rest of x86-64-v3 that compilers use (F16C, LZCNT, MOVBE). */
static bool have_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}

static bool have_avx512(void) {
  return have_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

static bool have_avx512_vnni(void) {
  return have_avx512() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
}

static bool have_avx512_bf16(void) {
  return have_avx512_vnni() && __builtin_cpu_supports("avx512bf16");
}
#endif

/* The F32 tables of this build by instruction set, with their names in CROSSHEAD_ISA. */
typedef struct isa_entry {
  const char *name;
  const ch_kernels *table; /* NULL if the build has none */
  bool (*is_supported)(void);
} isa_entry;

static const isa_entry isas[CH_ISA_COUNT] = {
    [CH_ISA_PLAIN] = {"plain", &ch_kernel_table_f32, have_plain},
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
    [CH_ISA_AVX2] = {"avx2", &ch_kernel_table_f32_avx2, have_avx2},
    [CH_ISA_AVX512] = {"avx512", &ch_kernel_table_f32_avx512, have_avx512},
    [CH_ISA_AVX512_VNNI] = {"avx512_vnni", &ch_kernel_table_f32_avx512_vnni, have_avx512_vnni},
    [CH_ISA_AVX512_BF16] = {"avx512_bf16", &ch_kernel_table_f32_avx512_bf16, have_avx512_bf16},
#else
    [CH_ISA_AVX2] = {.name = "avx2"},
    [CH_ISA_AVX512] = {.name = "avx512"},
    [CH_ISA_AVX512_VNNI] = {.name = "avx512_vnni"},
    [CH_ISA_AVX512_BF16] = {.name = "avx512_bf16"},
#endif
};

const ch_kernels *ch_kernels_for(ch_dtype dtype, ch_isa isa) {
  if (dtype == CH_F64) return isa == CH_ISA_PLAIN ? &ch_kernel_table_f64 : NULL;
  if (dtype != CH_F32 || (int)isa < 0 || isa >= CH_ISA_COUNT) return NULL;
  return isas[isa].table && isas[isa].is_supported() ? isas[isa].table : NULL;
}

/* Properties of a processor that do not follow from its instruction sets. */
typedef struct core_properties {
  bool has_fast_bf16_dot; /* true if BF16 dot products are faster than F32 multiply-adds */
} core_properties;

/* Returns the properties of this processor's cores. CPUID has no bits for the speed of instructions, so the vendor
   decides: Intel's cores start a BF16 dot instruction every other cycle, but two F32 multiply-adds every cycle. F32
   thus computes twice as many products. */
static core_properties find_core_properties(void) {
  core_properties core = {.has_fast_bf16_dot = true};
#ifdef CH_HAVE_KERNELS_f32_avx512_bf16
  core.has_fast_bf16_dot = !__builtin_cpu_is("intel");
#endif
  return core;
}

static const char variable[] = "CROSSHEAD_ISA";

ch_status ch_kernels_check(ch_error *error) {
  const char *wanted = getenv(variable);
  char names[96] = "";
  size_t used = 0;
  if (!wanted) return CH_OK;
  for (int isa = 0; isa < CH_ISA_COUNT; isa++) {
    if (!ch_kernels_for(CH_F32, (ch_isa)isa)) continue;
    if (strcmp(wanted, isas[isa].name) == 0) return CH_OK;
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", isas[isa].name);
  }
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s is '%.40s', which is not an instruction set of this machine; unset it, or choose from: %s",
      variable, wanted, names);
}

/* Returns the highest instruction set that the environment variable allows. An unknown name counts as no name;
   ch_kernels_check refuses it. */
static ch_isa isa_limit(void) {
  const char *wanted = getenv(variable);
  for (int isa = 0; wanted && isa < CH_ISA_COUNT; isa++)
    if (strcmp(wanted, isas[isa].name) == 0) return (ch_isa)isa;
  /* Without a name, the limit is the highest instruction set that makes this processor faster. */
  const core_properties core = find_core_properties();
  return core.has_fast_bf16_dot ? CH_ISA_AVX512_BF16 : CH_ISA_AVX512_VNNI;
}

const ch_kernels *ch_kernels_best(ch_dtype dtype) {
  for (int isa = (int)isa_limit(); isa >= 0; isa--) {
    const ch_kernels *kernels = ch_kernels_for(dtype, (ch_isa)isa);
    if (kernels) return kernels;
  }
  return NULL;
}

const ch_kernels *ch_kernels_of_engines(ch_dtype dtype) {
  return ch_kernels_best(dtype);
}

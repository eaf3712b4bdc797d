/* The variant's table: each kernel of the list is the variant's own, inherited from its base, or NULL. */
#include "tensor/kernels/vector/variant.h"

/* The source of a kernel of each origin (kernel_list.h). A variant without a base inherits from itself. */
#define FROM_COMMON(name) INHERITED(name)
#ifdef __AVX512VNNI__
#define FROM_OWN_BYTE_DOT(name) KERNEL(name)
#else
#define FROM_OWN_BYTE_DOT(name) INHERITED(name)
#endif
#ifdef __AVX512BF16__
#define FROM_OWN_BF16_DOT(name) KERNEL(name)
#define FROM_ONLY_BF16_DOT(name) KERNEL(name)
#else
#define FROM_OWN_BF16_DOT(name) INHERITED(name)
#define FROM_ONLY_BF16_DOT(name) NULL
#endif
#ifdef CH_SPLIT_BF16_WEIGHTS
#define FROM_ONLY_SPLIT_BF16(name) KERNEL(name)
#else
#define FROM_ONLY_SPLIT_BF16(name) NULL
#endif

const ch_kernels KERNEL(table) = {
    .name = CH_KERNEL_TYPE_NAME " " CH_KERNEL_ISA_NAME,
    .dtype = CH_KERNEL_DTYPE,
    .memory = &ch_host_memory,
#ifdef __AVX512VNNI__
    .multiplies_bytes = true,
#endif
#define CH_KERNEL(origin, result, name, parameters) .name = FROM_##origin(name),
#include "tensor/kernel_list.h"
};

# The variants of the kernels: which instruction set and which tuning each is compiled for, and which files it consists of.
#
# A variant without a base is made of every file here and in the subfolders. A variant with a base names its files and inherits all
# other kernels from its base (tensor/kernel_list.h says which). The name of a file decides nothing.
#
#   kernel_flags_VARIANT    the instruction set and the element type
#   kernel_base_VARIANT     the variant from which it inherits
#   kernel_tuning_VARIANT   choices that the instruction set does not imply (below)
#   kernel_files_VARIANT    the files of a variant with a base
#
# The choices:
#
#   CH_PREFETCH_TWO_STEPS   prefetch a line into L2 when it is far ahead, and into L1 when it is near. This suits cores whose L1 can wait for
#                           few lines at a time. Without it, lines are prefetched into L1 at once.
#   CH_SPLIT_BF16_WEIGHTS   skinny GEMMs split a vector of BF16 weights into two of F32 (gemv_split.c). This suits cores that compute F32
#                           multiply-adds at least as fast as BF16 dot products.
set(kernel_variants f64 f32)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CROSSHEAD_FUZZ) # parsers are fuzzed, not kernels
  list(APPEND kernel_variants f32_avx2 f32_avx512 f32_avx512_vnni f32_avx512_bf16)
endif()

# f64: the reference of the tests, which need not be fast; -O1 compiles it in half the time. f32: any processor.
set(kernel_flags_f64 -DCH_KERNEL_F64 -O1)
set(kernel_flags_f32 "")

set(kernel_flags_f32_avx2 -march=x86-64-v3 -mtune=generic)

set(kernel_flags_f32_avx512 -march=x86-64-v4 -mtune=generic -mprefer-vector-width=512)
set(kernel_tuning_f32_avx512 CH_PREFETCH_TWO_STEPS)

# Cores with byte dot products, whose BF16 dot products are missing or slower than F32.
set(kernel_flags_f32_avx512_vnni ${kernel_flags_f32_avx512} -mavx512vnni -mavx512vbmi)
set(kernel_base_f32_avx512_vnni f32_avx512)
set(kernel_tuning_f32_avx512_vnni CH_PREFETCH_TWO_STEPS CH_SPLIT_BF16_WEIGHTS)
set(kernel_files_f32_avx512_vnni
  products/gemm_blocks_vnni.c
  products/gemv_blocks_vnni.c
  products/gemv_split.c
  variant_table.c)

# Cores with fast BF16 dot products: attention over BF16 states, skinny GEMMs, packing.
set(kernel_flags_f32_avx512_bf16 ${kernel_flags_f32_avx512} -mavx512vnni -mavx512vbmi -mavx512bf16)
set(kernel_base_f32_avx512_bf16 f32_avx512)
set(kernel_files_f32_avx512_bf16
  attention/attend_backward.c
  attention/attend_backward_panel.c
  attention/attend_bf16_dot.c
  attention/attend_dots.c
  attention/attend_forward.c
  attention/attend_gqa_decode.c
  attention/attend_gqa_decode_sums.c
  attention/attend_mha_decode.c
  attention/attend_panel.c
  attention/attend_split_kv.c
  products/gemm_blocks_vnni.c
  products/gemv_bf16.c
  products/gemv_blocks_vnni.c
  products/pack_bf16.c
  products/tile_product.c
  variant_table.c)

file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
foreach(variant ${kernel_variants})
  if(kernel_base_${variant})
    list(TRANSFORM kernel_files_${variant} PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
    list(APPEND kernel_tuning_${variant} CH_KERNEL_BASE=${kernel_base_${variant}})
  else()
    set(kernel_files_${variant} ${kernel_files})
  endif()
endforeach()

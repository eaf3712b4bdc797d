/* Skinny GEMM: y = x W^T for few rows of x, at memory speed. */
#include "tensor/kernels/products/skinny_gemm.h"

static void gemv_some(const skinny_call *call, ch_dtype weight_dtype, int64_t first, int64_t last) {
  if (weight_dtype == CH_F16)
    skinny_range(SKINNY_F16, call, first, last);
  else if (weight_dtype == CH_BF16)
    skinny_range(SKINNY_BF16, call, first, last);
  else
    skinny_range(SKINNY_REAL, call, first, last);
}

static void gemv_range(const skinny_call *call, ch_dtype weight_dtype, const ch_product *products,
                       int64_t first, int64_t last) {
  for (product_part part; take_part(products, 1, &first, last, &part);) {
    const skinny_call own = skinny_call_of(call, part.product);
    skinny_prefetch_after(call, &part);
    gemv_some(&own, weight_dtype, part.first, part.last);
  }
}

void KERNEL(gemv)(const ch_team *team, int64_t rows, int64_t in, const void *x, ch_dtype weight_dtype,
                  int count, const ch_product *products, bool accumulate) {
  const skinny_call call = {.rows = rows,
                            .in = in,
                            .x = x,
                            .x_bytes = (size_t)in * sizeof(real),
                            .weight_bytes = (size_t)in * ch_dtype_size(weight_dtype),
                            .accumulate = accumulate};
  FOR_RANGE(units_of_products(count, products, 1), share_products(rows, in, count, products),
            gemv_range(&call, weight_dtype, products, first, last));
}

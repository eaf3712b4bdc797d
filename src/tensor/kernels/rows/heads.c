/* Rows seen as heads: mixing them linearly, and copying or adding slices of them. */
#include "tensor/kernels/vector/narrow.h"
#include "tensor/kernels/vector/stored_states.h"
#include "tensor/kernels/vector/partials.h"

enum { MIXED_TOGETHER = 4 };

/* A mix of heads: a row's output head g is the sum over j of mix[g * mix_row + j * mix_column] times input head
   j. */
typedef struct mix_call {
  int64_t in_heads, out_heads, dim, mix_row, mix_column;
  const real *mix, *x;
  real *y;
  bool accumulate;
} mix_call;

/* Computes one vector of each of `heads` output heads from g on. The heads share each loaded vector of x. */
ALWAYS_INLINE void mix_vector(const mix_call *c, const int heads, int64_t g, const real *x, real *y) {
  vec sum[MIXED_TOGETHER];
  for (int k = 0; k < heads; k++) sum[k] = c->accumulate ? load(y + k * c->dim) : splat(0);
  for (int64_t j = 0; j < c->in_heads; j++) {
    vec in = load(x + j * c->dim);
    const real *mix = c->mix + g * c->mix_row + j * c->mix_column;
    for (int k = 0; k < heads; k++) sum[k] = vec_fma(splat(mix[k * c->mix_row]), in, sum[k]);
  }
  for (int k = 0; k < heads; k++) store(y + k * c->dim, sum[k]);
}

/* Mixes rows first … last-1 if heads are whole vectors. */
static void mix_whole_rows(const mix_call *c, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; r++) {
    const real *x = c->x + r * c->in_heads * c->dim;
    real *y = c->y + r * c->out_heads * c->dim;
    for (int64_t i = 0; i < c->dim; i += VL) {
      int64_t g = 0;
      for (; g + MIXED_TOGETHER <= c->out_heads; g += MIXED_TOGETHER)
        mix_vector(c, MIXED_TOGETHER, g, x + i, y + g * c->dim + i);
      for (; g < c->out_heads; g++) mix_vector(c, 1, g, x + i, y + g * c->dim + i);
    }
  }
}

static void mix_rows(const mix_call *c, int64_t first, int64_t last) {
  if (c->dim % VL == 0) {
    mix_whole_rows(c, first, last);
    return;
  }
  for (int64_t r = first; r < last; r++) {
    const real *x = c->x + r * c->in_heads * c->dim;
    real *y = c->y + r * c->out_heads * c->dim;
    for (int64_t g = 0; g < c->out_heads; g++)
      for (int64_t i = 0; i < c->dim; i += VL) {
        int64_t left = c->dim - i;
        vec sum = c->accumulate ? load_some(y + g * c->dim + i, left) : splat(0);
        for (int64_t j = 0; j < c->in_heads; j++)
          sum = vec_fma(splat(c->mix[g * c->mix_row + j * c->mix_column]),
                        load_some(x + j * c->dim + i, left), sum);
        store_some(y + g * c->dim + i, sum, left);
      }
  }
}

void KERNEL(head_mix)(const ch_team *team, int64_t rows, int64_t in_heads, int64_t out_heads, int64_t dim,
                      const void *mix, int64_t mix_row, int64_t mix_column, const void *x, void *y,
                      bool accumulate) {
  const mix_call call = {in_heads, out_heads, dim, mix_row, mix_column, mix, x, y, accumulate};
  FOR_RANGE(rows, rows > 1 && rows * out_heads * in_heads * dim >= CH_PARALLEL_ELEMENTS,
            mix_rows(&call, first, last));
}

/* Adds one thread's part of dmix [out_heads, in_heads] += sum over rows of dy[g] . x[j]. */
static void mix_products(int64_t first, int64_t last, int64_t in_heads, int64_t out_heads, int64_t dim,
                         const real *x, const real *dy, real *partial) {
  for (int64_t r = first; r < last; r++)
    for (int64_t g = 0; g < out_heads; g++)
      for (int64_t j = 0; j < in_heads; j++) {
        const real *d = dy + (r * out_heads + g) * dim, *in = x + (r * in_heads + j) * dim;
        vec sum = splat(0);
        for (int64_t i = 0; i < dim; i += VL)
          sum = vec_fma(load_some(d + i, dim - i), load_some(in + i, dim - i), sum);
        partial[g * in_heads + j] += lanes_sum(sum);
      }
}

void KERNEL(head_mix_gradient)(const ch_team *team, int64_t rows, int64_t in_heads, int64_t out_heads,
                               int64_t dim, const void *x, const void *dy, void *dmix, bool accumulate,
                               void *scratch) {
  int64_t n = in_heads * out_heads;
  const int threads = parts_of_team(team, rows * n * dim >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(team->workers) if (threads > 1)
  {
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(rows, thread, threads, &first, &last);
      real *partial = (real *)scratch + thread * n;
      memset(partial, 0, (size_t)n * sizeof(real));
      mix_products(first, last, in_heads, out_heads, dim, x, dy, partial);
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(n, thread, threads, &first, &last);
      sum_partials(threads, n, scratch, first, last, dmix, accumulate);
    }
  }
}

/* Copies or adds the slices of all heads of rows first ... last - 1 from one layout to another. */
ALWAYS_INLINE void copy_slices(const ch_dtype dtype, const bool accumulate, const ch_head_slices *from,
                               const ch_head_slices *to, int64_t first, int64_t last, int64_t heads,
                               int64_t width) {
  for (int64_t r = first; r < last; r++)
    for (int64_t h = 0; h < heads; h++) {
      const char *x = (const char *)from->data + (r * from->row + h * from->head) * state_size(dtype);
      real *y = (real *)to->data + r * to->row + h * to->head;
      int64_t i = 0;
      fetch(x + CH_FETCH_AHEAD, width * state_size(dtype));
      for (; i + VL <= width; i += VL) {
        vec v = load_state(dtype, x, i, VL);
        store(y + i, accumulate ? v + load(y + i) : v);
      }
      if (i == width) continue;
      vec v = dtype == CH_KERNEL_DTYPE ? load_narrow((const real *)(const void *)x + i, width - i)
                                       : load_state(dtype, x, i, width - i);
      store_narrow(y + i, accumulate ? v + load_narrow(y + i, width - i) : v, width - i);
    }
}

static void copy_rows(ch_dtype dtype, bool accumulate, const ch_head_slices *from, const ch_head_slices *to,
                      int64_t first, int64_t last, int64_t heads, int64_t width) {
  if (dtype == CH_F16)
    copy_slices(CH_F16, accumulate, from, to, first, last, heads, width);
  else if (dtype == CH_BF16)
    copy_slices(CH_BF16, accumulate, from, to, first, last, heads, width);
  else if (accumulate)
    copy_slices(CH_KERNEL_DTYPE, true, from, to, first, last, heads, width);
  else
    copy_slices(CH_KERNEL_DTYPE, false, from, to, first, last, heads, width);
}

void KERNEL(copy_heads)(const ch_team *team, int64_t rows, int64_t heads, int64_t width,
                        const ch_head_slices *from, ch_dtype dtype, const ch_head_slices *to,
                        bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * heads * width >= CH_PARALLEL_ELEMENTS,
            copy_rows(dtype, accumulate, from, to, first, last, heads, width));
}

static void sum_slices(const ch_head_slices *from, const ch_head_slices *to, int64_t first, int64_t last,
                       int64_t heads, int64_t width, bool accumulate) {
  for (int64_t r = first; r < last; r++) {
    real *y = (real *)to->data + r * to->row;
    for (int64_t i = 0; i < width; i += VL) {
      vec sum = accumulate ? load_narrow(y + i, width - i) : splat(0);
      for (int64_t h = 0; h < heads; h++)
        sum += load_narrow((const real *)from->data + r * from->row + h * from->head + i, width - i);
      store_narrow(y + i, sum, width - i);
    }
  }
}

void KERNEL(sum_heads)(const ch_team *team, int64_t rows, int64_t heads, int64_t width,
                       const ch_head_slices *from, const ch_head_slices *to, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * heads * width >= CH_PARALLEL_ELEMENTS,
            sum_slices(from, to, first, last, heads, width, accumulate));
}

/* oneDNN's matmul with B packed at every call. The code uses the interface of oneDNN 2. With another version,
 * ch_packed_run always returns false. */
#include "bench/packed.h"

#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

struct ch_packed {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t pack, product; /* pack is NULL if the library prefers B unpacked */
  dnnl_memory_t a, b, packed_b, c;
  bool ready, refused;
};

ch_packed *ch_packed_create(void) {
  ch_packed *p = calloc(1, sizeof *p);
  if (p && !dnnl_engine_create(&p->engine, dnnl_cpu, 0) &&
      !dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags))
    return p;
  free(p);
  return NULL;
}

void ch_packed_forget(ch_packed *p) {
  dnnl_memory_t *memories[] = {&p->a, &p->b, &p->packed_b, &p->c};
  for (int i = 0; i < 4; i++) {
    if (*memories[i]) dnnl_memory_destroy(*memories[i]);
    *memories[i] = NULL;
  }
  if (p->pack) dnnl_primitive_destroy(p->pack);
  if (p->product) dnnl_primitive_destroy(p->product);
  p->pack = p->product = NULL;
  p->ready = p->refused = false;
}

void ch_packed_free(ch_packed *p) {
  if (!p) return;
  ch_packed_forget(p);
  dnnl_stream_destroy(p->stream);
  dnnl_engine_destroy(p->engine);
  free(p);
}

#if DNNL_VERSION_MAJOR == 2

static dnnl_status_t describe(dnnl_memory_desc_t *desc, int64_t rows, int64_t columns, int64_t row_stride,
                              int64_t column_stride) {
  const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
  return dnnl_memory_desc_init_by_strides(desc, 2, dims, dnnl_f32, strides);
}

static dnnl_status_t prepare(ch_packed *p, const ch_gemm_shape *s) {
  dnnl_memory_desc_t a, b, any, c;
  const dnnl_dims_t b_dims = {s->k, s->n};
  dnnl_status_t status = describe(&a, s->m, s->k, s->transpose_a ? 1 : s->lda, s->transpose_a ? s->lda : 1);
  if (!status) status = describe(&b, s->k, s->n, s->transpose_b ? 1 : s->ldb, s->transpose_b ? s->ldb : 1);
  if (!status) status = describe(&c, s->m, s->n, s->ldc, 1);
  if (!status) status = dnnl_memory_desc_init_by_tag(&any, 2, b_dims, dnnl_f32, dnnl_format_tag_any);
  dnnl_matmul_desc_t operation;
  if (!status) status = dnnl_matmul_desc_init(&operation, &a, &any, NULL, &c);
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t sum = NULL;
  if (!status) status = dnnl_primitive_attr_create(&attributes);
  if (!status) status = dnnl_post_ops_create(&sum);
  if (!status && s->accumulate) status = dnnl_post_ops_append_sum(sum, 1);
  if (!status) status = dnnl_primitive_attr_set_post_ops(attributes, sum);
  dnnl_primitive_desc_t description = NULL, pack_description = NULL;
  if (!status) status = dnnl_primitive_desc_create(&description, &operation, attributes, p->engine, NULL);
  if (!status) status = dnnl_primitive_create(&p->product, description);
  const dnnl_memory_desc_t *wanted = NULL;
  if (!status) wanted = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
  if (!status) status = dnnl_memory_create(&p->a, &a, p->engine, DNNL_MEMORY_NONE);
  if (!status) status = dnnl_memory_create(&p->b, &b, p->engine, DNNL_MEMORY_NONE);
  if (!status) status = dnnl_memory_create(&p->c, &c, p->engine, DNNL_MEMORY_NONE);
  if (!status && !dnnl_memory_desc_equal(wanted, &b)) {
    status = dnnl_memory_create(&p->packed_b, wanted, p->engine, DNNL_MEMORY_ALLOCATE);
    if (!status)
      status = dnnl_reorder_primitive_desc_create(&pack_description, &b, p->engine, wanted, p->engine, NULL);
    if (!status) status = dnnl_primitive_create(&p->pack, pack_description);
  }
  if (pack_description) dnnl_primitive_desc_destroy(pack_description);
  if (description) dnnl_primitive_desc_destroy(description);
  if (sum) dnnl_post_ops_destroy(sum);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return status;
}

bool ch_packed_run(ch_packed *p, const ch_gemm_shape *shape, float *a, float *b, float *c) {
  if (!p->ready) p->refused = prepare(p, shape) != dnnl_success;
  p->ready = true;
  if (p->refused) return false;
  dnnl_memory_set_data_handle(p->a, a);
  dnnl_memory_set_data_handle(p->b, b);
  dnnl_memory_set_data_handle(p->c, c);
  const dnnl_exec_arg_t pack[] = {{DNNL_ARG_FROM, p->b}, {DNNL_ARG_TO, p->packed_b}};
  if (p->pack && dnnl_primitive_execute(p->pack, p->stream, 2, pack)) return false;
  const dnnl_exec_arg_t product[] = {
      {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->pack ? p->packed_b : p->b}, {DNNL_ARG_DST, p->c}};
  return dnnl_primitive_execute(p->product, p->stream, 3, product) == dnnl_success;
}

#else

bool ch_packed_run(ch_packed *p, const ch_gemm_shape *shape, float *a, float *b, float *c) {
  (void)p, (void)shape, (void)a, (void)b, (void)c;
  return false;
}

#endif

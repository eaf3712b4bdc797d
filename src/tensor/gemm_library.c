/* Products by oneDNN. It compiles against oneDNN's C interface of version 2 (2.2 and later) and of version
 * 3. */
#include "tensor/gemm_library.h"

#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

#include "base/memory.h"
#include "tensor/team.h"

/* The maximum number of prepared products. A further product replaces the oldest. A training step needs a few dozen,
   generation one set per prompt length. */
enum { MOST_PREPARED = 128 };
/* Memory that must be free for the library's generated code: without it the library crashes. */
enum { ROOM_FOR_CODE = 32 << 20 };

typedef struct prepared_product {
  ch_gemm_shape shape;
  int threads;
  size_t scratch_bytes;
  dnnl_primitive_t primitive;
  dnnl_memory_t a, b, c, scratch;
} prepared_product;

struct ch_gemm_library {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  prepared_product prepared[MOST_PREPARED];
  int count, next; /* number of elements of `prepared` in use, index of the element to fill next */
  void *scratch;
  size_t scratch_bytes;
  bool has_multiplied; /* true after the first call of sgemm, which generates its code */
};

static ch_status check(dnnl_status_t status, const ch_gemm_shape *shape, ch_error *error) {
  if (status == dnnl_success) return CH_OK;
  const char *reason = status == dnnl_out_of_memory   ? "out of memory; use fewer tokens or a smaller cache"
                       : status == dnnl_unimplemented ? "it has no implementation for this processor"
                       : status == dnnl_invalid_arguments ? "it refused the arguments"
                                                          : "it failed inside";
  ch_status code = status == dnnl_out_of_memory ? CH_ERROR_MEMORY : CH_ERROR_ARGUMENT;
  if (!shape) return ch_fail(error, code, "oneDNN could not be started: %s (status %d)", reason, (int)status);
  return ch_fail(error, code,
                 "the matrix product [%lld, %lld] x [%lld, %lld] failed in oneDNN: %s (status %d)",
                 (long long)shape->m, (long long)shape->k, (long long)shape->k, (long long)shape->n, reason,
                 (int)status);
}

/* --- the two versions: descriptors are values in version 2 and objects in version 3 --------------------- */

/* Versions before 2.6 (Ubuntu 22.04) do not know the layout of kernels->pack_bf16. There, BF16 is widened. */
#define KNOWS_PACKED (DNNL_VERSION_MAJOR > 2 || DNNL_VERSION_MINOR >= 6)
#if !KNOWS_PACKED
#define dnnl_BA16a64b2a dnnl_format_tag_undef
#endif

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t matrix_desc;
typedef const_dnnl_memory_desc_t desc_pointer;

static dnnl_status_t describe_packed(matrix_desc *desc, int64_t rows, int64_t columns) {
  const dnnl_dims_t dims = {rows, columns};
  return dnnl_memory_desc_create_with_tag(desc, 2, dims, dnnl_bf16, dnnl_BA16a64b2a);
}

static dnnl_status_t describe(matrix_desc *desc, int64_t rows, int64_t columns, int64_t row_stride,
                              int64_t column_stride, bool rounded) {
  const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
  return dnnl_memory_desc_create_with_strides(desc, 2, dims, rounded ? dnnl_bf16 : dnnl_f32, strides);
}

static void forget(matrix_desc *desc) {
  if (*desc) dnnl_memory_desc_destroy(*desc);
}

static desc_pointer desc_of(const matrix_desc *desc) {
  return *desc;
}

static dnnl_status_t describe_product(dnnl_primitive_desc_t *product, const matrix_desc *a,
                                      const matrix_desc *b, const matrix_desc *c,
                                      const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine) {
  return dnnl_matmul_primitive_desc_create(product, engine, *a, *b, NULL, *c, attributes);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef);
}

#else

typedef dnnl_memory_desc_t matrix_desc;
typedef const dnnl_memory_desc_t *desc_pointer;

static dnnl_status_t describe_packed(matrix_desc *desc, int64_t rows, int64_t columns) {
  const dnnl_dims_t dims = {rows, columns};
  return dnnl_memory_desc_init_by_tag(desc, 2, dims, dnnl_bf16, dnnl_BA16a64b2a);
}

static dnnl_status_t describe(matrix_desc *desc, int64_t rows, int64_t columns, int64_t row_stride,
                              int64_t column_stride, bool rounded) {
  const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
  return dnnl_memory_desc_init_by_strides(desc, 2, dims, rounded ? dnnl_bf16 : dnnl_f32, strides);
}

static void forget(matrix_desc *desc) {
  (void)desc;
}

static desc_pointer desc_of(const matrix_desc *desc) {
  return desc;
}

static dnnl_status_t describe_product(dnnl_primitive_desc_t *product, const matrix_desc *a,
                                      const matrix_desc *b, const matrix_desc *c,
                                      const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, a, b, NULL, c);
  return status ? status : dnnl_primitive_desc_create(product, &operation, attributes, engine, NULL);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1);
}

#endif

bool ch_gemm_same_shape(const ch_gemm_shape *x, const ch_gemm_shape *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb &&
         x->ldc == y->ldc && x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b &&
         x->accumulate == y->accumulate && x->rounded == y->rounded && x->packed == y->packed &&
         x->is_rare == y->is_rare;
}

static dnnl_status_t describe_b(matrix_desc *desc, const ch_gemm_shape *s) {
  if (s->packed) return describe_packed(desc, s->k, s->n);
  return describe(desc, s->k, s->n, s->transpose_b ? 1 : s->ldb, s->transpose_b ? s->ldb : 1, s->rounded);
}

/* Checks that memory for the generated code can be allocated. The memory is released without being touched. */
static ch_status check_room(const ch_gemm_shape *shape, ch_error *error) {
  void *room = ch_pages_alloc(ROOM_FOR_CODE);
  ch_pages_free(room, ROOM_FOR_CODE);
  return room ? CH_OK : check(dnnl_out_of_memory, shape, error);
}

/* --- preparing ------------------------------------------------------------------------------------------ */

/* Creates the attributes of a product: the caller provides scratch memory, and `accumulate` adds the result
   to C. */
static dnnl_status_t make_attributes(bool accumulate, dnnl_primitive_attr_t *attributes) {
  dnnl_status_t status = dnnl_primitive_attr_create(attributes);
  if (!status) status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
  if (status || !accumulate) return status;
  dnnl_post_ops_t operations = NULL;
  status = dnnl_post_ops_create(&operations);
  if (!status) status = append_sum(operations);
  if (!status) status = dnnl_primitive_attr_set_post_ops(*attributes, operations);
  if (operations) dnnl_post_ops_destroy(operations);
  return status;
}

static void release(prepared_product *product) {
  dnnl_memory_t memories[] = {product->a, product->b, product->c, product->scratch};
  for (int i = 0; i < 4; i++)
    if (memories[i]) dnnl_memory_destroy(memories[i]);
  if (product->primitive) dnnl_primitive_destroy(product->primitive);
  memset(product, 0, sizeof *product);
}

static dnnl_status_t prepare_product(prepared_product *product, matrix_desc desc[3], dnnl_engine_t engine) {
  const ch_gemm_shape *s = &product->shape;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t description = NULL;
  dnnl_status_t status =
      describe(&desc[0], s->m, s->k, s->transpose_a ? 1 : s->lda, s->transpose_a ? s->lda : 1, s->rounded);
  if (!status) status = describe_b(&desc[1], s);
  if (!status) status = describe(&desc[2], s->m, s->n, s->ldc, 1, false);
  if (!status) status = make_attributes(s->accumulate, &attributes);
  if (!status) status = describe_product(&description, &desc[0], &desc[1], &desc[2], attributes, engine);
  if (!status) status = dnnl_primitive_create(&product->primitive, description);
  if (!status) status = dnnl_memory_create(&product->a, desc_of(&desc[0]), engine, DNNL_MEMORY_NONE);
  if (!status) status = dnnl_memory_create(&product->b, desc_of(&desc[1]), engine, DNNL_MEMORY_NONE);
  if (!status) status = dnnl_memory_create(&product->c, desc_of(&desc[2]), engine, DNNL_MEMORY_NONE);
  if (!status) {
    desc_pointer scratch = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    product->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    if (product->scratch_bytes > 0)
      status = dnnl_memory_create(&product->scratch, scratch, engine, DNNL_MEMORY_NONE);
  }
  if (description) dnnl_primitive_desc_destroy(description);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return status;
}

/* Finds the product for a shape, or prepares it in place of the oldest one. The scratch memory grows to the size that
   the product needs. */
static ch_status find_or_prepare(ch_gemm_library *library, const ch_gemm_shape *shape,
                                 prepared_product **found, ch_error *error) {
  /* The number that ch_team_enter set. The library divides the work among threads when a primitive is created. */
  int threads = ch_team_of(0).threads;
  for (int i = 0; i < library->count; i++) {
    prepared_product *product = &library->prepared[i];
    if (product->threads == threads && ch_gemm_same_shape(&product->shape, shape)) {
      *found = product;
      return CH_OK;
    }
  }
  CH_TRY(check_room(shape, error));
  prepared_product *product = &library->prepared[library->next];
  release(product);
  product->shape = *shape;
  product->threads = threads;
  matrix_desc desc[3] = {0};
  dnnl_status_t status = prepare_product(product, desc, library->engine);
  for (int i = 0; i < 3; i++) forget(&desc[i]);
  if (!status && product->scratch_bytes > library->scratch_bytes) {
    ch_pages_free(library->scratch, library->scratch_bytes);
    library->scratch = ch_pages_alloc(product->scratch_bytes);
    library->scratch_bytes = library->scratch ? product->scratch_bytes : 0;
    if (!library->scratch) status = dnnl_out_of_memory;
  }
  if (status) {
    release(product); /* an empty element matches no shape */
    return check(status, shape, error);
  }
  library->next = (library->next + 1) % MOST_PREPARED;
  if (library->count < MOST_PREPARED) library->count++;
  *found = product;
  return CH_OK;
}

/* --- the interface -------------------------------------------------------------------------------------- */

ch_status ch_gemm_library_create(ch_gemm_library **library, ch_error *error) {
  *library = calloc(1, sizeof **library);
  if (!*library) return ch_no_memory(error);
  dnnl_status_t status = dnnl_engine_create(&(*library)->engine, dnnl_cpu, 0);
  if (!status)
    status = dnnl_stream_create(&(*library)->stream, (*library)->engine, dnnl_stream_default_flags);
  if (!status) return CH_OK;
  ch_gemm_library_free(*library);
  *library = NULL;
  return check(status, NULL, error);
}

void ch_gemm_library_free(ch_gemm_library *library) {
  if (!library) return;
  for (int i = 0; i < MOST_PREPARED; i++) release(&library->prepared[i]);
  if (library->stream) dnnl_stream_destroy(library->stream);
  if (library->engine) dnnl_engine_destroy(library->engine);
  ch_pages_free(library->scratch, library->scratch_bytes);
  free(library);
}

static bool library_has(dnnl_cpu_isa_t isa) {
  return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

bool ch_gemm_library_rounds(bool bf16_dots_are_fast) {
  if (!KNOWS_PACKED) return false;
  return library_has(dnnl_cpu_isa_avx512_core_amx) ||
         (bf16_dots_are_fast && library_has(dnnl_cpu_isa_avx512_core_bf16));
}

ch_status ch_gemm_library_matmul(ch_gemm_library *library, const ch_gemm_shape *shape, const void *a,
                                 const void *b, float *c, ch_error *error) {
  prepared_product *product = NULL;
  CH_TRY(find_or_prepare(library, shape, &product, error));
  /* The interface requires writable pointers even to memory that it only reads. */
  dnnl_status_t status = dnnl_memory_set_data_handle(product->a, (void *)(uintptr_t)a);
  if (!status) status = dnnl_memory_set_data_handle(product->b, (void *)(uintptr_t)b);
  if (!status) status = dnnl_memory_set_data_handle(product->c, c);
  if (!status && product->scratch) status = dnnl_memory_set_data_handle(product->scratch, library->scratch);
  if (status) return check(status, shape, error);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product->a},
                                       {DNNL_ARG_WEIGHTS, product->b},
                                       {DNNL_ARG_DST, product->c},
                                       {DNNL_ARG_SCRATCHPAD, product->scratch}};
  status = dnnl_primitive_execute(product->primitive, library->stream, product->scratch ? 4 : 3, arguments);
  if (!status) status = dnnl_stream_wait(library->stream);
  return check(status, shape, error);
}

int64_t ch_gemm_library_packed_count(int64_t k, int64_t n) {
  return (k + 31) / 32 * 32 * ((n + 63) / 64 * 64);
}

ch_status ch_gemm_library_sgemm(ch_gemm_library *library, const ch_gemm_shape *s, const float *a,
                                const float *b, float *c, ch_error *error) {
  if (!library->has_multiplied) CH_TRY(check_room(s, error));
  library->has_multiplied = true;
  return check(dnnl_sgemm(s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N', s->m, s->n, s->k, 1, a,
                          s->lda, b, s->ldb, s->accumulate ? 1 : 0, c, s->ldc),
               s, error);
}

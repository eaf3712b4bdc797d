/* Guarded memory, and the engine that computes in it. */
#define _GNU_SOURCE
#include "engine/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensor/gemm.h"
#include "tensor/kernels.h"

/* --- pages ----------------------------------------------------------------------------------------------- */

/* All memory is in one range of addresses, assigned from its beginning, so that one call changes all access rights. */
static const size_t RANGE = (size_t)1 << 38;
static char *range;
static size_t used;
static int depth; /* number of running kernels; the pages are open while it is above 0 */
static long calls;

static void protect(int rights) {
  if (used > 0 && mprotect(range, used, rights)) abort();
}

static void enter(void) {
  calls++;
  if (depth++ == 0) protect(PROT_READ | PROT_WRITE);
}

static void leave(void) {
  if (--depth == 0) protect(PROT_NONE);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static size_t in_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page) / page * page;
}

/* Released memory for reuse. */
typedef struct spare {
  char *memory;
  size_t size;
} spare;

enum { MOST_SPARES = 4096 };
static spare spares[MOST_SPARES];
static int spare_count;

static char *take_spare(size_t size) {
  for (int i = 0; i < spare_count; i++)
    if (spares[i].size == size) {
      char *memory = spares[i].memory;
      spares[i] = spares[--spare_count];
      return memory;
    }
  return NULL;
}

static void *allocate(size_t bytes) {
  if (!range) range = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED || bytes > RANGE / 2 || used + in_pages(bytes) > RANGE) return NULL;
  char *memory = take_spare(in_pages(bytes));
  if (memory) return memory;
  memory = range + used;
  used += in_pages(bytes);
  return memory;
}

static void release(void *memory, size_t bytes) {
  if (madvise(memory, in_pages(bytes), MADV_DONTNEED)) abort(); /* fills the pages with zeros */
  if (spare_count < MOST_SPARES) spares[spare_count++] = (spare){memory, in_pages(bytes)};
}

static bool holds(const void *address) {
  return range && (const char *)address >= range && (const char *)address < range + used;
}

static void copy(void *to, const void *from, size_t bytes) {
  if (bytes > 0 && (!holds(to) || !holds(from))) {
    fprintf(stderr, "guarded memory: a copy inside it has an end outside\n");
    abort();
  }
  enter();
  memcpy(to, from, bytes);
  leave();
}

static void transfer(void *to, const void *from, size_t bytes) {
  enter();
  memcpy(to, from, bytes);
  leave();
}

static const ch_value_memory guarded_memory = {.allocate = allocate,
                                               .release = release,
                                               .allocate_sparse = allocate,
                                               .release_sparse = release,
                                               .holds = holds,
                                               .copy = copy,
                                               .write = transfer,
                                               .read = transfer};

/* --- tiles, produced while the pages are closed --------------------------------------------------------- */

static const ch_attend *inner; /* arguments that the running kernel received from its operation */

static void produce(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  ch_attend given = *args;
  given.producer = inner->producer;
  int outer = depth;
  depth = 0;
  protect(PROT_NONE);
  given.producer->produce(&given, span, scratch, tiles);
  protect(PROT_READ | PROT_WRITE);
  depth = outer;
}

static int64_t scratch_elements(const ch_attend *args, int64_t heads, int64_t count) {
  ch_attend given = *args;
  given.producer = inner->producer;
  return given.producer->scratch_elements(&given, heads, count);
}

/* Returns a copy of the arguments, in `space`, with a producer that closes the pages around the original one. */
static const ch_attend *with_closed_tiles(const ch_attend *args, ch_attend *space,
                                          ch_tile_producer *producer) {
  inner = args;
  *space = *args;
  *producer = (ch_tile_producer){
      .name = args->producer->name, .produce = produce, .scratch_elements = scratch_elements};
  space->producer = producer;
  return space;
}

/* --- kernels --------------------------------------------------------------------------------------------- */

static const ch_kernels *wide, *narrow; /* the processor's kernels for double and for F32 */

/* Defines guarded_TYPE_NAME for each kernel of tensor/kernel_list.h, for double and for F32. It calls the processor's
   kernel between enter and leave. tests/CMakeLists.txt generates guarded_kernels.h from the list. */
#include "guarded_kernels.h"

#define CLOSED(table, kernel, parameters, ...)                                                               \
  static void closed_##table##_##kernel parameters {                                                         \
    ch_attend space;                                                                                         \
    ch_tile_producer producer;                                                                               \
    enter();                                                                                                 \
    table->kernel(with_closed_tiles(args, &space, &producer) __VA_ARGS__);                                   \
    leave();                                                                                                 \
  }
CLOSED(wide, attend_forward, (const ch_attend *args), )
CLOSED(narrow, attend_forward, (const ch_attend *args), )
CLOSED(wide, talking_forward, (const ch_attend *args, const ch_head_mixes *mixes), , mixes)
CLOSED(narrow, talking_forward, (const ch_attend *args, const ch_head_mixes *mixes), , mixes)

static void guard(const ch_kernels *own, const ch_kernels *functions, ch_kernels *table) {
  *table = *functions;
  table->name = own->name;
  table->dtype = own->dtype;
  table->multiplies_bytes = own->multiplies_bytes;
  table->memory = &guarded_memory;
  /* A kernel that this processor's table lacks is missing here too. */
#define CH_KERNEL(origin, result, kernel, parameters)                                                        \
  if (!own->kernel) table->kernel = NULL;
#include "tensor/kernel_list.h"
}

static bool in_use;

void use_guarded_memory(bool yes) {
  in_use = yes;
}

long guarded_calls(void) {
  return calls;
}

void *guarded_bytes(size_t bytes) {
  return allocate(bytes);
}

const ch_kernels *__real_ch_kernels_of_engines(ch_dtype dtype);
const ch_kernels *__wrap_ch_kernels_of_engines(ch_dtype dtype);
const ch_kernels *__wrap_ch_kernels_of_engines(ch_dtype dtype) {
  static ch_kernels tables[2];
  const ch_kernels *own = __real_ch_kernels_of_engines(dtype);
  if (!in_use) return own;
  if (dtype == CH_F64) {
    wide = own;
    guard(own, &guarded_wide, &tables[0]);
    tables[0].attend_forward = closed_wide_attend_forward;
    tables[0].talking_forward = closed_wide_talking_forward;
    return &tables[0];
  }
  narrow = own;
  guard(own, &guarded_narrow, &tables[1]);
  tables[1].attend_forward = closed_narrow_attend_forward;
  tables[1].talking_forward = closed_narrow_talking_forward;
  return &tables[1];
}

/* --- products -------------------------------------------------------------------------------------------- */

#define PRODUCT(name, parameters, arguments)                                                                 \
  ch_status __real_##name parameters;                                                                        \
  ch_status __wrap_##name parameters;                                                                        \
  ch_status __wrap_##name parameters {                                                                       \
    enter();                                                                                                 \
    ch_status status = __real_##name arguments;                                                              \
    leave();                                                                                                 \
    return status;                                                                                           \
  }

PRODUCT(ch_gemm_run,
        (ch_gemm * gemm, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
         const void *b, int64_t ldb, void *c, int64_t ldc, bool add, ch_error *error),
        (gemm, ta, tb, m, n, k, a, lda, b, ldb, c, ldc, add, error))
PRODUCT(ch_gemm_pack,
        (ch_gemm * gemm, int64_t rows, int64_t columns, const void *w, ch_dtype dtype, int64_t ld,
         void *factor, void *transposed, ch_error *error),
        (gemm, rows, columns, w, dtype, ld, factor, transposed, error))
PRODUCT(ch_gemm_run_packed,
        (ch_gemm * gemm, bool ta, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
         const void *packed, void *c, int64_t ldc, bool add, ch_error *error),
        (gemm, ta, m, n, k, a, lda, packed, c, ldc, add, error))
PRODUCT(ch_gemm_linear,
        (ch_gemm * gemm, int64_t rows, int64_t in, int64_t out, const void *x, ch_dtype x_dtype,
         const void *weight, ch_dtype weight_dtype, const void *bias, void *y, bool add, ch_error *error),
        (gemm, rows, in, out, x, x_dtype, weight, weight_dtype, bias, y, add, error))
PRODUCT(ch_gemm_linears,
        (ch_gemm * gemm, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype, ch_dtype weight_dtype,
         int count, const ch_product *products, bool add, ch_error *error),
        (gemm, rows, in, x, x_dtype, weight_dtype, count, products, add, error))
PRODUCT(ch_gemm_linear_some,
        (ch_gemm * gemm, int64_t rows, int64_t in, int64_t out, const void *x, ch_dtype x_dtype,
         const void *weight, ch_dtype weight_dtype, void *y, ch_error *error),
        (gemm, rows, in, out, x, x_dtype, weight, weight_dtype, y, error))
PRODUCT(ch_gemm_gradient_some,
        (ch_gemm * gemm, int64_t rows, int64_t in, int64_t out, const void *dy, const void *x, void *dw,
         bool add, ch_error *error),
        (gemm, rows, in, out, dy, x, dw, add, error))

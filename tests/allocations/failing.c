/* An allocator whose n-th allocation fails. */
#define _GNU_SOURCE
#include "allocations/failing.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <jansson.h>
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { MOST_PARTS = 128 };

/* Address ranges of libraries whose allocations do not count. */
static struct { uintptr_t from, to; } excluded[MOST_PARTS];
static int excluded_count;

static long counted, failing;
static bool counting;

/* Table of the blocks that were allocated since failing_start and not freed. Frees are matched by address, because
   libraries may jump to `free`, and the return address is then that of their caller. */
enum { SLOTS = 1 << 18 };
static uintptr_t blocks[SLOTS];
static long left;
static bool locked;

static int exclude_library(struct dl_phdr_info *library, size_t size, void *data) {
  static const char *const names[] = {"libgomp",     "libdnnl",   "libstdc++", "blas",   "lapack",
                                      "libgfortran", "libOpenCL", "ld-linux",  "libonig"};
  (void)size;
  (void)data;
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    found |= strstr(library->dlpi_name, names[i]) != NULL;
  for (int i = 0; found && i < library->dlpi_phnum && excluded_count < MOST_PARTS; i++) {
    uintptr_t from = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
    if (library->dlpi_phdr[i].p_type != PT_LOAD) continue;
    excluded[excluded_count].from = from;
    excluded[excluded_count++].to = from + library->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

void failing_start(long n) {
  memset(blocks, 0, sizeof blocks);
  counted = left = 0;
  failing = n;
  counting = true;
}

bool failing_stop(void) {
  counting = false;
  return counted >= failing;
}

long failing_left(void) {
  return left;
}

/* If the buffer of jansson's reader cannot grow, jansson loses bytes of a string or fails an assertion, which callers
   cannot prevent. So these allocations do not count. Their place in jansson's code is found by reading one long string,
   during which the buffer grows several times. */
static const void *reader_callers[8];
static int reader_counts[8];
static bool learning;

static void learn(const void *caller) {
  int i = 0;
  while (i < 7 && reader_callers[i] && reader_callers[i] != caller) i++;
  reader_callers[i] = caller;
  reader_counts[i]++;
}

static void learn_reader(void) {
  char text[2002];
  memset(text, 'a', sizeof text);
  text[0] = text[sizeof text - 1] = '"';
  learning = true;
  json_decref(json_loadb(text, sizeof text, JSON_DECODE_ANY, NULL));
  learning = false;
}

static bool is_reader(const void *caller) {
  for (int i = 0; i < 8; i++)
    if (reader_callers[i] == caller && reader_counts[i] >= 4) return true;
  return false;
}

static bool is_excluded(const void *caller) {
  for (int i = 0; i < excluded_count; i++)
    if ((uintptr_t)caller >= excluded[i].from && (uintptr_t)caller < excluded[i].to) return true;
  return false;
}

/* Counts an allocation. Returns true if it must fail. */
static bool fails(const void *caller) {
  if (learning) learn(caller);
  if (!counting || is_excluded(caller) || is_reader(caller)) return false;
  if (__atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) != failing) return false;
  if (getenv("FAILING_TRACE")) {
    void *frames[12];
    counting = false;
    backtrace_symbols_fd(frames, backtrace(frames, 12), STDERR_FILENO);
    counting = true;
  }
  errno = ENOMEM;
  return true;
}

/* Returns the slot of an address, or the free slot for it. 1 marks a deleted slot. */
static size_t slot_of(uintptr_t address) {
  size_t slot = (address >> 4) * 0x9E3779B97F4A7C15u >> 46;
  while (blocks[slot] && blocks[slot] != address) slot = (slot + 1) % SLOTS;
  return slot;
}

static void lock(void) {
  while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE)) continue;
}

static void unlock(void) {
  __atomic_clear(&locked, __ATOMIC_RELEASE);
}

static void *taken(void *memory, const void *caller) {
  if (!counting || !memory || is_excluded(caller)) return memory;
  lock();
  blocks[slot_of((uintptr_t)memory)] = (uintptr_t)memory;
  left++;
  unlock();
  return memory;
}

static void given_back(const void *memory) {
  if (!counting || !memory) return;
  lock();
  size_t slot = slot_of((uintptr_t)memory);
  if (blocks[slot]) {
    blocks[slot] = 1;
    left--;
  }
  unlock();
}

/* --- the C library's functions ------------------------------------------------------------------------------ */

void *malloc(size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : taken(__libc_malloc(size), __builtin_return_address(0));
}

void *calloc(size_t count, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL
                                            : taken(__libc_calloc(count, size), __builtin_return_address(0));
}

void *realloc(void *memory, size_t size) {
  if (fails(__builtin_return_address(0))) return NULL;
  given_back(memory);
  void *other = __libc_realloc(memory, size);
  return taken(other ? other : memory, __builtin_return_address(0)) == other ? other : NULL;
}

void *aligned_alloc(size_t alignment, size_t size) {
  return fails(__builtin_return_address(0))
             ? NULL
             : taken(__libc_memalign(alignment, size), __builtin_return_address(0));
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  void *other = taken(__libc_memalign(alignment, size), __builtin_return_address(0));
  if (!other) return ENOMEM;
  *memory = other;
  return 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  if (fails(__builtin_return_address(0))) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset); // NOLINT
}

/* Overwrites freed memory, so that later reads are detected. */
void free(void *memory) {
  if (!memory) return;
  given_back(memory);
  if (counting) memset(memory, 0xdd, malloc_usable_size(memory));
  __libc_free(memory);
}

/* --- LD_PRELOAD --------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void) {
  dl_iterate_phdr(exclude_library, NULL);
  learn_reader();
  const char *n = getenv("FAILING_ALLOCATION");
  if (n) failing_start(atol(n));
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("FAILING_UNREACHED");
  if (!path || failing_stop()) return;
  int file = open(path, O_CREAT | O_WRONLY, 0600);
  if (file >= 0) close(file);
}

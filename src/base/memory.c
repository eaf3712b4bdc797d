/* Allocates large buffers directly from the kernel, and measures memory use. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t mapped_size(size_t bytes) {
  return (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
}

void *ch_pages_alloc(size_t bytes) {
  if (bytes == 0) bytes = 1;
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t size = mapped_size(bytes);
  /* Map one huge page more and trim, so that the buffer starts on a huge-page boundary. */
  char *raw = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return NULL;
  char *start = (char *)(((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
  if (start > raw) munmap(raw, (size_t)(start - raw));
  if (start + size < raw + size + HUGE_PAGE) munmap(start + size, (size_t)(raw + HUGE_PAGE - start));
  if (bytes >= HUGE_PAGE) madvise(start, size, MADV_HUGEPAGE);
  return start;
}

void ch_pages_free(void *memory, size_t bytes) {
  if (memory) munmap(memory, mapped_size(bytes ? bytes : 1));
}

double ch_machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (double)pages * (double)page : INFINITY;
}

double ch_available_memory(void) {
  FILE *file = fopen("/proc/meminfo", "re");
  unsigned long long kib = 0;
  bool known = false;
  char line[256];
  while (file && !known && fgets(line, sizeof line, file))
    known = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
  if (file) fclose(file);
  return known ? (double)kib * 1024 : INFINITY;
}

void ch_forget_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "we");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

size_t ch_peak_resident_bytes(void) {
  FILE *file = fopen("/proc/self/status", "re");
  unsigned long long kib = 0;
  char line[256];
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
  if (file) fclose(file);
  struct rusage usage;
  if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0) kib = (unsigned long long)usage.ru_maxrss;
  return (size_t)kib << 10;
}

void *ch_sparse_alloc(size_t bytes) {
  if (bytes == 0) bytes = 1;
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

void ch_sparse_free(void *memory, size_t bytes) {
  if (memory) munmap(memory, bytes ? bytes : 1);
}

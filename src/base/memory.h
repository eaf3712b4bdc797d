/* Large long-lived buffers: page-aligned, huge pages where the system offers them, zeroed. */
#ifndef CH_BASE_MEMORY_H
#define CH_BASE_MEMORY_H

#include <stddef.h>

/* A zeroed buffer that stays resident once touched; NULL when memory is out. Release with ch_pages_free. */
void *ch_pages_alloc(size_t bytes);
void ch_pages_free(void *memory, size_t bytes);

/* Bytes of memory this machine has; infinity where the system does not say. */
double ch_machine_memory(void);

/* Zeroed address space whose pages take memory only once they are written; NULL when there is none left. Release with
   ch_sparse_free. */
void *ch_sparse_alloc(size_t bytes);
void ch_sparse_free(void *memory, size_t bytes);

#endif

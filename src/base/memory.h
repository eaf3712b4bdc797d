/* Large long-lived buffers: page-aligned, huge pages where the system offers them, zeroed. */
#ifndef CH_BASE_MEMORY_H
#define CH_BASE_MEMORY_H

#include <stddef.h>

/* A zeroed buffer that stays resident once touched; NULL when out of memory. Release with ch_pages_free. */
void *ch_pages_alloc(size_t bytes);
void ch_pages_free(void *memory, size_t bytes);

/* Bytes of memory this machine has; infinity where the system does not say. */
double ch_machine_memory(void);

/* Bytes that can be allocated now without other programs losing theirs; infinity where the system does not
   say. */
double ch_available_memory(void);

/* The most memory of this process that was resident, since it began or since ch_forget_peak; that Linux may
   not allow to forget. */
size_t ch_peak_resident_bytes(void);
void ch_forget_peak(void);

/* Zeroed address space whose pages use memory only once they are written; NULL when address space runs out.
   Release with ch_sparse_free. */
void *ch_sparse_alloc(size_t bytes);
void ch_sparse_free(void *memory, size_t bytes);

#endif

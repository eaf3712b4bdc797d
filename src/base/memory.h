/* Large long-lived buffers: page-aligned, zeroed, with huge pages if the system offers them. Also the sizes of the
   memory of the machine and of the process. */
#ifndef CH_BASE_MEMORY_H
#define CH_BASE_MEMORY_H

#include <stddef.h>

/* Returns a zeroed buffer aligned to pages, or NULL if out of memory. Release with ch_pages_free. */
void *ch_pages_alloc(size_t bytes);
void ch_pages_free(void *memory, size_t bytes);

/* Returns the bytes of this machine's memory, or infinity if the system does not report them. */
double ch_machine_memory(void);

/* Returns the bytes that can be allocated now without taking memory from other programs, or infinity if the
   system does not report them. */
double ch_available_memory(void);

/* Returns the peak resident memory of this process in bytes, since its start or since ch_forget_peak if the system
   supports that. */
size_t ch_peak_resident_bytes(void);
void ch_forget_peak(void);

/* Returns zeroed address space whose pages use memory only after they are written, or NULL if there is not enough
   address space. Release with ch_sparse_free. */
void *ch_sparse_alloc(size_t bytes);
void ch_sparse_free(void *memory, size_t bytes);

#endif

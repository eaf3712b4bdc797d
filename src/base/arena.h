/* An arena: many small allocations with one lifetime, released together. */
#ifndef CH_BASE_ARENA_H
#define CH_BASE_ARENA_H

#include <stddef.h>

typedef struct ch_arena {
  struct ch_arena_block *head;
} ch_arena;

/* Returns zeroed memory, aligned for any type, that exists until ch_arena_free; NULL if out of memory. */
void *ch_arena_alloc(ch_arena *arena, size_t bytes);
/* Returns a copy of a text in the arena; NULL if out of memory. */
char *ch_arena_strdup(ch_arena *arena, const char *text);
/* Formats a text in the arena; NULL if out of memory. */
char *ch_arena_printf(ch_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Releases everything; the arena can be used again. */
void ch_arena_free(ch_arena *arena);

#endif

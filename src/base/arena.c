/* Arena allocation in chained blocks. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGN = 64 };

struct ch_arena_block {
  struct ch_arena_block *next;
  size_t used, size;
};

static size_t round_up(size_t bytes) {
  return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void *ch_arena_alloc(ch_arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = round_up(bytes ? bytes : 1);
  size_t header = round_up(sizeof(struct ch_arena_block));
  struct ch_arena_block *block = arena->head;
  if (!block || block->size - block->used < bytes) {
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    block = aligned_alloc(ALIGN, header + size);
    if (!block) return NULL;
    *block = (struct ch_arena_block){.next = arena->head, .used = 0, .size = size};
    arena->head = block;
  }
  void *memory = (char *)block + header + block->used;
  block->used += bytes;
  return memset(memory, 0, bytes);
}

char *ch_arena_strdup(ch_arena *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = ch_arena_alloc(arena, bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

char *ch_arena_printf(ch_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = length < 0 ? NULL : ch_arena_alloc(arena, (size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void ch_arena_free(ch_arena *arena) {
  while (arena->head) {
    struct ch_arena_block *next = arena->head->next;
    free(arena->head);
    arena->head = next;
  }
}

/* Builds a GGUF header: metadata and descriptions of tensors. The caller then writes their data in order. */
#ifndef CH_FORMATS_GGUF_WRITE_H
#define CH_FORMATS_GGUF_WRITE_H

#include "base/text.h"
#include "formats/gguf.h"

/* Zero-initialise. `failed` of a text is true when out of memory. */
typedef struct ch_gguf_header {
  ch_text values, tensors;
  uint64_t value_count, tensor_count, data_bytes; /* data_bytes: aligned size of the tensors so far */
} ch_gguf_header;

void ch_gguf_put_u32(ch_gguf_header *header, const char *key, uint32_t value);
void ch_gguf_put_f32(ch_gguf_header *header, const char *key, double value);
void ch_gguf_put_bool(ch_gguf_header *header, const char *key, bool value);
void ch_gguf_put_text(ch_gguf_header *header, const char *key, const char *value);
/* Begins a list. Its `count` elements are then added with the functions ch_gguf_add_. */
void ch_gguf_put_list(ch_gguf_header *header, const char *key, ch_gguf_type type, uint64_t count);
void ch_gguf_add_text(ch_gguf_header *header, const char *text, size_t size);
void ch_gguf_add_f32(ch_gguf_header *header, float value);
void ch_gguf_add_bool(ch_gguf_header *header, bool value);
void ch_gguf_add_i32(ch_gguf_header *header, int32_t value);
/* Describes a tensor. shape [rank]: the last dimension is contiguous, as in this library. Returns the bytes of
   its data, without the padding before the next tensor. */
size_t ch_gguf_put_tensor(ch_gguf_header *header, const char *name, int rank, const int64_t *shape,
                          const ch_block_format *format);
/* Appends the whole header to *out, padded so that the data that follow are aligned. */
void ch_gguf_finish(const ch_gguf_header *header, ch_text *out);
/* Returns the number of padding bytes after `bytes` bytes of data. */
size_t ch_gguf_padding(size_t bytes);
void ch_gguf_header_free(ch_gguf_header *header);

#endif

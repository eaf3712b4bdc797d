/* safetensors files. Reading maps the file and survives hostile contents. Files are written under a temporary name and
 * then renamed. */
#ifndef CH_IO_SAFETENSORS_H
#define CH_IO_SAFETENSORS_H

#include "base/file.h"
#include "base/text.h"
#include "tensor/tensor.h"

/* One tensor of a file. `tensor.data` points into the mapping and may be unaligned. A block-quantised matrix (CH_Q8_0
   ... CH_Q6_K) is U8 [rows, bytes per row] in the file, and the metadata has its type under its name. In this struct,
   the matrix has its type, and its shape counts values. */
typedef struct ch_stored_tensor {
  char *name;
  ch_tensor tensor;
  const char *foreign; /* name of a type that no model has, "BOOL"; `tensor` is then U8 [bytes]. Else NULL */
} ch_stored_tensor;

typedef struct ch_safetensors {
  ch_map map;
  ch_stored_tensor *tensors; /* sorted by name */
  int64_t count;
  char *metadata; /* __metadata__ object as JSON text, or NULL */
} ch_safetensors;

/* Opens and checks a file: header length (at most 100 MB), JSON, duplicate names, types, shapes, overflow, and that
   the tensors cover the data without overlaps or holes. Reads only the header, and needs memory in proportion to the
   number of tensors. Release with ch_safetensors_close (harmless after a failure). */
ch_status ch_safetensors_open(const char *path, ch_safetensors *file, ch_error *error);
/* Like ch_safetensors_open, for a file in memory; `data` must outlive `file`. The fuzz target uses it. */
ch_status ch_safetensors_parse(const void *data, size_t size, const char *where, ch_safetensors *file,
                               ch_error *error);
void ch_safetensors_close(ch_safetensors *file);
const ch_stored_tensor *ch_safetensors_find(const ch_safetensors *file, const char *name);

/* Writes tensors. The data starts at a multiple of 64 bytes, and wider element types come first, so that every tensor
   is aligned to its elements. `metadata` is the JSON text of a string-to-string object, or NULL. */
ch_status ch_safetensors_write(const char *path, const ch_stored_tensor *tensors, int64_t count,
                               const char *metadata, ch_error *error);
/* Returns the bytes of tensor `index` of a list in *data. They must stay valid until the next call. */
typedef ch_status (*ch_tensor_maker)(void *context, int64_t index, const void **data, ch_error *error);
/* Like ch_safetensors_write, with data from `make`, one tensor after the other in the order of
   ch_safetensors_layout. */
ch_status ch_safetensors_write_made(const char *path, const ch_stored_tensor *tensors, int64_t count,
                                    const char *metadata, ch_tensor_maker make, void *context,
                                    ch_error *error);
/* Does the first half of writing, for writers that produce one tensor at a time: appends length and header to `header`,
   and fills order[count] with the order in which the tensors' bytes must follow. Does not read data pointers. */
ch_status ch_safetensors_layout(const ch_stored_tensor *tensors, int64_t count, const char *metadata,
                                ch_text *header, int64_t *order, ch_error *error);

#endif

/* Recognises files and directories that are not models: pointers, web pages, files of other programs. */
#ifndef CH_BASE_MISTAKEN_H
#define CH_BASE_MISTAKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Returns true if the bytes are a Git LFS pointer: a few lines of text in place of a file that Git LFS keeps
   elsewhere. */
bool ch_is_lfs_pointer(const void *data, size_t size);

/* Fails if the bytes of the file `where` are known not to be part of a model, and says what they are: a Git
   LFS pointer, a web page, PyTorch's pickles, or a text if `text` is false. */
ch_status ch_refuse_mistaken(const char *where, const void *data, size_t size, bool text, ch_error *error);

/* Fails if the names in a directory show that it is not a model's, and says what it is or has instead of a
   model's files. */
ch_status ch_refuse_directory(const char *directory, bool has_weights, ch_error *error);

#endif

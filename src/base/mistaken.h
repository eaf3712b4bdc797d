/* Recognises files and directories that are no model: pointers, web pages, files of other programs. */
#ifndef CH_BASE_MISTAKEN_H
#define CH_BASE_MISTAKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Returns true if the bytes are a Git LFS pointer: a few lines of text in place of a file that Git LFS keeps
   elsewhere. */
bool ch_is_lfs_pointer(const void *data, size_t size);

/* Fails with what the file `where` is if its bytes are known as something that is no part of a model: a Git
   LFS pointer, a web page, PyTorch's pickles, or a text where `text` is false. CH_OK if they are not. */
ch_status ch_refuse_mistaken(const char *where, const void *data, size_t size, bool text, ch_error *error);

/* Fails with what a directory is, or has in place of a model's files, where its names say that. CH_OK where
   they do not. */
ch_status ch_refuse_directory(const char *directory, bool has_weights, ch_error *error);

#endif

/* Recognises files and directories that are not models: Git LFS pointers, web pages, files of other programs. */
#ifndef CH_BASE_MISTAKEN_H
#define CH_BASE_MISTAKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Returns true if the bytes are a Git LFS pointer: a few lines of text in place of a file that Git LFS stores
   elsewhere. */
bool ch_is_lfs_pointer(const void *data, size_t size);

/* Fails if the bytes of the file `where` cannot be part of a model: a Git LFS or git-annex pointer, a web page,
   PyTorch's pickles, or a text if `text` is false. The message names the kind. */
ch_status ch_refuse_mistaken(const char *where, const void *data, size_t size, bool text, ch_error *error);

/* Fails if the names in a directory show that it is not a model directory. The message names the directory's kind, or
   the files that it has instead of a model's. With `has_weights`, only signs of LoRA adapters and diffusers pipelines
   count. */
ch_status ch_refuse_directory(const char *directory, bool has_weights, ch_error *error);

#endif

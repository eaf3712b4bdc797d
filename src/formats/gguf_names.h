/* Tensors by their names in GGUF files, both ways. */
#ifndef CH_FORMATS_GGUF_NAMES_H
#define CH_FORMATS_GGUF_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum { CH_GGUF_NAME_SIZE = 96 };

/* "blk.3.attn_q.weight" of a model's "model.layers.3.self_attn.q_proj.weight". *expert is the expert's number
   where the matrix is one of those that GGUF stacks in one tensor, else -1. False for a tensor that GGUF has
   no name for. */
bool ch_gguf_name_of(const ch_config *config, const char *name, char gguf[CH_GGUF_NAME_SIZE], int *expert);

#endif

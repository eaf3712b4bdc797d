/* Names of tensors in GGUF files. */
#ifndef CH_FORMATS_GGUF_NAMES_H
#define CH_FORMATS_GGUF_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum { CH_GGUF_NAME_SIZE = 96 };

/* Writes "blk.3.attn_q.weight" for a model's "model.layers.3.self_attn.q_proj.weight". *expert is the
   expert's number if GGUF stacks the matrix with others in one tensor, else -1. Returns false for a tensor
   that has no name in GGUF. */
bool ch_gguf_name_of(const ch_config *config, const char *name, char gguf[CH_GGUF_NAME_SIZE], int *expert);

#endif

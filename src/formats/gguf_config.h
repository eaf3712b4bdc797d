/* Reads the configuration of a model from a GGUF file's metadata. */
#ifndef CH_FORMATS_GGUF_CONFIG_H
#define CH_FORMATS_GGUF_CONFIG_H

#include "config/config.h"
#include "formats/gguf.h"

/* Reads the configuration. The vocabulary size, biases and tied embeddings follow from the tensors. */
ch_status ch_gguf_read_config(const ch_gguf *file, ch_config *config, ch_error *error);
/* Returns true if the architecture stores query and key rows with rotary pairs as neighbours. In Hugging
   Face's models, the rows of a pair are half a head apart. */
bool ch_gguf_turns_rows(const ch_gguf *file);

#endif

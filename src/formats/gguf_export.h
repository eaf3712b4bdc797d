/* Writes a model as GGUF, for llama.cpp. */
#ifndef CH_FORMATS_GGUF_EXPORT_H
#define CH_FORMATS_GGUF_EXPORT_H

#include "formats/blocks.h"
#include "formats/chat_metadata.h"
#include "infer/model.h"
#include "text/tokenizer.h"

typedef struct ch_gguf_export {
  const char *name; /* general.name */
  /* type of matrices: F32, F16, BF16 or Q8_0. Matrices that do not fit its blocks are F16, vectors are F32 */
  ch_block_type type;
  bool own; /* true if each matrix keeps its own type, bit for bit, and `type` is only the file's type */
  const ch_tokenizer *tokenizer; /* tokenizer to save; NULL: none */
  const ch_chat_metadata *chat;  /* chat templates and end tokens, saved with the tokenizer; NULL: none */
  /* called regularly; true stops with CH_ERROR_INTERRUPTED. May be NULL */
  bool (*stop)(void *context);
  void (*progress)(void *context, double share); /* called with the share done, 0 to 1; may be NULL */
  void *context;                                 /* first argument of `stop` and `progress` */
  const ch_weights *mapped; /* mapping whose pages are released once written; may be NULL */
} ch_gguf_export;

/* Returns the type that has the largest number of elements among a model's matrices. */
ch_block_type ch_gguf_main_type(const ch_params *params, const ch_tensor *tensors);

/* Writes the model; `config` is of a family that GGUF has an architecture for. The file is written under
   a temporary name and renamed. *loss names a property of the tokenizer that GGUF cannot express, so that some
   texts get other ids in llama.cpp. It is the end of a sentence; NULL if nothing is lost. */
ch_status ch_gguf_write(const char *path, const ch_config *config, const ch_params *params,
                        const ch_tensor *tensors, const ch_gguf_export *how, const char **loss,
                        ch_error *error);

#endif

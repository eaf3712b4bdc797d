/* Writing a model as GGUF, for llama.cpp. */
#ifndef CH_FORMATS_GGUF_EXPORT_H
#define CH_FORMATS_GGUF_EXPORT_H

#include "formats/blocks.h"
#include "formats/chat_metadata.h"
#include "infer/model.h"
#include "text/tokenizer.h"

typedef struct ch_gguf_export {
  const char *name; /* general.name */
  /* of matrices: F32, F16, BF16 or Q8_0; what does not fit its blocks is F16, vectors are F32 */
  ch_block_type type;
  bool own; /* instead each matrix has its own type, bit for bit, and `type` is what the file is called */
  const ch_tokenizer *tokenizer; /* or NULL */
  const ch_chat_metadata *chat;  /* saved with the tokenizer; or NULL */
  /* called now and then; true: CH_ERROR_INTERRUPTED. Or NULL */
  bool (*stop)(void *context);
  void (*progress)(void *context, double share); /* or NULL */
  void *context;
  const ch_weights *mapped; /* a mapping that tensors may be in, to release what is written; or NULL */
} ch_gguf_export;

/* Returns the type of most of a model's matrices, counted by elements. */
ch_block_type ch_gguf_main_type(const ch_params *params, const ch_tensor *tensors);

/* Writes the model; `config` is of a family that GGUF has an architecture for. The file is written under
   a temporary name and renamed. *loss is what GGUF cannot say of the tokenizer, so that some texts get other
   ids in llama.cpp, as the end of a sentence; NULL if it says all. */
ch_status ch_gguf_write(const char *path, const ch_config *config, const ch_params *params,
                        const ch_tensor *tensors, const ch_gguf_export *how, const char **loss,
                        ch_error *error);

#endif

/* A model opened for inference: configuration, parameter table, mapped weights. Immutable; shared by
   threads. */
#ifndef CH_INFER_MODEL_H
#define CH_INFER_MODEL_H

#include "infer/end_tokens.h"
#include "io/model_files.h"
#include "graph/plan.h"
#include "model/materialise.h"

typedef struct ch_model {
  char *directory;
  ch_config config; /* configuration of the open model; the files may hold other tensors */
  ch_params params;
  ch_weights weights;
  void *materialised; /* memory of tensors that ch_model_materialise computed */
  size_t materialised_bytes;
  ch_dtype compute; /* arithmetic of large products (ch_graph.compute); CH_F32 after loading */
  /* Set by the public ch_model_open; ch_model_load leaves it empty. */
  ch_tokenizer *tokenizer; /* tokenizer of the model, or NULL if it has none or was opened without it */
  int32_t end_tokens[CH_MAX_END_TOKENS];
  int end_token_count;
} ch_model;

/* Opens a model directory; `mode` selects the form of its weights. Release with ch_model_unload. */
ch_status ch_model_load(const char *directory, ch_weights_mode mode, ch_model **model, ch_error *error);
void ch_model_unload(ch_model *model);
/* Materialises the model's matrices, if that changes any. Call it before the model is used. */
ch_status ch_model_materialise(ch_model *model, ch_materialise_for form, ch_error *error);

/* Fails with CH_ERROR_CONFIG if a matrix is block-quantised, because `what` (a verb, "be compressed") would round it
   twice. */
ch_status ch_model_check_plain(const ch_model *model, const char *what, ch_error *error);

/* Returns a hash of the first bytes of every tensor, to distinguish models. */
uint64_t ch_model_hash(const ch_model *model);

/* Bytes of weight files above which passes over whole texts release the pages of weights after use. */
#define CH_LARGE_WEIGHTS ((int64_t)4 << 30)
/* Returns the bytes of the files that hold the weights. */
int64_t ch_model_file_bytes(const ch_model *model);
/* In models of more than CH_LARGE_WEIGHTS bytes, releases the pages of mapped matrices that a step of a run has read.
   Otherwise a single pass over text would bring all of them into memory. */
void ch_model_forget_used(const ch_model *model, const ch_run *run, const ch_node *node);

#endif

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
  ch_config config; /* with params and weights: the model as it runs; the files may hold other tensors */
  ch_params params;
  ch_weights weights;
  void *materialised; /* tensors that ch_model_materialise computed */
  size_t materialised_bytes;
  ch_dtype compute; /* of large products (ch_graph's); CH_F32 after loading */
  /* Set by the public ch_model_open; ch_model_load leaves it empty. */
  ch_tokenizer *tokenizer; /* NULL when the directory has none */
  int32_t end_tokens[CH_MAX_END_TOKENS];
  int end_token_count;
} ch_model;

/* Opens a model directory; mode says what becomes of its weights. Release with ch_model_unload. */
ch_status ch_model_load(const char *directory, ch_weights_mode mode, ch_model **model, ch_error *error);
void ch_model_unload(ch_model *model);
/* Materialises the model's matrices, if that changes any; before anyone uses the model. */
ch_status ch_model_materialise(ch_model *model, ch_materialise_for form, ch_error *error);

/* Fails with CH_ERROR_CONFIG if a matrix is block-quantised: `what` (a verb, "be compressed") would round it
   twice. */
ch_status ch_model_check_plain(const ch_model *model, const char *what, ch_error *error);

/* Returns a hash of the first bytes of every tensor, to tell models apart. */
uint64_t ch_model_hash(const ch_model *model);

/* If the mapped weights are larger than this, passes over whole texts release their pages after use. */
#define CH_LARGE_WEIGHTS ((int64_t)4 << 30)
/* Returns the bytes of the files that hold the weights. */
int64_t ch_model_file_bytes(const ch_model *model);
/* Releases the pages of the mapped matrices that a step of a run read, in models of more than
   CH_LARGE_WEIGHTS. Otherwise all of them would stay in memory for one pass over text. */
void ch_model_forget_used(const ch_model *model, const ch_run *run, const ch_node *node);

#endif

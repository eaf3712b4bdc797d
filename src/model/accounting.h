/* What a model costs: parameters, cache, arithmetic. Counted from the parameter table, from the states that the
 * mechanism declares and from the graph that runs, so the figures cannot drift from the code. */
#ifndef CH_MODEL_ACCOUNTING_H
#define CH_MODEL_ACCOUNTING_H

#include "config/params.h"
#include "graph/cache.h"

/* Multiply-adds times two that one token takes; in models of images, one image. */
typedef struct ch_flops {
  double attention_projections; /* every matrix under self_attn */
  double attention_context;     /* what grows with the tokens looked back at: scores, weighted values */
  double feed_forward;
  double lm_head; /* 2 V D, tied or not; looking up an embedding is no product. Of images: the classifier */
  double patches; /* the patch embedding of images */
  double total;
} ch_flops;

typedef struct ch_account {
  int64_t parameters_total;
  int64_t parameters_attention; /* under self_attn and model.dictionary, without gate tables */
  int64_t parameters_embedding; /* embed_tokens and an untied lm_head; of images all of the next three */
  int64_t parameters_patch, parameters_position, parameters_head; /* positions with the class token */
  int64_t parameters_gate_embedding;                              /* lookup tables of embedding gates */
  int64_t parameters_feed_forward;
  int64_t parameters_norm;          /* norms outside attention */
  int64_t parameters_active;        /* the total less gate tables and experts not chosen */
  int64_t cache_elements_per_token; /* summed over layers */
  int64_t cache_bytes_per_token;
  int64_t total_effective_rank; /* per layer: heads times the rank of a head's query-key map */
  int64_t shared_latent_dim;    /* per layer: width of the latent space that heads share */
  ch_flops flops;           /* one forward pass, as in training; a training step takes three times as many */
  ch_flops prefill, decode; /* through the cache: many tokens at once, one token; of images none */
} ch_account;

/* The parameters_ members alone; the others are zero. */
void ch_account_parameters(const ch_config *config, const ch_params *params, ch_account *account);
/* params: the config's table. depth: tokens that attention looks back at. cache: what it stores. */
ch_status ch_account_model(const ch_config *config, const ch_params *params, int64_t depth,
                           ch_cache_types cache, ch_account *account, ch_error *error);
/* Appends the account as a JSON object, with the depth and the name of the cache's types it was made for; name: first of
   its keys, or NULL. */
void ch_account_json(const char *name, const ch_config *config, const ch_account *account, int64_t depth,
                     const char *cache_dtype, ch_text *json);

#endif

/* One pass over given tokens or images: logits, loss, gradients - plain, or through the cache token by token. */
#ifndef CH_INFER_FORWARD_H
#define CH_INFER_FORWARD_H

#include "infer/model.h"
#include "infer/timeline.h"

typedef struct ch_forward_request {
  const int32_t *tokens; /* [sequences, length] */
  int64_t sequences, length;
  /* Models of images: sequences are images and length is 1. */
  const float *pixels;   /* [sequences, channels, size, size], in place of tokens */
  const int32_t *labels; /* [sequences], -1 = not known; or NULL */
  ch_dtype dtype;        /* CH_F32 or CH_F64 (plain passes only) */
  bool gradients;        /* of the loss, for every parameter */
  bool loss_alone;       /* of tokens: logits are made for some tokens at a time and not kept */
  int64_t cached;        /* tokens to prefill before the rest are decoded one at a time; 0 = no cache */
  ch_cache_types cache;  /* what that stores */
} ch_forward_request;

typedef struct ch_forward_result {
  float *logits;   /* [sequences, length, V], or NULL with loss_alone; of images [sequences, 1, classes] */
  int64_t classes; /* V, or those of images */
  bool has_loss;   /* something is predicted: length > 1, or labels */
  double loss;     /* mean cross entropy of the sequences * (length - 1) next tokens, or of the labels */
  ch_tensor *gradients; /* [params] of the request's dtype, or NULL */
  void *gradient_data;
  ch_workspace workspace; /* what the logits lie in, where they are not the result's own */
  int64_t cache_elements_per_token, cache_tokens; /* of the cache object; by formula when there was none */
  size_t cache_bytes_allocated;
} ch_forward_result;

/* `model` must hold weights of the request's dtype (or mapped ones, for F32 without gradients). Fails with
   CH_ERROR_NUMERIC when a logit is not finite. Release the result with ch_forward_result_free. */
ch_status ch_forward(const ch_model *model, const ch_forward_request *request, ch_forward_result *result,
                     ch_error *error);
void ch_forward_result_free(ch_forward_result *result);

#endif

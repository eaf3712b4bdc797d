/* One pass over given tokens or images: logits, loss, gradients. For comparing a model with other programs,
 * number by number, and for methods that need gradients.
 *
 *   int32_t tokens[] = {1, 403, 2501, 9};
 *   ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = 4, .gradients = true};
 *   ch_forward_result result;
 *   ch_model *exact;
 *   if (ch_model_open_exact("model", CH_PRECISION_F64, true, &exact, NULL) == CH_OK) {
 *     if (ch_forward(exact, &request, &result, NULL) == CH_OK) {
 *       printf("%g, %s\n", result.loss, result.gradients[0].name);
 *       ch_forward_result_free(&result);
 *     }
 *     ch_model_close(exact);
 *   } */
#ifndef CROSSHEAD_FORWARD_H
#define CROSSHEAD_FORWARD_H

#include <crosshead/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a model of text or of images for ch_forward, without its tokenizer; release *model with
 * ch_model_close. Matrices that are sums of others are not rounded to the files' 16 bits, as ch_model_open
 * does for speed.
 *
 * compute: the arithmetic. F32 (default); BF16, for large matrix products with sums in F32; or F64 in plain
 * C, the reference, with all weights in memory in F64. Sessions and evaluation reject a model in F64.
 * gradients: the weights are in memory with the values of the files, so that ch_forward can compute a
 * gradient for each; not with BF16. Errors: those of ch_model_open, and CH_ERROR_ARGUMENT for another
 * arithmetic. */
CH_API ch_status ch_model_open_exact(const char *directory, ch_precision compute, bool gradients,
                                     ch_model **model, ch_error *error);

/* The inputs of a pass, and the wanted results. Zero-initialise it; later versions may add members. All that it
 * points to must last until ch_forward has returned. */
typedef struct ch_forward_request {
  const int32_t *tokens; /* [sequences, length] ids, of a model of text */
  /* number of sequences, and tokens per sequence; with images, number of images, and 1 */
  int64_t sequences, length;
  const float *pixels;   /* [sequences, channels, size, size], of a model of images in place of tokens */
  const int32_t *labels; /* [sequences] classes of images, -1 = not known; or NULL */
  bool gradients;        /* compute the gradient of the loss for every parameter; ignored with `cached` */
  /* for models of text: compute logits for some tokens at a time and do not store them */
  bool loss_alone;
  /* number of tokens to prefill; the rest are decoded one at a time through the cache; 0 = no cache */
  int64_t cached;
  ch_precision cache; /* element type of the cache; default F32 */
  /* element types of cached keys, values and latents, if they differ; default: as `cache` */
  ch_precision cache_keys, cache_values, cache_latents;
} ch_forward_request;

/* Reads tokens, or pixels and labels, from a safetensors file: for a model of text an I32 or I64 tensor
 * "tokens" [B, T]; for a model of images an F32 tensor "pixels" (or "pixel_values") [B, C, H, W] and, if it
 * exists, an I32 or I64 tensor "labels" [B]. Fills tokens, pixels, labels, sequences and length, and leaves
 * the other members unchanged. Release with ch_forward_request_free. Errors: CH_ERROR_IO, CH_ERROR_MEMORY, and
 * CH_ERROR_FORMAT for tensors that are missing or have other shapes. */
CH_API ch_status ch_forward_read(const char *path, const ch_model *model, ch_forward_request *request,
                                 ch_error *error);

/* Releases the tokens, pixels and labels of ch_forward_read. */
CH_API void ch_forward_request_free(ch_forward_request *request);

/* The gradient of the loss with respect to a parameter. */
typedef struct ch_gradient {
  const char *name;  /* name of the tensor in model.safetensors; belongs to the model */
  int32_t rank;      /* number of dimensions, 1 to 4 */
  int64_t shape[4];  /* [rank], the outer dimension first */
  ch_precision type; /* element type of `data`: F32, or F64 for a model opened in F64 */
  const void *data;  /* the elements, row-major; they belong to the result */
} ch_gradient;

/* The results of a pass. */
typedef struct ch_forward_result {
  float *logits; /* [sequences, length, V] logits, or [sequences, classes] for images; NULL with loss_alone */
  /* sizes of `logits`: length is 1 for images, classes is V or the number of classes of images */
  int64_t sequences, length, classes;
  bool has_loss; /* true if a token or label is predicted: length > 1, or labels */
  /* mean cross entropy, in nats, of the sequences * (length - 1) next tokens, or of the known labels */
  double loss;
  ch_gradient *gradients; /* [gradient_count] gradients of all parameters that training changes; or NULL */
  int64_t gradient_count; /* number of gradients; 0 without them */
  /* elements that a token adds to the cache, all layers together; tokens of all sequences; 0 for images */
  int64_t cache_elements_per_token, cache_tokens;
  size_t cache_bytes_allocated; /* bytes of the cache; without `cached` those of an F32 cache, by formula */
  bool images;                  /* true if the model read the request's pixels */
  void *own;                    /* memory of the library */
} ch_forward_result;

/* Runs the model over the request's inputs; release *result with ch_forward_result_free. A model of
 * ch_model_open runs too; gradients need one of ch_model_open_exact. Errors: CH_ERROR_ARGUMENT for a request
 * that the model cannot process, and for gradients of a model that was not opened for them; CH_ERROR_NUMERIC
 * when a logit is not finite; CH_ERROR_MEMORY. */
CH_API ch_status ch_forward(const ch_model *model, const ch_forward_request *request,
                            ch_forward_result *result, ch_error *error);

/* Releases the memory of a result and sets its members to zero. */
CH_API void ch_forward_result_free(ch_forward_result *result);

/* Writes a result as a safetensors file: "logits" in the shape of ch_forward_result.logits if they were stored,
 * "loss" [1] in F32 if there is one, and the gradient of each parameter NAME as "grad.NAME". The file is
 * written under another name and renamed. Errors: CH_ERROR_ARGUMENT for NULL, CH_ERROR_IO,
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_forward_write(const char *path, const ch_forward_result *result, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

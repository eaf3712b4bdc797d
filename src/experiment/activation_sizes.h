/* The sizes of a model's activations on a text: embeddings, projections, attention's scores and outputs, the residual
 * stream and the logits. */
#ifndef CH_EXPERIMENT_ACTIVATION_SIZES_H
#define CH_EXPERIMENT_ACTIVATION_SIZES_H

#include "base/error.h"
#include "config/params.h"

enum { CH_ACTIVATION_NAME_SIZE = 40, CH_MOST_ACTIVATIONS = 96 };

/* One activation, averaged over the layers that have it. */
typedef struct ch_activation {
  /* "embedding", "q_proj", "scores", "attention", "stream", "logits" ... */
  char name[CH_ACTIVATION_NAME_SIZE];
  bool of_stream; /* true for the residual stream and for products that are added to it */
  double size;    /* root mean square of the values; the mean over layers */
  double change;  /* root mean square of the change since the first pass; the mean over layers */
} ch_activation;

/* Passes of one text through one model, whose weights may change between passes. */
typedef struct ch_activations ch_activations;

/* Creates the measurement. `params` and tokens [sequences, length] must outlive it. The model must be a text model
 * whose norms precede attention and FFN. Release with ch_activations_free. */
ch_status ch_activations_create(const ch_config *config, const ch_params *params, const int32_t *tokens,
                                int64_t sequences, int64_t length, ch_activations **activations,
                                ch_error *error);
void ch_activations_free(ch_activations *activations);
/* Runs the text through `weights` [params->count], F32 in host memory. Changes are relative to the first call. */
ch_status ch_activations_measure(ch_activations *activations, const ch_tensor *weights, ch_error *error);
/* Returns the measurements of the last call, in the order of computation. */
const ch_activation *ch_activations_list(const ch_activations *activations, int *count);

#endif

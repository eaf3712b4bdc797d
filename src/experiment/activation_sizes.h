/* The sizes of a model's activations on a text: of every projection, attention's scores and outputs, the residual
 * stream and the logits. */
#ifndef CH_EXPERIMENT_ACTIVATION_SIZES_H
#define CH_EXPERIMENT_ACTIVATION_SIZES_H

#include "base/error.h"
#include "config/params.h"

enum { CH_ACTIVATION_NAME_SIZE = 40, CH_MOST_ACTIVATIONS = 96 };

/* An activation of all layers that have it. */
typedef struct ch_activation {
  char name
      [CH_ACTIVATION_NAME_SIZE]; /* "embedding", "q_proj", "scores", "attention", "stream", "logits" ... */
  bool of_stream; /* the residual stream, or what is added to it: measured relative to the embeddings */
  double size;    /* root mean square; the mean over layers */
  double change;  /* root mean square of the difference to the first pass */
} ch_activation;

/* Passes of one text through the weights of one model. */
typedef struct ch_activations ch_activations;

/* Creates the measurement. tokens [sequences, length] must outlive it. The model must be one of text with
 * norms in front of its halves. */
ch_status ch_activations_create(const ch_config *config, const ch_params *params, const int32_t *tokens,
                                int64_t sequences, int64_t length, ch_activations **activations,
                                ch_error *error);
void ch_activations_free(ch_activations *activations);
/* Runs the text through `weights` [params->count], F32 in the host's memory. Changes count from the first call. */
ch_status ch_activations_measure(ch_activations *activations, const ch_tensor *weights, ch_error *error);
/* Returns the measurements of the last call, in the order of computation. */
const ch_activation *ch_activations_list(const ch_activations *activations, int *count);

#endif

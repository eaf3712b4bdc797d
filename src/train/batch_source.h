/* The source of a trainer's tokens or images. It is read at random access, so that a resumed run needs only
 * its step number. */
#ifndef CH_TRAIN_BATCH_SOURCE_H
#define CH_TRAIN_BATCH_SOURCE_H

#include <stdint.h>

#include "base/error.h"

/* One batch's arrays, [sequences, length] each, owned by the trainer and filled by the source. A sequence
   may be an image: length is 1, and the target is its label. */
typedef struct ch_batch {
  int64_t sequences, length;
  int32_t *tokens;
  int32_t *targets; /* the token after each token, or labels; -1: nothing to predict */
  /* first position in the sequence that each token may see; NULL when attention crosses documents */
  int32_t *document_start;
  float *pixels; /* [sequences, channels, size, size]: images, with `tokens` NULL; or NULL */
} ch_batch;

/* Training and validation text, or images. Both functions must return the same data on every call for the
   same place. They are called by one thread at a time and allocate nothing. */
typedef struct ch_batch_source {
  void *context;
  /* Fills in the sequences first … first + batch->sequences − 1 of the endless training stream. The stream
     repeats, reshuffled, when the data are used up. */
  ch_status (*train)(void *context, int64_t first, ch_batch *batch, ch_error *error);
  /* Fills in sequences of the validation text in its order. `first` + sequences may pass the end; rows past the
     end have no targets (-1). */
  ch_status (*validate)(void *context, int64_t first, ch_batch *batch, ch_error *error);
  int64_t validation_sequences; /* sequences of the validation data; 0: there is none */
  char fingerprint[64]; /* equal for equal text and tokenizer, or images; checked when a run is resumed */
} ch_batch_source;

#endif

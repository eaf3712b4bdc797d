/* The batches of a training run, for a program that trains it in the library's place. Link
 * libcrosshead-train.
 *
 *   ch_batches *batches;
 *   ch_batches_info info;
 *   if (ch_batches_open("model", "model/checkpoint.safetensors", &batches, NULL) == CH_OK) {
 *     ch_batches_describe(batches, &info);
 *     size_t places = 8 * (size_t)info.length; // of a batch of 8 sequences of text
 *     int32_t *tokens = calloc(places, sizeof *tokens), *targets = calloc(places, sizeof *targets);
 *     if (tokens && targets) ch_batches_train(batches, 0, 8, tokens, targets, NULL, NULL, NULL);
 *     free(tokens);
 *     free(targets);
 *     ch_batches_close(batches);
 *   } */
#ifndef CROSSHEAD_BATCHES_H
#define CROSSHEAD_BATCHES_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The data of one run: training sequences in the run's order, and validation sequences. One thread at a time may
 * use a ch_batches. */
typedef struct ch_batches ch_batches;

/* The shape of a run's data. */
typedef struct ch_batches_info {
  bool images;                  /* true: the model reads images, and a sequence is an image */
  bool documents;               /* true: attention stays inside documents */
  int64_t length;               /* tokens per sequence; 1 for images */
  int64_t pixels;               /* elements of an image, channels * size * size; 0 for text */
  int64_t validation_sequences; /* number of validation sequences; 0 without validation data */
} ch_batches_info;

/* Opens the data of the run whose checkpoint is the file `checkpoint`; release *batches with ch_batches_close.
 * `directory` holds the prepared text (tokenizer, data.tokens, data.json), or the record of the images. Length, order
 * and augmentation are those of the checkpoint's options. Errors: CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_MEMORY, and
 * CH_ERROR_ARGUMENT for NULL and for data that differ from those of the run's start. */
CH_API ch_status ch_batches_open(const char *directory, const char *checkpoint, ch_batches **batches,
                                 ch_error *error);
/* Releases the data. NULL is fine. */
CH_API void ch_batches_close(ch_batches *batches);
/* Fills in the shape of the data. */
CH_API void ch_batches_describe(const ch_batches *batches, ch_batches_info *info);

/* Fills `sequences` training sequences, from number `first` on, of the endless stream that the run trains on: step s
 * (1 for the first) of a run with n sequences a step begins at (s - 1) n. The caller allocates the arrays. tokens
 * [sequences, length] are the inputs; NULL for images. targets [sequences, length] are the tokens to predict, -1
 * where none is, or the labels of images. document_start [sequences, length] becomes the first position in the
 * sequence that each token may see; NULL unless info.documents is set. pixels [sequences, info.pixels] are the
 * images; NULL for text. Errors: CH_ERROR_ARGUMENT for negative numbers, CH_ERROR_FORMAT for damaged data,
 * CH_ERROR_IO. */
CH_API ch_status ch_batches_train(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                                  int32_t *targets, int32_t *document_start, float *pixels, ch_error *error);
/* Fills a batch of validation sequences, from number `first` on, as ch_batches_train does for training.
 * Sequences after the last one have no targets (-1). */
CH_API ch_status ch_batches_validate(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                                     int32_t *targets, int32_t *document_start, float *pixels,
                                     ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

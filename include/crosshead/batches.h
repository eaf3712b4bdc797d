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

/* The data of one run: training sequences in the run's order, and validation sequences. One thread at a
 * time. */
typedef struct ch_batches ch_batches;

typedef struct ch_batches_info {
  bool images;                  /* the model reads images */
  bool documents;               /* attention stays inside documents */
  int64_t length;               /* tokens of a sequence; 1 with images, which then are the sequences */
  int64_t pixels;               /* elements of an image, channels * size * size; 0 for text */
  int64_t validation_sequences; /* 0: there is no validation data */
} ch_batches_info;

/* Opens the data of the run whose checkpoint is the file `checkpoint`. `directory` holds the prepared text
 * (tokenizer, data.tokens, data.json), or the record of the images. Length, order and augmentation are those
 * of the checkpoint's options. Release with ch_batches_close. Errors: CH_ERROR_IO, CH_ERROR_FORMAT,
 * CH_ERROR_MEMORY, and CH_ERROR_ARGUMENT for data other than what the run was started with. */
CH_API ch_status ch_batches_open(const char *directory, const char *checkpoint, ch_batches **batches,
                                 ch_error *error);
CH_API void ch_batches_close(ch_batches *batches);
CH_API void ch_batches_describe(const ch_batches *batches, ch_batches_info *info);

/* Fills `sequences` training sequences, from number `first` on, of the endless stream that the run trains on:
 * step s (1 for the first) of a run with n sequences a step begins at (s - 1) n. tokens and targets are
 * [sequences, length]; a target is -1 where nothing is to be predicted, and the label with images.
 * document_start [sequences, length] gets the first place of its sequence that each token may see; NULL
 * unless info.documents is set. pixels [sequences, info.pixels] gets images in place of tokens, which are
 * then NULL; NULL for text. */
CH_API ch_status ch_batches_train(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                                  int32_t *targets, int32_t *document_start, float *pixels, ch_error *error);
/* Fills a batch of validation sequences, as ch_batches_train does for training. Sequences after the last one
 * have no targets (-1). */
CH_API ch_status ch_batches_validate(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                                     int32_t *targets, int32_t *document_start, float *pixels,
                                     ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* The text of a run made ready: its tokenizer, its token files, and the source of batches over them.
 *
 * Everything derived from the text lies in one directory (tokenizer.json and token files) and is found there again by
 * the next run; what a run left unfinished, or made from another text or with other settings, is made anew.
 */
#ifndef CH_TRAIN_DATA_H
#define CH_TRAIN_DATA_H

#include <stdbool.h>

#include "train/source.h"

typedef struct ch_data_options {
  const char *data; /* a text file (UTF-8), several with commas between, or a token file */
  const char *
      tokenizer; /* tokenizer.json, tokenizer.bin or a directory with one; NULL: one is trained on the text */
  int64_t vocab_size; /* of a trained tokenizer; with a given one, the vocabulary it must fit into; 0: any */
  const char *directory; /* where derived files go; created when missing */
  int64_t sequence;      /* tokens of a sequence */
  uint64_t seed;         /* of the order of the training sequences and of the split */
  bool documents;        /* fill document_start, and pack documents so that few are cut */
  /* Called now and then with what is going on; false stops with CH_ERROR_INTERRUPTED. May be NULL. */
  bool (*report)(void *context, const char *stage, double done, double total);
  void *context;
} ch_data_options;

typedef struct ch_data {
  ch_source
      source; /* context, train, validate, validation_sequences, fingerprint: ready for ch_trainer_create */
  int64_t text_bytes, train_tokens, validation_tokens; /* text_bytes: 0 for a token file */
  int64_t vocab_size;                                  /* ids are below it */
  int32_t bos, eos;                                    /* -1: none */
  struct ch_data_parts *parts;
} ch_data;

/* Makes the text ready. Release with ch_data_close (harmless after a failure). Errors name the file: empty or binary
   text, a text too short for one training and one validation sequence, a tokenizer that does not fit. */
ch_status ch_data_open(const ch_data_options *options, ch_data *data, ch_error *error);
void ch_data_close(ch_data *data);
/* Copies the tokenizer's files into a model's directory; nothing to do when they lie there already. */
ch_status ch_data_give_tokenizer(const ch_data *data, const char *directory, ch_error *error);

#endif

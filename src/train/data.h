/* The text of a run made ready: its tokenizer, its token file, and the source of batches over them.
 *
 * What is derived from the text lies in one directory (tokenizer.json, data.tokens, and data.json, which says from what
 * they were made) and is found there again by the next run; what a killed run left unfinished, or what was made from
 * another text or with other settings, is made anew.
 */
#ifndef CH_TRAIN_DATA_H
#define CH_TRAIN_DATA_H

#include <stdbool.h>

#include "text/corpus.h"
#include "train/source.h"

typedef struct ch_data_options {
  const char *
      data; /* a text file (UTF-8), several with commas between, or a token file (its tokenizer given, or beside
                       it); NULL, with `fixed`: what the directory holds */
  const char *
      tokenizer; /* tokenizer.json, tokenizer.bin or a directory with one; NULL: one is trained on the text that is not kept for validation */
  int64_t vocab_size;    /* of a trained tokenizer; a given one must fit into it when it is not 0 */
  const char *directory; /* where derived files go; created when missing */
  bool fixed;       /* a run is resumed: the directory's files must be there and fit; nothing is made anew */
  int64_t sequence; /* tokens of a sequence */
  uint64_t seed;  /* of the order of the training sequences; which documents validate does not depend on it */
  bool documents; /* keep documents apart: fill document_start, and pack them so that few are cut */
  ch_separator separator; /* what parts documents in the text */
  double validation;      /* share of the text that is kept for validation; 0: a twentieth */
  /* Called now and then with what is going on; false stops with CH_ERROR_INTERRUPTED. May be NULL. */
  bool (*report)(void *context, const char *stage, double done, double total);
  void *context;
} ch_data_options;

typedef struct ch_data {
  ch_source source; /* ready for ch_trainer_create; its context is this ch_data's */
  int64_t text_bytes, train_tokens, validation_tokens;
  int64_t train_sequences; /* in one pass over the training text */
  int64_t vocab_size;      /* of the tokenizer; ids are below it */
  int32_t bos, eos;        /* -1: none */
  struct ch_data_parts *parts;
} ch_data;

/* Makes the text ready. Release with ch_data_close, also after a failure. Errors name the file: empty or binary text, a
   text too short for one training and one validation sequence, a tokenizer that does not fit, and with `fixed` a text
   or tokenizer that is not the one the directory's files were made from. */
ch_status ch_data_open(const ch_data_options *options, ch_data *data, ch_error *error);
void ch_data_close(ch_data *data);
/* From now on the training sequences come in the order of another seed. */
void ch_data_reseed(ch_data *data, uint64_t seed);
/* Copies the tokenizer's files into a model's directory; nothing to do when that is the data's own. */
ch_status ch_data_give_tokenizer(const ch_data *data, const char *directory, ch_error *error);

/* The files of the directory. */
#define CH_DATA_TOKENS "data.tokens"
#define CH_DATA_RECORD "data.json"

#endif

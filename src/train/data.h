/* Prepares the text of a run: its tokenizer, its token file, and the source of batches over them.
 *
 * One directory holds what is derived from the text: tokenizer.json, data.tokens, and data.json, which
 * records what they were derived from. The next run finds them there. Files that a killed run left
 * unfinished, or that come from another text or other settings, are written anew. */
#ifndef CH_TRAIN_DATA_H
#define CH_TRAIN_DATA_H

#include <stdbool.h>

#include "base/file_names.h"
#include "text/corpus.h"
#include "train/batch_source.h"

typedef struct ch_data_options {
  /* a text file (UTF-8), several with commas between, or a token file (its tokenizer given, or in its
     directory); NULL, with `fixed`: what the directory holds */
  const char *data;
  /* tokenizer.json, tokenizer.bin or a directory with one; NULL: one is trained on the text that is not
     for validation */
  const char *tokenizer;
  int64_t vocab_size;    /* vocabulary of a trained tokenizer; if not 0, a given tokenizer must fit into it */
  const char *directory; /* where derived files go; created when missing */
  bool fixed;            /* for a resumed run: the files must exist and fit; nothing is written */
  /* wait until another run in the directory has prepared the text, and use it if it is the same */
  bool waits;
  int64_t sequence; /* tokens of a sequence */
  /* of the order of the training sequences; the choice of validation documents does not depend on it */
  uint64_t seed;
  bool documents; /* keep documents apart: fill document_start, and pack documents so that few are cut */
  ch_document_separator separator; /* what separates documents in the text */
  double validation;               /* share of the text for validation; 0: a twentieth */
  /* as `data`, text files: they validate, and all of `data` trains; NULL: the share */
  const char *validation_text;
  /* for a model that exists: documents begin with what the tokenizer puts before a text by default */
  bool begin;
  /* Called now and then with the current stage; if it returns false, the call ends with CH_ERROR_INTERRUPTED.
     May be NULL. */
  bool (*report)(void *context, const char *stage, double done, double total);
  void *context;
} ch_data_options;

typedef struct ch_data {
  ch_batch_source source; /* ready for ch_trainer_create; its context is this ch_data's */
  int64_t text_bytes;
  int64_t train_tokens, validation_tokens; /* without those that fill windows of packed documents up */
  int64_t train_sequences;                 /* in one pass over the training text */
  int64_t vocab_size;                      /* of the tokenizer; ids are below it */
  int32_t bos, eos;                        /* -1: none */
  struct ch_data_parts *parts;
} ch_data;

/* Prepares the text. Release with ch_data_close, also after a failure. Errors name the file: empty or binary
   text, a text too short for one training and one validation sequence, a tokenizer that does not fit, and
   with `fixed` a text or tokenizer other than that of the directory's files. */
ch_status ch_data_open(const ch_data_options *options, ch_data *data, ch_error *error);
void ch_data_close(ch_data *data);
/* Returns the mean cross entropy, in nats, of guessing tokens by their frequency in the training text; 0
 * without a text, NAN when out of memory. */
double ch_data_token_entropy(const ch_data *data);
/* Changes the order of the training sequences to that of another seed. */
void ch_data_reseed(ch_data *data, uint64_t seed);
/* Returns the text's tokenizer; it belongs to the data. */
const struct ch_tokenizer *ch_data_tokenizer(const ch_data *data);
/* Copies the tokenizer's files into a model's directory, unless that is the data's own directory. */
ch_status ch_data_give_tokenizer(const ch_data *data, const char *directory, ch_error *error);

#endif

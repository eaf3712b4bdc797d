/* Prepares the text of a run: its tokenizer, its token file, and the source of batches over them.
 *
 * One directory holds the files that are derived from the text: tokenizer.json, data.tokens, and data.json, which
 * records their sources. The next run finds them there. Files that a killed run left unfinished, or that come
 * from another text or other settings, are written anew. */
#ifndef CH_TRAIN_DATA_H
#define CH_TRAIN_DATA_H

#include <stdbool.h>

#include "base/file_names.h"
#include "text/corpus.h"
#include "train/batch_source.h"

typedef struct ch_data_options {
  /* text file (UTF-8), several separated by commas, or a token file with its tokenizer in `tokenizer` or in its
     directory; NULL, with `fixed`: the files of `directory` */
  const char *data;
  /* tokenizer.json, tokenizer.bin or a directory with one; NULL: one is trained on the training part of the
     text */
  const char *tokenizer;
  int64_t vocab_size;    /* vocabulary of a trained tokenizer; if not 0, a given tokenizer must fit into it */
  const char *directory; /* directory of derived files; created when missing */
  bool fixed;            /* true for a resumed run: the files must exist and fit; nothing is written */
  /* true to wait until another run in the directory has prepared the text, and to use its files if they fit */
  bool waits;
  int64_t sequence; /* tokens of a sequence */
  uint64_t seed;  /* seed of the order of the training sequences; validation documents do not depend on it */
  bool documents; /* true to fill document_start, and to pack documents so that few are cut */
  ch_document_separator separator; /* separator of documents in the text */
  double validation;               /* share of the text for validation; 0: a twentieth */
  const char *validation_text; /* text files for validation, named as in `data`; NULL: a share of `data` */
  /* true, for an existing model, if documents begin with the tokens that the tokenizer puts before a text */
  bool begin;
  /* Called from time to time with the current stage; false stops with CH_ERROR_INTERRUPTED. May be NULL. */
  bool (*report)(void *context, const char *stage, double done, double total);
  void *context;
} ch_data_options;

typedef struct ch_data {
  ch_batch_source source;                  /* source for ch_trainer_create, valid as long as this ch_data */
  int64_t text_bytes;                      /* bytes of the text, without separate validation texts */
  int64_t train_tokens, validation_tokens; /* tokens of the text, without padding of packed documents */
  int64_t train_sequences;                 /* sequences in one pass over the training text */
  int64_t vocab_size;                      /* vocabulary of the tokenizer; ids are below it */
  int32_t bos, eos;                        /* beginning and end token; -1: none */
  struct ch_data_parts *parts;
} ch_data;

/* Prepares the text. Release with ch_data_close, also after a failure. Errors name the file: an empty or binary
   text, a text too short for one training and one validation sequence, a tokenizer that does not fit, or,
   with `fixed`, a text or tokenizer that differs from that of the directory's files. */
ch_status ch_data_open(const ch_data_options *options, ch_data *data, ch_error *error);
void ch_data_close(ch_data *data);
/* Returns the mean cross entropy, in nats, of guessing tokens by their frequency in the training text; 0
 * without a text, NAN if out of memory. */
double ch_data_token_entropy(const ch_data *data);
/* Changes the order of the training sequences to that of another seed. */
void ch_data_reseed(ch_data *data, uint64_t seed);
/* Returns the text's tokenizer; it belongs to the data. */
const struct ch_tokenizer *ch_data_tokenizer(const ch_data *data);
/* Copies the tokenizer's files into a model's directory, unless an equal tokenizer is there already. */
ch_status ch_data_give_tokenizer(const ch_data *data, const char *directory, ch_error *error);

#endif

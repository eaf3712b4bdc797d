/* Token files: text turned into ids once, memory-mapped for training.
 *
 * The text is cut into documents. Each is used for training or for validation; a long one may be cut in two.
 * An end token follows each document. Documents are concatenated, or packed into windows of one length
 * (text/packing.h). */
#ifndef CH_TEXT_CORPUS_H
#define CH_TEXT_CORPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "text/documents.h"
#include "text/tokenizer.h"

typedef struct ch_corpus_options {
  ch_document_separator separator;
  double validation; /* share of the text for validation, 0 … 0.5 */
  /* texts that are used whole for validation; `validation` must then be 0. NULL: none */
  const char *const *validation_paths;
  int validation_count;
  uint64_t seed;       /* seed for choosing the validation documents */
  int64_t pack_length; /* tokens per best-fit packed window; 0: documents are concatenated */
  bool begin;          /* true: the tokenizer's default prefix (a beginning token) begins every document */
} ch_corpus_options;

/* Sets the defaults: AUTO, 5 %, seed 0, concatenated. */
void ch_corpus_options_default(ch_corpus_options *options);

/* Progress of the preparation. Returning true stops it (CH_ERROR_INTERRUPTED); may be NULL. */
typedef bool (*ch_corpus_progress)(void *context, uint64_t bytes_done, uint64_t bytes_total, int64_t tokens);

/* Encodes UTF-8 text files into the token file OUT (written under a temporary name and renamed), with all
   cores, in bounded memory. With at least 20 documents, the hash of a document's content decides whether it
   validates, so that equal documents are on one side. If this choice misses the share by more than a quarter
   of it, documents are chosen by hash and size, and a document longer than twice the share gives only its tail. The
   text's tail validates if there are fewer documents, or if no choice comes within half of the share because too many
   are equal. The tokenizer must name an end token, or have
   "<|endoftext|>". Errors: a file that is empty or not text, an impossible option, a full disk. */
ch_status ch_corpus_prepare(const char *const *paths, int count, const ch_tokenizer *tokenizer,
                            const ch_corpus_options *options, const char *out, ch_corpus_progress progress,
                            void *context, ch_error *error);

typedef struct ch_corpus ch_corpus;
typedef enum ch_corpus_split { CH_SPLIT_TRAIN, CH_SPLIT_VALIDATION } ch_corpus_split;

/* Maps a token file; truncated, damaged and foreign files are errors. Reading does not change the corpus, so
   threads may share it. */
ch_status ch_corpus_open(const char *path, ch_corpus **corpus, ch_error *error);
void ch_corpus_close(ch_corpus *corpus);
/* Returns true if the file at PATH begins like a token file. */
bool ch_corpus_recognise(const char *path);

typedef struct ch_corpus_info {
  int64_t train_tokens, validation_tokens, documents, vocab_size, pack_length;
  uint64_t text_bytes; /* bytes of all texts except ch_corpus_options.validation_paths */
  uint64_t tokenizer;  /* ch_tokenizer_fingerprint of the file's tokenizer */
  uint64_t content;    /* hash of the training and validation ids */
  int32_t end_token;
} ch_corpus_info;
void ch_corpus_describe(const ch_corpus *corpus, ch_corpus_info *info);

/* Returns the mean cross entropy, in nats, of predicting tokens by their frequency in the training split (its
   first 16 Mi tokens). 0 without tokens; NAN if out of memory. */
double ch_corpus_token_entropy(const ch_corpus *corpus);

/* Returns the number of end tokens that packing added to fill the windows of a split; 0 if documents are
   concatenated. Reads the ends of all windows. */
int64_t ch_corpus_padding(const ch_corpus *corpus, ch_corpus_split split);

/* Returns the number of windows of `length` tokens in one pass through a split; 0 if the split is too short
   for one. For a packed file `length` must be its pack_length. */
int64_t ch_corpus_windows(const ch_corpus *corpus, ch_corpus_split split, int64_t length);

/* Fills tokens and targets [sequences, length] with windows first … first + sequences - 1. Training: an
   endless stream, every epoch shuffled by (seed, epoch) and, when concatenated, cut at another offset; any
   `first` is found at once. Validation: in order; rows past the end have targets -1. document_start
   [sequences, length] or NULL: the first place of its window that each token may see when attention stays
   inside documents; then, and in packed files, the end token predicts nothing (-1). Errors: CH_ERROR_ARGUMENT
   if the split has no window or `first` or `sequences` is negative, CH_ERROR_FORMAT if an id exceeds the
   vocabulary. */
ch_status ch_corpus_batch(const ch_corpus *corpus, ch_corpus_split split, uint64_t seed, int64_t first,
                          int64_t sequences, int64_t length, int32_t *tokens, int32_t *targets,
                          int32_t *document_start, ch_error *error);

#endif

/* A text file with its documents, to measure a model on. */
#ifndef CH_EVAL_DOCUMENT_SET_H
#define CH_EVAL_DOCUMENT_SET_H

#include "eval/perplexity.h"
#include "text/documents.h"
#include "text/text_file.h"

typedef struct ch_document_set {
  ch_text_file file;
  ch_document *documents; /* [count] in the file's order, pointing into `file` */
  int64_t count;
} ch_document_set;

/* Opens a text and finds its documents. A text without documents is CH_ERROR_FORMAT. `path` must outlive the set. */
ch_status ch_document_set_open(const char *path, ch_document_separator separator, ch_document_set *set,
                               ch_error *error);
void ch_document_set_close(ch_document_set *set);
/* Moves the last part of the text, about `share` of its bytes, to `rest`. If the text has several documents, whole
   documents move; a single document is cut between two words. Both sets then have at least one document. `rest` points
   into `set`, so `rest` must be closed first. Errors: CH_ERROR_ARGUMENT if a single document is too short. */
ch_status ch_document_set_split(ch_document_set *set, double share, ch_document_set *rest, ch_error *error);

/* Returns the token between two documents: the tokenizer's end token, else the configuration's; -1 if there
 * is none. */
int32_t ch_token_between(const ch_tokenizer *tokenizer, const ch_config *config);
/* Returns the default window: the model's context, at most 1024 tokens. */
int64_t ch_window_of(const ch_config *config);
/* Returns the number of tokens that a model can see at once: max_position_embeddings. */
int64_t ch_longest_window(const ch_config *config);
/* Fails with CH_ERROR_ARGUMENT if the window is negative or, in models with rotary or learned positions, above
 * ch_longest_window. */
ch_status ch_window_check(const ch_config *config, int64_t window, ch_error *error);

#endif

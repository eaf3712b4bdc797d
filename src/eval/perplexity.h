/* Perplexities of a text: per token over the text as one sequence; per word and per byte over its documents. */
#ifndef CH_EVAL_PERPLEXITY_H
#define CH_EVAL_PERPLEXITY_H

#include <crosshead/evaluate.h>

#include "eval/score.h"
#include "text/tokenizer.h"

/* A document: a stretch of the text. */
typedef struct ch_document {
  const char *text;
  size_t size;
} ch_document;

/* The perplexity per token of all documents as one sequence. The end token separates two documents, as in training. The
   first document has the tokens that the tokenizer puts around a text by default, such as a beginning-of-text token. */
typedef struct ch_token_perplexity {
  int64_t tokens;    /* predicted tokens: all but the first of the sequence */
  double nll, loss;  /* sum and mean of -log p(token) */
  double perplexity; /* exp(loss) */
} ch_token_perplexity;

/* The perplexities per word and byte of documents that are scored separately, as in lm-evaluation-harness. After one
   token of context (the beginning-of-text token, else the end token), each token is predicted once from at most
   `window` tokens. */
typedef struct ch_document_perplexity {
  int64_t documents, tokens, words, bytes;
  double nll;                              /* sum of -log p(token) */
  double word_perplexity, byte_perplexity; /* exp(nll / words), exp(nll / bytes) */
  double bits_per_byte;                    /* nll / bytes / log 2 */
} ch_document_perplexity;

/* Appends the tokens of documents [count] as one sequence: the first document with the tokens that the tokenizer puts
 * around a text by default, the others without them, and end_token between two documents unless it is -1 or the
 * first document's tokens already end with it. Stops after `most` tokens; 0: no limit. */
ch_status ch_encode_joined(const ch_tokenizer *tokenizer, const ch_document *documents, int64_t count,
                           int32_t end_token, int64_t most, ch_ids *ids, ch_error *error);

/* Measures the perplexity of tokens. documents [count] are in the order of the text. If end_token is -1,
 * nothing separates them. Of the settings, it uses window, stride (neither is 0 here), limit, ranks, progress and user.
 * Errors: CH_ERROR_ARGUMENT for fewer than two tokens, a window below 2, or a stride outside 1 ... window - 1. */
ch_status ch_token_perplexity_of(ch_scorer *scorer, const ch_tokenizer *tokenizer,
                                 const ch_document *documents, int64_t count, int32_t end_token,
                                 const ch_evaluate_settings *settings, ch_token_perplexity *result,
                                 ch_error *error);
/* Measures the perplexity of documents. prefix: the id of the token of context. Documents without a token are
 * left out. */
ch_status ch_document_perplexity_of(ch_scorer *scorer, const ch_tokenizer *tokenizer,
                                    const ch_document *documents, int64_t count, int32_t prefix,
                                    const ch_evaluate_settings *settings, ch_document_perplexity *result,
                                    ch_error *error);

/* Counts words as the harness does: pieces between runs of white space, one more than there are runs. A run at either
   end therefore adds an empty word. */
int64_t ch_count_words(const char *text, size_t size);

#endif

/* Divides texts into training and validation parts. Whole documents, chosen by their content, and the tails of
   long ones validate; or else the texts' tail. */
#ifndef CH_TEXT_DIVISION_H
#define CH_TEXT_DIVISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/corpus.h"
#include "text/text_file.h"
#include "text/text_spans.h"

/* A text being read; pages before `released` were returned to the system. */
typedef struct ch_source_text {
  ch_text_file file;
  ch_document_separator separator;
  uint64_t before; /* total bytes of the texts that precede this one */
  size_t released;
} ch_source_text;

/* Marks the text before `place` as not needed for now; its pages are released in large steps. */
void ch_source_text_release(ch_source_text *text, size_t place);

typedef struct ch_chosen_document {
  uint64_t hash;
  bool tail; /* true if only the document's tail validates */
} ch_chosen_document;

typedef struct ch_division {
  const ch_corpus_options *options;
  ch_source_text *texts;
  int count;               /* number of texts */
  int training;            /* number of the first text that validates whole */
  uint64_t bytes;          /* size of all texts */
  uint64_t training_bytes; /* size of the texts before `training` */
  bool by_document;        /* true: documents are chosen; false: the texts' tail validates */
  uint64_t threshold;      /* highest hash of a validation document when `chosen` is NULL */
  /* [chosen_count] validation documents by rising hash; NULL: the documents up to `threshold` */
  ch_chosen_document *chosen;
  size_t chosen_count;
  uint64_t tail_start; /* offset in all texts at which the validating tail begins, if by_document is false */
} ch_division;

/* Opens the texts and, after them, options->validation_paths. Chooses the validation documents as
   ch_corpus_prepare does. `paths` and `options` must outlive the division. Release with ch_division_close, also
   after a failure. */
ch_status ch_division_open(ch_division *division, const char *const *paths, int count,
                           const ch_corpus_options *options, ch_error *error);
void ch_division_close(ch_division *division);

/* A document, or one of two parts of a document whose tail validates. */
typedef struct ch_text_part {
  const char *text;
  size_t size; /* > 0 */
  ch_corpus_split split;
} ch_text_part;

/* A position in one text. Zero-initialise. */
typedef struct ch_division_walk {
  size_t place;      /* offset of the next document */
  ch_text_part rest; /* second part of a document that was cut; size 0: none */
} ch_division_walk;

/* Finds the next part of text number `text`; returns false at its end. */
bool ch_division_next(const ch_division *division, int text, ch_division_walk *walk, ch_text_part *part);

/* Lists the validation spans of each text, from which a tokenizer may not learn. Free the list [count] with
   ch_text_spans_free. */
ch_status ch_division_validation(ch_division *division, ch_text_spans **spans, ch_error *error);

#endif

/* How a text file is split into documents, for training and evaluation. */
#ifndef CROSSHEAD_DOCUMENTS_H
#define CROSSHEAD_DOCUMENTS_H

/* The separator between two documents of a text. */
typedef enum ch_document_separator {
  CH_DOCUMENTS_AUTO = 0,        /* "<|endoftext|>" if the first 64 MiB contain it, else nothing */
  CH_DOCUMENTS_MARKER = 1,      /* "<|endoftext|>" */
  CH_DOCUMENTS_BLANK_LINES = 2, /* one or more empty lines */
  CH_DOCUMENTS_NONE = 3         /* nothing: the whole text is one document */
} ch_document_separator;

#endif

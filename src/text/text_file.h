/* Text files as training data: mapped, checked to be text, read piece by piece without staying in memory. */
#ifndef CH_TEXT_TEXT_FILE_H
#define CH_TEXT_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

typedef struct ch_text_file {
  const char *path; /* belongs to the caller */
  ch_map map;
  const char *text; /* the text without a byte order mark */
  size_t size;      /* bytes of `text` */
  uint64_t hash;    /* hash of the text */
  bool documents;   /* true if read from JSON lines: CH_DOCUMENT_MARKER separates the documents */
} ch_text_file;

/* Maps a file, reads it once with all cores and checks it. If it is JSON lines (text/json_lines.h), the text
   consists of its documents. Errors: an empty file, a compressed one (gzip, ...), a Git LFS pointer, one of
   more than 0.1 % NULs, and one that is not UTF-8; the message names the offset of the first such byte. */
ch_status ch_text_file_open(ch_text_file *file, const char *path, ch_error *error);
void ch_text_file_close(ch_text_file *file);
/* Marks [from, to) as not needed for now, so that a large file does not fill the memory. */
void ch_text_file_release(const ch_text_file *file, size_t from, size_t to);

/* Splits "a.txt,b.txt" into a list of paths; a file that has the whole name wins over the commas. The list
   and the names are one allocation for free(). */
ch_status ch_text_paths(const char *names, char ***paths, size_t *count, ch_error *error);

/* Returns the number of bytes from p to a place where a word ends whatever follows: 1 at letter, space, letter
   (before the space), 2 at a newline between visible ASCII characters (after it). Returns 0 elsewhere. Reads
   p[0] to p[2]. */
size_t ch_cut_offset(const unsigned char *p);

#endif

/* Taking back what an attempt to train made in a directory, when it is refused before its first step. */
#ifndef CH_TRAIN_UNDO_PREPARATION_H
#define CH_TRAIN_UNDO_PREPARATION_H

#include <stddef.h>

typedef struct ch_preparation {
  char *directory;  /* NULL: there is nothing to take back */
  size_t standing;  /* bytes of its path that named a directory before */
  unsigned present; /* which of the files that training prepares were there before */
} ch_preparation;

/* Looks at what stands in the directory, which need not exist yet. When memory is out, nothing will be taken
   back. Release with ch_preparation_end. */
void ch_preparation_begin(ch_preparation *attempt, const char *directory);
/* Removes the prepared text, the settings, a log without a line and the directories that were not there when
   the attempt began. Directories in which anything else lies stay, and everything while another run prepares
   its text there. Errors are ignored. */
void ch_preparation_undo(ch_preparation *attempt);
void ch_preparation_end(ch_preparation *attempt);

#endif

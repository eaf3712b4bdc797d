/* Removes what an attempt to train wrote to a directory, when it is refused before its first step. */
#ifndef CH_TRAIN_UNDO_PREPARATION_H
#define CH_TRAIN_UNDO_PREPARATION_H

#include <stddef.h>

typedef struct ch_preparation {
  char *directory;  /* NULL: there is nothing to remove */
  size_t standing;  /* bytes of its path that named a directory before */
  unsigned present; /* the files of training that existed before */
} ch_preparation;

/* Records what is in the directory, which need not exist yet. When memory runs out, nothing will be removed.
   Release with ch_preparation_end. */
void ch_preparation_begin(ch_preparation *attempt, const char *directory);
/* Removes the prepared text, the settings, a log without a line and the directories that were not there when
   the attempt began. Directories that hold anything else stay. Nothing is removed while another run prepares
   its text there. Errors are ignored. */
void ch_preparation_undo(ch_preparation *attempt);
void ch_preparation_end(ch_preparation *attempt);

#endif

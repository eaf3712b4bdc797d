/* Removes the files that a failed attempt to train wrote before its first step. */
#ifndef CH_TRAIN_UNDO_PREPARATION_H
#define CH_TRAIN_UNDO_PREPARATION_H

#include <stddef.h>

typedef struct ch_preparation {
  char *directory;  /* path of the directory; NULL: nothing will be removed */
  size_t standing;  /* length of the start of `directory` that existed before the attempt, in bytes */
  unsigned present; /* bit i: true if prepared file i existed before the attempt */
} ch_preparation;

/* Records the prepared files that the directory already has. The directory need not exist. When memory runs out,
   nothing will be removed. Release with ch_preparation_end. */
void ch_preparation_begin(ch_preparation *attempt, const char *directory);
/* Removes the prepared text, the settings, an empty log and the directories that did not exist when the attempt
   began. Directories with other files remain. Nothing is removed while another run prepares its text there. Errors
   are ignored. */
void ch_preparation_undo(ch_preparation *attempt);
void ch_preparation_end(ch_preparation *attempt);

#endif

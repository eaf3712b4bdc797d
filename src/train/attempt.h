/* Taking back what an attempt to train made in a directory, when it is refused before its first step. */
#ifndef CH_TRAIN_ATTEMPT_H
#define CH_TRAIN_ATTEMPT_H

#include <stddef.h>

typedef struct ch_attempt {
  char *directory;  /* NULL: there is nothing to take back */
  size_t standing;  /* bytes of its path that named a directory before */
  unsigned present; /* which of the files that training prepares were there before */
} ch_attempt;

/* Looks at what stands in the directory, which need not exist yet. When memory is out, nothing will be taken back.
   Release with ch_attempt_end. */
void ch_attempt_begin(ch_attempt *attempt, const char *directory);
/* Removes the prepared text, the settings, a log without a line and the directories that were not there when the
   attempt began. Directories in which anything else lies stay, and everything while another run prepares its text there.
   Errors are ignored. */
void ch_attempt_withdraw(ch_attempt *attempt);
void ch_attempt_end(ch_attempt *attempt);

#endif

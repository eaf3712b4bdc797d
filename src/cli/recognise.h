/* What exists at a path where a command is to write, and whether Crosshead may delete it. */
#ifndef CH_CLI_RECOGNISE_H
#define CH_CLI_RECOGNISE_H

#include <stdbool.h>

typedef enum ch_standing_kind {
  CH_STANDS_NOTHING,
  CH_STANDS_EMPTY, /* a directory without entries */
  CH_STANDS_DIRECTORY,
  CH_STANDS_FILE,
  CH_STANDS_OTHER /* a device, a pipe */
} ch_standing_kind;

typedef struct ch_occupant {
  ch_standing_kind kind;
  const char *
      what; /* "a model", "a training run", "a GGUF file", "a file"; static. NULL: a directory of other files */
  bool link;         /* by a symbolic link */
  bool ours;         /* nothing but what Crosshead writes, or a model directory has */
  char stranger[96]; /* the first entry of a directory that is neither: "notes.txt" */
} ch_occupant;

/* Looks at names, and at the first bytes of a file. */
ch_occupant ch_recognise(const char *path);
/* The same for what a command that was killed left of a directory that it wrote: a part of a model is enough. */
ch_occupant ch_recognise_partial(const char *path);

/* Deletes a file or a directory with all that is in it; symbolic links are not followed. */
bool ch_delete_tree(const char *path);

#endif

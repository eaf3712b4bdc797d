/* Inspects the path of an output: its kind, and whether Crosshead may delete it. */
#ifndef CH_CLI_INSPECT_OUTPUT_H
#define CH_CLI_INSPECT_OUTPUT_H

#include <stdbool.h>

typedef enum ch_occupant_kind {
  CH_HOLDS_NOTHING,
  CH_HOLDS_EMPTY_DIRECTORY,
  CH_HOLDS_DIRECTORY,
  CH_HOLDS_FILE
} ch_occupant_kind;

typedef struct ch_occupant {
  ch_occupant_kind kind;
  /* kind of output: "a model", "a training run", "a GGUF file"; a static string. NULL: nothing that Crosshead writes */
  const char *what;
  /* reason not to delete it: the first entry that Crosshead does not write, such as "notes.txt", or "a special
     file". "": everything may be deleted */
  char stranger[96];
} ch_occupant;

/* Inspects a path: the names in a directory, or the first bytes of a file. Follows a symbolic link. */
ch_occupant ch_inspect_output(const char *path);

/* Deletes the contents of a directory. Does not follow symbolic links. */
bool ch_delete_inside(const char *path);
/* Deletes a file, or a directory with its contents. */
bool ch_delete_tree(const char *path);

#endif

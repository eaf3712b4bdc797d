/* Temporary files that a killed program left beside the files it was writing. */
#ifndef CH_TRAIN_LEFTOVERS_H
#define CH_TRAIN_LEFTOVERS_H

/* Removes NAME.tmp.* for every name of `names` (NULL-terminated). Only for a directory that nobody else writes to. */
void ch_remove_leftovers(const char *directory, const char *const *names);

#endif

/* How long work says how far it is, and is asked to stop. */
#ifndef CH_TEXT_PROGRESS_H
#define CH_TEXT_PROGRESS_H

#include <stdbool.h>

/* `report` is called now and then from the calling thread; false stops the work with CH_ERROR_INTERRUPTED. A NULL
 * function is never called. */
typedef struct ch_progress {
  bool (*report)(void *user, const char *stage, double done, double total);
  void *user;
} ch_progress;

static inline bool ch_progress_report(const ch_progress *progress, const char *stage, double done,
                                      double total) {
  return !progress || !progress->report || progress->report(progress->user, stage, done, total);
}

#endif

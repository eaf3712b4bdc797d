/* Reads from the system whether other programs compete for the processors. */
#ifndef CH_TENSOR_CONTENTION_H
#define CH_TENSOR_CONTENTION_H

#include <stdbool.h>

/* Times of this process's threads so far, in seconds. `ran` is the time that they ran. `waited` is the time that
   they were ready to run but waited for a processor. */
typedef struct ch_waiting {
  double ran, waited;
} ch_waiting;

/* Sums the running and waiting times of this process's live threads. Returns false if the system does not
   report them. */
bool ch_read_waiting(ch_waiting *waiting);
/* Returns true if other programs keep at least half of this machine's processors busy, now and in the mean of
   the last minute. Returns false if the system does not report it. */
bool ch_machine_is_busy(void);

#endif

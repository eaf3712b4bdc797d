/* Measures how much of the machine other programs used during a measurement. */
#ifndef CH_BENCH_LOAD_H
#define CH_BENCH_LOAD_H

#include <stdbool.h>

/* A moment: seconds of processor time of all programs and of this process, and the clock. */
typedef struct ch_load {
  double all, own, clock; /* all < 0: the system does not say */
} ch_load;

ch_load ch_load_now(void);
/* Returns how many processors other programs used on average between two moments; 0 if the system does
   not say, or in less than a twentieth of a second. */
double ch_load_of_others(const ch_load *from, const ch_load *to);
/* Returns true if `threads` of this process had to share processors with them: on the mean others took more
   than a quarter of one that the threads needed. */
bool ch_load_disturbs(double others, int threads, int processors);
/* Calls ch_load_disturbs for this machine. */
bool ch_load_disturbed(const ch_load *from, const ch_load *to, int threads);

#endif

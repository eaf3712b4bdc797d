/* Measures the share of the machine that other programs used during a measurement. */
#ifndef CH_BENCH_LOAD_H
#define CH_BENCH_LOAD_H

#include <stdbool.h>

/* The load at one moment. */
typedef struct ch_load {
  /* all: processor seconds of all programs, or below 0 if the system does not report them; own: processor seconds of
     this process; clock: seconds of ch_clock */
  double all, own, clock;
} ch_load;

ch_load ch_load_now(void);
/* Returns the number of processors that other programs used on average between two moments. Returns 0 if the system
   does not report it, or if the moments are less than a twentieth of a second apart. */
double ch_load_of_others(const ch_load *from, const ch_load *to);
/* Returns true if `threads` threads of this process had to share processors with other programs. `others` is the number
   of processors that other programs used on average. It must exceed the number that the threads left free by over a
   quarter. */
bool ch_load_disturbs(double others, int threads, int processors);
/* Returns the result of ch_load_disturbs for the time between two moments on this machine. */
bool ch_load_disturbed(const ch_load *from, const ch_load *to, int threads);

#endif

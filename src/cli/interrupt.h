/* Turns SIGINT, SIGTERM and the warnings SIGUSR1 and SIGUSR2 into a flag that long work polls. */
#ifndef CH_CLI_INTERRUPT_H
#define CH_CLI_INTERRUPT_H

#include <stdbool.h>

typedef enum ch_interrupt_end {
  CH_SAVES_WORK, /* the command saves its work before it ends */
  /* the command has 1.5 seconds to end; then the function of ch_interrupt_on_leaving runs and the program exits */
  CH_NOTHING_SAVED
} ch_interrupt_end;

/* Starts the watch. The first of the signals only sets the flag of ch_interrupted. A SIGINT or SIGTERM a quarter of a
   second or more after another one ends the program as usual. */
void ch_interrupt_watch(ch_interrupt_end end);
/* Sets the function that deletes unfinished files if a command with CH_NOTHING_SAVED does not end in time, because it
   is in a call that cannot be cancelled (LAPACK). The function runs in a thread of its own. */
void ch_interrupt_on_leaving(void (*leave)(void));
/* Returns true after a signal. */
bool ch_interrupted(void);
/* Returns the signal that arrived, or 0. */
int ch_interrupt_number(void);
/* Returns ch_interrupted(); a ch_stop_test for long work. Ignores the context. */
bool ch_stop_wanted(void *context);
/* Ends the watch: signals act as before. ch_interrupted still returns true after a signal, until the next watch. */
void ch_interrupt_release(void);

#endif

/* SIGINT, SIGTERM and the warnings SIGUSR1 and SIGUSR2 as a question that long work asks now and then. */
#ifndef CH_CLI_INTERRUPT_H
#define CH_CLI_INTERRUPT_H

#include <stdbool.h>

typedef enum ch_interrupt_end {
  CH_SAVES_WORK, /* the command ends by itself, however long that takes: it saves what it has */
  CH_NOTHING_SAVED /* it has 1.5 seconds; then the function of ch_interrupt_on_leaving runs and the program exits */
} ch_interrupt_end;

/* From here on the first of these signals only answers ch_interrupted. A SIGINT or SIGTERM that comes a quarter of a second or
   more after another one ends the program as usual. */
void ch_interrupt_watch(ch_interrupt_end end);
/* Sets the function that tidies up when a command with CH_NOTHING_SAVED does not end in time: it is in a call that cannot be cancelled, for
   example LAPACK's. It runs in a thread of its own beside that call. */
void ch_interrupt_on_leaving(void (*leave)(void));
bool ch_interrupted(void);
/* The signal that came, or 0. */
int ch_interrupt_number(void);
/* ch_interrupted as a hook of long work; the context is not looked at. */
bool ch_stop_wanted(void *context);
/* Signals act as before the watch; what came stays known until the next watch. */
void ch_interrupt_release(void);

#endif

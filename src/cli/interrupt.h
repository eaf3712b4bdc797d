/* SIGINT and SIGTERM as a question that long work asks now and then. */
#ifndef CH_CLI_INTERRUPT_H
#define CH_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on the first SIGINT or SIGTERM only answers ch_interrupted; one that comes a quarter of a second or more
   after it ends the program as usual. */
void ch_interrupt_watch(void);
bool ch_interrupted(void);
/* The signal that came, or 0. */
int ch_interrupt_number(void);
/* ch_interrupted as a hook of long work; the context is not looked at. */
bool ch_stop_wanted(void *context);
/* Signals act as before the watch; what came stays known until the next watch. */
void ch_interrupt_release(void);

#endif

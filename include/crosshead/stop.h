/* How a caller stops long work. */
#ifndef CROSSHEAD_STOP_H
#define CROSSHEAD_STOP_H

#include <stdbool.h>

/* Asked often during long work, some twenty times a second, in the thread that called the library unless the
 * function says otherwise. Returning true ends the work as a progress callback does that returns false. */
typedef bool (*ch_stop_test)(void *user);

#endif

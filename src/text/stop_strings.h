/* Stop strings: finds the end of a text that is generated piece by piece. */
#ifndef CH_TEXT_STOP_STRINGS_H
#define CH_TEXT_STOP_STRINGS_H

#include <stddef.h>

#include "base/error.h"

/* Fails for an empty string, for one that is not UTF-8, and for a negative count. */
ch_status ch_stops_check(const char *const *stops, int count, ch_error *error);

/* Searches text [size] for stop strings that end after the first `seen` bytes. Returns the number of bytes that
   may be released. If a stop string is complete, *found is its index and the result is its offset; of several
   it is the one that ends first, then the longest. Otherwise *found is -1 and the result leaves out the longest
   ending of the text that may begin a stop string. */
size_t ch_stops_search(const char *const *stops, int count, const char *text, size_t size, size_t seen,
                       int *found);

#endif

/* Progress of long work: one live line on a terminal, a plain line now and then elsewhere.
 *
 * The library never opens a stream of its own: the caller hands one over (the program gives standard
 * error). */
#ifndef CH_BASE_PROGRESS_H
#define CH_BASE_PROGRESS_H

#include <crosshead/common.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct ch_progress_line {
  FILE *stream; /* NULL: silent */
  bool live;    /* the stream is a terminal: the line is overwritten */
  bool shown;   /* a live line is on the terminal */
  double began, last, interval;
} ch_progress_line;

/* Starts; stream may be NULL. Live lines are refreshed at most ten times a second, plain ones come every ten
   seconds. */
void ch_progress_begin(ch_progress_line *progress, FILE *stream);
/* Returns the seconds since ch_progress_begin. */
double ch_progress_seconds(const ch_progress_line *progress);
/* Returns true once the finished `share` (0 to 1) is large enough to estimate the remaining time. Most work
   begins slowly. */
bool ch_progress_foresees(const ch_progress_line *progress, double share);
/* Returns true if a line shown now would be printed, so that the caller can avoid computing it. */
bool ch_progress_due(const ch_progress_line *progress);
/* Shows a line (printf without newline) if one is due; `force` shows it anyway. Control characters and what
   does not fit the terminal's width are left out. */
void ch_progress_show(ch_progress_line *progress, bool force, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like ch_progress_show, for work of which `share` (0 to 1) took `seconds`: "reading: 40 %, 3 s left". */
void ch_progress_show_share(ch_progress_line *progress, const char *what, double share, double seconds);
/* Prints a line that stays, above the live one. */
void ch_progress_print(ch_progress_line *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Removes the live line. */
void ch_progress_end(ch_progress_line *progress);

/* Returns the seconds of a clock that never goes back. */
double ch_clock(void);

#endif

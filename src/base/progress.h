/* Progress of long work: one live line on a terminal, else a plain line now and then.
 *
 * The library never opens a stream: the caller passes one (the program passes standard error). */
#ifndef CH_BASE_PROGRESS_H
#define CH_BASE_PROGRESS_H

#include <crosshead/common.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct ch_progress_line {
  FILE *stream; /* output; NULL: nothing is printed */
  bool live;    /* true if the stream is a terminal, where the line is overwritten */
  bool shown;   /* true while a live line is on the terminal */
  /* times of the start and of the last line, and the minimum time between two lines, in seconds */
  double began, last, interval;
} ch_progress_line;

/* Starts the progress of some work; stream may be NULL. A live line is refreshed at most ten times a second. Plain
   lines come at most every ten seconds. */
void ch_progress_begin(ch_progress_line *progress, FILE *stream);
/* Returns the seconds since ch_progress_begin. */
double ch_progress_seconds(const ch_progress_line *progress);
/* Returns true if the finished `share` (0 to 1) and the time so far are enough to estimate the remaining time.
   Estimates from a small share would be wrong, because most work begins slowly. */
bool ch_progress_foresees(const ch_progress_line *progress, double share);
/* Returns true if a line shown now would be printed, so that the caller can avoid computing it. */
bool ch_progress_due(const ch_progress_line *progress);
/* Shows a line (printf without newline) if one is due or `force` is true. Control characters are left out, and the line
   is cut to the terminal's width. */
void ch_progress_show(ch_progress_line *progress, bool force, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like ch_progress_show, for work of which `share` (0 to 1) took `seconds`: "reading: 40 %, 3s left". */
void ch_progress_show_share(ch_progress_line *progress, const char *what, double share, double seconds);
/* Prints a permanent line above the live line. */
void ch_progress_print(ch_progress_line *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Removes the live line. */
void ch_progress_end(ch_progress_line *progress);

/* Returns the seconds of a clock that never goes back. */
double ch_clock(void);

#endif

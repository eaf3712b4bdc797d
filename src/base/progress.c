/* Shows progress: one line that is overwritten on a terminal, plain lines elsewhere. */
#define _POSIX_C_SOURCE 200809L
#include "base/progress.h"

#include "base/text.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 512, NARROWEST = 20, USUAL_WIDTH = 80 };
static const double live_interval = 0.1, plain_interval = 10;

double ch_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ch_progress_begin(ch_progress_line *progress, FILE *stream) {
  bool live = stream && isatty(fileno(stream));
  double now = ch_clock();
  *progress = (ch_progress_line){.stream = stream,
                                 .live = live,
                                 .began = now,
                                 .last = now - (live ? live_interval : 0),
                                 .interval = live ? live_interval : plain_interval};
}

double ch_progress_seconds(const ch_progress_line *progress) {
  return ch_clock() - progress->began;
}

bool ch_progress_foresees(const ch_progress_line *progress, double share) {
  const double seconds = ch_progress_seconds(progress);
  return share >= 0.05 || (seconds >= 2 && share >= 0.005) || (seconds >= 30 && share > 0);
}

bool ch_progress_due(const ch_progress_line *progress) {
  return progress->stream && ch_clock() - progress->last >= progress->interval;
}

/* Cuts a UTF-8 line after `columns` characters, and drops control characters. */
static void make_presentable(char *line, int columns) {
  char *to = line;
  int used = 0;
  for (const char *from = line; *from; from++) {
    unsigned char byte = (unsigned char)*from;
    if (byte < ' ' || byte == 0x7f) continue;
    if ((byte & 0xC0) != 0x80 && ++used > columns) break;
    *to++ = *from;
  }
  *to = 0;
}

static int terminal_width(const ch_progress_line *progress) {
  struct winsize size = {0};
  if (ioctl(fileno(progress->stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return USUAL_WIDTH;
  return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

static void erase(ch_progress_line *progress) {
  if (progress->shown) fputs("\r\033[K", progress->stream);
  progress->shown = false;
}

void ch_progress_show(ch_progress_line *progress, bool force, const char *format, ...) {
  if (!progress->stream || (!force && !ch_progress_due(progress))) return;
  char line[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  progress->last = ch_clock();
  make_presentable(line, progress->live ? terminal_width(progress) - 1 : LINE);
  if (progress->live) {
    fprintf(progress->stream, "\r%s\033[K", line);
    progress->shown = true;
  } else {
    fprintf(progress->stream, "%s\n", line);
  }
  fflush(progress->stream);
}

void ch_progress_show_share(ch_progress_line *progress, const char *what, double share, double seconds) {
  char left[32];
  if (!ch_progress_due(progress)) return;
  if (share > 0 && ch_progress_foresees(progress, share))
    ch_progress_show(progress, false, "%s: %.0f %%, %s left", what, 100 * share,
                     ch_format_duration(seconds / share - seconds, left, sizeof left));
  else if (share > 0)
    ch_progress_show(progress, false, "%s: %.0f %%", what, 100 * share);
  else
    ch_progress_show(progress, false, "%s", what);
}

void ch_progress_print(ch_progress_line *progress, const char *format, ...) {
  if (!progress->stream) return;
  char line[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  make_presentable(line, LINE);
  erase(progress);
  fprintf(progress->stream, "%s\n", line);
  fflush(progress->stream);
}

void ch_progress_end(ch_progress_line *progress) {
  if (!progress->stream) return;
  erase(progress);
  fflush(progress->stream);
}

/* Standard output: closed descriptors, vanished readers, full disks. */
#define _POSIX_C_SOURCE 200809L
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

void ch_output_begin(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    /* Standard output is opened for reading only: writing to it must fail, as it would have. */
    int flags = fd == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) < 0) return;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file size limit shows as a failed write too */
}

bool ch_output_alive(void) {
  return !ferror(stdout);
}

/* True when standard output is a pipe or socket whose other end is closed. */
static bool reader_is_gone(void) {
  struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP));
}

bool ch_output_end(char *reason, size_t size) {
  bool failed_before = ferror(stdout) != 0;
  errno = 0;
  bool failed_now = fflush(stdout) != 0;
  int why = failed_now ? errno : 0;
  if ((!failed_before && !failed_now) || reader_is_gone()) return true;
  snprintf(reason, size, "cannot write standard output: %s",
           why ? strerror(why) : "part of it was lost, perhaps because the disk is full");
  return false;
}

ch_status ch_print_json(json_t *value, size_t flags, ch_error *error) {
  char *text = value ? json_dumps(value, flags) : NULL;
  json_decref(value);
  if (!text) return ch_fail(error, CH_ERROR_MEMORY, "no memory to print the result");
  puts(text);
  free(text);
  return CH_OK;
}

ch_status ch_print_json_if(bool wanted, json_t *value, ch_error *error) {
  if (wanted) return ch_print_json(value, 0, error);
  json_decref(value);
  return CH_OK;
}

ch_status ch_print_text(ch_text *text, ch_error *error) {
  bool failed = text->failed;
  if (!failed) fwrite(text->data, 1, text->size, stdout);
  ch_text_free(text);
  return failed ? ch_fail(error, CH_ERROR_MEMORY, "no memory to print the result") : CH_OK;
}

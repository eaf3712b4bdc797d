/* Handles standard output: closed descriptors, vanished readers, full disks. */
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

#include "base/json.h"
#include "cli/command.h"

void ch_output_begin(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    /* standard output is opened for reading only, so that writing to it fails as with a closed descriptor */
    int flags = fd == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) < 0) return;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails */
}

bool ch_output_alive(void) {
  return !ferror(stdout);
}

/* Returns true if standard output is a pipe or socket whose other end is closed. */
static bool reader_is_gone(void) {
  struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP));
}

/* errno of the first write that failed, or 0. */
static int failed_with;

void ch_output_put(const char *data, size_t size, bool flush) {
  errno = 0;
  bool fine = fwrite(data, 1, size, stdout) == size && (!flush || fflush(stdout) == 0);
  if (!fine && !failed_with) failed_with = errno;
}

static const char *reason_of_loss(void) {
  return failed_with ? strerror(failed_with) : "part of it was lost, perhaps because the disk is full";
}

ch_status ch_output_check(ch_error *error) {
  if (ch_output_alive() || reader_is_gone()) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "cannot write standard output: %s", reason_of_loss());
}

bool ch_output_end(char *reason, size_t size) {
  bool failed_before = ferror(stdout) != 0;
  errno = 0;
  bool failed_now = fflush(stdout) != 0;
  if (failed_now && !failed_with) failed_with = errno;
  if ((!failed_before && !failed_now) || reader_is_gone()) return true;
  snprintf(reason, size, "cannot write standard output: %s", reason_of_loss());
  return false;
}

ch_status ch_print_json(json_t *value, size_t flags, ch_error *error) {
  char *text = value ? ch_json_dump(value, flags) : NULL;
  json_decref(value);
  if (!text) return ch_no_memory(error);
  ch_output_put(text, strlen(text), false);
  ch_output_put("\n", 1, false);
  free(text);
  return CH_OK;
}

ch_status ch_print_text(ch_text *text, ch_error *error) {
  bool failed = text->failed;
  if (!failed) ch_output_put(text->data, text->size, false);
  ch_text_free(text);
  return failed ? ch_no_memory(error) : CH_OK;
}

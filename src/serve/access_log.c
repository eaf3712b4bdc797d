/* Writes the access log without blocking: a line is dropped if standard error cannot accept it at once. */
#include "serve/access_log.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/progress.h"

enum { SHOWN_PATH = 200 };

/* Appends at most `most` bytes of a word. Control characters, backslashes and non-ASCII bytes become escapes like
   \x1b. */
static void put_escaped(ch_text *line, const char *word, size_t most) {
  for (size_t i = 0; word[i] && i < most; i++) {
    unsigned char c = (unsigned char)word[i];
    if (c < ' ' || c >= 127 || c == '\\')
      ch_text_printf(line, "\\x%02x", c);
    else
      ch_text_put(line, word + i, 1);
  }
}

static void put_tokens(ch_text *line, const ch_text_job *job) {
  long long prompt = 0, cached = 0, written = 0;
  for (int p = 0; p < job->prompt_count; p++) {
    const ch_prompt *given = &job->prompts[p];
    prompt += (long long)given->ids.size;
    cached += given->cached;
    for (int64_t k = 0; given->choices && k < job->fields.n; k++) written += given->choices[k].tokens;
  }
  ch_text_printf(line, ", %lld prompt tokens (%lld reused), %lld written", prompt, cached, written);
}

void ch_log_request(const ch_exchange *exchange, unsigned status) {
  char when[32];
  struct tm parts;
  time_t now = time(NULL);
  ch_text line = {0};
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  ch_text_printf(&line, "%s ", when);
  put_escaped(&line, exchange->method, sizeof exchange->method);
  ch_text_puts(&line, " ");
  put_escaped(&line, exchange->path, SHOWN_PATH);
  ch_text_printf(&line, " %u %.1f ms", status, 1e3 * (ch_clock() - exchange->began));
  if (status != CH_CLIENT_CLOSED && exchange->job) put_tokens(&line, exchange->job);
  ch_text_puts(&line, "\n");
  struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
  if (!line.failed && poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT) {
    ssize_t written = write(STDERR_FILENO, line.data, line.size);
    (void)written;
  }
  ch_text_free(&line);
}

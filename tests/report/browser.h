/* A headless Chromium for tests, controlled through its debugging pipe (file descriptors 3 and 4, messages
 * that end with NUL). */
#ifndef CH_TESTS_REPORT_BROWSER_H
#define CH_TESTS_REPORT_BROWSER_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

enum { BROWSER_PATIENCE = 30000 /* milliseconds for one answer */, BROWSER_MOST_EVENTS = 4096 };

typedef struct browser {
  pid_t process;
  int to, from;
  int last_id;
  char profile[64];
  char session[80];
  char *buffer; /* bytes that were read and not yet parsed */
  size_t used, room;
  json_t *events; /* received events, oldest first */
} browser;

/* Returns the path of a Chromium, or NULL if there is none. */
static const char *browser_path(void) {
  static const char *const names[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser",
                                      "/usr/bin/google-chrome"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (access(names[i], X_OK) == 0) return names[i];
  return NULL;
}

/* Runs in the child process: moves the pipes to the descriptors that Chromium expects, and executes Chromium. */
static void browser_become(const char *path, const char *profile, int in, int out) {
  char directory[96];
  snprintf(directory, sizeof directory, "--user-data-dir=%s", profile);
  setpgid(0, 0);
  /* Descriptors 3 and 4 may be in use, so the pipes move away from them first. */
  in = fcntl(in, F_DUPFD, 10);
  out = fcntl(out, F_DUPFD, 10);
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, 1);
  dup2(nowhere, 2);
  dup2(in, 3);
  dup2(out, 4);
  for (int fd = 5; fd < 64; fd++) close(fd);
  unsetenv("LD_PRELOAD");
  execl(path, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
        "--force-color-profile=srgb", directory, "about:blank", (char *)NULL);
  _exit(127);
}

static void browser_send(browser *b, const char *method, json_t *params) {
  json_t *message = json_pack("{s:i, s:s, s:o}", "id", ++b->last_id, "method", method, "params",
                              params ? params : json_object());
  if (b->session[0]) json_object_set_new(message, "sessionId", json_string(b->session));
  char *text = json_dumps(message, JSON_COMPACT);
  json_decref(message);
  for (size_t sent = 0, size = strlen(text) + 1; sent < size;) {
    ssize_t n = write(b->to, text + sent, size - sent);
    if (n <= 0) fail_msg("the browser takes no more: %s", strerror(errno));
    sent += (size_t)n;
  }
  free(text);
}

/* Waits for the next message and returns it. */
static json_t *browser_read(browser *b) {
  for (;;) {
    char *end = b->used ? memchr(b->buffer, 0, b->used) : NULL;
    if (end) {
      json_t *message = json_loads(b->buffer, 0, NULL);
      size_t length = (size_t)(end - b->buffer) + 1;
      memmove(b->buffer, b->buffer + length, b->used - length);
      b->used -= length;
      assert_non_null(message);
      return message;
    }
    if (b->room - b->used < 65536) b->buffer = realloc(b->buffer, b->room += 1 << 20);
    struct pollfd wait = {b->from, POLLIN, 0};
    if (poll(&wait, 1, BROWSER_PATIENCE) <= 0) fail_msg("%s", "the browser does not answer");
    ssize_t n = read(b->from, b->buffer + b->used, b->room - b->used);
    if (n <= 0) fail_msg("%s", "the browser has gone");
    b->used += (size_t)n;
  }
}

/* Sends a command, waits for its result, and returns it; the caller frees it. */
static json_t *browser_call(browser *b, const char *method, json_t *params) {
  browser_send(b, method, params);
  for (;;) {
    json_t *message = browser_read(b);
    json_t *id = json_object_get(message, "id");
    if (!id || json_integer_value(id) != b->last_id) {
      if (json_array_size(b->events) < BROWSER_MOST_EVENTS) json_array_append(b->events, message);
      json_decref(message);
      continue;
    }
    json_t *result = json_incref(json_object_get(message, "result"));
    if (!result) {
      char *text = json_dumps(message, JSON_COMPACT);
      fail_msg("%s: %s", method, text);
    }
    json_decref(message);
    return result;
  }
}

static void browser_do(browser *b, const char *method, json_t *params) {
  json_decref(browser_call(b, method, params));
}

static void browser_start(browser *b) {
  int to[2], from[2];
  *b = (browser){.events = json_array()};
  strcpy(b->profile, "/tmp/crosshead-browser-XXXXXX");
  assert_non_null(mkdtemp(b->profile));
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  signal(SIGPIPE, SIG_IGN);
  b->process = fork();
  assert_true(b->process >= 0);
  if (b->process == 0) browser_become(browser_path(), b->profile, to[0], from[1]);
  close(to[0]);
  close(from[1]);
  b->to = to[1];
  b->from = from[0];
  json_t *target = browser_call(b, "Target.createTarget", json_pack("{s:s}", "url", "about:blank"));
  json_t *attached =
      browser_call(b, "Target.attachToTarget",
                   json_pack("{s:O, s:b}", "targetId", json_object_get(target, "targetId"), "flatten", true));
  snprintf(b->session, sizeof b->session, "%s", json_string_value(json_object_get(attached, "sessionId")));
  json_decref(attached);
  json_decref(target);
  static const char *const domains[] = {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable",
                                        "Accessibility.enable"};
  for (size_t i = 0; i < sizeof domains / sizeof *domains; i++) browser_do(b, domains[i], NULL);
}

static void browser_stop(browser *b) {
  char command[96];
  if (b->process > 0) {
    kill(-b->process, SIGKILL);
    waitpid(b->process, NULL, 0);
  }
  close(b->to);
  close(b->from);
  free(b->buffer);
  json_decref(b->events);
  snprintf(command, sizeof command, "rm -rf %s", b->profile);
  if (system(command) != 0) print_message("%s stays behind\n", b->profile);
  b->process = 0;
}

/* Returns the value of an expression; waits if it is a promise. The caller frees it. */
static json_t *browser_value(browser *b, const char *expression) {
  json_t *result = browser_call(
      b, "Runtime.evaluate",
      json_pack("{s:s, s:b, s:b}", "expression", expression, "awaitPromise", true, "returnByValue", true));
  if (json_object_get(result, "exceptionDetails")) {
    char *text = json_dumps(json_object_get(result, "exceptionDetails"), JSON_COMPACT);
    fail_msg("%s\n%s", expression, text);
  }
  json_t *value = json_incref(json_object_get(json_object_get(result, "result"), "value"));
  json_decref(result);
  return value ? value : json_null();
}

static char *browser_text(browser *b, const char *expression) {
  json_t *value = browser_value(b, expression);
  if (!json_is_string(value)) fail_msg("no text: %s", expression);
  char *text = strdup(json_string_value(value));
  json_decref(value);
  return text;
}

static double browser_number(browser *b, const char *expression) {
  json_t *value = browser_value(b, expression);
  if (!json_is_number(value)) fail_msg("no number: %s", expression);
  double number = json_number_value(value);
  json_decref(value);
  return number;
}

/* Opens a file and waits until every figure is drawn, for at most 20 seconds. */
static void browser_open(browser *b, const char *path) {
  char url[256];
  snprintf(url, sizeof url, "file://%s", path);
  json_array_clear(b->events);
  browser_do(b, "Page.navigate", json_pack("{s:s}", "url", url));
  json_decref(browser_value(
      b, "(async () => { const late = Date.now() + 20000;"
         " const open = () => document.readyState !== 'complete' || "
         "[...document.querySelectorAll('.plot')].some((p) => "
         "!p.dataset.drawn);"
         " while (open() && Date.now() < late) await new Promise((f) => setTimeout(f, 20)); })()"));
}

static void browser_key(browser *b, const char *key, int code, const char *text) {
  static const char *const types[] = {"keyDown", "keyUp"};
  for (int i = 0; i < 2; i++) {
    json_t *params = json_pack("{s:s, s:s, s:s, s:i, s:i}", "type", types[i], "key", key, "code", key,
                               "windowsVirtualKeyCode", code, "nativeVirtualKeyCode", code);
    if (text && i == 0) json_object_set_new(params, "text", json_string(text));
    browser_do(b, "Input.dispatchKeyEvent", params);
  }
}

#endif

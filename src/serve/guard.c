/* Keys are compared without telling by time how much of one was right. */
#include "serve/guard.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Splits the text into lines without blanks around them, and notes those that are not empty. */
static ch_status split_keys(ch_guard *guard, size_t size, const char *file, ch_error *error) {
  char *text = guard->keys;
  for (size_t at = 0; at < size;) {
    size_t end = at;
    while (end < size && text[end] != '\n') end++;
    size_t first = at, last = end;
    while (first < last && is_blank(text[first])) first++;
    while (last > first && is_blank(text[last - 1])) last--;
    text[last] = 0;
    if (last - first > CH_LONGEST_KEY || guard->count == CH_MOST_KEYS)
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: at most %d keys of at most %d bytes are allowed, one per line",
                     file ? file : "CROSSHEAD_API_KEY", CH_MOST_KEYS, CH_LONGEST_KEY);
    if (last > first) guard->starts[guard->count++] = first;
    at = end + 1;
  }
  return CH_OK;
}

ch_status ch_guard_open(ch_guard *guard, const char *file, const char *key, ch_error *error) {
  char *text = NULL;
  size_t size = 0, more = key ? strlen(key) : 0;
  if (file) CH_TRY(ch_read_file(file, (size_t)1 << 20, &text, &size, error));
  guard->keys = malloc(size + more + 2);
  guard->starts = malloc(CH_MOST_KEYS * sizeof *guard->starts);
  if (!guard->keys || !guard->starts) {
    free(text);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the API keys");
  }
  if (size) memcpy(guard->keys, text, size);
  free(text);
  guard->keys[size] = '\n';
  if (more) memcpy(guard->keys + size + 1, key, more);
  guard->keys[size + 1 + more] = 0;
  CH_TRY(split_keys(guard, size + 1 + more, file, error));
  if (file && guard->count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s holds no API key; write one key per line", file);
  return CH_OK;
}

void ch_guard_free(ch_guard *guard) {
  free(guard->keys);
  free(guard->starts);
}

static bool is_any(const char *const *list, const char *word, size_t size) {
  for (; list && *list; list++)
    if (strcmp(*list, "*") == 0 || (strlen(*list) == size && strncasecmp(*list, word, size) == 0))
      return true;
  return false;
}

/* The name without the port: "localhost" of "localhost:8080", "[::1]" of "[::1]:8080". */
static size_t name_size(const char *host) {
  const char *bracket = *host == '[' ? strchr(host, ']') : NULL;
  return bracket ? (size_t)(bracket + 1 - host) : strcspn(host, ":");
}

bool ch_guard_host(const ch_guard *guard, const char *host, ch_refusal *refusal) {
  static const char *const own[] = {"localhost", "127.0.0.1", "[::1]", NULL};
  if (!guard->local || !host) return true;
  size_t size = name_size(host);
  size_t port = host[size] == ':' ? 1 + strspn(host + size + 1, "0123456789") : 0;
  bool whole = host[size + port] == 0;
  if (whole && (is_any(own, host, size) || is_any(guard->hosts, host, size))) return true;
  return ch_refuse(refusal, 403, "host_not_allowed", NULL,
                   "The Host '%.100s' is not allowed; use localhost or 127.0.0.1, or start the server with "
                   "--allow-host.",
                   host);
}

/* Takes as long for every key of one size. */
static bool is_equal(const char *a, const char *b, size_t size) {
  unsigned char differ = 0;
  for (size_t i = 0; i < size; i++) differ |= (unsigned char)(a[i] ^ b[i]);
  return differ == 0;
}

static bool is_key(const ch_guard *guard, const char *given) {
  size_t size = strlen(given);
  bool found = false;
  for (int i = 0; i < guard->count; i++) {
    const char *key = guard->keys + guard->starts[i];
    found |= strlen(key) == size && is_equal(key, given, size);
  }
  return found;
}

bool ch_guard_key(const ch_guard *guard, const char *authorization, const char *key, ch_refusal *refusal) {
  if (guard->count == 0) return true;
  if (authorization && strncasecmp(authorization, "bearer ", 7) == 0) {
    authorization += 7;
    authorization += strspn(authorization, " ");
    if (is_key(guard, authorization)) return true;
  }
  if (key && is_key(guard, key)) return true;
  return ch_refuse(refusal, 401, "invalid_api_key", NULL,
                   "The API key is missing or wrong; send it in the header 'Authorization: Bearer KEY'.");
}

bool ch_guard_origin(const ch_guard *guard, const char *origin) {
  return origin && is_any(guard->origins, origin, strlen(origin));
}

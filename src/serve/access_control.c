/* Checks keys, Host and Origin headers. Keys are compared in constant time. */
#include "serve/access_control.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Splits the text into lines, trims them and collects those that are not empty. */
static ch_status split_keys(ch_access *access, size_t size, const char *file, ch_error *error) {
  char *text = access->keys;
  for (size_t at = 0; at < size;) {
    size_t end = at;
    while (end < size && text[end] != '\n') end++;
    size_t first = at, last = end;
    while (first < last && is_blank(text[first])) first++;
    while (last > first && is_blank(text[last - 1])) last--;
    text[last] = 0;
    if (last - first > CH_LONGEST_KEY || access->count == CH_MOST_KEYS)
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: at most %d keys of at most %d bytes are allowed, one per line",
                     file ? file : "CROSSHEAD_API_KEY", CH_MOST_KEYS, CH_LONGEST_KEY);
    if (last > first) access->starts[access->count++] = first;
    at = end + 1;
  }
  return CH_OK;
}

ch_status ch_access_open(ch_access *access, const char *file, const char *key, ch_error *error) {
  char *text = NULL;
  size_t size = 0, more = key ? strlen(key) : 0;
  if (file) CH_TRY(ch_read_file(file, (size_t)1 << 20, &text, &size, error));
  access->keys = malloc(size + more + 2);
  access->starts = malloc(CH_MOST_KEYS * sizeof *access->starts);
  if (!access->keys || !access->starts) {
    free(text);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the API keys");
  }
  if (size) memcpy(access->keys, text, size);
  free(text);
  access->keys[size] = '\n';
  if (more) memcpy(access->keys + size + 1, key, more);
  access->keys[size + 1 + more] = 0;
  CH_TRY(split_keys(access, size + 1 + more, file, error));
  if (file && access->count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s holds no API key; write one key per line", file);
  return CH_OK;
}

void ch_access_free(ch_access *access) {
  free(access->keys);
  free(access->starts);
}

static bool is_any(const char *const *list, const char *word, size_t size) {
  for (; list && *list; list++)
    if (strcmp(*list, "*") == 0 || (strlen(*list) == size && strncasecmp(*list, word, size) == 0))
      return true;
  return false;
}

bool ch_access_host(const ch_access *access, const char *host, ch_refusal *refusal) {
  static const char *const own[] = {"localhost", "127.0.0.1", "[::1]", NULL};
  if (!access->local || !host) return true;
  /* the host without its port: "localhost" of "localhost:8080", "[::1]" of "[::1]:8080" */
  const char *bracket = *host == '[' ? strchr(host, ']') : NULL;
  size_t size = bracket ? (size_t)(bracket + 1 - host) : strcspn(host, ":");
  size_t port = host[size] == ':' ? 1 + strspn(host + size + 1, "0123456789") : 0;
  bool whole = host[size + port] == 0;
  if (whole && (is_any(own, host, size) || is_any(access->hosts, host, size))) return true;
  return ch_refuse(refusal, 403, "host_not_allowed", NULL,
                   "The Host '%.100s' is not allowed; use localhost or 127.0.0.1, or start the server with "
                   "--allow-host.",
                   host);
}

/* Returns true if two keys [size] are equal. The time depends only on their size. */
static bool is_equal(const char *a, const char *b, size_t size) {
  unsigned char differ = 0;
  for (size_t i = 0; i < size; i++) differ |= (unsigned char)(a[i] ^ b[i]);
  return differ == 0;
}

static bool is_key(const ch_access *access, const char *given) {
  size_t size = strlen(given);
  bool found = false;
  for (int i = 0; i < access->count; i++) {
    const char *key = access->keys + access->starts[i];
    found |= strlen(key) == size && is_equal(key, given, size);
  }
  return found;
}

bool ch_access_key(const ch_access *access, const char *authorization, const char *key, ch_refusal *refusal) {
  if (access->count == 0) return true;
  if (authorization && strncasecmp(authorization, "bearer ", 7) == 0) {
    authorization += 7;
    authorization += strspn(authorization, " ");
    if (is_key(access, authorization)) return true;
  }
  if (key && is_key(access, key)) return true;
  return ch_refuse(refusal, 401, "invalid_api_key", NULL,
                   "The API key is missing or wrong; send it in the header 'Authorization: Bearer KEY'.");
}

bool ch_access_origin(const ch_access *access, const char *origin) {
  return origin && is_any(access->origins, origin, strlen(origin));
}

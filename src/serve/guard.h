/* Who may ask: API keys, names in the Host header, and origins of other pages. */
#ifndef CH_SERVE_GUARD_H
#define CH_SERVE_GUARD_H

#include "base/error.h"
#include "serve/reply.h"

enum { CH_MOST_KEYS = 1024, CH_LONGEST_KEY = 512 };

typedef struct ch_guard {
  char *keys;     /* the text of the file, each key NUL-terminated */
  size_t *starts; /* [count] of the keys in it */
  int count;
  bool local; /* bound to loopback: the Host header must name it */
  const char *const *hosts, *const *origins;
} ch_guard;

/* Reads the keys: those of a file, one a line, and one more; either may be NULL. Release with ch_guard_free. */
ch_status ch_guard_open(ch_guard *guard, const char *file, const char *key, ch_error *error);
void ch_guard_free(ch_guard *guard);

/* Checks a Host header, which may be NULL. */
bool ch_guard_host(const ch_guard *guard, const char *host, ch_refusal *refusal);
/* Checks the headers Authorization and X-Api-Key; each may be NULL. */
bool ch_guard_key(const ch_guard *guard, const char *authorization, const char *key, ch_refusal *refusal);
/* Returns true if pages of this origin, NULL for none, may read answers. */
bool ch_guard_origin(const ch_guard *guard, const char *origin);

#endif

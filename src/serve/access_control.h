/* Access control: API keys, names in the Host header, and origins of other pages. */
#ifndef CH_SERVE_ACCESS_CONTROL_H
#define CH_SERVE_ACCESS_CONTROL_H

#include "base/error.h"
#include "serve/reply.h"

enum { CH_MOST_KEYS = 1024, CH_LONGEST_KEY = 512 };

typedef struct ch_access {
  char *keys;     /* the contents of the file, each key NUL-terminated */
  size_t *starts; /* [count] offsets of the keys */
  int count;
  bool local; /* true if the server is bound to loopback: the Host header must then name loopback */
  const char *const *hosts, *const *origins; /* ch_serve_settings: allowed hosts and origins */
} ch_access;

/* Reads the keys of a file, one per line, and one more key. Either may be NULL. Release with
   ch_access_free. */
ch_status ch_access_open(ch_access *access, const char *file, const char *key, ch_error *error);
void ch_access_free(ch_access *access);

/* Checks a Host header, which may be NULL. */
bool ch_access_host(const ch_access *access, const char *host, ch_refusal *refusal);
/* Checks the headers Authorization and X-Api-Key; each may be NULL. */
bool ch_access_key(const ch_access *access, const char *authorization, const char *key, ch_refusal *refusal);
/* Returns true if pages of this origin may read answers; NULL means no Origin header. */
bool ch_access_origin(const ch_access *access, const char *origin);

#endif

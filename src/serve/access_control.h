/* Access control: API keys, names in the Host header, and origins of other pages. */
#ifndef CH_SERVE_ACCESS_CONTROL_H
#define CH_SERVE_ACCESS_CONTROL_H

#include "base/error.h"
#include "serve/reply.h"

enum { CH_MOST_KEYS = 1024, CH_LONGEST_KEY = 512 };

typedef struct ch_access {
  char *keys;     /* the lines of the file and the further key, each NUL-terminated */
  size_t *starts; /* [count] offset of each key in `keys`, in bytes */
  int count;
  /* true if the server is bound to loopback: the Host header must then name loopback or one of `hosts` */
  bool local;
  const char *const *hosts, *const *origins; /* allowed hosts and origins, those of ch_serve_settings */
} ch_access;

/* Reads the keys of `file`, one per line, and adds `key`. Either may be NULL. Release with ch_access_free. */
ch_status ch_access_open(ch_access *access, const char *file, const char *key, ch_error *error);
void ch_access_free(ch_access *access);

/* Checks a Host header, which may be NULL. Returns false with *refusal filled if the header is not allowed. A server
   that is not bound to loopback allows all. */
bool ch_access_host(const ch_access *access, const char *host, ch_refusal *refusal);
/* Checks the headers Authorization and X-Api-Key; each may be NULL. Returns false with *refusal filled if the
   server has keys and neither header has a valid one. */
bool ch_access_key(const ch_access *access, const char *authorization, const char *key, ch_refusal *refusal);
/* Returns true if pages of this origin may read answers; false for NULL, a request without an Origin header. */
bool ch_access_origin(const ch_access *access, const char *origin);

#endif

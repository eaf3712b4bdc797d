/* The body of a request: strict JSON. */
#ifndef CH_SERVE_BODY_H
#define CH_SERVE_BODY_H

#include <jansson.h>

#include "serve/reply.h"

/* Parses an object of at most some memory: `most` bytes by an estimate of what its values take. Everything that is not one object
   of UTF-8 with distinct keys, whole numbers of 64 bits and finite numbers, is refused with `invalid_json`. *object is the
   caller's. */
bool ch_body_parse(const char *text, size_t size, size_t most, json_t **object, ch_refusal *refusal);

/* The memory that the values of a text take once it is parsed, about; SIZE_MAX for one that is nested too deeply. */
size_t ch_body_estimate(const char *text, size_t size);

/* The member of an object; NULL where it is absent or null. */
json_t *ch_body_member(const json_t *object, const char *name);

#endif

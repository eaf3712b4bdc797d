/* Request bodies: strict JSON, with a limit on the memory that its values need. */
#ifndef CH_SERVE_REQUEST_BODY_H
#define CH_SERVE_REQUEST_BODY_H

#include <jansson.h>

#include "serve/reply.h"

/* Parses a body that is one JSON object in UTF-8 with distinct keys, integers of at most 64 bits and
   finite numbers. Anything else is refused with `invalid_json`. A body whose values are estimated to need
   more than `most` bytes is refused with `body_too_large`. The caller releases *object. */
bool ch_body_parse(const char *text, size_t size, size_t most, json_t **object, ch_refusal *refusal);

/* Estimates the memory that the parsed values of a text need, in bytes; SIZE_MAX if it is nested too
   deeply. */
size_t ch_body_estimate(const char *text, size_t size);

/* Returns a member of an object; NULL if it is absent or null. */
json_t *ch_body_member(const json_t *object, const char *name);

#endif

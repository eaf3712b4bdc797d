/* Tokens as text, as answers show them. */
#ifndef CH_SERVE_TOKEN_NAMES_H
#define CH_SERVE_TOKEN_NAMES_H

#include <crosshead/tokenizer.h>

#include "base/text.h"

/* Returns the bytes [*size] of a token inside a text: " the" for "▁the". The bytes belong to the tokenizer.
   Padding ids have none. */
const char *ch_name_bytes(const ch_tokenizer *tokenizer, int32_t token, size_t *size);
/* Appends a token as a JSON string: its bytes, "bytes:\xe5\x98" if they are not UTF-8, or "<unused 7>" for a padding
   id. */
void ch_put_name(ch_text *json, const ch_tokenizer *tokenizer, int32_t token);
/* Appends bytes as a list of numbers. */
void ch_put_bytes(ch_text *json, const char *bytes, size_t size);
/* Returns true if two tokens have the same bytes. */
bool ch_same_name(const ch_tokenizer *tokenizer, int32_t a, int32_t b);

#endif

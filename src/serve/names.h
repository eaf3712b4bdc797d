/* Tokens by name, as answers show them. */
#ifndef CH_SERVE_NAMES_H
#define CH_SERVE_NAMES_H

#include <crosshead/tokenizer.h>

#include "base/text.h"

/* The bytes of a token wherever it occurs in a text, " the" for "▁the"; *size of them, the tokenizer's. None for ids of a padded
   vocabulary. */
const char *ch_name_bytes(const ch_tokenizer *tokenizer, int32_t token, size_t *size);
/* Appends a JSON string: those bytes, or where they are not UTF-8, "bytes:\xe5\x98". */
void ch_put_name(ch_text *json, const ch_tokenizer *tokenizer, int32_t token);
/* Appends the bytes as a list of numbers. */
void ch_put_bytes(ch_text *json, const char *bytes, size_t size);
/* Returns true if two tokens have one name. */
bool ch_same_name(const ch_tokenizer *tokenizer, int32_t a, int32_t b);

#endif

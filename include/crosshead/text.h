/* Text and tokens: a model's tokenizer. Any number of threads may use it at the same time.
 * <crosshead/tokenizer.h> has the flags, and tokenizers without a model.
 *
 *   int32_t tokens[256];
 *   size_t count, size;
 *   char *text;
 *   if (ch_encode(model, "Hello", 5, true, tokens, 256, &count, NULL) == CH_OK &&
 *       ch_decode(model, tokens, count, &text, &size, NULL) == CH_OK) {
 *     puts(text);
 *     ch_free(text);
 *   }
 *
 * From simple to advanced: encode and decode, with flags, single tokens. */
#ifndef CROSSHEAD_TEXT_H
#define CROSSHEAD_TEXT_H

#include <crosshead/model.h>
#include <crosshead/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Encoding and decoding ---- */

/* Encodes text [size] of UTF-8 into tokens [capacity]. With `begin` a text begins here, and the
 * beginning-of-text token comes first if the tokenizer uses one. *count becomes the number of tokens, which
 * may be more than `capacity`: then CH_ERROR_FULL is returned, `tokens` holds the first of them, and a second
 * call with room for *count succeeds. tokens may be NULL when capacity is 0. Errors: CH_ERROR_ARGUMENT for a
 * model without tokenizer, CH_ERROR_FULL, and those of ch_tokenizer_encode. */
CH_API ch_status ch_encode(const ch_model *model, const char *text, size_t size, bool begin, int32_t *tokens,
                           size_t capacity, size_t *count, ch_error *error);

/* Decodes tokens [count] to text: *size bytes, which may contain NUL, and a terminating NUL. The bytes need not
 * be whole UTF-8 characters. *text is the caller's: release it with ch_free. Errors: CH_ERROR_ARGUMENT for a
 * model without tokenizer, an id outside 0 ... V - 1 and one that the tokenizer does not have;
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_decode(const ch_model *model, const int32_t *tokens, size_t count, char **text,
                           size_t *size, ch_error *error);

/* ---- With flags ---- */

/* Encodes as ch_encode does, with the ch_text_flags for encoding in place of `begin`. */
CH_API ch_status ch_encode_text(const ch_model *model, const char *text, size_t size, unsigned flags,
                                int32_t *tokens, size_t capacity, size_t *count, ch_error *error);

/* Decodes as ch_decode does, with the ch_text_flags for decoding. */
CH_API ch_status ch_decode_tokens(const ch_model *model, const int32_t *tokens, size_t count, unsigned flags,
                                  char **text, size_t *size, ch_error *error);

/* ---- The tokenizer ---- */

/* Returns true if the model was opened with a tokenizer; false for NULL. */
CH_API bool ch_model_has_tokenizer(const ch_model *model);

/* Returns the model's tokenizer, which belongs to the model; NULL without one. */
CH_API const ch_tokenizer *ch_model_tokenizer(const ch_model *model);

/* Returns the id of the token that the tokenizer's file spells like this, e.g. "<|im_end|>"; -1 if there is no
 * such token, or no tokenizer. */
CH_API int32_t ch_token_id(const ch_model *model, const char *spelling);

/* Returns true for the ids of special tokens, which control the model and are not text; false without a
 * tokenizer. */
CH_API bool ch_token_is_special(const ch_model *model, int32_t token);

#ifdef __cplusplus
}
#endif
#endif

/* Tokenizers without a model: text to token ids and back, the vocabulary, and training one.
 * <crosshead/text.h> uses the tokenizer of an open model.
 *
 *   ch_ids ids = {0};
 *   ch_tokenizer *tokenizer;
 *   if (ch_tokenizer_open("tokenizer.json", &tokenizer, NULL) == CH_OK) {
 *     if (ch_tokenizer_encode(tokenizer, "Hello", 5, CH_TEXT_WHOLE, &ids, NULL) == CH_OK)
 *       printf("%zu tokens\n", ids.size);
 *     ch_ids_free(&ids);
 *     ch_tokenizer_free(tokenizer);
 *   }
 *
 * From simple to advanced: encode, decode, the vocabulary; then working memory for many texts, texts in
 * parts, text that grows token by token, training. */
#ifndef CROSSHEAD_TOKENIZER_H
#define CROSSHEAD_TOKENIZER_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open tokenizer. It never changes: any number of threads may use it at the same time. */
typedef struct ch_tokenizer ch_tokenizer;

/* Opens a Hugging Face tokenizer.json, a llama2.c tokenizer.bin, or a directory that holds one of the two; release
 * *tokenizer with ch_tokenizer_free. A tokenizer_config.json in the directory of a tokenizer.json names the
 * beginning and the end token. Errors: CH_ERROR_IO and CH_ERROR_FORMAT, which name the file; CH_ERROR_MEMORY;
 * CH_ERROR_ARGUMENT for NULL. */
CH_API ch_status ch_tokenizer_open(const char *path, ch_tokenizer **tokenizer, ch_error *error);

/* Releases the tokenizer; its encoders, streams and chats must be freed before. NULL is fine. */
CH_API void ch_tokenizer_free(ch_tokenizer *tokenizer);

/* ---- Text to tokens ---- */

/* Flags for encoding a text and decoding tokens; combine with |. A text that is encoded without BEGINS, WHOLE
 * and BARE continues an earlier part: nothing is inserted before it, not even the space that some tokenizers
 * insert before a text. At most one of the three may be given. */
typedef enum ch_text_flags {
  /* Encoding: a text begins here. The beginning-of-text token is inserted before it if the tokenizer uses
   * one. */
  CH_TEXT_BEGINS = 1,
  /* Encoding: special tokens written out in the text ("<|im_start|>") become their ids. Never set it for text
   * from an untrusted source. */
  CH_TEXT_SPECIAL = 2,
  /* Decoding: special tokens are left out. Without this flag they are written out. */
  CH_TEXT_NO_SPECIAL = 4,
  /* Encoding: the text is whole. The tokens that the tokenizer adds before and after a text by default surround
   * it (add_special_tokens of Hugging Face's tokenizers). */
  CH_TEXT_WHOLE = 8,
  /* Encoding: a text begins here, and no tokens are added around it. */
  CH_TEXT_BARE = 16
} ch_text_flags;

/* A list of token ids that grows. Zero-initialise it; release its memory with ch_ids_free. Setting size to 0 empties
 * the list without freeing memory. */
typedef struct ch_ids {
  int32_t *data;         /* [size] ids; NULL while capacity is 0 */
  size_t size, capacity; /* number of ids, and number of ids that fit into the memory */
} ch_ids;

/* Releases the memory of a list and sets its members to zero. */
CH_API void ch_ids_free(ch_ids *ids);

/* Allocates room for `more` ids after those of the list. Returns false when out of memory, and leaves the list
 * unchanged. */
CH_API bool ch_ids_reserve(ch_ids *ids, size_t more);

/* Appends the ids of text [size] to the list (UTF-8; other bytes where the tokenizer has tokens for them; less
 * than 1 GiB); `flags` are of ch_text_flags. Errors: CH_ERROR_ARGUMENT for a longer text and for flags that
 * exclude each other, CH_ERROR_FORMAT for a character that the vocabulary has no token for, CH_ERROR_MEMORY.
 * After an error the list may have grown. */
CH_API ch_status ch_tokenizer_encode(const ch_tokenizer *tokenizer, const char *text, size_t size,
                                     unsigned flags, ch_ids *ids, ch_error *error);

/* ---- Tokens to text ---- */

/* Decodes tokens [count] to text: *size bytes, which may contain NUL, and a terminating NUL. `flags` is 0 or
 * CH_TEXT_NO_SPECIAL. The bytes need not be whole UTF-8 characters. *text is the caller's: release it with
 * ch_free. Errors: CH_ERROR_ARGUMENT for an id that the tokenizer does not have and for other flags;
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_tokenizer_decode(const ch_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                     unsigned flags, char **text, size_t *size, ch_error *error);

/* Returns the text of a token in the middle of a text (" the" for "▁the"); special tokens are written out. Its
 * *size bytes belong to the tokenizer and need not be whole UTF-8 characters. Returns NULL for an id that the
 * tokenizer does not have. */
CH_API const char *ch_tokenizer_bytes(const ch_tokenizer *tokenizer, int32_t id, size_t *size);

/* ---- The vocabulary ---- */

/* Returns the largest id plus one. */
CH_API int32_t ch_tokenizer_vocab_size(const ch_tokenizer *tokenizer);

/* Return the ids of the beginning-of-text and the end-of-text token; -1 when the tokenizer names none. */
CH_API int32_t ch_tokenizer_bos(const ch_tokenizer *tokenizer);
CH_API int32_t ch_tokenizer_eos(const ch_tokenizer *tokenizer);

/* Returns true if the tokenizer adds the beginning-of-text token, or any other, before a text by default. */
CH_API bool ch_tokenizer_adds_bos(const ch_tokenizer *tokenizer);

/* Returns true for the ids of special tokens, which control the model and are not text. */
CH_API bool ch_tokenizer_is_special(const ch_tokenizer *tokenizer, int32_t id);

/* Returns the token as the tokenizer's file spells it ("Ġthe", "▁the"). Its *size bytes are not NUL-terminated
 * and belong to the tokenizer. Returns NULL for an id that the tokenizer does not have. */
CH_API const char *ch_tokenizer_piece(const ch_tokenizer *tokenizer, int32_t id, size_t *size);

/* Returns the id of the token that the tokenizer's file spells like piece [size]; -1 if there is none. */
CH_API int32_t ch_tokenizer_find(const ch_tokenizer *tokenizer, const char *piece, size_t size);

/* ---- Many texts, texts in parts ---- */

/* Working memory for encoding many texts: faster than ch_tokenizer_encode, because it caches the ids of
 * words. One thread at a time may use it; the tokenizer must outlive it. */
typedef struct ch_encoder ch_encoder;

/* Creates an encoder; release *encoder with ch_encoder_free. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_encoder_new(const ch_tokenizer *tokenizer, ch_encoder **encoder, ch_error *error);

/* Releases the encoder. NULL is fine. */
CH_API void ch_encoder_free(ch_encoder *encoder);

/* Appends the ids of text [size] to the list, with the ids and errors of ch_tokenizer_encode. */
CH_API ch_status ch_encoder_encode(ch_encoder *encoder, const char *text, size_t size, unsigned flags,
                                   ch_ids *ids, ch_error *error);

/* A part of a text. */
typedef struct ch_prompt_part {
  const char *text; /* [size] bytes of UTF-8 */
  size_t size;
  bool special; /* true: special tokens written out in the part become their ids */
} ch_prompt_part;

/* Appends the ids of the text that parts [count] form together, as ch_tokenizer_encode of the whole text does,
 * but finds a special token only where all of its bytes belong to `special` parts. If the tokenizer searches
 * normalized text for special tokens, the parts are encoded one after the other. flags: CH_TEXT_BEGINS,
 * CH_TEXT_WHOLE or CH_TEXT_BARE, or 0. Errors: those of ch_tokenizer_encode. */
CH_API ch_status ch_tokenizer_encode_parts(const ch_tokenizer *tokenizer, const ch_prompt_part *parts,
                                           size_t count, unsigned flags, ch_ids *ids, ch_error *error);

/* ---- Text that grows token by token ---- */

/* Decodes a text id by id into pieces that are whole UTF-8 characters. Bytes that begin a character wait for its end,
 * and bytes that may begin a stop string wait until more bytes decide it; bytes that do not form a character become
 * U+FFFD. One thread at a time may use it; the tokenizer must outlive it. */
typedef struct ch_text_stream ch_text_stream;

/* Creates a stream; release *stream with ch_text_stream_free. stops [stop_count] are NUL-terminated UTF-8, none
 * empty, and copied; NULL with a count of 0. `flags` is 0 or CH_TEXT_NO_SPECIAL. Errors: CH_ERROR_ARGUMENT for
 * other flags and stop strings, CH_ERROR_MEMORY. */
CH_API ch_status ch_text_stream_new(const ch_tokenizer *tokenizer, const char *const *stops,
                                    int32_t stop_count, unsigned flags, ch_text_stream **stream,
                                    ch_error *error);

/* Releases the stream and its text. NULL is fine. */
CH_API void ch_text_stream_free(ch_text_stream *stream);

/* Adds a token and sets *text to the text that it releases: *size bytes, which belong to the stream and are
 * valid until the next call. *stop becomes the index of the stop string that the token completed, or -1; the
 * text ends before it, and later tokens release nothing. Ids that the tokenizer does not have (padded
 * vocabularies) have no text. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_text_stream_put(ch_text_stream *stream, int32_t id, const char **text, size_t *size,
                                    int32_t *stop, ch_error *error);

/* Ends the text: releases the bytes that waited, as ch_text_stream_put does. Bytes that begin a character become
 * U+FFFD, which may complete a stop string. Later calls release nothing. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_text_stream_end(ch_text_stream *stream, const char **text, size_t *size, int32_t *stop,
                                    ch_error *error);

/* ---- Training ---- */

/* The smallest vocabulary: an end token and the 256 bytes. */
enum { CH_TOKENIZER_LEAST_VOCABULARY = 257 };

/* Called now and then by the thread that trains. stage: "counting words" or "merging pairs"; share: its finished
 * share, 0 to 1. Returning false cancels the training. */
typedef bool (*ch_tokenizer_progress)(const char *stage, double share, void *user);

/* The settings of training a tokenizer. Fill with ch_tokenizer_train_defaults, then change what should differ:
 * later versions may add members. */
typedef struct ch_tokenizer_train_settings {
  int32_t vocab_size; /* maximum number of tokens, at least CH_TOKENIZER_LEAST_VOCABULARY; default 8192 */
  int64_t min_count;  /* minimum number of occurrences of a pair that is merged; default 2 */
  /* token between two documents of the text, with the id 0; NULL (default) = "<|endoftext|>" */
  const char *end_token;
  ch_tokenizer_progress progress; /* callback for progress; or NULL */
  void *user;                     /* argument of `progress` */
} ch_tokenizer_train_settings;

/* Fills in the defaults. */
CH_API void ch_tokenizer_train_defaults(ch_tokenizer_train_settings *settings);

/* The results of training a tokenizer.
 *
 *   ch_tokenizer_report report;
 *   if (ch_tokenizer_train("book.txt", "tokenizer.json", NULL, &report, NULL) == CH_OK)
 *     printf("%d tokens\n", (int)report.vocab_size); */
typedef struct ch_tokenizer_report {
  /* number of tokens; smaller than requested if no other pair of the text occurs min_count times */
  int32_t vocab_size;
  size_t text_bytes, distinct_words; /* bytes of all files, and number of different words in them */
} ch_tokenizer_report;

/* Trains byte-level BPE on DATA, a UTF-8 text file or several separated by commas, and writes it to the file
 * OUT, a tokenizer.json of Hugging Face's form. Words are split as in GPT-2; the most frequent pair of
 * neighbouring tokens becomes a token until the vocabulary is full. Of equally frequent pairs the one with
 * the greatest bytes comes first, so that the result depends on text and settings alone. settings may be NULL
 * for the defaults, and report may be NULL. Errors, after which nothing is written: CH_ERROR_IO,
 * CH_ERROR_FORMAT for a file that is not text, CH_ERROR_ARGUMENT for settings out of range, CH_ERROR_MEMORY,
 * CH_ERROR_INTERRUPTED when progress returned false. */
CH_API ch_status ch_tokenizer_train(const char *data, const char *out,
                                    const ch_tokenizer_train_settings *settings, ch_tokenizer_report *report,
                                    ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

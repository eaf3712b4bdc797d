/* Functions of text streams for the rest of the library. <crosshead/tokenizer.h> has the public ones. */
#ifndef CH_TEXT_TEXT_STREAM_H
#define CH_TEXT_TEXT_STREAM_H

#include "text/stop_strings.h"
#include "text/tokenizer.h"

/* An amount of text. */
typedef struct ch_text_length {
  int64_t bytes, characters;
} ch_text_length;

/* The tokens before the text: the decoder must know them, for example to decide about a space. A character
   that they leave unfinished belongs to the text if the text completes it (ch_text_stream_owed), else its
   bytes are left out. */
ch_status ch_text_stream_begin(ch_text_stream *stream, const int32_t *ids, size_t count, ch_error *error);
/* The bytes at the beginning of the text that are such a character's. */
int32_t ch_text_stream_owed(const ch_text_stream *stream);
/* The text that is decoded, with what is held back; and what is released. */
ch_text_length ch_text_stream_decoded(const ch_text_stream *stream);
ch_text_length ch_text_stream_released(const ch_text_stream *stream);

#endif

/* Functions of text streams for the rest of the library. <crosshead/tokenizer.h> has the public ones. */
#ifndef CH_TEXT_TEXT_STREAM_H
#define CH_TEXT_TEXT_STREAM_H

#include "text/stop_strings.h"
#include "text/tokenizer.h"

/* An amount of text. */
typedef struct ch_text_length {
  int64_t bytes, characters;
} ch_text_length;

/* Passes the tokens before the text to the decoder, for example to decide about a space. If they leave a
   character unfinished, it belongs to the text if the text completes it (ch_text_stream_owed); otherwise its
   bytes are left out. */
ch_status ch_text_stream_begin(ch_text_stream *stream, const int32_t *ids, size_t count, ch_error *error);
/* Returns the number of bytes at the beginning of the text that come from the tokens before it: they begin a
   character that the text completed. */
int32_t ch_text_stream_owed(const ch_text_stream *stream);
/* Returns the length of the decoded text, including the part that is held back. */
ch_text_length ch_text_stream_decoded(const ch_text_stream *stream);
/* Returns the length of the released text. */
ch_text_length ch_text_stream_released(const ch_text_stream *stream);

#endif

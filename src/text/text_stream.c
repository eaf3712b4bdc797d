/* Turns tokens into text as they come, in pieces of whole characters, and finds stop strings. Once its
 * buffers have grown to the longest piece, a token allocates nothing. */
#include "text/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

struct ch_text_stream {
  const ch_tokenizer *tokenizer;
  char **stops; /* [stop_count] */
  int32_t stop_count;
  bool skip_special;
  ch_decode_stream decoder;
  /* bytes of a character that the tokens before the text left unfinished; the decoder withholds them */
  size_t owed;
  int32_t completed;       /* owed bytes that the text begins with, because it completed their character */
  bool over;               /* true after a stop string and after the end */
  ch_text decoded, valid;  /* decoded: bytes of one token's text; valid: these bytes as valid UTF-8 */
  ch_text held;            /* text that is not released yet, if there are stop strings */
  size_t released;         /* bytes of `held` that the last call returned */
  ch_text_length all, out; /* all: length of the decoded text; out: length of the released text */
};

ch_status ch_text_stream_new(const ch_tokenizer *tokenizer, const char *const *stops, int32_t stop_count,
                             unsigned flags, ch_text_stream **result, ch_error *error) {
  if (!tokenizer || !result)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL",
                   tokenizer ? "the stream pointer" : "the tokenizer");
  *result = NULL;
  CH_TRY(ch_text_check_flags(flags, CH_TEXT_NO_SPECIAL, "decoding", error));
  CH_TRY(ch_stops_check(stops, stop_count, error));
  ch_text_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return ch_no_memory(error);
  stream->tokenizer = tokenizer;
  stream->skip_special = flags & CH_TEXT_NO_SPECIAL;
  stream->stops = calloc((size_t)stop_count + 1, sizeof *stream->stops);
  bool whole = stream->stops;
  for (; whole && stream->stop_count < stop_count; stream->stop_count++)
    whole = (stream->stops[stream->stop_count] = strdup(stops[stream->stop_count]));
  if (!whole) {
    ch_text_stream_free(stream);
    return ch_no_memory(error);
  }
  *result = stream;
  return CH_OK;
}

void ch_text_stream_free(ch_text_stream *stream) {
  if (!stream) return;
  for (int32_t i = 0; stream->stops && i < stream->stop_count; i++) free(stream->stops[i]);
  free(stream->stops);
  ch_text_free(&stream->decoded);
  ch_text_free(&stream->valid);
  ch_text_free(&stream->held);
  free(stream);
}

static void add_length(ch_text_length *length, const char *text, size_t size) {
  length->bytes += (int64_t)size;
  for (size_t i = 0; i < size; i++) length->characters += ((unsigned char)text[i] & 0xc0) != 0x80;
}

/* Decodes the text that a token completes into `decoded`. Ids beyond the tokenizer's (padded vocabularies)
   have no text. */
static ch_status decode(ch_text_stream *stream, int32_t id, ch_error *error) {
  size_t size;
  stream->decoded.size = 0;
  if (!ch_tokenizer_piece(stream->tokenizer, id, &size)) return CH_OK;
  return ch_decode_next(stream->tokenizer, &stream->decoder, id, stream->skip_special, &stream->decoded,
                        error);
}

/* Decides about an owed character: it is part of the text if the text completed it; otherwise its bytes are
   left out. */
static void settle(ch_text_stream *stream) {
  ch_text *decoded = &stream->decoded;
  uint32_t character;
  const unsigned char *text = (const unsigned char *)decoded->data;
  if (stream->owed == 0 || decoded->size < stream->owed) return;
  if (ch_utf8_decode(text, text + decoded->size, &character) > stream->owed) {
    stream->completed = (int32_t)stream->owed;
  } else {
    decoded->size -= stream->owed;
    memmove(decoded->data, decoded->data + stream->owed, decoded->size);
  }
  stream->owed = 0;
}

/* Releases the part of `held` and `valid` that cannot belong to a stop string. At the end nothing is held
   back. */
static ch_status release(ch_text_stream *stream, bool end, const char **text, size_t *size, int32_t *stop,
                         ch_error *error) {
  ch_text *held = &stream->held, *valid = &stream->valid;
  int found = -1;
  if (stream->stop_count == 0) {
    *text = valid->data;
    *size = valid->size;
  } else {
    memmove(held->data ? held->data : (char *)"", held->data ? held->data + stream->released : (char *)"",
            held->size - stream->released);
    held->size -= stream->released;
    stream->released = 0;
    const size_t seen = held->size;
    ch_text_put(held, valid->data ? valid->data : "", valid->size);
    if (held->failed) return ch_no_memory(error);
    *size = ch_stops_search((const char *const *)stream->stops, stream->stop_count, held->data, held->size,
                            seen, &found);
    if (end && found < 0) *size = held->size;
    *text = held->data;
    stream->released = *size;
    stream->over = found >= 0;
  }
  if (!*text) *text = "";
  *stop = found;
  add_length(&stream->out, *text, *size);
  return CH_OK;
}

static ch_status make_valid(ch_text_stream *stream, ch_error *error) {
  stream->valid.size = 0;
  ch_put_valid_utf8(&stream->valid, stream->decoded.data ? stream->decoded.data : "", stream->decoded.size);
  if (stream->valid.failed || stream->decoded.failed) return ch_no_memory(error);
  add_length(&stream->all, stream->valid.data, stream->valid.size);
  return CH_OK;
}

ch_status ch_text_stream_begin(ch_text_stream *stream, const int32_t *ids, size_t count, ch_error *error) {
  for (size_t i = 0; i < count; i++) CH_TRY(decode(stream, ids[i], error));
  stream->owed = stream->decoder.pending_size;
  return CH_OK;
}

int32_t ch_text_stream_owed(const ch_text_stream *stream) {
  return stream->completed;
}

ch_text_length ch_text_stream_decoded(const ch_text_stream *stream) {
  return stream->all;
}

ch_text_length ch_text_stream_released(const ch_text_stream *stream) {
  return stream->out;
}

ch_status ch_text_stream_put(ch_text_stream *stream, int32_t id, const char **text, size_t *size,
                             int32_t *stop, ch_error *error) {
  *text = "";
  *size = 0;
  *stop = -1;
  if (stream->over) return CH_OK;
  CH_TRY(decode(stream, id, error));
  settle(stream);
  CH_TRY(make_valid(stream, error));
  return release(stream, false, text, size, stop, error);
}

ch_status ch_text_stream_end(ch_text_stream *stream, const char **text, size_t *size, int32_t *stop,
                             ch_error *error) {
  *text = "";
  *size = 0;
  *stop = -1;
  if (stream->over) return CH_OK;
  stream->decoded.size = 0;
  ch_decode_finish(&stream->decoder, &stream->decoded);
  settle(stream);
  CH_TRY(make_valid(stream, error));
  stream->over = true;
  CH_TRY(release(stream, true, text, size, stop, error));
  stream->over = true;
  return CH_OK;
}

/* Decodes ids to text, all at once or id by id. Id by id it never returns half a character. */
#include "text/tokenizer_internal.h"

#include <string.h>

#include "base/utf8.h"

/* Decodes an id, without what is stripped from the start of a text. */
static ch_status text_of(const ch_tokenizer *tokenizer, int32_t id, bool at_start, const char **text,
                         size_t *size, ch_error *error) {
  size_t piece_size;
  if (!ch_vocabulary_piece(&tokenizer->vocabulary, id, &piece_size))
    return ch_fail(error, CH_ERROR_ARGUMENT, "token id %d has no piece in %s, whose ids go from 0 to %d", id,
                   tokenizer->file, tokenizer->vocabulary.size - 1);
  ch_span span = tokenizer->decoded_spans[id];
  *text = tokenizer->decoded.data + span.at;
  *size = span.size;
  for (size_t i = 0; at_start && i<tokenizer->decoder.strip_start && * size> 0; i++) {
    if (**text != tokenizer->decoder.strip_character) break;
    ++*text;
    --*size;
  }
  return CH_OK;
}

const char *ch_tokenizer_bytes(const ch_tokenizer *tokenizer, int32_t id, size_t *size) {
  size_t piece_size;
  if (!tokenizer || !ch_vocabulary_piece(&tokenizer->vocabulary, id, &piece_size)) return NULL;
  const ch_span span = tokenizer->decoded_spans[id];
  *size = span.size;
  return tokenizer->decoded.data + span.at;
}

ch_status ch_tokenizer_put_text(const ch_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                bool skip_special, ch_text *text, ch_error *error) {
  bool started = false;
  for (size_t i = 0; i < count; i++) {
    const char *piece = NULL;
    size_t size = 0;
    if (skip_special && ch_tokenizer_is_special(tokenizer, ids[i])) continue;
    CH_TRY(text_of(tokenizer, ids[i], !started, &piece, &size, error));
    started = true;
    ch_text_put(text, piece, size);
  }
  return text->failed ? ch_no_memory(error) : CH_OK;
}

ch_status ch_tokenizer_decode(const ch_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                              unsigned flags, char **text, size_t *size, ch_error *error) {
  ch_text out = {0};
  if ((!tokens && count) || !text || !size)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the tokens or the text pointer is NULL");
  CH_TRY(ch_text_check_flags(flags, CH_TEXT_NO_SPECIAL, "decoding", error));
  ch_status status = ch_tokenizer_put_text(tokenizer, tokens, count, flags & CH_TEXT_NO_SPECIAL, &out, error);
  if (status == CH_OK) ch_text_put(&out, "", 0); /* an empty text is "" and not NULL */
  if (status == CH_OK && out.failed) status = ch_no_memory(error);
  if (status != CH_OK) {
    ch_text_free(&out);
    return status;
  }
  *text = out.data;
  *size = out.size;
  return CH_OK;
}

ch_status ch_decode_next(const ch_tokenizer *tokenizer, ch_decode_stream *stream, int32_t id,
                         bool skip_special, ch_text *text, ch_error *error) {
  const char *piece = NULL;
  size_t size = 0;
  if (skip_special && ch_tokenizer_is_special(tokenizer, id)) return CH_OK;
  CH_TRY(text_of(tokenizer, id, !stream->started, &piece, &size, error));
  stream->started = true;
  size_t start = text->size;
  ch_text_put(text, (const char *)stream->pending, stream->pending_size);
  ch_text_put(text, piece, size);
  if (text->failed) return ch_no_memory(error);
  size_t withheld = ch_utf8_unfinished((const unsigned char *)text->data + start, text->size - start);
  text->size -= withheld;
  memcpy(stream->pending, text->data + text->size, withheld);
  text->data[text->size] = 0;
  stream->pending_size = (unsigned char)withheld;
  return CH_OK;
}

void ch_decode_finish(ch_decode_stream *stream, ch_text *text) {
  ch_text_put(text, (const char *)stream->pending, stream->pending_size);
  *stream = (ch_decode_stream){0};
}

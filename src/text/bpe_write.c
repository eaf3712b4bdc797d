/* Writing a trained vocabulary as a tokenizer.json that Hugging Face's tokenizers read too. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/bpe_train.h"
#include "text/byte_level.h"
#include "base/utf8.h"

/* Pieces by id, spelled in the byte alphabet. Piece i is bytes at[i] ... at[i + 1] - 1 of the pool. */
typedef struct piece_list {
  ch_text pool;
  size_t *at; /* [count + 1] */
  int32_t count;
} piece_list;

static void put_piece(ch_text *out, const piece_list *pieces, int32_t id) {
  ch_json_put_bytes(out, pieces->pool.data + pieces->at[id], pieces->at[id + 1] - pieces->at[id]);
}

static void end_piece(piece_list *pieces) {
  pieces->at[++pieces->count] = pieces->pool.size;
}

/* Copies byte by byte, because the pool may move as it grows. */
static void copy_piece(piece_list *pieces, int32_t id) {
  for (size_t i = pieces->at[id]; i < pieces->at[id + 1]; i++) {
    char c = pieces->pool.data[i];
    ch_text_put(&pieces->pool, &c, 1);
  }
}

static bool spell_pieces(piece_list *pieces, const ch_bpe_merges *merges, const char *end_token) {
  pieces->at = calloc((size_t)merges->vocab_size + 1, sizeof *pieces->at);
  if (!pieces->at) return false;
  ch_text_puts(&pieces->pool, end_token);
  end_piece(pieces);
  for (uint32_t character = 0; character < 512; character++) {
    unsigned char spelled[4];
    if (ch_character_to_byte(character) < 0) continue;
    ch_text_put(&pieces->pool, (const char *)spelled, ch_utf8_encode(character, spelled));
    end_piece(pieces);
  }
  for (int32_t i = 0; i < merges->count; i++) {
    if (merges->merges[i].id != pieces->count) continue; /* a token that was there already */
    copy_piece(pieces, merges->merges[i].left);
    copy_piece(pieces, merges->merges[i].right);
    end_piece(pieces);
  }
  return !pieces->pool.failed;
}

static void put_model(ch_text *out, const piece_list *pieces, const ch_bpe_merges *merges) {
  ch_text_puts(out,
               "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
               "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
               "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
               "    \"vocab\": {\n");
  for (int32_t id = 0; id < pieces->count; id++) {
    ch_text_puts(out, "      ");
    put_piece(out, pieces, id);
    ch_text_printf(out, ": %d%s\n", id, id + 1 < pieces->count ? "," : "");
  }
  ch_text_puts(out, "    },\n    \"merges\": [\n");
  for (int32_t i = 0; i < merges->count; i++) {
    ch_text_puts(out, "      [");
    put_piece(out, pieces, merges->merges[i].left);
    ch_text_puts(out, ", ");
    put_piece(out, pieces, merges->merges[i].right);
    ch_text_puts(out, i + 1 < merges->count ? "],\n" : "]\n");
  }
  ch_text_puts(out, "    ]\n  }\n}\n");
}

static void put_head(ch_text *out, const char *end_token) {
  static const char byte_level[] =
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}";
  ch_text_puts(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                    "  \"added_tokens\": [\n    {\"id\": 0, \"content\": ");
  ch_json_put_bytes(out, end_token, strlen(end_token));
  ch_text_printf(out,
                 ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                 "\"special\": true}\n  ],\n  \"normalizer\": null,\n  \"pre_tokenizer\": %s,\n"
                 "  \"post_processor\": %s,\n  \"decoder\": %s,\n",
                 byte_level, byte_level, byte_level);
}

ch_status ch_bpe_write(const ch_bpe_merges *merges, const char *end_token, const char *path,
                       ch_error *error) {
  piece_list pieces = {0};
  ch_text out = {0};
  ch_status status = CH_OK;
  if (spell_pieces(&pieces, merges, end_token)) {
    put_head(&out, end_token);
    put_model(&out, &pieces, merges);
  } else {
    out.failed = true;
  }
  status = out.failed ? ch_no_memory(error) : ch_write_file(path, out.data, out.size, error);
  ch_text_free(&pieces.pool);
  free(pieces.at);
  ch_text_free(&out);
  return status;
}

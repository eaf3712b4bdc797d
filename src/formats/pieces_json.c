/* Writes a vocabulary as tokenizer.json and tokenizer_config.json. */
#include "base/json.h"
#include "formats/pieces.h"

static void put_piece(const ch_pieces *pieces, int32_t id, ch_text *json) {
  ch_json_put_bytes(json, pieces->items[id].text, pieces->items[id].size);
}

static void put_added_tokens(const ch_pieces *pieces, ch_text *json) {
  bool first = true;
  ch_text_puts(json, "  \"added_tokens\": [");
  for (int32_t id = 0; id < pieces->count; id++) {
    ch_piece_kind kind = pieces->items[id].kind;
    bool added = kind == CH_PIECE_CONTROL || kind == CH_PIECE_UNKNOWN || kind == CH_PIECE_USER;
    if (!added || pieces->items[id].size == 0) continue;
    ch_text_printf(json, "%s\n    {\"id\": %d, \"content\": ", first ? "" : ",", id);
    put_piece(pieces, id, json);
    ch_text_printf(json,
                   ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                   "\"special\": %s}",
                   kind == CH_PIECE_USER ? "false" : "true");
    first = false;
  }
  ch_text_puts(json, "\n  ],\n");
}

/* Writes a normalizer that replaces spaces by marks. The whole text is one word. */
static void put_marks(const ch_pieces *pieces, ch_text *json) {
  ch_text_puts(json, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
  if (pieces->space_prefix) ch_text_puts(json, "{\"type\": \"Prepend\", \"prepend\": \"▁\"}, ");
  ch_text_puts(json, "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}]},\n"
                     "  \"pre_tokenizer\": null,\n");
}

static const char byte_level[] =
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": ";

static void put_words(const ch_word_rule *words, ch_text *json) {
  ch_text_printf(json, "  \"normalizer\": %s,\n", words->normalize ? "{\"type\": \"NFC\"}" : "null");
  ch_text_puts(json, "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
  for (const char *const *pattern = words->patterns; *pattern; pattern++) {
    ch_text_puts(json, "\n    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    ch_json_put_string(json, *pattern);
    ch_text_puts(json, "}, \"behavior\": \"Isolated\", \"invert\": false},");
  }
  ch_text_printf(json, "\n    %s%s}]},\n", byte_level, words->gpt2 ? "true" : "false");
}

ch_status ch_word_rule_open(const ch_word_rule *rule, ch_tokenizer **tokenizer, ch_error *error) {
  ch_text json = {0};
  ch_text_puts(&json, "{");
  put_words(rule, &json);
  ch_text_puts(&json, "\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}");
  ch_status status = json.failed
                         ? ch_no_memory(error)
                         : ch_tokenizer_from_json(json.data, json.size, rule->names[0], tokenizer, error);
  ch_text_free(&json);
  return status;
}

static void put_token_name(const ch_pieces *pieces, int32_t id, ch_text *json) {
  ch_text_puts(json, "{\"SpecialToken\": {\"id\": ");
  put_piece(pieces, id, json);
  ch_text_puts(json, ", \"type_id\": 0}}");
}

static void put_token_ids(const ch_pieces *pieces, int32_t id, ch_text *json) {
  put_piece(pieces, id, json);
  ch_text_puts(json, ": {\"id\": ");
  put_piece(pieces, id, json);
  ch_text_printf(json, ", \"ids\": [%d], \"tokens\": [", id);
  put_piece(pieces, id, json);
  ch_text_puts(json, "]}");
}

/* Writes the post-processor, which adds tokens before and after a text. */
static void put_template(const ch_pieces *pieces, ch_text *json) {
  bool before = pieces->add_begin && pieces->begin >= 0, after = pieces->add_end && pieces->end >= 0;
  if (!before && !after) {
    ch_text_puts(json, "  \"post_processor\": null,\n");
    return;
  }
  ch_text_puts(json, "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
  if (before) put_token_name(pieces, pieces->begin, json);
  ch_text_printf(json, "%s{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}%s", before ? ", " : "",
                 after ? ", " : "");
  if (after) put_token_name(pieces, pieces->end, json);
  ch_text_puts(json, "],\n    \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                     "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],\n    \"special_tokens\": {");
  if (before) put_token_ids(pieces, pieces->begin, json);
  if (before && after && pieces->begin != pieces->end) ch_text_puts(json, ", ");
  if (after && !(before && pieces->begin == pieces->end)) put_token_ids(pieces, pieces->end, json);
  ch_text_puts(json, "}},\n");
}

static void put_decoder(const ch_pieces *pieces, ch_text *json) {
  if (pieces->byte_level) {
    ch_text_printf(json, "  \"decoder\": %strue},\n", byte_level);
    return;
  }
  ch_text_puts(
      json, "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
            "{\"String\": \"▁\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}");
  if (pieces->space_prefix)
    ch_text_puts(json, ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
  ch_text_puts(json, "]},\n");
}

static void put_model(const ch_pieces *pieces, ch_text *json) {
  bool marks = !pieces->byte_level;
  ch_text_puts(json, "  \"model\": {\n    \"type\": \"BPE\", \"dropout\": null, \"unk_token\": ");
  if (marks && pieces->unknown >= 0)
    put_piece(pieces, pieces->unknown, json);
  else
    ch_text_puts(json, "null");
  ch_text_printf(
      json,
      ", \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,\n    \"fuse_unk\": %s, "
      "\"byte_fallback\": %s, \"ignore_merges\": %s,\n    \"vocab\": {",
      marks ? "true" : "false", marks ? "true" : "false",
      !marks && pieces->words->ignore_merges ? "true" : "false");
  for (int32_t id = 0; id < pieces->count; id++) {
    ch_text_puts(json, id ? ",\n      " : "\n      ");
    put_piece(pieces, id, json);
    ch_text_printf(json, ": %d", id);
  }
  ch_text_puts(json, "\n    },\n    \"merges\": [");
  for (int64_t i = 0; i < pieces->pair_count; i++) {
    ch_text_puts(json, i ? ",\n      [" : "\n      [");
    put_piece(pieces, pieces->pairs[i].left, json);
    ch_text_puts(json, ", ");
    put_piece(pieces, pieces->pairs[i].right, json);
    ch_text_puts(json, "]");
  }
  ch_text_puts(json, "\n    ]\n  }\n}\n");
}

static void put_config(const ch_pieces *pieces, ch_text *config) {
  const struct {
    const char *key;
    int32_t id;
  } tokens[] = {{"bos_token", pieces->begin},
                {"eos_token", pieces->end},
                {"unk_token", pieces->byte_level ? -1 : pieces->unknown},
                {"pad_token", pieces->padding}};
  ch_text_printf(config, "{\n  \"add_bos_token\": %s,\n  \"add_eos_token\": %s,\n",
                 pieces->add_begin ? "true" : "false", pieces->add_end ? "true" : "false");
  for (int i = 0; i < 4; i++) {
    if (tokens[i].id < 0) continue;
    ch_text_printf(config, "  \"%s\": ", tokens[i].key);
    put_piece(pieces, tokens[i].id, config);
    ch_text_puts(config, ",\n");
  }
  ch_text_puts(config, "  \"clean_up_tokenization_spaces\": false,\n  \"tokenizer_class\": "
                       "\"PreTrainedTokenizerFast\"\n}\n");
}

ch_status ch_pieces_put_json(const ch_pieces *pieces, const char *where, ch_text *json, ch_text *config,
                             ch_error *error) {
  ch_text_puts(json, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
  put_added_tokens(pieces, json);
  if (pieces->byte_level)
    put_words(pieces->words, json);
  else
    put_marks(pieces, json);
  put_template(pieces, json);
  put_decoder(pieces, json);
  put_model(pieces, json);
  put_config(pieces, config);
  if (json->failed || config->failed) return ch_no_memory(error);
  /* Reads the text back, so that an unreadable vocabulary fails before anything is written. */
  ch_tokenizer *tokenizer;
  CH_TRY(ch_tokenizer_from_json(json->data, json->size, where, &tokenizer, error));
  ch_tokenizer_free(tokenizer);
  return CH_OK;
}

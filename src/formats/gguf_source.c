/* A GGUF file as a source. Its tensors are found by the names of our parameter table; its vocabulary becomes a
   tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "formats/chat_metadata.h"
#include "formats/gguf_config.h"
#include "formats/gguf_names.h"
#include "formats/pieces.h"
#include "formats/source.h"
#include "model/network.h"

typedef struct gguf_source {
  ch_gguf file;
  struct place {
    const ch_gguf_tensor *tensor;
    /* the two tensors of a kv_b_proj in newer files; `tensor` is then NULL */
    const ch_gguf_tensor *key_part, *value_part;
    int64_t first;  /* offset of the matrix in a tensor of several matrices, in elements */
    int64_t whole;  /* rows of a tensor of several matrices; 0: the tensor is one matrix */
    int expert;     /* number of the matrix in a stack; -1: no stack */
    int64_t turned; /* rows per head if they are in interleaved order; 0: they are not */
  } * places;       /* [params.count] */
} gguf_source;

static ch_status wrong_tensor(const ch_gguf *file, const char *name, const char *what, ch_error *error) {
  char quoted[100];
  return ch_fail(error, CH_ERROR_FORMAT, "%s: tensor %s %s", file->where,
                 ch_json_quote(name, quoted, sizeof quoted), what);
}

static ch_status check_shape(const ch_gguf *file, const ch_param *param, const struct place *place,
                             ch_error *error) {
  const ch_gguf_tensor *tensor = place->tensor;
  int stacked = place->expert >= 0;
  bool same = tensor->rank == param->rank + stacked && (!stacked || place->expert < tensor->shape[0]);
  for (int i = 0; same && i < param->rank; i++)
    same = tensor->shape[i + stacked] == (i == 0 && place->whole ? place->whole : param->shape[i]);
  if (same) return CH_OK;
  char what[300], is[100], wanted[100];
  snprintf(what, sizeof what, "has shape %s, but the metadata require %s%s",
           ch_shape_text(tensor->rank, tensor->shape, is, sizeof is),
           ch_shape_text(param->rank, param->shape, wanted, sizeof wanted), stacked ? " an expert" : "");
  return wrong_tensor(file, tensor->name, what, error);
}

static bool has_shape(const ch_gguf_tensor *tensor, int64_t a, int64_t b, int64_t c) {
  return tensor && tensor->rank == 3 && tensor->shape[0] == a && tensor->shape[1] == b &&
         tensor->shape[2] == c;
}

/* Finds kv_b_proj as two stacks with one matrix per head: keys [c, n], transposed, and values [v, c]. */
static bool find_parts(gguf_source *g, const ch_source *source, const char *name, struct place *place) {
  int layer;
  char part[CH_GGUF_NAME_SIZE];
  const ch_attention_config *a = &source->config.attention;
  int64_t heads = source->config.num_attention_heads;
  if (sscanf(name, "blk.%d.attn_kv_b.", &layer) != 1 || !strstr(name, ".attn_kv_b.weight")) return false;
  snprintf(part, sizeof part, "blk.%d.attn_k_b.weight", layer);
  place->key_part = ch_gguf_find_tensor(&g->file, part);
  snprintf(part, sizeof part, "blk.%d.attn_v_b.weight", layer);
  place->value_part = ch_gguf_find_tensor(&g->file, part);
  return has_shape(place->key_part, heads, a->kv_lora_rank, a->qk_nope_head_dim) &&
         has_shape(place->value_part, heads, a->v_head_dim, a->kv_lora_rank);
}

/* Finds the norm before the feed-forward network under the name post_attention_norm, which gpt-oss and seed_oss
   use. */
static const ch_gguf_tensor *find_other_norm(const ch_gguf *file, const char *name) {
  char other[CH_GGUF_NAME_SIZE];
  int layer;
  if (sscanf(name, "blk.%d.ffn_norm", &layer) != 1 || !strstr(name, ".ffn_norm.weight")) return NULL;
  snprintf(other, sizeof other, "blk.%d.post_attention_norm.weight", layer);
  return ch_gguf_find_tensor(file, other);
}

/* Finds the tensor that joins queries, keys and values, or gate and up. */
static void find_joined(gguf_source *g, const ch_config *c, const ch_param *param, const char *name,
                        struct place *place) {
  static const char *const parts[] = {".attn_q.", ".attn_k.", ".attn_v."};
  const int64_t queries = c->num_attention_heads * c->head_dim, pairs = c->num_key_value_heads * c->head_dim,
                first[] = {0, queries, queries + pairs}, columns = param->rank > 1 ? param->shape[1] : 1;
  char joined[CH_GGUF_NAME_SIZE];
  const char *suffix = strrchr(name, '.');
  int layer;
  if (!suffix || sscanf(name, "blk.%d.", &layer) != 1) return;
  for (int i = 0; i < 3 && !place->tensor; i++) {
    if (!strstr(name, parts[i])) continue;
    snprintf(joined, sizeof joined, "blk.%d.attn_qkv%s", layer, suffix);
    place->tensor = ch_gguf_find_tensor(&g->file, joined);
    place->first = first[i] * columns;
    place->whole = queries + 2 * pairs;
  }
  bool gate = strstr(name, ".ffn_gate.") != NULL;
  snprintf(joined, sizeof joined, "blk.%d.ffn_gate%s", layer, suffix);
  if ((!gate && !strstr(name, ".ffn_up.")) || !ch_ffn_of(c)->gated || ch_gguf_find_tensor(&g->file, joined))
    return;
  snprintf(joined, sizeof joined, "blk.%d.ffn_up%s", layer, suffix);
  place->tensor = ch_gguf_find_tensor(&g->file, joined);
  place->first = gate ? 0 : param->shape[0] * columns;
  place->whole = 2 * param->shape[0];
}

static ch_status find_tensor(gguf_source *g, ch_source *source, int index, ch_error *error) {
  char name[CH_GGUF_NAME_SIZE];
  const ch_param *param = &source->params.rows[index];
  struct place *place = &g->places[index];
  if (!ch_gguf_name_of(&source->config, param->name, name, &place->expert))
    return wrong_tensor(&g->file, param->name, "has no name in GGUF files", error);
  place->tensor = ch_gguf_find_tensor(&g->file, name);
  if (!place->tensor) place->tensor = find_other_norm(&g->file, name);
  find_joined(g, &source->config, param, name, place);
  if (!place->tensor && find_parts(g, source, name, place)) return CH_OK;
  if (!place->tensor) return wrong_tensor(&g->file, name, "is missing", error);
  bool turns = strstr(name, ".attn_q.") || strstr(name, ".attn_k.");
  place->turned = turns && ch_gguf_turns_rows(&g->file) ? source->config.head_dim : 0;
  ch_dtype stored = place->tensor->format->dtype;
  bool held = ch_dtype_is_block_quantised(stored)
                  ? param->rank == 2 && param->block_quantisable && !param->always_real
                  : stored != CH_U8;
  source->dtypes[index] = held ? stored : CH_F32;
  return check_shape(&g->file, param, place, error);
}

/* Fails if the model does not use one of the file's tensors: an ignored tensor would silently change the results.
   Tables of rotary frequencies may be unused. */
static ch_status check_all_used(const gguf_source *g, const ch_source *source, ch_error *error) {
  const bool longrope = source->config.rope_scaling.type == CH_ROPE_LONGROPE;
  bool *used = calloc((size_t)g->file.tensor_count + 1, sizeof *used);
  if (!used) return ch_no_memory(error);
  for (int i = 0; i < source->params.count; i++) {
    const struct place *place = &g->places[i];
    const ch_gguf_tensor *parts[] = {place->tensor, place->key_part, place->value_part};
    for (int p = 0; p < 3; p++)
      if (parts[p]) used[parts[p] - g->file.tensors] = true;
  }
  ch_status status = CH_OK;
  for (int64_t i = 0; i < g->file.tensor_count && status == CH_OK; i++) {
    const char *name = g->file.tensors[i].name;
    bool rotation = strcmp(name, "rope_freqs.weight") == 0 || ch_ends_with(name, ".attn_rot_embd") ||
                    (longrope && strncmp(name, "rope_factors_", 13) == 0);
    if (!used[i] && !rotation)
      status = wrong_tensor(&g->file, name, "is not a tensor of this architecture", error);
  }
  free(used);
  return status;
}

/* --- values --------------------------------------------------------------------------------------------- */

static const unsigned char *row_at(const struct place *place, int64_t rows, int64_t columns, int64_t row) {
  const ch_block_format *format = place->tensor->format;
  int64_t before = ((place->expert > 0 ? place->expert : 0) * rows + row) * columns + place->first;
  return place->tensor->data + (size_t)(before / format->values) * format->bytes;
}

static const unsigned char *matrix_at(const ch_gguf_tensor *stack, int64_t index) {
  return stack->data + (size_t)index * (stack->bytes / (size_t)stack->shape[0]);
}

/* Writes the rows of kv_b_proj for one head: n key rows, then v value rows. */
static void join_head(const struct place *place, int64_t head, float *keys, float *values) {
  int64_t c = place->key_part->shape[1], n = place->key_part->shape[2], v = place->value_part->shape[1];
  ch_blocks_decode(place->key_part->format, matrix_at(place->key_part, head), c * n, keys);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < c; j++) values[i * c + j] = keys[j * n + i];
  ch_blocks_decode(place->value_part->format, matrix_at(place->value_part, head), v * c, values + n * c);
}

static ch_status joined_rows(const struct place *place, int64_t first, int64_t count, float *values,
                             ch_error *error) {
  int64_t c = place->key_part->shape[1], n = place->key_part->shape[2],
          size = n + place->value_part->shape[1];
  float *keys = malloc((size_t)(c * n) * sizeof *keys), *joined = malloc((size_t)(c * size) * sizeof *joined);
  bool room = keys && joined;
  for (int64_t r = 0; room && r < count;) {
    int64_t head = (first + r) / size, from = (first + r) % size;
    int64_t take = size - from < count - r ? size - from : count - r;
    join_head(place, head, keys, joined);
    memcpy(values + r * c, joined + from * c, (size_t)(take * c) * sizeof *values);
    r += take;
  }
  free(keys);
  free(joined);
  return room ? CH_OK : ch_no_memory(error);
}

static ch_status rows(const ch_source *source, int index, int64_t first, int64_t count, float *values,
                      ch_error *error) {
  const gguf_source *g = source->context;
  const struct place *place = &g->places[index];
  const ch_param *param = &source->params.rows[index];
  int64_t all, columns;
  ch_rows_of(param, &all, &columns);
  if (place->key_part) return joined_rows(place, first, count, values, error);
  bool by_row = place->turned && param->rank > 1;
#pragma omp parallel for schedule(static) if (count * columns > 1 << 16)
  for (int64_t r = 0; r < count; r++) {
    int64_t row = by_row ? ch_interleaved_row(first + r, place->turned) : first + r;
    ch_blocks_decode(place->tensor->format, row_at(place, all, columns, row), columns, values + r * columns);
  }
  const unsigned char *start = row_at(place, all, columns, first),
                      *end = row_at(place, all, columns, first + count);
  ch_gguf_forget(&g->file, start, (size_t)(end - start));
  if (!place->turned || by_row) return CH_OK;
  float *scratch = malloc((size_t)columns * sizeof *scratch);
  if (!scratch) return ch_no_memory(error);
  memcpy(scratch, values, (size_t)columns * sizeof *values);
  for (int64_t i = 0; i < columns; i++) values[i] = scratch[ch_interleaved_row(i, place->turned)];
  free(scratch);
  return CH_OK;
}

static ch_status blocks(const ch_source *source, int index, int64_t first, int64_t count, void *to,
                        ch_error *error) {
  const gguf_source *g = source->context;
  const struct place *place = &g->places[index];
  int64_t all, columns;
  (void)error;
  ch_rows_of(&source->params.rows[index], &all, &columns);
  size_t bytes = ch_dtype_bytes(place->tensor->format->dtype, columns);
  for (int64_t r = 0; r < count; r++) {
    int64_t row = place->turned ? ch_interleaved_row(first + r, place->turned) : first + r;
    memcpy((char *)to + (size_t)r * bytes, row_at(place, all, columns, row), bytes);
  }
  return CH_OK;
}

/* --- opening -------------------------------------------------------------------------------------------- */

static void close_file(void *context) {
  gguf_source *g = context;
  ch_gguf_close(&g->file);
  free(g->places);
  free(g);
}

static ch_status open_model(gguf_source *g, ch_source *source, ch_error *error) {
  CH_TRY(ch_gguf_read_config(&g->file, &source->config, error));
  CH_TRY(ch_source_declare(source, g->file.where, error));
  g->places = calloc((size_t)source->params.count + 1, sizeof *g->places);
  if (!g->places) return ch_no_memory(error);
  for (int i = 0; i < source->params.count; i++) CH_TRY(find_tensor(g, source, i, error));
  return check_all_used(g, source, error);
}

static ch_status open_vocabulary(gguf_source *g, ch_source *source, ch_error *error) {
  ch_pieces pieces;
  ch_status status = ch_pieces_from_gguf(&g->file, &pieces, error);
  if (status == CH_OK && pieces.count > 0)
    status = ch_pieces_put_json(&pieces, g->file.where, &source->tokenizer, &source->tokenizer_config, error);
  ch_pieces_free(&pieces);
  return status;
}

/* Reads the chat templates and end tokens, even if another tokenizer replaces the file's vocabulary. */
static ch_status open_chat(gguf_source *g, ch_source *source, ch_error *error) {
  ch_chat_metadata chat;
  ch_status status = ch_chat_from_gguf(&g->file, source->config.vocab_size, &chat, error);
  if (status == CH_OK && source->tokenizer_config.size)
    status = ch_chat_put_config(&chat, g->file.where, &source->tokenizer_config, error);
  else if (status == CH_OK)
    ch_chat_put_template(&chat, &source->chat_template);
  if (status == CH_OK) ch_chat_put_generation(&chat, &source->config, &source->generation_config);
  ch_chat_metadata_free(&chat);
  if (status != CH_OK || !(source->generation_config.failed || source->chat_template.failed)) return status;
  return ch_no_memory(error);
}

ch_status ch_gguf_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error) {
  *source = (ch_source){.format = "GGUF"};
  gguf_source *g = calloc(1, sizeof *g);
  if (!g) return ch_no_memory(error);
  source->context = g;
  source->rows = rows;
  source->blocks = blocks;
  source->close = close_file;
  ch_status status = ch_gguf_open_parts(path, &g->file, error);
  if (status == CH_OK) status = open_model(g, source, error);
  if (status == CH_OK && vocabulary) status = open_vocabulary(g, source, error);
  if (status == CH_OK) status = open_chat(g, source, error);
  if (status != CH_OK) ch_source_close(source);
  return status;
}

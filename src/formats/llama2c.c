/* Reads llama2.c checkpoints: version 0 without a magic number, version 1 with one, version 2 with weights in groups of
   8-bit integers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/source.h"
#include "config_file/config_json.h"

enum { MAGIC = 0x616b3432, HEADER = 256, SIZES = 7, MOST_LAYERS = 10000 };

/* Tensors by their names in llama2.c's code, in the order of version 0. */
typedef enum part {
  EMBEDDING,
  ATTENTION_NORM,
  WQ,
  WK,
  WV,
  WO,
  FFN_NORM,
  W1,
  W2,
  W3,
  FINAL_NORM,
  ROPE_TABLES,
  CLASSIFIER,
  PARTS
} part;

static const part order_of_0[] = {EMBEDDING,  ATTENTION_NORM, WQ,         WK,   WV, WO, FFN_NORM, W1, W2, W3,
                                  FINAL_NORM, ROPE_TABLES,    CLASSIFIER, PARTS};
static const part order_of_later[] = {
    ATTENTION_NORM, FFN_NORM, FINAL_NORM, EMBEDDING, WQ, WK, WV, WO, W1, W2, W3, CLASSIFIER, PARTS};

/* Our names of the tensors. %d is the layer. */
static const char *const names[PARTS] = {[EMBEDDING] = "model.embed_tokens.weight",
                                         [ATTENTION_NORM] = "model.layers.%d.input_layernorm.weight",
                                         [WQ] = "model.layers.%d.self_attn.q_proj.weight",
                                         [WK] = "model.layers.%d.self_attn.k_proj.weight",
                                         [WV] = "model.layers.%d.self_attn.v_proj.weight",
                                         [WO] = "model.layers.%d.self_attn.o_proj.weight",
                                         [FFN_NORM] = "model.layers.%d.post_attention_layernorm.weight",
                                         [W1] = "model.layers.%d.mlp.gate_proj.weight",
                                         [W2] = "model.layers.%d.mlp.down_proj.weight",
                                         [W3] = "model.layers.%d.mlp.up_proj.weight",
                                         [FINAL_NORM] = "model.norm.weight",
                                         [CLASSIFIER] = "lm_head.weight"};

typedef struct checkpoint {
  ch_map map;
  int version;
  int32_t dim, hidden, layers, heads, kv_heads, vocab, length;
  bool shared;       /* true if the classifier is the embedding */
  int64_t group;     /* weights per scale in version 2, else 0 */
  int64_t head_size; /* rows per head */
  struct place {
    const unsigned char *data;
    bool grouped, turned; /* grouped: 8-bit, followed by scales; turned: rows in interleaved order */
  } * places;             /* [params.count] */
} checkpoint;

/* --- header --------------------------------------------------------------------------------------------- */

static int32_t whole_at(const unsigned char *p) {
  return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static ch_status bad(const char *path, const char *what, ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s is not a llama2.c checkpoint, or is damaged: %s", path, what);
}

static ch_status read_sizes(checkpoint *c, const unsigned char *p, const char *path, ch_error *error) {
  int32_t *const sizes[SIZES] = {&c->dim,      &c->hidden, &c->layers, &c->heads,
                                 &c->kv_heads, &c->vocab,  &c->length};
  for (int i = 0; i < SIZES; i++) *sizes[i] = whole_at(p + 4 * i);
  if (c->version == 0) {
    c->shared = c->vocab > 0;
    if (c->vocab < 0 && c->vocab != INT32_MIN) c->vocab = -c->vocab;
  }
  for (int i = 0; i < SIZES; i++)
    if (*sizes[i] < 1) return bad(path, "a size in its header is not above 0", error);
  if (c->dim % c->heads != 0 || c->heads % c->kv_heads != 0 || c->dim / c->heads % 2 != 0 ||
      c->layers > MOST_LAYERS)
    return bad(path, "the sizes in its header contradict each other", error);
  c->head_size = c->dim / c->heads;
  return CH_OK;
}

static ch_status read_header(checkpoint *c, const char *path, ch_error *error) {
  const unsigned char *data = c->map.data;
  if (c->map.size < HEADER) return bad(path, "it is shorter than a header", error);
  if ((uint32_t)whole_at(data) != MAGIC) return read_sizes(c, data, path, error);
  c->version = whole_at(data + 4);
  if (c->version != 1 && c->version != 2)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: llama2.c version %d is not supported; 0, 1 and 2 are", path,
                   c->version);
  c->shared = data[8 + 4 * SIZES] != 0;
  if (c->version == 2) c->group = whole_at(data + 9 + 4 * SIZES);
  CH_TRY(read_sizes(c, data + 8, path, error));
  if (c->version == 2 && (c->group < 1 || c->dim % c->group != 0))
    return bad(path, "its group size does not divide the width", error);
  return CH_OK;
}

static void make_config(const checkpoint *c, ch_config *config) {
  ch_config_defaults(config);
  memcpy(config->model_type, "llama", sizeof "llama");
  config->vocab_size = c->vocab;
  config->hidden_size = c->dim;
  config->intermediate_size = c->hidden;
  config->num_hidden_layers = c->layers;
  config->num_attention_heads = c->heads;
  config->num_key_value_heads = c->kv_heads;
  config->head_dim = c->head_size;
  config->max_position_embeddings = c->length;
  config->rms_norm_eps = 1e-5;
  config->tie_word_embeddings = c->shared;
  config->bos_token_id = c->vocab > 2 ? 1 : -1; /* the only special token that llama2.c's code uses */
  config->eos_token_id = c->vocab > 2 ? 2 : -1;
}

/* --- tensors -------------------------------------------------------------------------------------------- */

/* Places one tensor at *at and moves *at past it. Fails if the file does not hold the whole tensor. */
static ch_status place(checkpoint *c, const ch_source *source, part of, int layer, uint64_t *at,
                       const char *path, ch_error *error) {
  bool grouped = c->group && of != ATTENTION_NORM && of != FFN_NORM && of != FINAL_NORM;
  char name[96];
  if (of != ROPE_TABLES) snprintf(name, sizeof name, names[of], layer);
  int index = of == ROPE_TABLES ? -1 : ch_params_find(&source->params, name);
  uint64_t count = of == ROPE_TABLES ? (uint64_t)c->length * (uint64_t)c->head_size
                                     : (uint64_t)ch_param_count(&source->params.rows[index]);
  uint64_t bytes = grouped ? count + count / (uint64_t)c->group * 4 : 4 * count;
  if (grouped && count % (uint64_t)c->group != 0)
    return bad(path, "its group size does not divide a tensor", error);
  if (bytes > c->map.size - *at)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is truncated: the sizes in its header need more than its %zu bytes", path,
                   c->map.size);
  if (index >= 0) c->places[index] = (struct place){c->map.data + *at, grouped, of == WQ || of == WK};
  *at += bytes;
  return CH_OK;
}

static ch_status place_all(checkpoint *c, const ch_source *source, const char *path, ch_error *error) {
  uint64_t at = c->version == 0 ? 4 * SIZES : HEADER;
  for (const part *of = c->version == 0 ? order_of_0 : order_of_later; *of != PARTS; of++) {
    if (*of == CLASSIFIER && c->shared) continue;
    int layers = names[*of] && strchr(names[*of], '%') ? c->layers : 1;
    for (int layer = 0; layer < layers; layer++) CH_TRY(place(c, source, *of, layer, &at, path, error));
  }
  if (at == c->map.size) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s has %" PRIu64 " bytes after the last tensor, where it should end", path,
                 (uint64_t)c->map.size - at);
}

/* Decodes n elements, from `first` on, of a tensor of `count` elements. */
static void decode(const checkpoint *c, const struct place *from, int64_t count, int64_t first, int64_t n,
                   float *values) {
  if (!from->grouped) {
    memcpy(values, from->data + 4 * first, (size_t)n * 4);
    return;
  }
  const unsigned char *scales = from->data + count;
  for (int64_t i = 0; i < n; i++) {
    float scale;
    memcpy(&scale, scales + 4 * ((first + i) / c->group), 4);
    values[i] = (float)(signed char)from->data[first + i] * scale;
  }
}

static ch_status rows(const ch_source *source, int index, int64_t first, int64_t count, float *values,
                      ch_error *error) {
  const checkpoint *c = source->context;
  const struct place *from = &c->places[index];
  int64_t all, columns;
  (void)error;
  ch_rows_of(&source->params.rows[index], &all, &columns);
  for (int64_t r = 0; r < count; r++) {
    int64_t row = from->turned ? ch_interleaved_row(first + r, c->head_size) : first + r;
    decode(c, from, all * columns, row * columns, columns, values + r * columns);
  }
  size_t size = from->grouped ? 1 : 4;
  ch_map_forget(&c->map, from->data + (size_t)(first * columns) * size, (size_t)(count * columns) * size);
  return CH_OK;
}

static void close_checkpoint(void *context) {
  checkpoint *c = context;
  ch_map_close(&c->map);
  free(c->places);
  free(c);
}

static ch_status open_checkpoint(const char *path, checkpoint *c, ch_source *source, ch_error *error) {
  static const char *const formats[] = {"llama2.c, version 0", "llama2.c, version 1", "llama2.c, version 2"};
  CH_TRY(ch_map_open(path, &c->map, error));
  CH_TRY(read_header(c, path, error));
  source->format = formats[c->version];
  make_config(c, &source->config);
  CH_TRY(ch_source_declare(source, path, error));
  c->places = calloc((size_t)source->params.count + 1, sizeof *c->places);
  if (!c->places) return ch_no_memory(error);
  return place_all(c, source, path, error);
}

ch_status ch_llama2c_open(const char *path, ch_source *source, ch_error *error) {
  *source = (ch_source){0};
  checkpoint *c = calloc(1, sizeof *c);
  if (!c) return ch_no_memory(error);
  source->context = c;
  source->rows = rows;
  source->close = close_checkpoint;
  ch_status status = open_checkpoint(path, c, source, error);
  if (status != CH_OK) ch_source_close(source);
  return status;
}

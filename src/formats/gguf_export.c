/* Writes a model as GGUF: metadata, vocabulary, and tensors in the architecture's order of rows. gguf_write.c
   implements the file format. */
#include "formats/gguf_export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/file.h"
#include "formats/gguf_architectures.h"
#include "formats/gguf_names.h"
#include "formats/gguf_write.h"
#include "formats/pieces.h"
#include "formats/source.h"
#include "tensor/encode_blocks.h"
#include "tensor/kernels.h"

enum { PIECE_ELEMENTS = 1 << 20 };

typedef struct gguf_output {
  const ch_config *config;
  const ch_params *params;
  const ch_tensor *tensors;
  const ch_gguf_export *how;
  const ch_gguf_architecture *of;
  ch_gguf_header header;
  ch_writer writer;
  double done, total;
  float *values; /* [room] rows as F32 */
  void *stored;  /* [room] rows in their stored form */
  int64_t room;
  ch_error *error;
} gguf_output;

static ch_status cannot(const gguf_output *w, const char *what) {
  return ch_gguf_cannot(what, w->error);
}

/* --- metadata ------------------------------------------------------------------------------------------- */

static const char *key_of(const gguf_output *w, const char *name, char key[96]) {
  snprintf(key, 96, "%s.%s", w->of->name, name);
  return key;
}

static void put_whole(gguf_output *w, const char *name, int64_t value) {
  char key[96];
  ch_gguf_put_u32(&w->header, key_of(w, name, key), (uint32_t)value);
}

static void put_number(gguf_output *w, const char *name, double value) {
  char key[96];
  ch_gguf_put_f32(&w->header, key_of(w, name, key), value);
}

static void put_scaling(gguf_output *w) {
  char key[96];
  const ch_rope_scaling *s = &w->config->rope_scaling;
  if (s->type == CH_ROPE_LONGROPE) {
    put_whole(w, "rope.scaling.original_context_length", s->original_max_position_embeddings);
    put_number(w, "rope.scaling.attn_factor", sqrt(ch_rope_score_scale(w->config)));
  }
  if (s->type != CH_ROPE_LINEAR && s->type != CH_ROPE_YARN) return;
  ch_gguf_put_text(&w->header, key_of(w, "rope.scaling.type", key),
                   s->type == CH_ROPE_LINEAR ? "linear" : "yarn");
  put_number(w, "rope.scaling.factor", s->factor);
  if (s->type == CH_ROPE_LINEAR) return;
  put_whole(w, "rope.scaling.original_context_length", s->original_max_position_embeddings);
  if (s->beta_fast) put_number(w, "rope.scaling.yarn_beta_fast", s->beta_fast);
  if (s->beta_slow) put_number(w, "rope.scaling.yarn_beta_slow", s->beta_slow);
}

static void put_rotation(gguf_output *w) {
  const ch_config *c = w->config;
  if (c->position != CH_POSITION_ROPE) return;
  put_whole(w, "rope.dimension_count", ch_rotary_dims(c));
  put_number(w, "rope.freq_base", c->rope_theta);
  if (c->local_rope_theta != 0)
    put_number(w, "rope.freq_base_swa", c->local_rope_theta);
  else if (strcmp(w->of->name, "gemma3") == 0) /* without this key, llama.cpp uses another base */
    put_number(w, "rope.freq_base_swa", c->rope_theta);
  put_scaling(w);
}

/* Writes the sliding window and the layers that have it. */
static void put_window(gguf_output *w) {
  char key[96];
  const ch_config *c = w->config;
  if (!c->sliding_window || !w->of->windows) return;
  put_whole(w, "attention.sliding_window", c->sliding_window);
  if (!c->layer_types.count) return;
  ch_gguf_put_list(&w->header, key_of(w, "attention.sliding_window_pattern", key), CH_GGUF_BOOL,
                   (uint64_t)c->num_hidden_layers);
  for (int64_t layer = 0; layer < c->num_hidden_layers; layer++)
    ch_gguf_add_bool(&w->header, ch_layer_slides(c, (int)layer));
}

static void put_multipliers(gguf_output *w) {
  char key[96];
  const ch_config *c = w->config;
  if (c->attn_logit_softcapping != 0) put_number(w, "attn_logit_softcapping", c->attn_logit_softcapping);
  if (c->final_logit_softcapping != 0) put_number(w, "final_logit_softcapping", c->final_logit_softcapping);
  if (w->of->multipliers) {
    put_number(w, "attention.scale", ch_score_scale(c));
    put_number(w, "embedding_scale", c->embedding_multiplier);
    put_number(w, "residual_scale", c->residual_multiplier);
    put_number(w, "logit_scale", c->logits_scaling);
  }
  if (w->of->parallel)
    ch_gguf_put_bool(&w->header, key_of(w, "use_parallel_residual", key), c->parallel_residual);
}

/* Returns llama.cpp's file type for a type of matrices. */
static uint32_t file_type(ch_block_type type) {
  static const struct {
    ch_block_type type;
    uint32_t number;
  } files[] = {{CH_BLOCK_F32, 0},   {CH_BLOCK_F16, 1},   {CH_BLOCK_Q4_0, 2}, {CH_BLOCK_Q8_0, 7},
               {CH_BLOCK_Q4_K, 14}, {CH_BLOCK_Q6_K, 18}, {CH_BLOCK_BF16, 32}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].type == type) return files[i].number;
  return 0;
}

ch_block_type ch_gguf_main_type(const ch_params *params, const ch_tensor *tensors) {
  double elements[CH_DTYPE_COUNT] = {0};
  int most = CH_F32;
  for (int i = 0; i < params->count; i++)
    if (tensors[i].rank > 1) elements[tensors[i].dtype] += (double)ch_tensor_count(&tensors[i]);
  for (int type = 0; type < CH_DTYPE_COUNT; type++)
    if (elements[type] > elements[most]) most = type;
  const ch_block_format *format = ch_block_format_for((ch_dtype)most);
  return format ? format->type : CH_BLOCK_F32;
}

static void put_metadata(gguf_output *w) {
  const ch_config *c = w->config;
  ch_gguf_header *header = &w->header;
  int64_t context = c->max_position_embeddings;
  if (c->sliding_window && !w->of->windows && c->sliding_window < context) context = c->sliding_window;
  ch_gguf_put_text(header, "general.architecture", w->of->name);
  ch_gguf_put_text(header, "general.type", "model");
  ch_gguf_put_text(header, "general.name", w->how->name);
  ch_gguf_put_u32(header, "general.file_type", file_type(w->how->type));
  if (ch_dtype_is_block_quantised(ch_block_format_of(w->how->type)->dtype))
    ch_gguf_put_u32(header, "general.quantization_version", 2);
  put_whole(w, "block_count", c->num_hidden_layers);
  put_whole(w, "context_length", context);
  put_whole(w, "embedding_length", c->hidden_size);
  put_whole(w, "feed_forward_length",
            w->of->experts_alone ? c->moe.expert_intermediate_size : c->intermediate_size);
  if (w->of->experts) {
    put_whole(w, "expert_count", c->moe.experts);
    put_whole(w, "expert_used_count", c->moe.active);
    if (!w->of->experts_alone) put_whole(w, "expert_feed_forward_length", c->moe.expert_intermediate_size);
  }
  put_whole(w, "attention.head_count", c->num_attention_heads);
  put_whole(w, "attention.head_count_kv", c->num_key_value_heads);
  put_whole(w, "attention.key_length", c->head_dim);
  put_whole(w, "attention.value_length", c->head_dim);
  if (strcmp(c->norm, "layernorm") == 0)
    put_number(w, "attention.layer_norm_epsilon", c->layer_norm_eps);
  else
    put_number(w, "attention.layer_norm_rms_epsilon", c->rms_norm_eps);
  put_whole(w, "vocab_size", c->vocab_size);
  put_rotation(w);
  put_window(w);
  put_multipliers(w);
}

static void put_ids(ch_gguf_header *header, const ch_pieces *pieces) {
  const struct {
    const char *key;
    int32_t id;
  } ids[] = {{"tokenizer.ggml.bos_token_id", pieces->begin},
             {"tokenizer.ggml.eos_token_id", pieces->end},
             {"tokenizer.ggml.unknown_token_id", pieces->byte_level ? -1 : pieces->unknown},
             {"tokenizer.ggml.padding_token_id", pieces->padding}};
  for (int i = 0; i < 4; i++)
    if (ids[i].id >= 0) ch_gguf_put_u32(header, ids[i].key, (uint32_t)ids[i].id);
  ch_gguf_put_bool(header, "tokenizer.ggml.add_bos_token", pieces->add_begin);
  ch_gguf_put_bool(header, "tokenizer.ggml.add_eos_token", pieces->add_end);
  if (!pieces->byte_level) ch_gguf_put_bool(header, "tokenizer.ggml.add_space_prefix", pieces->space_prefix);
}

static void put_merges(ch_gguf_header *header, const ch_pieces *pieces) {
  ch_text merge = {0};
  ch_gguf_put_list(header, "tokenizer.ggml.merges", CH_GGUF_STRING, (uint64_t)pieces->pair_count);
  for (int64_t i = 0; i < pieces->pair_count; i++) {
    const ch_piece *left = &pieces->items[pieces->pairs[i].left],
                   *right = &pieces->items[pieces->pairs[i].right];
    merge.size = 0;
    ch_text_put(&merge, left->text, left->size);
    ch_text_puts(&merge, " ");
    ch_text_put(&merge, right->text, right->size);
    ch_gguf_add_text(header, merge.data, merge.size);
  }
  header->values.failed = header->values.failed || merge.failed;
  ch_text_free(&merge);
}

static void put_pieces(ch_gguf_header *header, const ch_pieces *pieces) {
  uint64_t count = (uint64_t)pieces->count;
  ch_gguf_put_text(header, "tokenizer.ggml.model", pieces->byte_level ? "gpt2" : "llama");
  ch_gguf_put_text(header, "tokenizer.ggml.pre", pieces->byte_level ? pieces->words->names[0] : "default");
  ch_gguf_put_list(header, "tokenizer.ggml.tokens", CH_GGUF_STRING, count);
  for (int32_t i = 0; i < pieces->count; i++)
    ch_gguf_add_text(header, pieces->items[i].text, pieces->items[i].size);
  ch_gguf_put_list(header, "tokenizer.ggml.token_type", CH_GGUF_I32, count);
  for (int32_t i = 0; i < pieces->count; i++) ch_gguf_add_i32(header, (int32_t)pieces->items[i].kind);
  if (pieces->byte_level) {
    put_merges(header, pieces);
    return;
  }
  ch_gguf_put_list(header, "tokenizer.ggml.scores", CH_GGUF_F32, count);
  for (int32_t i = 0; i < pieces->count; i++) ch_gguf_add_f32(header, pieces->items[i].score);
}

/* Records a loss if GGUF would merge pairs that the tokenizer does not. In SentencePiece any two pieces merge if
   they form a third. */
static ch_status compare_pairs(ch_pieces *pieces, ch_error *error) {
  ch_pieces all = *pieces;
  all.pairs = NULL;
  if (pieces->byte_level || pieces->loss) return CH_OK;
  ch_status status = ch_pieces_pair_up(&all, "the tokenizer", error);
  if (all.pair_count != pieces->pair_count) pieces->loss = "that only some pairs of pieces merge";
  free(all.pairs);
  return status;
}

static ch_status put_vocabulary(gguf_output *w, const char **loss) {
  ch_pieces pieces;
  if (!w->how->tokenizer) {
    ch_gguf_put_text(&w->header, "tokenizer.ggml.model", "no_vocab");
    return CH_OK;
  }
  ch_status status = ch_pieces_from_tokenizer(w->how->tokenizer, w->config->vocab_size, &pieces, w->error);
  if (status == CH_OK) status = compare_pairs(&pieces, w->error);
  *loss = pieces.loss;
  if (status == CH_OK) put_pieces(&w->header, &pieces);
  if (status == CH_OK) put_ids(&w->header, &pieces);
  if (status == CH_OK && w->how->chat) ch_chat_put_gguf(w->how->chat, pieces.end, &w->header);
  ch_pieces_free(&pieces);
  return status;
}

/* --- tensors -------------------------------------------------------------------------------------------- */

static const ch_block_format *format_of(const gguf_output *w, int index) {
  const ch_param *param = &w->params->rows[index];
  int64_t columns = param->shape[param->rank - 1];
  const ch_block_format *own = ch_block_format_for(w->tensors[index].dtype);
  if (w->how->own && param->rank > 1 && own) return own;
  ch_block_type type = param->rank == 1 ? CH_BLOCK_F32 : w->how->type;
  const ch_block_format *format = ch_block_format_of(type);
  return columns % format->values ? ch_block_format_of(CH_BLOCK_F16) : format;
}

/* Returns true if Llama 3's scaling of RoPE must be written as divisors of the frequencies. */
static bool has_divisors(const gguf_output *w) {
  return w->config->rope_scaling.type == CH_ROPE_LLAMA3;
}

/* Returns the index of the tensor of `expert` that corresponds to tensor `first` of expert 0, or -1. */
static int tensor_of_expert(const gguf_output *w, int first, int expert) {
  char name[160];
  const char *whole = w->params->rows[first].name, *number = strstr(whole, ".experts.0.");
  if (!number || expert >= w->config->moe.experts) return -1;
  snprintf(name, sizeof name, "%.*s.experts.%d.%s", (int)(number - whole), whole, expert,
           number + strlen(".experts.0."));
  return ch_params_find(w->params, name);
}

/* Projections whose rows are adjacent in one tensor of the file. */
static const struct joint {
  const char *parts[3], *name;
  bool of_attention;
} joints[] = {{{".self_attn.q_proj.", ".self_attn.k_proj.", ".self_attn.v_proj."}, "attn_qkv", true},
              {{".mlp.gate_proj.", ".mlp.up_proj."}, "ffn_up", false}};

/* Returns the fused tensor of the file that tensor `name` is a part of, or NULL. *place becomes the part's index. */
static const struct joint *joint_of(const gguf_output *w, const char *name, int *place) {
  for (int j = 0; j < 2; j++)
    for (*place = 0; *place < 3 && joints[j].parts[*place]; ++*place)
      if ((joints[j].of_attention ? w->of->joins_qkv : w->of->joins_up) &&
          strstr(name, joints[j].parts[*place]))
        return &joints[j];
  return NULL;
}

/* Returns the index of part `part` of the file's tensor that begins with tensor `first`, or -1 after the last part. */
static int part_of(const gguf_output *w, int first, int part) {
  const char *whole = w->params->rows[first].name;
  char name[160];
  int place;
  if (part == 0) return first;
  if (strstr(whole, ".experts.0.")) return tensor_of_expert(w, first, part);
  const struct joint *joint = joint_of(w, whole, &place);
  if (!joint || part >= 3 || !joint->parts[part]) return -1;
  const char *at = strstr(whole, joint->parts[0]);
  snprintf(name, sizeof name, "%.*s%s%s", (int)(at - whole), whole, joint->parts[part],
           at + strlen(joint->parts[0]));
  return ch_params_find(w->params, name);
}

/* Writes the name of the file's tensor that contains tensor `index`. *begins is true if tensor `index` is its first
   part. */
static ch_status name_of(const gguf_output *w, int index, char name[CH_GGUF_NAME_SIZE], bool *begins) {
  const char *own = w->params->rows[index].name;
  int expert, place = 0, layer = 0;
  if (!ch_gguf_name_of(w->config, own, name, &expert)) return cannot(w, own);
  *begins = expert <= 0;
  const struct joint *joint = joint_of(w, own, &place);
  if (joint) {
    *begins = place == 0;
    sscanf(name, "blk.%d.", &layer);
    snprintf(name, CH_GGUF_NAME_SIZE, "blk.%d.%s%s", layer, joint->name, strrchr(own, '.'));
  } else if (w->of->norm_after && sscanf(name, "blk.%d.ffn_norm", &layer) == 1 && strstr(name, ".ffn_norm."))
    snprintf(name, CH_GGUF_NAME_SIZE, "blk.%d.post_attention_norm%s", layer, strrchr(own, '.'));
  return CH_OK;
}

static ch_status describe(gguf_output *w, int first, const char *name) {
  const ch_param *param = &w->params->rows[first];
  const bool stacked = strstr(param->name, ".experts.0.") != NULL;
  int64_t shape[3] = {0, param->shape[0], param->rank > 1 ? param->shape[1] : 0}, rows = 0, parts = 0;
  for (int index = first; index >= 0; index = part_of(w, first, (int)parts)) {
    if (format_of(w, index) != format_of(w, first))
      return cannot(w, "matrices of several types in one tensor of experts or of fused projections");
    rows += w->params->rows[index].shape[0];
    parts++;
  }
  if (stacked && parts != w->config->moe.experts) return cannot(w, "layers in which experts are missing");
  shape[0] = parts;
  if (!stacked) shape[1] = rows;
  ch_gguf_put_tensor(&w->header, name, param->rank + stacked, shape + !stacked, format_of(w, first));
  return CH_OK;
}

static void describe_vector(gguf_output *w, const char *name, int64_t size) {
  ch_gguf_put_tensor(&w->header, name, 1, &size, ch_block_format_of(CH_BLOCK_F32));
}

static ch_status describe_tensors(gguf_output *w) {
  char name[CH_GGUF_NAME_SIZE];
  bool begins;
  for (int i = 0; i < w->params->count; i++) {
    CH_TRY(name_of(w, i, name, &begins));
    w->total += (double)ch_param_count(&w->params->rows[i]);
    if (begins) CH_TRY(describe(w, i, name));
  }
  if (has_divisors(w)) describe_vector(w, "rope_freqs.weight", w->config->head_dim / 2);
  if (w->config->rope_scaling.type != CH_ROPE_LONGROPE) return CH_OK;
  describe_vector(w, "rope_factors_long.weight", ch_rotary_dims(w->config) / 2);
  describe_vector(w, "rope_factors_short.weight", ch_rotary_dims(w->config) / 2);
  return CH_OK;
}

static ch_status check_range(const gguf_output *w, const ch_param *param, ch_block_type type, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(w->values[i]))
      return ch_fail(w->error, CH_ERROR_NUMERIC,
                     "tensor %s holds a value that is not finite; the model is damaged", param->name);
    most = fmaxf(most, fabsf(w->values[i]));
  }
  double limit = type == CH_BLOCK_F16                    ? 65520
                 : type == CH_BLOCK_Q8_0 && !w->how->own ? 127.0 * 65520
                 : type == CH_BLOCK_BF16                 ? 0x1.FFp127
                                                         : INFINITY;
  if ((double)most < limit) return CH_OK;
  return ch_fail(w->error, CH_ERROR_NUMERIC, "tensor %s holds %g, which %s cannot; %s can", param->name,
                 (double)most, ch_block_format_of(type)->name,
                 (double)most >= 0x1.FFp127 ? "f32" : "bf16 and f32");
}

static void encode(const gguf_output *w, ch_block_type type, int64_t count) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  if (type == CH_BLOCK_Q8_0)
    ch_encode_blocks(CH_Q8_0, w->values, count, w->stored);
  else
    kernels->convert_to(ch_team_here(), count, w->values,
                        type == CH_BLOCK_F16    ? CH_F16
                        : type == CH_BLOCK_BF16 ? CH_BF16
                                                : CH_F32,
                        w->stored);
}

/* Copies rows from `first` on of a block-quantised matrix into w->stored. */
static void gather_blocks(const gguf_output *w, const ch_tensor *tensor, bool turned, int64_t first,
                          int64_t rows, int64_t columns) {
  size_t bytes = ch_dtype_bytes(tensor->dtype, columns);
  for (int64_t r = 0; r < rows; r++) {
    int64_t from = turned ? ch_halved_row(first + r, w->config->head_dim) : first + r;
    memcpy((char *)w->stored + (size_t)r * bytes, (const char *)tensor->data + (size_t)from * bytes, bytes);
  }
}

/* Converts rows from `first` on of a tensor to w->values. If `turned`, rows are reordered; a vector's
   elements are reordered. */
static void gather(const gguf_output *w, const ch_tensor *tensor, bool turned, int64_t first, int64_t rows,
                   int64_t columns) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  const char *data = tensor->data;
  bool vector = tensor->rank == 1;
  if (!turned || vector)
    kernels->convert_from(ch_team_here(), rows * columns,
                          data + ch_dtype_bytes(tensor->dtype, first * columns), tensor->dtype, w->values);
  for (int64_t r = 0; turned && !vector && r < rows; r++) {
    int64_t from = ch_halved_row(first + r, w->config->head_dim);
    kernels->convert_from(ch_team_here(), columns, data + ch_dtype_bytes(tensor->dtype, from * columns),
                          tensor->dtype, w->values + r * columns);
  }
  if (!turned || !vector) return;
  float *scratch = w->stored; /* at least as large, and not needed yet */
  memcpy(scratch, w->values, (size_t)columns * sizeof *scratch);
  for (int64_t i = 0; i < columns; i++) w->values[i] = scratch[ch_halved_row(i, w->config->head_dim)];
}

static ch_status put_padding(gguf_output *w, size_t bytes) {
  static const char zeros[64];
  return ch_writer_put(&w->writer, zeros, ch_gguf_padding(bytes), w->error);
}

/* Writes the values of a tensor, without the padding that aligns the next one, and adds the number of bytes to
 * *bytes. */
static ch_status put_values(gguf_output *w, int index, size_t *bytes) {
  const ch_param *param = &w->params->rows[index];
  const ch_block_format *format = format_of(w, index);
  const ch_tensor *tensor = &w->tensors[index];
  bool turned = w->of->turned && (strstr(param->name, ".q_proj.") || strstr(param->name, ".k_proj."));
  int64_t rows, columns;
  ch_rows_of(param, &rows, &columns);
  int64_t at_once = w->room / columns;
  for (int64_t first = 0; first < rows; first += at_once) {
    int64_t n = rows - first < at_once ? rows - first : at_once, count = n * columns;
    size_t size = (size_t)(count / format->values) * format->bytes;
    if (w->how->stop && w->how->stop(w->how->context))
      return ch_fail(w->error, CH_ERROR_INTERRUPTED, "interrupted; nothing was written");
    gather(w, tensor, turned, first, n, columns);
    CH_TRY(check_range(w, param, format->type, count));
    if (tensor->dtype == format->dtype && ch_dtype_is_block_quantised(tensor->dtype))
      gather_blocks(w, tensor, turned, first, n, columns);
    else
      encode(w, format->type, count);
    CH_TRY(ch_writer_put(&w->writer, w->stored, size, w->error));
    *bytes += size;
    w->done += (double)count;
    if (w->how->progress) w->how->progress(w->how->context, w->done / w->total);
  }
  if (w->how->mapped) ch_weights_forget(w->how->mapped, tensor->data, ch_tensor_bytes(tensor));
  return CH_OK;
}

/* Writes the file's tensor that begins with tensor `first`, with all its parts. Does nothing if `first` is a later
   part. */
static ch_status put_tensor(gguf_output *w, int first) {
  char name[CH_GGUF_NAME_SIZE];
  bool begins;
  size_t bytes = 0;
  CH_TRY(name_of(w, first, name, &begins));
  if (!begins) return CH_OK;
  int index = first;
  for (int part = 1; index >= 0; index = part_of(w, first, part++)) CH_TRY(put_values(w, index, &bytes));
  return put_padding(w, bytes);
}

static ch_status put_factors(gguf_output *w, const ch_pair_factors *factors) {
  int64_t pairs = ch_rotary_dims(w->config) / 2;
  for (int64_t i = 0; i < pairs; i++) w->values[i] = (float)factors->factor[i];
  CH_TRY(ch_writer_put(&w->writer, w->values, (size_t)pairs * sizeof(float), w->error));
  return put_padding(w, (size_t)pairs * sizeof(float));
}

static ch_status put_divisors(gguf_output *w) {
  ch_config plain = *w->config;
  int64_t rotary = w->config->head_dim;
  plain.rope_scaling = (ch_rope_scaling){.truncate = true};
  double *with = malloc((size_t)rotary * sizeof *with);
  if (!with) return ch_no_memory(w->error);
  ch_rope_frequencies(w->config, rotary, 0, with);
  ch_rope_frequencies(&plain, rotary, 0, with + rotary / 2);
  for (int64_t i = 0; i < rotary / 2; i++) w->values[i] = (float)(with[rotary / 2 + i] / with[i]);
  free(with);
  CH_TRY(ch_writer_put(&w->writer, w->values, (size_t)rotary / 2 * sizeof(float), w->error));
  return put_padding(w, (size_t)rotary / 2 * sizeof(float));
}

/* --- the file ------------------------------------------------------------------------------------------- */

static ch_status open_buffers(gguf_output *w) {
  w->room = PIECE_ELEMENTS;
  for (int i = 0; i < w->params->count; i++) {
    int64_t rows, columns;
    ch_rows_of(&w->params->rows[i], &rows, &columns);
    if (columns > w->room) w->room = columns;
  }
  w->values = malloc((size_t)w->room * sizeof *w->values);
  w->stored = malloc((size_t)w->room * sizeof(float));
  return w->values && w->stored ? CH_OK : ch_no_memory(w->error);
}

static ch_status write_file(gguf_output *w, const char *path, const char **loss) {
  CH_TRY(ch_gguf_architecture_of(w->config, &w->of, w->error));
  CH_TRY(open_buffers(w));
  put_metadata(w);
  CH_TRY(put_vocabulary(w, loss));
  CH_TRY(describe_tensors(w));
  ch_text header = {0};
  ch_gguf_finish(&w->header, &header);
  ch_status status = header.failed ? ch_no_memory(w->error) : ch_writer_open(&w->writer, path, w->error);
  if (status == CH_OK) status = ch_writer_put(&w->writer, header.data, header.size, w->error);
  ch_text_free(&header);
  for (int i = 0; i < w->params->count && status == CH_OK; i++) status = put_tensor(w, i);
  if (status == CH_OK && has_divisors(w)) status = put_divisors(w);
  if (w->config->rope_scaling.type == CH_ROPE_LONGROPE) {
    if (status == CH_OK) status = put_factors(w, &w->config->rope_scaling.long_factor);
    if (status == CH_OK) status = put_factors(w, &w->config->rope_scaling.short_factor);
  }
  return status == CH_OK ? ch_writer_commit(&w->writer, w->error) : status;
}

ch_status ch_gguf_write(const char *path, const ch_config *config, const ch_params *params,
                        const ch_tensor *tensors, const ch_gguf_export *how, const char **loss,
                        ch_error *error) {
  gguf_output w = {.config = config, .params = params, .tensors = tensors, .how = how, .error = error};
  *loss = NULL;
  ch_status status = write_file(&w, path, loss);
  ch_writer_abort(&w.writer);
  ch_gguf_header_free(&w.header);
  free(w.values);
  free(w.stored);
  return status;
}

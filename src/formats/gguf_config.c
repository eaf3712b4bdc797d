/* Reads the configuration of a model from GGUF's metadata and tensors. */
#include "formats/gguf_config.h"
#include "formats/gguf_families.h"
#include "formats/gguf_metadata.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "config_file/config_json.h"
#include "config_file/qwen3_moe.h"

/* The architectures that this file reads, each with its Hugging Face family. gguf_families.c reads the others. */
static const struct architecture {
  const char *name, *family;
  bool turned, latent, experts;
} architectures[] = {{"llama", "llama", .turned = true},
                     {"qwen2", "qwen2", .turned = false},
                     {"qwen3", "qwen3", .turned = false},
                     {"qwen3moe", "qwen3_moe", .experts = true},
                     {"deepseek2", "deepseek_v2", .latent = true}};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

typedef struct metadata {
  const ch_gguf *file;
  const struct architecture *of;
  ch_error *error;
  ch_metadata keys;
} metadata;

static const struct architecture *architecture_of(const ch_gguf *file, ch_gguf_string *name) {
  *name = (ch_gguf_string){0};
  if (ch_gguf_text(file, "general.architecture", true, name, NULL) != CH_OK) return NULL;
  for (int i = 0; i < ARCHITECTURES; i++)
    if (strlen(architectures[i].name) == name->size &&
        memcmp(architectures[i].name, name->data, name->size) == 0)
      return &architectures[i];
  return NULL;
}

bool ch_gguf_turns_rows(const ch_gguf *file) {
  ch_gguf_string name;
  bool turned = false;
  const struct architecture *of = architecture_of(file, &name);
  if (!of && name.data) ch_gguf_family_named(name.data, name.size, &turned);
  return of ? of->turned : turned;
}

static ch_status find_architecture(metadata *m) {
  ch_gguf_string name;
  char quoted[100], text[80];
  int64_t experts = 0;
  m->of = architecture_of(m->file, &name);
  if (m->of && strcmp(m->of->name, "llama") == 0) {
    CH_TRY(ch_gguf_whole(m->file, "llama.expert_count", false, &experts, m->error));
    if (experts > 0) m->of = NULL; /* a Mixtral model, which gguf_families.c reads */
  }
  if (m->of) {
    m->keys = (ch_metadata){.file = m->file, .architecture = m->of->name, .error = m->error};
    return CH_OK;
  }
  bool turned;
  const char *family = name.data ? ch_gguf_family_named(name.data, name.size, &turned) : NULL;
  if (family) {
    m->keys = (ch_metadata){.file = m->file, .architecture = family, .error = m->error};
    return CH_OK;
  }
  if (!name.data) return ch_gguf_text(m->file, "general.architecture", true, &name, m->error);
  snprintf(text, sizeof text, "%.*s", (int)(name.size < 60 ? name.size : 60), name.data);
  return ch_fail(
      m->error, CH_ERROR_CONFIG,
      "%s is of architecture %s; llama, qwen2, qwen3, qwen3moe, deepseek2, gemma2, gemma3, gpt-oss, olmo2, "
      "granite, smollm3, seed_oss, starcoder2, phi3, glm4, stablelm and gpt2 are supported",
      m->file->where, ch_json_quote(text, quoted, sizeof quoted));
}

/* Reads Qwen3's experts, in every layer, as llama.cpp does. Without a stored width, the experts that a token uses share
   feed_forward_length. The experts' weights are always renormalised. */
static ch_status read_experts(metadata *m, ch_config *c) {
  ch_moe_config *moe = &c->moe;
  double scale = 0;
  *moe = ch_qwen3_moe_defaults;
  moe->renormalise = true;
  moe->expert_intermediate_size = 0;
  CH_TRY(ch_metadata_whole(&m->keys, "expert_count", true, &moe->experts));
  CH_TRY(ch_metadata_whole(&m->keys, "expert_used_count", true, &moe->active));
  CH_TRY(ch_metadata_whole(&m->keys, "expert_feed_forward_length", false, &moe->expert_intermediate_size));
  CH_TRY(ch_metadata_number(&m->keys, "expert_weights_scale", false, &scale));
  if (moe->experts < 1 || moe->active < 1)
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s: expert_count and expert_used_count must be above 0",
                   m->file->where);
  if (!moe->expert_intermediate_size) moe->expert_intermediate_size = c->intermediate_size / moe->active;
  if (scale != 0) moe->scale = scale; /* 0: not given */
  return CH_OK;
}

/* Reads the size of heads and, in architectures with experts, the experts. Fails for features of these architectures
   that Crosshead does not support. */
static ch_status read_heads(metadata *m, ch_config *c) {
  int64_t experts = 0, value_length;
  c->head_dim = c->hidden_size / c->num_attention_heads;
  CH_TRY(ch_metadata_whole(&m->keys, "attention.key_length", false, &c->head_dim));
  value_length = c->head_dim;
  CH_TRY(ch_metadata_whole(&m->keys, "attention.value_length", false, &value_length));
  if (value_length != c->head_dim)
    return ch_fail(m->error, CH_ERROR_CONFIG,
                   "%s: keys of %lld and values of %lld elements per head are not supported", m->file->where,
                   (long long)c->head_dim, (long long)value_length);
  if (m->of->experts) return read_experts(m, c);
  CH_TRY(ch_metadata_whole(&m->keys, "expert_count", false, &experts));
  if (experts)
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s: experts are not supported with architecture %s",
                   m->file->where, m->of->name);
  return CH_OK;
}

static ch_status read_sizes(metadata *m, ch_config *c) {
  CH_TRY(ch_metadata_whole(&m->keys, "block_count", true, &c->num_hidden_layers));
  CH_TRY(ch_metadata_whole(&m->keys, "context_length", true, &c->max_position_embeddings));
  CH_TRY(ch_metadata_whole(&m->keys, "embedding_length", true, &c->hidden_size));
  CH_TRY(ch_metadata_of_layers(&m->keys, "feed_forward_length", true, &c->intermediate_size));
  CH_TRY(ch_metadata_of_layers(&m->keys, "attention.head_count", true, &c->num_attention_heads));
  c->num_key_value_heads = c->num_attention_heads;
  CH_TRY(ch_metadata_of_layers(&m->keys, "attention.head_count_kv", false, &c->num_key_value_heads));
  CH_TRY(ch_metadata_number(&m->keys, "attention.layer_norm_rms_epsilon", true, &c->rms_norm_eps));
  if (c->num_attention_heads < 1 || c->hidden_size < 1)
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s: head_count and embedding_length must be above 0",
                   m->file->where);
  return m->of->latent ? ch_gguf_read_deepseek(&m->keys, c) : read_heads(m, c);
}

/* --- rotation ------------------------------------------------------------------------------------------- */

/* Llama 3's scaling is stored as its result, divisors of the frequencies. The published low_freq_factor 1 and
   high_freq_factor 4 are tried with every power of two up to MOST_CONTEXT as the original context. */
enum { MOST_CONTEXT = 1 << 24 };

static bool matches_llama3(const ch_gguf_tensor *divisors, const ch_config *c, double factor,
                           double context) {
  const double pi = 3.14159265358979323846;
  int64_t n = divisors->shape[0];
  for (int64_t i = 0; i < n; i++) {
    float stored;
    memcpy(&stored, divisors->data + 4 * i, 4);
    double wavelength = 2 * pi * pow(c->rope_theta, (double)i / (double)n),
           smooth = (context / wavelength - 1) / 3;
    double divisor = smooth > 1 ? 1 : smooth < 0 ? factor : 1 / ((1 - smooth) / factor + smooth);
    if (!(fabs(divisor - (double)stored) <= 1e-3 * divisor)) return false;
  }
  return true;
}

static ch_status read_divisors(metadata *m, const ch_gguf_tensor *divisors, ch_config *c) {
  float factor;
  bool plain = divisors->rank == 1 && divisors->format->type == CH_BLOCK_F32 &&
               divisors->shape[0] == c->head_dim / 2 && c->head_dim >= 2;
  for (int64_t context = 16; plain && context <= MOST_CONTEXT; context *= 2) {
    memcpy(&factor, divisors->data + 4 * (divisors->shape[0] - 1), 4);
    if (!matches_llama3(divisors, c, (double)factor, (double)context)) continue;
    c->rope_scaling = (ch_rope_scaling){.type = CH_ROPE_LLAMA3,
                                        .truncate = true,
                                        .factor = (double)factor,
                                        .low_freq_factor = 1,
                                        .high_freq_factor = 4,
                                        .original_max_position_embeddings = context};
    return CH_OK;
  }
  return ch_fail(
      m->error, CH_ERROR_CONFIG,
      "%s: its rope_freqs.weight is not Llama 3's scaling; other scalings are not supported in GGUF",
      m->file->where);
}

static ch_status read_rotation(metadata *m, ch_config *c) {
  int64_t rotary = c->head_dim;
  CH_TRY(ch_metadata_number(&m->keys, "rope.freq_base", false, &c->rope_theta));
  CH_TRY(ch_metadata_whole(&m->keys, "rope.dimension_count", false, &rotary));
  if (rotary != c->head_dim)
    return ch_fail(m->error, CH_ERROR_CONFIG,
                   "%s: rotation of %lld of %lld elements per head is not supported", m->file->where,
                   (long long)rotary, (long long)c->head_dim);
  CH_TRY(ch_metadata_scaling(&m->keys, &c->rope_scaling));
  const ch_gguf_tensor *divisors = ch_gguf_find_tensor(m->file, "rope_freqs.weight");
  if (!divisors) return CH_OK;
  if (c->rope_scaling.type != CH_ROPE_DEFAULT)
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s has both rope_freqs.weight and rope.scaling.type",
                   m->file->where);
  return read_divisors(m, divisors, c);
}

/* --- sizes from the tensors ----------------------------------------------------------------------------- */

static bool has(const ch_gguf *file, const char *name) {
  return ch_gguf_find_tensor(file, name) != NULL;
}

static ch_status read_tensors(metadata *m, ch_config *c) {
  const ch_gguf_tensor *embedding = ch_gguf_find_tensor(m->file, "token_embd.weight");
  if (!embedding || embedding->rank != 2)
    return ch_fail(m->error, CH_ERROR_FORMAT, "%s has no matrix token_embd.weight%s", m->file->where,
                   m->file->tensor_count ? "" : "; it is a vocabulary without a model");
  c->vocab_size = embedding->shape[0];
  c->tie_word_embeddings = !has(m->file, "output.weight");
  c->attention.qk_norm = has(m->file, "blk.0.attn_q_norm.weight");
  c->attention_bias = has(m->file, "blk.0.attn_q.bias");
  c->attention_output_bias = has(m->file, "blk.0.attn_output.bias");
  c->mlp_bias = has(m->file, "blk.0.ffn_up.bias");
  return CH_OK;
}

static ch_status read_ids(metadata *m, ch_config *c) {
  CH_TRY(ch_gguf_whole(m->file, "tokenizer.ggml.bos_token_id", false, &c->bos_token_id, m->error));
  CH_TRY(ch_gguf_whole(m->file, "tokenizer.ggml.eos_token_id", false, &c->eos_token_id, m->error));
  if (c->bos_token_id >= c->vocab_size) c->bos_token_id = -1;
  if (c->eos_token_id >= c->vocab_size) c->eos_token_id = -1;
  return CH_OK;
}

ch_status ch_gguf_read_config(const ch_gguf *file, ch_config *config, ch_error *error) {
  metadata m = {.file = file, .error = error};
  ch_config_defaults(config);
  CH_TRY(find_architecture(&m));
  if (!m.of) {
    CH_TRY(ch_gguf_read_family(&m.keys, config));
    const ch_gguf_tensor *divisors = ch_gguf_find_tensor(file, "rope_freqs.weight");
    if (divisors) CH_TRY(read_divisors(&m, divisors, config));
    return read_ids(&m, config);
  }
  snprintf(config->model_type, sizeof config->model_type, "%s", m.of->family);
  CH_TRY(read_sizes(&m, config));
  CH_TRY(read_rotation(&m, config));
  CH_TRY(read_tensors(&m, config));
  return read_ids(&m, config);
}

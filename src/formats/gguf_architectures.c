/* The table of architectures, and the checks before a model is written as one. */
#include "formats/gguf_architectures.h"

#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "config_file/adopted.h"
#include "model/moe.h"

static const ch_gguf_architecture architectures[] = {
    {"llama", "llama", .turned = true, .query_biases = true, .output_biases = true, .mlp_biases = true},
    {"mistral", "llama", .turned = true},
    {"qwen2", "qwen2", .square = true, .query_biases = true},
    {"qwen3", "qwen3", .query_biases = true},
    {"qwen3_moe", "qwen3moe", .experts = true, .query_biases = true},
    {"mixtral", "llama", .turned = true, .experts = true, .experts_alone = true},
    {"gemma2", "gemma2", .windows = true, .tie = CH_GGUF_TIED, .widest_layers = 46},
    {"gemma3_text", "gemma3", .windows = true, .widest_layers = 62},
    {"gpt_oss", "gpt-oss", .experts = true, .norm_after = true, .windows = true, .query_biases = true,
     .output_biases = true, .mlp_biases = true, .untruncated = true, .tie = CH_GGUF_UNTIED},
    {"olmo2", "olmo2", .square = true, .tie = CH_GGUF_UNTIED},
    {"olmo3", "olmo2", .windows = true, .square = true, .tie = CH_GGUF_UNTIED},
    {"granite", "granite", .turned = true, .multipliers = true, .query_biases = true, .output_biases = true,
     .mlp_biases = true},
    {"smollm3", "smollm3", .turned = true},
    {"seed_oss", "seed_oss", .norm_after = true, .query_biases = true},
    {"starcoder2", "starcoder2", .square = true, .query_biases = true, .output_biases = true,
     .mlp_biases = true},
    {"phi3", "phi3", .joins_qkv = true, .joins_up = true, .windows = true, .square = true},
    {"glm4", "glm4", .joins_up = true, .query_biases = true},
    {"stablelm", "stablelm", .parallel = true, .square = true, .query_biases = true, .tie = CH_GGUF_UNTIED},
    {"gpt2", "gpt2", .joins_qkv = true, .square = true, .query_biases = true, .output_biases = true,
     .mlp_biases = true}};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

ch_status ch_gguf_cannot(const char *what, ch_error *error) {
  return ch_fail(error, CH_ERROR_CONFIG, "llama.cpp's GGUF architectures do not support %s; use safetensors",
                 what);
}

/* --- features that an architecture cannot express ------------------------------------------------------- */

/* Returns the problem with the experts, or NULL. llama.cpp always renormalises their weights, whatever the file
   says. */
static const char *wrong_experts(const ch_config *c, const ch_gguf_architecture *of) {
  if (!of->experts) return NULL;
  if (ch_moe_layers_before(c, (int)c->num_hidden_layers) != c->num_hidden_layers)
    return "layers with experts mixed with layers without";
  return c->moe.renormalise ? NULL : "weights of experts that do not add up to 1";
}

static const char *wrong_biases(const ch_config *c, const ch_gguf_architecture *of) {
  bool mlp = c->mlp_bias && !of->mlp_biases;
  if (c->attention_output_bias && !of->output_biases && strncmp(of->name, "qwen3", 5) == 0)
    return "biases in qwen3";
  return mlp || (c->attention_bias && !of->query_biases) || (c->attention_output_bias && !of->output_biases)
             ? "biases in some projections of this family"
             : NULL;
}

static const char *wrong_rotation(const ch_config *c, const ch_gguf_architecture *of) {
  const ch_rope_scaling *s = &c->rope_scaling;
  if (s->type == CH_ROPE_LLAMA3 && strcmp(of->name, "llama") != 0 && !of->multipliers)
    return "llama3 scaling of RoPE outside of llama";
  if (s->type == CH_ROPE_LONGROPE && strcmp(of->name, "phi3") != 0) return "longrope scaling of RoPE";
  if (s->type == CH_ROPE_LONGROPE && (s->factor || s->attention_factor))
    return "\"factor\" or \"attention_factor\" of longrope";
  if (s->type == CH_ROPE_YARN && (s->mscale || s->mscale_all_dim || s->attention_factor))
    return "the factors of YaRN \"mscale\", \"mscale_all_dim\" and \"attention_factor\"";
  return s->type == CH_ROPE_YARN && s->truncate == of->untruncated ? "this \"truncate\" of YaRN" : NULL;
}

/* Returns true if exactly the layers are marked whose number, from 1, is a multiple of `every`; with `others`,
   exactly the other layers. */
static bool is_every(const bool *marks, int64_t layers, int64_t every, bool others) {
  for (int64_t i = 0; i < layers && i < CH_MAX_LISTED_LAYERS; i++)
    if (marks[i] != ((i + 1) % every == 0 ? !others : others)) return false;
  return true;
}

/* Returns the name of a setting that differs from a constant in llama.cpp's code, or NULL. */
static const char *wrong_constants(const ch_config *c, const ch_gguf_architecture *of) {
  double width = c->num_hidden_layers == of->widest_layers ? (double)(c->hidden_size / c->num_attention_heads)
                                                           : (double)c->head_dim;
  bool gemma = of->widest_layers != 0, oss = strcmp(of->name, "gpt-oss") == 0;
  const char *act = strcmp(of->name, "starcoder2") == 0 || strcmp(of->name, "gpt2") == 0 ? "gelu_tanh"
                    : gemma                                                              ? "geglu_tanh"
                    : oss                                                                ? "clamped_swiglu"
                                                                                         : "silu";
  if (strcmp(c->hidden_act, act) != 0) return "another activation in this family";
  if (oss && (c->swiglu_alpha != 1.702 || c->swiglu_limit != 7)) return "other clamps than gpt-oss's";
  if (gemma && fabs(ch_score_scale(c) * sqrt(width) - 1) > 1e-6)
    return "a scale of scores other than Gemma's";
  if (!gemma && !of->multipliers && c->attention_multiplier != 0)
    return "a scale of scores other than 1 / sqrt(head_dim)";
  if (strcmp(of->name, "gemma2") == 0 && (c->attn_logit_softcapping == 0 || c->final_logit_softcapping == 0))
    return "Gemma 2 without soft caps";
  if (strcmp(of->name, "smollm3") == 0 && !is_every(c->nope_layers, c->num_hidden_layers, 4, false))
    return "SmolLM 3 unless exactly every fourth layer has no rotation";
  return NULL;
}

static const char *wrong_rest(const ch_config *c, const ch_gguf_architecture *of) {
  bool by_layer = c->sliding_window && !of->windows && c->layer_types.count;
  if (by_layer || (c->sliding_window && !of->windows && strncmp(of->name, "qwen", 4) == 0))
    return "sliding window in some layers";
  if (of->square && c->head_dim * c->num_attention_heads != c->hidden_size)
    return "heads of another width in total than the hidden size in this family";
  if (of->tie == CH_GGUF_TIED && !c->tie_word_embeddings)
    return "an LM head apart from the embedding in this family";
  if (of->tie == CH_GGUF_UNTIED && c->tie_word_embeddings)
    return "an LM head that is the embedding in this family";
  return NULL;
}

/* Returns the family of an equivalent architecture that can express the model. llama.cpp's qwen2 has only
   square projections, unlike its seed_oss. Its llama cannot select LongRoPE by the text length, unlike its
   phi3. */
static const char *family_of(const ch_config *c) {
  const char *adopted = ch_config_spell_adopted(c, NULL);
  bool square = c->head_dim * c->num_attention_heads == c->hidden_size;
  if (adopted) return adopted;
  if (strcmp(c->model_type, "qwen2") == 0 && !square && !c->sliding_window) return "seed_oss";
  if (strcmp(c->model_type, "llama") == 0 && c->rope_scaling.type == CH_ROPE_LONGROPE) return "phi3";
  return c->model_type;
}

ch_status ch_gguf_architecture_of(const ch_config *config, const ch_gguf_architecture **of, ch_error *error) {
  const char *family = family_of(config), *problem = NULL;
  *of = NULL;
  for (int i = 0; i < ARCHITECTURES && !*of; i++)
    if (strcmp(architectures[i].family, family) == 0) *of = &architectures[i];
  if (ch_heads_differ(config)) return ch_gguf_cannot("different numbers of key and value heads", error);
  if (!*of)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "a model of type \"%s\" with attention \"%s\" cannot be written as GGUF; docs/export.md "
                   "lists the families that can",
                   config->model_type, config->attention.type);
  if (!problem) problem = wrong_biases(config, *of);
  if (!problem) problem = wrong_rotation(config, *of);
  if (!problem) problem = wrong_rest(config, *of);
  if (!problem) problem = wrong_constants(config, *of);
  if (!problem) problem = wrong_experts(config, *of);
  return problem ? ch_gguf_cannot(problem, error) : CH_OK;
}

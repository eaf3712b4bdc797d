/* Converts this library's names of tensors to GGUF's. */
#include "formats/gguf_names.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *ours, *gguf;
} outside[] = {{"model.embed_tokens.weight", "token_embd.weight"},
               {"model.embed_positions.weight", "position_embd.weight"},
               {"model.norm.weight", "output_norm.weight"},
               {"model.norm.bias", "output_norm.bias"},
               {"lm_head.weight", "output.weight"}};

/* Names of norms in layers whose norms are after the branches, or both before and after them. In such layers, this
 * table is searched before `inside`. */
static const struct {
  const char *ours, *gguf;
} norms[] = {{"post_attention_layernorm", "post_attention_norm"},
             {"pre_feedforward_layernorm", "ffn_norm"},
             {"post_feedforward_layernorm", "post_ffw_norm"}};

/* Names after "model.layers.N." and "blk.N."; ".weight" and ".bias" do not change. */
static const struct {
  const char *ours, *gguf;
} inside[] = {{"input_layernorm", "attn_norm"},
              {"post_attention_layernorm", "ffn_norm"},
              {"self_attn.q_proj", "attn_q"},
              {"self_attn.k_proj", "attn_k"},
              {"self_attn.v_proj", "attn_v"},
              {"self_attn.o_proj", "attn_output"},
              {"self_attn.q_norm", "attn_q_norm"},
              {"self_attn.k_norm", "attn_k_norm"},
              {"self_attn.q_a_proj", "attn_q_a"},
              {"self_attn.q_a_layernorm", "attn_q_a_norm"},
              {"self_attn.q_b_proj", "attn_q_b"},
              {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
              {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
              {"self_attn.kv_b_proj", "attn_kv_b"},
              {"mlp.gate_proj", "ffn_gate"},
              {"mlp.up_proj", "ffn_up"},
              {"mlp.down_proj", "ffn_down"},
              {"mlp.gate", "ffn_gate_inp"},
              {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
              {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
              {"mlp.shared_experts.down_proj", "ffn_down_shexp"}};

static bool is(const char *part, const char *name, size_t size) {
  return strlen(part) == size && memcmp(part, name, size) == 0;
}

/* Converts "mlp.experts.E.gate_proj.weight" to "ffn_gate_exps.weight", and a bias in the same way. */
static bool name_of_expert(const char *rest, int layer, char gguf[CH_GGUF_NAME_SIZE], int *expert) {
  static const char *const matrices[] = {"gate", "up", "down"};
  char what[16], kind[16];
  int number = -1, read = 0;
  if (sscanf(rest, "mlp.experts.%d.%15[a-z]_proj.%15[a-z]%n", &number, what, kind, &read) != 3 || rest[read])
    return false;
  for (int i = 0; i < 3; i++) {
    if (strcmp(what, matrices[i]) != 0) continue;
    *expert = number;
    snprintf(gguf, CH_GGUF_NAME_SIZE, "blk.%d.ffn_%s_exps.%s", layer, what, kind);
    return true;
  }
  return false;
}

static bool name_in_layer(const ch_config *config, const char *rest, int layer, char gguf[CH_GGUF_NAME_SIZE],
                          int *expert) {
  const char *suffix = strrchr(rest, '.');
  if (strcmp(rest, "mlp.gate.e_score_correction_bias") == 0) {
    snprintf(gguf, CH_GGUF_NAME_SIZE, "blk.%d.exp_probs_b.bias", layer);
    return true;
  }
  if (strcmp(rest, "self_attn.sinks") == 0) {
    snprintf(gguf, CH_GGUF_NAME_SIZE, "blk.%d.attn_sinks.weight", layer);
    return true;
  }
  bool norms_elsewhere = config->norm_placement == CH_NORM_BRANCH || config->norm_placement == CH_NORM_BOTH;
  for (size_t i = 0; suffix && norms_elsewhere && i < sizeof norms / sizeof *norms; i++)
    if (is(norms[i].ours, rest, (size_t)(suffix - rest))) {
      snprintf(gguf, CH_GGUF_NAME_SIZE, "blk.%d.%s%s", layer, norms[i].gguf, suffix);
      return true;
    }
  for (size_t i = 0; suffix && i < sizeof inside / sizeof *inside; i++)
    if (is(inside[i].ours, rest, (size_t)(suffix - rest))) {
      snprintf(gguf, CH_GGUF_NAME_SIZE, "blk.%d.%s%s", layer, inside[i].gguf, suffix);
      return true;
    }
  return name_of_expert(rest, layer, gguf, expert);
}

bool ch_gguf_name_of(const ch_config *config, const char *name, char gguf[CH_GGUF_NAME_SIZE], int *expert) {
  int layer, read = 0;
  *expert = -1;
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    if (strcmp(outside[i].ours, name) == 0) {
      snprintf(gguf, CH_GGUF_NAME_SIZE, "%s", outside[i].gguf);
      return true;
    }
  if (sscanf(name, "model.layers.%d.%n", &layer, &read) != 1 || !read) return false;
  return name_in_layer(config, name + read, layer, gguf, expert);
}

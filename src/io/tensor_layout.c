/* Tables and functions for the layouts of other families. A row is a tensor with another name or shape than ours. */
#include "io/tensor_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

typedef enum part { WHOLE, OF_QKV, OF_GATE_UP } part;

typedef struct rule {
  const char *layout, *ours, *theirs; /* layout, our name, name in the file; without ".weight" or ".bias" */
  part part;
  bool transposed; /* true if the weight is transposed in the file */
} rule;

static const rule inside[] = {
    {"phi3", "self_attn.q_proj", "self_attn.qkv_proj", OF_QKV, false},
    {"phi3", "self_attn.k_proj", "self_attn.qkv_proj", OF_QKV, false},
    {"phi3", "self_attn.v_proj", "self_attn.qkv_proj", OF_QKV, false},
    {"phi3", "mlp.gate_proj", "mlp.gate_up_proj", OF_GATE_UP, false},
    {"phi3", "mlp.up_proj", "mlp.gate_up_proj", OF_GATE_UP, false},
    {"glm4", "mlp.gate_proj", "mlp.gate_up_proj", OF_GATE_UP, false},
    {"glm4", "mlp.up_proj", "mlp.gate_up_proj", OF_GATE_UP, false},
    {"glm4", "post_attention_layernorm", "post_self_attn_layernorm", WHOLE, false},
    {"glm4", "pre_feedforward_layernorm", "post_attention_layernorm", WHOLE, false},
    {"glm4", "post_feedforward_layernorm", "post_mlp_layernorm", WHOLE, false},
    {"starcoder2", "mlp.up_proj", "mlp.c_fc", WHOLE, false},
    {"starcoder2", "mlp.down_proj", "mlp.c_proj", WHOLE, false},
    {"gpt2", "self_attn.q_proj", "attn.c_attn", OF_QKV, true},
    {"gpt2", "self_attn.k_proj", "attn.c_attn", OF_QKV, true},
    {"gpt2", "self_attn.v_proj", "attn.c_attn", OF_QKV, true},
    {"gpt2", "self_attn.o_proj", "attn.c_proj", WHOLE, true},
    {"gpt2", "mlp.up_proj", "mlp.c_fc", WHOLE, true},
    {"gpt2", "mlp.down_proj", "mlp.c_proj", WHOLE, true},
    {"gpt2", "input_layernorm", "ln_1", WHOLE, false},
    {"gpt2", "post_attention_layernorm", "ln_2", WHOLE, false},
};

static const rule outside[] = {
    {"gpt2", "model.embed_tokens", "transformer.wte", WHOLE, false},
    {"gpt2", "model.embed_positions", "transformer.wpe", WHOLE, false},
    {"gpt2", "model.norm", "transformer.ln_f", WHOLE, false},
};

/* Returns the rule for the name that begins at `name` and ends before `suffix`, or NULL. */
static const rule *rule_of(const rule *rules, size_t count, const char *layout, const char *name,
                           const char *suffix) {
  size_t length = (size_t)(suffix - name);
  for (size_t i = 0; i < count; i++)
    if (strcmp(rules[i].layout, layout) == 0 && strlen(rules[i].ours) == length &&
        strncmp(rules[i].ours, name, length) == 0)
      return &rules[i];
  return NULL;
}

static void put_part(const ch_config *c, const rule *r, int64_t own, ch_tensor_place *place) {
  int64_t queries = c->num_attention_heads * c->head_dim, pairs = c->num_key_value_heads * c->head_dim;
  place->first = 0;
  place->rows = own;
  if (r->part == OF_GATE_UP) {
    place->rows = 2 * own;
    place->first = strstr(r->ours, "up_proj") ? own : 0;
  } else if (r->part == OF_QKV) {
    place->rows = queries + 2 * pairs;
    if (!strstr(r->ours, "q_proj")) place->first = queries + (strstr(r->ours, "v_proj") ? pairs : 0);
  }
}

/* Finds the weight of a norm. Gemma's norms multiply by 1 + w. */
static bool place_of_gemma(const ch_param *param, ch_tensor_place *place) {
  if (!ch_ends_with(param->name, "norm.weight")) return false;
  *place = (ch_tensor_place){.rows = param->shape[0], .plus_one = true};
  snprintf(place->name, sizeof place->name, "%s", param->name);
  return true;
}

/* Finds "mlp.experts.3.gate_proj.weight" as "block_sparse_moe.experts.3.w1.weight". */
static bool place_of_mixtral(const ch_param *param, ch_tensor_place *place) {
  static const char *const names[][2] = {{".gate_proj.weight", ".w1.weight"},
                                         {".down_proj.weight", ".w2.weight"},
                                         {".up_proj.weight", ".w3.weight"}};
  const char *mlp = strstr(param->name, ".mlp.");
  if (!mlp) return false;
  *place = (ch_tensor_place){.rows = param->shape[0]};
  const char *rest = mlp + strlen(".mlp."), *end = rest + strlen(rest), *after = "";
  for (int i = 0; i < 3; i++)
    if (ch_ends_with(rest, names[i][0])) {
      end -= strlen(names[i][0]);
      after = names[i][1];
    }
  snprintf(place->name, sizeof place->name, "%.*s.block_sparse_moe.%.*s%s", (int)(mlp - param->name),
           param->name, (int)(end - rest), rest, after);
  return true;
}

/* Finds a tensor of a layer of gpt-oss: the router, or an expert's part of "mlp.experts.gate_up_proj" [experts, D, 2 F]
   or "mlp.experts.down_proj" [experts, F, D], or of their biases. Columns of gate and up alternate. */
static bool place_of_gpt_oss(const ch_config *c, const ch_param *param, ch_tensor_place *place) {
  int layer, expert;
  char matrix[16], kind[16];
  if (sscanf(param->name, "model.layers.%d.mlp.gate.%15s", &layer, kind) == 2) {
    *place = (ch_tensor_place){.rows = param->shape[0]};
    snprintf(place->name, sizeof place->name, "model.layers.%d.mlp.router.%s", layer, kind);
    return true;
  }
  if (sscanf(param->name, "model.layers.%d.mlp.experts.%d.%15[a-z_].%15s", &layer, &expert, matrix, kind) !=
      4)
    return false;
  bool down = strcmp(matrix, "down_proj") == 0;
  *place = (ch_tensor_place){.rows = down ? param->shape[0] : 2 * param->shape[0],
                             .first = strcmp(matrix, "up_proj") == 0,
                             .step = down ? 1 : 2,
                             .transposed = true,
                             .experts = c->moe.experts,
                             .expert = expert};
  snprintf(place->name, sizeof place->name, "model.layers.%d.mlp.experts.%s%s", layer,
           down ? "down_proj" : "gate_up_proj", strcmp(kind, "bias") == 0 ? "_bias" : "");
  return true;
}

bool ch_tensor_place_of(const ch_config *config, const ch_param *param, ch_tensor_place *place) {
  static const char layers[] = "model.layers.";
  const char *suffix = strrchr(param->name, '.'), *rest = param->name;
  const rule *r = NULL;
  if (strncmp(config->layout, "gemma", 5) == 0) return place_of_gemma(param, place);
  if (strcmp(config->layout, "mixtral") == 0) return place_of_mixtral(param, place);
  if (strcmp(config->layout, "gpt_oss") == 0) return place_of_gpt_oss(config, param, place);
  int digits = 0;
  if (!config->layout[0] || !suffix) return false;
  if (strncmp(rest, layers, strlen(layers)) != 0)
    r = rule_of(outside, sizeof outside / sizeof *outside, config->layout, rest, suffix);
  else {
    rest += strlen(layers);
    digits = (int)strspn(rest, "0123456789");
    if (rest + digits + 1 < suffix)
      r = rule_of(inside, sizeof inside / sizeof *inside, config->layout, rest + digits + 1, suffix);
  }
  if (!r) return false;
  *place = (ch_tensor_place){.transposed = r->transposed && param->rank == 2};
  put_part(config, r, param->shape[0], place);
  if (!digits)
    snprintf(place->name, sizeof place->name, "%s%s", r->theirs, suffix);
  else
    snprintf(place->name, sizeof place->name, "%s.%.*s.%s%s",
             strcmp(config->layout, "gpt2") == 0 ? "transformer.h" : "model.layers", digits, rest, r->theirs,
             suffix);
  return true;
}

bool ch_tensor_is_ballast(const ch_config *config, const char *name) {
  size_t size = strlen(name);
  if (strcmp(config->layout, "gpt2") != 0) return false;
  return (size > 10 && strcmp(name + size - 10, ".attn.bias") == 0) ||
         (size > 17 && strcmp(name + size - 17, ".attn.masked_bias") == 0);
}

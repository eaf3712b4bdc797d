/* Parses configurations for the reference. It does not check that they are valid. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"

static int64_t whole(const json_t *object, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static double number(const json_t *object, const char *key, double otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : otherwise;
}

static bool flag(const json_t *object, const char *key, bool otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static bool is(const json_t *object, const char *key, const char *word) {
  const char *value = json_string_value(json_object_get(object, key));
  return value && strcmp(value, word) == 0;
}

static bool lists(const json_t *object, const char *key, const char *word) {
  const json_t *list = json_object_get(object, key);
  for (size_t i = 0; i < json_array_size(list); i++)
    if (strcmp(json_string_value(json_array_get(list, i)), word) == 0) return true;
  return false;
}

static const tested_mechanism *mechanism(const json_t *attention) {
  const char *type = json_string_value(json_object_get(attention, "type"));
  const tested_mechanism *found = tested_mechanism_find(type ? type : "gqa");
  if (!found) fail_msg("the reference knows no attention type %s", type);
  return found;
}

static void read_knocking(const json_t *knocking, reference_config *c) {
  c->knock.type = is(knocking, "type", "linear") ? REFERENCE_KNOCK_LINEAR
                  : is(knocking, "type", "mlp")  ? REFERENCE_KNOCK_MLP
                  : is(knocking, "type", "gate") ? REFERENCE_KNOCK_GATE
                                                 : REFERENCE_NO_KNOCK;
  c->knock.q = lists(knocking, "on", "q");
  c->knock.k = lists(knocking, "on", "k");
  c->knock.v = lists(knocking, "on", "v");
  c->knock.per_head = flag(knocking, "per_head", false);
}

/* Reads the numbers of components of mixed heads: one number for all layers of a range, or a list with one number per
   layer. A layer whose number in the list equals the number of heads is not mixed. */
static void read_head_mix(const json_t *mix, reference_config *c) {
  int64_t most = c->key_groups > c->value_groups ? c->key_groups : c->value_groups;
  c->mix_k = lists(mix, "on", "k");
  c->mix_v = lists(mix, "on", "v");
  const json_t *components = json_object_get(mix, "component_heads"), *range = json_object_get(mix, "layers");
  for (int64_t layer = 0; layer < c->layers; layer++) {
    if (json_is_array(components)) {
      int64_t heads = json_integer_value(json_array_get(components, (size_t)layer));
      c->components[layer] = heads == most ? 0 : heads;
    } else if (!range || (layer >= json_integer_value(json_array_get(range, 0)) &&
                          layer <= json_integer_value(json_array_get(range, 1)))) {
      c->components[layer] = json_integer_value(components);
    }
  }
}

static void read_attention(const json_t *attention, reference_config *c) {
  c->key_groups = whole(attention, "num_key_heads", c->groups);
  c->value_groups = whole(attention, "num_value_heads", c->groups);
  c->sink_logits = flag(attention, "sink_logits", false);
  c->kv_group = whole(attention, "kv_layer_group", 1);
  c->qk_norm = flag(attention, "qk_norm", false);
  c->qk_norm_all = is(attention, "qk_norm_over", "all");
  c->head_norm = flag(attention, "head_norm", c->type->normed);
  read_knocking(json_object_get(attention, "knocking"), c);
  if (json_is_object(json_object_get(attention, "head_mix")))
    read_head_mix(json_object_get(attention, "head_mix"), c);
  c->latent = whole(attention, "kv_lora_rank", 0);
  c->key_latent = whole(attention, "k_lora_rank", 0);
  c->value_latent = whole(attention, "v_lora_rank", 0);
  c->nope = whole(attention, "qk_nope_head_dim", 0);
  c->rotary = whole(attention, "qk_rope_head_dim", 0);
  c->values = whole(attention, "v_head_dim", 0);
  c->gate_dim = whole(attention, "gate_embedding_dim", 0);
  c->group_size = whole(attention, "layer_group_size", 1);
  c->group_expands = is(attention, "layer_group_shares", "latent");
  c->gate_adds = is(attention, "gate_op", "add");
  c->gate_norm = flag(attention, "gate_norm", true);
  c->q_a_norm = flag(attention, "q_a_norm", false);
  c->q_rank = whole(attention, "q_lora_rank", 0);
  c->reuse_projects = !is(attention, "value_reuse", "key");
  c->reuse_adds = !is(attention, "value_reuse", "projection");
  c->reuse_gates = !is(attention, "value_reuse", "residual") && c->reuse_projects && c->reuse_adds;
  c->lambda_a_pair = is(attention, "diff_lambda", "per_pair");
  c->mix_logits = flag(attention, "mix_logits", true);
  c->mix_weights = flag(attention, "mix_weights", true);
  c->exclusive = flag(attention, "exclusive", false);
  c->latent_heads = whole(attention, "latent_heads", 0);
  c->branches = whole(attention, "branches", 0);
  c->latent_scale = flag(attention, "latent_scale", c->type->scales_latents);
  c->branch_scale = flag(attention, "branch_scale", true);
  c->ranks.q = whole(attention, "q_rank", 0);
  c->ranks.k = whole(attention, "k_rank", 0);
  c->ranks.v = whole(attention, "v_rank", 0);
  c->ranks.fixed = is(attention, "a_factors", "fixed");
  c->shared_qk = whole(attention, "shared_qk_dim", 0);
  c->content_bias = flag(attention, "content_bias", false);
  c->shared_heads = whole(attention, "shared_heads", 0);
  c->active_heads = whole(attention, "active_heads", 0);
  c->key_dim = c->value_dim = c->context_dim = c->qk_norm_dim = c->head_dim;
  if (c->type->complete) c->type->complete(c);
}

static void read_scaling(const json_t *scaling, reference_config *c) {
  c->scaling.factor = number(scaling, "factor", 1);
  c->scaling.llama3 = is(scaling, "rope_type", "llama3");
  c->scaling.low = number(scaling, "low_freq_factor", 1);
  c->scaling.high = number(scaling, "high_freq_factor", 1);
  c->scaling.context = number(scaling, "original_max_position_embeddings", 1);
}

static void read_images(const json_t *root, reference_config *c) {
  c->image.size = whole(root, "image_size", 0);
  c->image.patch = whole(root, "patch_size", 0);
  c->image.channels = whole(root, "num_channels", 3);
  c->image.classes = whole(root, "num_classes", 0);
}

static double silu(double x) {
  return x / (1 + exp(-x));
}

static double gelu(double x) {
  return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double relu(double x) {
  return fmax(x, 0);
}

static double squared_relu(double x) {
  return x * fmax(x, 0);
}

static void read_feed_forward(const json_t *root, bool vit, reference_config *c) {
  static const struct {
    const char *name;
    double (*activation)(double x);
    bool gated;
  } kinds[] = {{"silu", silu, true},
               {"gelu", gelu, false},
               {"geglu", gelu, true},
               {"reglu", relu, true},
               {"relu", relu, false},
               {"relu2", squared_relu, false},
               {"relu2_glu", squared_relu, true},
               {"clamped_swiglu", silu, true},
               {"gelu_tanh", gelu_tanh, false},
               {"geglu_tanh", gelu_tanh, true}};
  int kind = vit ? 1 : 0;
  for (int i = 0; i < 10; i++)
    if (is(root, "hidden_act", kinds[i].name)) kind = i;
  c->activation = kinds[kind].activation;
  c->gated = kinds[kind].gated;
  c->clamped = is(root, "hidden_act", "clamped_swiglu");
  c->swiglu_alpha = number(root, "swiglu_alpha", 1.702);
  c->swiglu_limit = number(root, "swiglu_limit", 7);
}

static void read_moe(const json_t *moe, reference_config *c) {
  c->experts = whole(moe, "experts", 0);
  c->active = whole(moe, "active", 0);
  c->shared_experts = whole(moe, "shared", 0);
  c->expert_width = whole(moe, "expert_intermediate_size", 0);
  c->dense_layers = whole(moe, "first_dense_layers", 0);
  const json_t *dense = json_object_get(moe, "dense_layers");
  for (size_t i = 0; i < json_array_size(dense); i++) {
    json_int_t layer = json_integer_value(json_array_get(dense, i));
    assert_in_range(layer, 0, 63);
    c->dense[layer] = true;
  }
  c->router_bias = flag(moe, "router_bias", false);
  c->loss_free = is(moe, "balance", "loss_free");
}

/* Reads "sharing", in which a letter may abbreviate a projection's name. */
static void read_sharing(const json_t *sharing, reference_config *c) {
  static const char *const types[] = {"", "masa", "sequential", "repeat", "low_rank"};
  int type = 1;
  while (type < 5 && !is(sharing, "type", types[type])) type++;
  if (type == 5) fail_msg("the reference does not know this type of sharing");
  c->sharing.type = (reference_sharing)type;
  const json_t *names = json_object_get(sharing, "projections");
  c->sharing.count = (int)json_array_size(names);
  assert_in_range(c->sharing.count, 1, REFERENCE_MAX_SHARED);
  for (int i = 0; i < c->sharing.count; i++) {
    const char *name = json_string_value(json_array_get(names, (size_t)i));
    snprintf(c->sharing.names[i], sizeof c->sharing.names[i], "%s%s", name, name[1] ? "" : "_proj");
  }
  c->sharing.atoms = whole(sharing, "atoms", 0);
  c->sharing.rank = whole(sharing, "rank", 0);
  c->sharing.mlp = is(sharing, "coefficients", "mlp");
  c->sharing.common = flag(sharing, "common_dictionary", false);
  const json_t *groups = json_object_get(sharing, "groups");
  c->sharing.group_count = (int)json_array_size(groups);
  assert_in_range(c->sharing.group_count, 0, REFERENCE_MAX_GROUPS);
  for (int i = 0; i < c->sharing.group_count; i++)
    c->sharing.group_ends[i] =
        1 + (int)json_integer_value(json_array_get(json_array_get(groups, (size_t)i), 1));
}

/* Reads windows and the types of layers. Without a list of types, all layers slide if there is a window. */
static void read_windows(const json_t *root, reference_config *c) {
  const json_t *types = json_object_get(root, "layer_types");
  c->window = whole(root, "sliding_window", 0);
  c->sinks = whole(root, "attention_sinks", 0);
  for (int64_t layer = 0; layer < c->layers; layer++) {
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    c->slides[layer] = c->window > 0 && (!type || strcmp(type, "sliding_attention") == 0);
    c->is_linear[layer] = type && strcmp(type, "linear_attention") == 0;
  }
}

static void read_linear(const json_t *linear, reference_config *c) {
  c->linear.heads = whole(linear, "heads", 0);
  c->linear.value_heads = whole(linear, "value_heads", c->linear.heads);
  c->linear.head_dim = whole(linear, "head_dim", 0);
  c->linear.value_head_dim = whole(linear, "value_head_dim", 2 * c->linear.head_dim);
  c->linear.conv = whole(linear, "conv", 4);
  c->linear.gate = flag(linear, "gate", true);
  c->linear.negative = flag(linear, "negative_eigenvalues", false);
}

void reference_config_parse(const char *text, reference_config *c) {
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(root);
  const json_t *attention = json_object_get(root, "attention");
  memset(c, 0, sizeof *c);
  if (!json_object_get(attention, "type") && !is(root, "model_type", "llama") &&
      !is(root, "model_type", "crosshead"))
    fail_msg("the reference does not know this model type");
  c->type = mechanism(attention);
  c->vocab = whole(root, "vocab_size", 0);
  c->hidden = whole(root, "hidden_size", 0);
  c->intermediate = whole(root, "intermediate_size", 0);
  c->layers = whole(root, "num_hidden_layers", 0);
  assert_in_range(c->layers, 1, REFERENCE_MAX_LAYERS);
  read_windows(root, c);
  read_linear(json_object_get(root, "linear_attention"), c);
  c->heads = whole(root, "num_attention_heads", 0);
  c->groups = whole(root, "num_key_value_heads", c->type->one_key ? 1 : c->heads);
  c->head_dim = whole(root, "head_dim", c->hidden / c->heads);
  bool vit = is(root, "model_type", "crosshead_vit");
  c->eps = number(root, "rms_norm_eps", vit || is(root, "model_type", "crosshead") ? 1e-5 : 1e-6);
  if (vit) read_images(root, c);
  c->theta = number(root, "rope_theta", 10000);
  c->tied = flag(root, "tie_word_embeddings", false);
  c->biases = flag(root, "attention_bias", false);
  read_feed_forward(root, vit, c);
  c->mlp_bias = flag(root, "mlp_bias", vit);
  c->layernorm = is(root, "norm", "layernorm") || (vit && !is(root, "norm", "rmsnorm"));
  c->norm_eps = c->layernorm ? number(root, "layer_norm_eps", vit ? 1e-6 : 1e-5) : c->eps;
  c->post = is(root, "norm_placement", "post");
  c->branch = is(root, "norm_placement", "branch");
  c->both = is(root, "norm_placement", "both");
  c->output_bias = flag(root, "attention_output_bias", false);
  c->parallel = flag(root, "parallel_residual", false);
  c->embedding_factor = number(root, "embedding_multiplier", 1);
  c->residual_factor = number(root, "residual_multiplier", 1);
  c->score_scale = number(root, "attention_multiplier", 1 / sqrt((double)c->head_dim));
  c->score_cap = number(root, "attn_logit_softcapping", 0);
  c->logits_cap = number(root, "final_logit_softcapping", 0);
  c->logits_divisor = number(root, "logits_scaling", 1);
  c->rotary_share = number(root, "partial_rotary_factor", 1);
  c->local_theta = number(root, "local_rope_theta", 0);
  const json_t *local = json_object_get(root, "local_rope_layers");
  for (size_t i = 0; i < json_array_size(local); i++)
    c->local[json_integer_value(json_array_get(local, i))] = true;
  c->places = whole(root, "max_position_embeddings", 2048);
  const json_t *nope = json_object_get(root, "nope_layers");
  for (size_t i = 0; i < json_array_size(nope); i++)
    c->unturned[json_integer_value(json_array_get(nope, i))] = true;
  c->interleaved = flag(root, "rope_interleaved", false);
  c->position = is(root, "position", "alibi")         ? REFERENCE_ALIBI
                : is(root, "position", "learned")     ? REFERENCE_LEARNED
                : vit || is(root, "position", "none") ? REFERENCE_NO_POSITION
                                                      : REFERENCE_ROPE;
  read_scaling(json_object_get(root, "rope_scaling"), c);
  read_attention(attention, c);
  read_moe(json_object_get(root, "moe"), c);
  if (json_is_object(json_object_get(root, "sharing"))) read_sharing(json_object_get(root, "sharing"), c);
  json_decref(root);
}

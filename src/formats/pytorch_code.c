/* Writes the PyTorch code of one model from the parts in formats/pytorch.
 *
 * A part is Python with marks, each on its own line. Lines between `#? NAME` and `#? end` are written for models
 * with that feature, `#? A|B` for models with one of several, `#? !A|B` for models with none of them. `#< NAME` is
 * replaced by the part NAME, on which the part builds. The written code has only the features of the model. Each
 * mechanism is one part, named like the mechanism. */
#include <string.h>

#include "attention/mechanism.h"
#include "base/embedded_text.h"
#include "formats/transformers.h"
#include "model/network.h"

typedef struct model {
  const ch_config *config;
  const ch_params *params;
} model;

/* --- features ------------------------------------------------------------------------------------------- */

static bool any_name_has(const ch_params *params, const char *part) {
  for (int i = 0; i < params->count; i++)
    if (strstr(params->rows[i].name, part)) return true;
  return false;
}

static bool is_type(const ch_config *c, const char *type) {
  return strcmp(c->attention.type, type) == 0;
}

/* Returns true if a single query attends to the latents directly. */
static bool absorbs(const ch_config *c) {
  return is_type(c, "mla") && c->attention.kv_lora_rank && !c->attention.gate_embedding_dim &&
         !c->attention.qk_norm && !ch_is_knocked(c, CH_ON_K) && !ch_is_knocked(c, CH_ON_V);
}

/* Returns true if layers differ in their rotation: some have none, or another base frequency. */
static bool rope_by_layer(const ch_config *c) {
  return memchr(c->nope_layers, true, sizeof c->nope_layers) || c->local_rope_theta != 0;
}

typedef struct feature {
  const char *name;
  bool has;
} feature;

/* Returns true if the model has a feature. A mechanism's name is a feature. */
static bool has(const model *m, const char *name, size_t size) {
  const ch_config *c = m->config;
  const ch_attention_config *a = &c->attention;
  bool knocks = a->knocking.on != 0;
  const feature features[] = {
      {"vision", ch_config_is_vision(c)},
      {"rope", c->position == CH_POSITION_ROPE},
      {"alibi", c->position == CH_POSITION_ALIBI},
      {"rope_scaling", c->position == CH_POSITION_ROPE && c->rope_scaling.type != CH_ROPE_DEFAULT},
      {"rope_by_layer", rope_by_layer(c)},
      {"longrope", c->position == CH_POSITION_ROPE && c->rope_scaling.type == CH_ROPE_LONGROPE},
      {"partial_rotary", c->partial_rotary_factor != 1},
      {"rope_interleaved", c->rope_interleaved},
      {"learned_positions", c->position == CH_POSITION_LEARNED},
      {"residual", any_name_has(m->params, ".residual.a.weight")},
      {"sharing", c->sharing.type != CH_SHARING_NONE},
      {"masa", c->sharing.type == CH_SHARING_MASA},
      {"masa_mlp", any_name_has(m->params, ".block_embedding")},
      {"one_atom", c->sharing.type == CH_SHARING_SEQUENTIAL || c->sharing.type == CH_SHARING_REPEAT},
      {"low_rank", c->sharing.type == CH_SHARING_LOW_RANK},
      {"knocking", knocks},
      {"knocking_linear", knocks && a->knocking.type == CH_KNOCKING_LINEAR},
      {"knocking_mlp", knocks && a->knocking.type == CH_KNOCKING_MLP},
      {"knocking_gate", knocks && a->knocking.type == CH_KNOCKING_GATE},
      {"head_mix", a->head_mix.on != 0},
      {"exclusive", a->exclusive},
      {"qk_norm", a->qk_norm},
      {"qk_norm_over_all", a->qk_norm_over == CH_QK_NORM_ALL},
      {"output_bias", c->attention_output_bias && !ch_config_is_vision(c)},
      {"attention_multiplier", c->attention_multiplier != 0},
      {"soft_cap", c->attn_logit_softcapping != 0},
      {"head_norm", a->head_norm},
      {"gate", a->gate_embedding_dim != 0},
      {"mla_apart", a->k_lora_rank || a->v_lora_rank},
      {"mla_absorbs", absorbs(c)},
      {"moe", c->moe.experts != 0},
      {"router_bias", c->moe.router_bias},
      {"clamped", ch_ffn_of(c)->clamped},
      {"post_norm", c->norm_placement == CH_NORM_POST},
      {"branch_norm", c->norm_placement == CH_NORM_BRANCH},
      {"both_norms", c->norm_placement == CH_NORM_BOTH},
      {"parallel", c->parallel_residual},
      {"residual_multiplier", c->residual_multiplier != 1},
      {"embedding_multiplier", c->embedding_multiplier != 1},
      {"logits_scaling", c->logits_scaling != 1},
      {"final_soft_cap", c->final_logit_softcapping != 0},
      {"window", ch_any_layer_slides(c)},
      {"linear", ch_linear_layers(c) > 0},
      {"sink_logits", a->sink_logits},
      {"kv_group", a->kv_layer_group > 1},
      {"layer_group", a->kv_layer_group > 1 || a->layer_group_size > 1},
      {"any_attention_function",
       !is_type(c, "talking") && c->position != CH_POSITION_ALIBI && !a->sink_logits},
  };
  for (size_t i = 0; i < sizeof features / sizeof *features; i++)
    if (strlen(features[i].name) == size && memcmp(features[i].name, name, size) == 0) return features[i].has;
  return strlen(a->type) == size && memcmp(a->type, name, size) == 0;
}

/* Evaluates `A|B` or `!A`, up to the end of the line. */
static bool holds(const model *m, const char *condition, const char *end) {
  bool without = *condition == '!', any = false;
  for (const char *name = condition + without; name < end;) {
    const char *bar = memchr(name, '|', (size_t)(end - name));
    const char *stop = bar ? bar : end;
    any |= has(m, name, (size_t)(stop - name));
    name = stop + 1;
  }
  return any != without;
}

/* --- parts ---------------------------------------------------------------------------------------------- */

static const char *part_named(const char *name, size_t size) {
  for (const ch_embedded_text *text = ch_embedded_pytorch; text->name; text++)
    if (strlen(text->name) == size && memcmp(text->name, name, size) == 0) return (const char *)text->text;
  return NULL;
}

static bool marked(const char *line, const char *mark) {
  return strncmp(line, mark, strlen(mark)) == 0;
}

/* Writes the lines of part `name` that the model needs, and the parts that part `name` builds on. */
static void put_part(const model *m, const char *name, size_t size, ch_text *code) {
  int depth = 0, left_out = 0; /* open marks; depth of the first one that does not hold, or 0 */
  for (const char *line = part_named(name, size), *next; *line; line = next) {
    const char *end = strchr(line, '\n'), *rest = line + 3;
    next = end + 1;
    if (marked(line, "#< ")) {
      if (!left_out) put_part(m, rest, (size_t)(end - rest), code);
    } else if (marked(line, "#? end\n")) {
      if (left_out == depth) left_out = 0;
      depth--;
    } else if (marked(line, "#? ")) {
      depth++;
      if (!left_out && !holds(m, rest, end)) left_out = depth;
    } else if (!left_out)
      ch_text_printf(code, "%.*s", (int)(next - line), line);
  }
}

bool ch_has_pytorch_code(const ch_config *config) {
  return strcmp(config->model_type, "crosshead") == 0 || ch_config_is_vision(config);
}

static void put_parts(const model *m, const char *const *parts, ch_text *code) {
  for (; *parts; parts++) put_part(m, *parts, strlen(*parts), code);
}

void ch_pytorch_code(const ch_config *config, const ch_params *params, ch_text *code) {
  const char *const whole = ch_config_is_vision(config) ? "image_model" : "language_model";
  const char *const parts[] = {"common",
                               "positions",
                               "shared_weights",
                               "cache",
                               "modules",
                               "attention",
                               config->attention.type,
                               "gdn",
                               "feed_forward",
                               "layer",
                               "pretrained",
                               whole,
                               NULL};
  const model m = {config, params};
  ch_text_printf(code,
                 "\"\"\"A Crosshead model for transformers: what its config.json says (attention: %s), and "
                 "nothing else.\n\n"
                 "docs/mechanisms of Crosshead's sources has the equations.\n\"\"\"\n\n",
                 config->attention.type);
  put_parts(&m, parts, code);
}

void ch_pytorch_configuration(const ch_config *config, const ch_params *params, ch_text *code) {
  put_parts(&(model){config, params}, (const char *const[]){"configuration", NULL}, code);
}

/* Figures of one model as a page, and of several models as a table. */
#include "infer/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/table.h"
#include "model/moe.h"
#include "model/network.h"

/* --- description of a model ----------------------------------------------------------------------------- */

/* Writes CH_ON_ bits as " on k, v". */
static void put_states(unsigned on, ch_text *text) {
  static const char *const names[] = {"q", "k", "v"};
  const char *between = " on ";
  for (int i = 0; i < 3; i++) {
    if (!(on >> i & 1)) continue;
    ch_text_printf(text, "%s%s", between, names[i]);
    between = ", ";
  }
}

static void put_modules(const ch_config *c, ch_text *text) {
  static const char *const knockings[] = {"", "linear", "MLP", "gate"};
  const ch_attention_config *a = &c->attention;
  const char *between = "           with ";
  if (a->qk_norm) ch_text_printf(text, "%sQK norm", between), between = "; ";
  if (a->head_norm) ch_text_printf(text, "%shead norm", between), between = "; ";
  if (a->exclusive) ch_text_printf(text, "%sexclusive contexts", between), between = "; ";
  if (a->knocking.on) {
    ch_text_printf(text, "%s%s knocking", between, knockings[a->knocking.type]);
    put_states(a->knocking.on, text);
    if (a->knocking.per_head) ch_text_puts(text, ", a map for each head");
    between = "; ";
  }
  if (a->head_mix.on) {
    ch_text_printf(text, "%shead mixing", between);
    put_states(a->head_mix.on, text);
    between = "; ";
  }
  if (a->gate_embedding_dim) {
    ch_text_printf(text, "%san embedding gate of %" PRId64, between, a->gate_embedding_dim);
    between = "; ";
  }
  if (a->layer_group_size > 1) {
    ch_text_printf(text, "%sgroups of %" PRId64 " layers%s", between, a->layer_group_size,
                   a->layer_group_shares == CH_GROUP_SHARES_LATENT ? " with one latent" : "");
    between = "; ";
  }
  if (a->kv_layer_group > 1) {
    ch_text_printf(text, "%sgroups of %" PRId64 " layers with one cache", between, a->kv_layer_group);
    between = "; ";
  }
  if (a->sink_logits) ch_text_printf(text, "%slearned sinks", between), between = "; ";
  if (between[0] == ';') ch_text_puts(text, "\n");
}

/* Writes the number of layers with a sliding window. */
static void put_windows(const ch_config *c, ch_text *text) {
  int64_t layers = 0;
  for (int64_t layer = 0; layer < c->num_hidden_layers; layer++) layers += ch_layer_slides(c, (int)layer);
  if (!layers) return;
  ch_text_printf(text, "           %" PRId64 " of %" PRId64 " layers see a window of %" PRId64 " tokens",
                 layers, c->num_hidden_layers, c->sliding_window);
  if (c->attention_sinks) ch_text_printf(text, " and the first %" PRId64 " of the text", c->attention_sinks);
  ch_text_puts(text, "\n");
}

/* Writes the number of linear layers, and their sizes. */
static void put_linear_layers(const ch_config *c, ch_text *text) {
  const ch_linear_attention *l = &c->linear_attention;
  if (l->type == CH_LINEAR_NONE) return;
  ch_text_printf(text,
                 "           %" PRId64 " of %" PRId64 " layers are Gated DeltaNet: %" PRId64
                 " %s with %" PRId64 " %s of %" PRId64 " x %" PRId64,
                 ch_linear_layers(c), c->num_hidden_layers, l->heads, ch_plural(l->heads, "head", "heads"),
                 l->value_heads, ch_plural(l->value_heads, "state", "states"), l->head_dim,
                 l->value_head_dim);
  if (l->conv) ch_text_printf(text, ", convolutions over %" PRId64 " tokens", l->conv);
  ch_text_puts(text, "\n");
}

static void put_latents(const ch_attention_config *a, ch_text *text) {
  if (a->kv_lora_rank)
    ch_text_printf(text, "latent of %" PRId64 "\n", a->kv_lora_rank);
  else if (a->k_lora_rank && a->v_lora_rank)
    ch_text_printf(text, "latents of %" PRId64 " for keys and %" PRId64 " for values\n", a->k_lora_rank,
                   a->v_lora_rank);
  else
    ch_text_printf(text, "latent of %" PRId64 " for %s alone\n",
                   a->k_lora_rank ? a->k_lora_rank : a->v_lora_rank, a->k_lora_rank ? "keys" : "values");
}

/* Writes the sizes of heads and latents: "2 latents of 128", or the latents of keys and values. */
static void put_own_sizes(const ch_attention_config *a, ch_text *text) {
  ch_text_printf(text, " heads of %" PRId64 " + %" PRId64 " rotated, values of %" PRId64 ", ",
                 a->qk_nope_head_dim, a->qk_rope_head_dim, a->v_head_dim);
  if (a->latent_heads > 1)
    ch_text_printf(text, "%" PRId64 " latents of %" PRId64 "\n", a->latent_heads,
                   a->kv_lora_rank / a->latent_heads);
  else
    put_latents(a, text);
}

/* Describes heads that have no separate projections. Returns false if they have. */
static bool put_shared_heads(const ch_config *c, ch_text *text) {
  const ch_attention_config *a = &c->attention;
  if (a->shared_qk_dim)
    ch_text_printf(text, " query heads over one key of %" PRId64 ", %" PRId64 " value heads of %" PRId64 "\n",
                   a->shared_qk_dim, c->num_key_value_heads, c->head_dim);
  else if (a->k_rank && a->q_rank)
    ch_text_printf(text,
                   " heads of %" PRId64 ", made of %" PRId64 " products for queries, %" PRId64
                   " for keys, %" PRId64 " for values\n",
                   c->head_dim, a->q_rank, a->k_rank, a->v_rank);
  else if (a->k_rank)
    ch_text_printf(text,
                   " heads of %" PRId64 ", made of %" PRId64 " products for keys, %" PRId64 " for values\n",
                   c->head_dim, a->k_rank, a->v_rank);
  return a->shared_qk_dim || a->k_rank;
}

static void put_heads(const ch_config *c, ch_text *text) {
  ch_text_printf(text, "           %" PRId64 " %s of width %" PRId64 ", %" PRId64, c->num_hidden_layers,
                 ch_plural(c->num_hidden_layers, "layer", "layers"), c->hidden_size, c->num_attention_heads);
  if (ch_mechanism_of(c)->modules & CH_MODULE_OWN_SIZES)
    put_own_sizes(&c->attention, text);
  else if (put_shared_heads(c, text))
    return;
  else if (ch_heads_differ(c))
    ch_text_printf(text, " query, %" PRId64 " key and %" PRId64 " value heads of %" PRId64 "\n",
                   ch_heads_of(c, CH_ON_K), ch_heads_of(c, CH_ON_V), c->head_dim);
  else
    ch_text_printf(text, " query and %" PRId64 " key-value heads of %" PRId64 "\n", c->num_key_value_heads,
                   c->head_dim);
  int64_t shared = c->attention.shared_heads, active = c->attention.active_heads;
  if (active)
    ch_text_printf(
        text, "           every token weighs %" PRId64 " heads and %" PRId64 " of the other %" PRId64 "\n",
        shared, active, c->num_attention_heads - shared);
}

static void put_experts(const ch_config *c, ch_text *text) {
  const ch_moe_config *m = &c->moe;
  ch_text_printf(text, "           %" PRId64 " SwiGLU experts of %" PRId64 ", %" PRId64 " per token",
                 m->experts, m->expert_intermediate_size, m->active);
  if (m->shared) ch_text_printf(text, ", plus %" PRId64 " shared", m->shared);
  int64_t layers = ch_moe_layers_before(c, (int)c->num_hidden_layers);
  if (layers + m->first_dense_layers < c->num_hidden_layers)
    ch_text_printf(text, ", in %" PRId64 " of %" PRId64 " layers", layers, c->num_hidden_layers);
  else if (m->first_dense_layers)
    ch_text_printf(text, ", after %" PRId64 " dense %s", m->first_dense_layers,
                   ch_plural(m->first_dense_layers, "layer", "layers"));
  ch_text_puts(text, "\n");
}

/* Writes the norms that differ from the default. */
static void put_norms(const ch_config *c, ch_text *text) {
  static const char *const places[] = {[CH_NORM_PRE] = "before each half of a block",
                                       [CH_NORM_POST] = "after each half of a block",
                                       [CH_NORM_BRANCH] = "of what each half of a block adds",
                                       [CH_NORM_BOTH] = "before each half of a block and of what it adds"};
  bool layernorm = strcmp(c->norm, "layernorm") == 0;
  if (c->parallel_residual) ch_text_puts(text, "           attention and FFN side by side\n");
  if (layernorm == ch_config_is_vision(c) && c->norm_placement == CH_NORM_PRE) return;
  ch_text_printf(text, "           %s %s\n", layernorm ? "LayerNorm" : "RMSNorm", places[c->norm_placement]);
}

static void put_model(const ch_config *c, ch_text *text) {
  static const char *const positions[] = {"RoPE", "ALiBi", "no positions", "learned positions"};
  const char *ffn = ch_ffn_of(c)->title;
  ch_text_printf(text, "model      %s, attention %s\n", c->model_type, c->attention.type);
  put_modules(c, text);
  put_heads(c, text);
  put_windows(c, text);
  put_linear_layers(c, text);
  if (c->moe.experts) put_experts(c, text);
  put_norms(c, text);
  if (ch_config_is_vision(c)) {
    ch_text_printf(text,
                   "           %s FFN of %" PRId64 ", images of %" PRId64 " x %" PRId64 " x %" PRId64
                   " as %" PRId64 " patches of %" PRId64 " x %" PRId64 " and a class token, %" PRId64
                   " classes\n",
                   ffn, c->intermediate_size, c->num_channels, c->image_size, c->image_size,
                   ch_config_patches(c), c->patch_size, c->patch_size, c->num_classes);
    return;
  }
  ch_text_puts(text, "           ");
  if (!c->moe.experts || ch_moe_layers_before(c, (int)c->num_hidden_layers) < c->num_hidden_layers)
    ch_text_printf(text, "%s FFN of %" PRId64 ", ", ffn, c->intermediate_size);
  ch_text_printf(text, "vocabulary of %" PRId64 " (%s), %s, context %" PRId64 "\n", c->vocab_size,
                 c->tie_word_embeddings ? "tied" : "untied", positions[c->position],
                 c->max_position_embeddings);
}

/* --- the page ------------------------------------------------------------------------------------------- */

static void put_parameters(const char *name, int64_t count, int64_t total, ch_text *text) {
  char shown[32];
  ch_text_printf(text, "  %-24s %16" PRId64 "   %-8s %5.1f %%\n", name, count,
                 ch_format_count((double)count, shown, sizeof shown), 100.0 * (double)count / (double)total);
}

static void put_flops(const char *name, double flops, ch_text *text) {
  char shown[32];
  ch_text_printf(text, "  %-24s %16.0f   %s\n", name, flops, ch_format_count(flops, shown, sizeof shown));
}

/* Writes the cache and the FLOPs of a model of text. */
static void put_text_figures(const ch_account *a, bool slides, int64_t depth, const char *cache_name,
                             ch_text *text) {
  ch_text_printf(text, "\nKV cache per token\n  %-24s %16" PRId64 "\n", "elements",
                 a->cache_elements_per_token);
  ch_text_printf(text, "  %-24s %16" PRId64 "   %s\n", "bytes", a->cache_bytes_per_token, cache_name);
  if (slides)
    ch_text_printf(text, "\nKV cache of a sequence of %" PRId64 " tokens\n  %-24s %16" PRId64 "\n", depth,
                   "elements", a->cache_elements_at_depth);
  if (a->state_elements_per_sequence)
    ch_text_printf(text, "\nstates of a sequence (constant size)\n  %-24s %16" PRId64 "   f32\n", "elements",
                   a->state_elements_per_sequence);
  ch_text_printf(text, "\nFLOPs per token, forward, context %" PRId64 "\n", depth);
  put_flops("attention projections", a->flops.attention_projections, text);
  put_flops("attention over context", a->flops.attention_context, text);
  put_flops("feed-forward", a->flops.feed_forward, text);
  put_flops("LM head", a->flops.lm_head, text);
  put_flops("total", a->flops.total, text);
  put_flops("training", 3 * a->flops.total, text);
  put_flops("prefill", a->prefill.total, text);
  put_flops("decoding", a->decode.total, text);
}

/* Writes the FLOPs of a model of images, which has no cache. */
static void put_image_figures(const ch_account *a, ch_text *text) {
  ch_text_puts(text, "\nno KV cache: an image is seen at once\n\nFLOPs per image, forward\n");
  put_flops("patch embedding", a->flops.patches, text);
  put_flops("attention projections", a->flops.attention_projections, text);
  put_flops("attention over patches", a->flops.attention_context, text);
  put_flops("feed-forward", a->flops.feed_forward, text);
  put_flops("head", a->flops.lm_head, text);
  put_flops("total", a->flops.total, text);
  put_flops("training", 3 * a->flops.total, text);
}

void ch_info_put_page(const ch_info_row *row, int64_t depth, const char *cache_name, ch_text *text) {
  const ch_account *a = &row->account;
  bool vision = ch_config_is_vision(row->config);
  put_model(row->config, text);
  ch_text_puts(text, "\nparameters\n");
  put_parameters("total", a->parameters_total, a->parameters_total, text);
  put_parameters("attention", a->parameters_attention, a->parameters_total, text);
  if (vision) {
    put_parameters("patch embedding", a->parameters_patch, a->parameters_total, text);
    put_parameters("positions, class token", a->parameters_position, a->parameters_total, text);
    put_parameters("head", a->parameters_head, a->parameters_total, text);
  } else
    put_parameters("embedding", a->parameters_embedding, a->parameters_total, text);
  if (a->parameters_gate_embedding)
    put_parameters("gate embedding", a->parameters_gate_embedding, a->parameters_total, text);
  put_parameters("feed-forward", a->parameters_feed_forward, a->parameters_total, text);
  put_parameters("norms", a->parameters_norm, a->parameters_total, text);
  put_parameters("active", a->parameters_active, a->parameters_total, text);
  if (vision)
    put_image_figures(a, text);
  else
    put_text_figures(a, ch_any_layer_slides(row->config), depth, cache_name, text);
  ch_text_printf(text, "\nattention of one layer\n  %-24s %16" PRId64 "\n", "total effective rank",
                 a->total_effective_rank);
  ch_text_printf(text, "  %-24s %16" PRId64 "\n", "shared latent dimension", a->shared_latent_dim);
}

/* --- the table ------------------------------------------------------------------------------------------ */

typedef struct column {
  const char *heading, *unit;
  double (*value)(const ch_info_row *row);
} column;

#define FIGURE(name, figure)                                                                                 \
  static double name(const ch_info_row *row) {                                                               \
    return figure;                                                                                           \
  }

FIGURE(layers, (double)row->config->num_hidden_layers)
FIGURE(width, (double)row->config->hidden_size)
FIGURE(heads, (double)row->config->num_attention_heads)
FIGURE(total, (double)row->account.parameters_total)
FIGURE(active, (double)row->account.parameters_active)
FIGURE(gates, (double)row->account.parameters_gate_embedding)
FIGURE(attention_of_layer, (double)row->account.parameters_attention / layers(row))
FIGURE(elements, (double)row->account.cache_elements_per_token)
FIGURE(elements_of_layer, elements(row) / layers(row))
FIGURE(bytes, (double)row->account.cache_bytes_per_token)
FIGURE(rank_of_head, (double)row->account.total_effective_rank / heads(row))
FIGURE(latent, (double)row->account.shared_latent_dim)
FIGURE(rank, (double)row->account.total_effective_rank)
FIGURE(training, 3 * row->account.flops.total)
FIGURE(decoding, row->account.decode.total)

static const column columns[] = {
    {"layers", "", layers},
    {"width", "", width},
    {"heads", "", heads},
    {"parameters", "total", total},
    {"", "active", active},
    {"", "gate tables", gates},
    {"", "attention/layer", attention_of_layer},
    {"cache", "elements", elements},
    {"", "per layer", elements_of_layer},
    {"", "bytes", bytes},
    {"rank", "per head", rank_of_head},
    {"", "shared", latent},
    {"", "total", rank},
    {"FLOPs", "training", training},
    {"", "decoding", decoding},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* Writes millions and billions with a unit, and smaller numbers in full. */
static const char *format(double value, char *buffer, size_t size) {
  double unit = value >= 999.95e6 ? 1e9 : 1e6;
  if (value < 1e6)
    snprintf(buffer, size, "%.6g", value);
  else
    snprintf(buffer, size, "%.*f %c",
             value / unit < 10    ? 3
             : value / unit < 100 ? 2
                                  : 1,
             value / unit, unit > 1e6 ? 'G' : 'M');
  return buffer;
}

void ch_info_put_table(const ch_info_row *rows, size_t count, int64_t depth, ch_text *text) {
  ch_table table = {.columns = "llr", .gap = 2};
  char number[32];
  ch_table_cell(&table, "%s", "");
  ch_table_cell(&table, "%s", "");
  for (int c = 0; c < COLUMNS; c++) ch_table_cell(&table, "%s", columns[c].heading);
  ch_table_end_row(&table);
  ch_table_cell(&table, "model");
  ch_table_cell(&table, "type");
  for (int c = 0; c < COLUMNS; c++) ch_table_cell(&table, "%s", columns[c].unit);
  ch_table_end_row(&table);
  for (size_t i = 0; i < count; i++) {
    ch_table_cell(&table, "%s", rows[i].name);
    ch_table_cell(&table, "%s", rows[i].config->attention.type);
    for (int c = 0; c < COLUMNS; c++)
      ch_table_cell(&table, "%s", format(columns[c].value(&rows[i]), number, sizeof number));
    ch_table_end_row(&table);
  }
  ch_table_write(&table, text);
  bool images = false;
  for (size_t i = 0; i < count; i++) images = images || ch_config_is_vision(rows[i].config);
  ch_text_printf(text, "\nRanks are per layer. FLOPs are per token at context %" PRId64 "%s.\n", depth,
                 images ? ", in models of images per image" : "");
}

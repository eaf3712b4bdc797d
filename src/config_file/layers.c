/* Checks layers that differ: sliding windows, linear layers, and groups that share keys and values. */
#include "config_file/layers.h"

#include "attention/registry.h"

/* --- windows -------------------------------------------------------------------------------------------- */

/* Checks the list of layer types against the number of layers and the window. */
static ch_status check_types(const ch_config *c, const char *where, ch_error *error) {
  const ch_layer_list *types = &c->layer_types;
  int64_t sliding = -1;
  if (!types->count) return CH_OK;
  if (types->count != c->num_hidden_layers)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"layer_types\" is a list of %lld, but \"num_hidden_layers\" is %lld; it must have "
                   "one entry per layer",
                   where, (long long)types->count, (long long)c->num_hidden_layers);
  for (int64_t i = 0; i < types->count && sliding < 0; i++)
    if (types->type[i] == CH_LAYER_SLIDING) sliding = i;
  if (sliding >= 0 && !c->sliding_window)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"layer_types\" says \"sliding_attention\" for layer %lld, but \"sliding_window\" is "
                   "missing; it must be a whole number from 1",
                   where, (long long)sliding);
  if (sliding < 0 && c->sliding_window)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"sliding_window\" is %lld, but \"layer_types\" says \"sliding_attention\" for no layer; "
        "leave the window out, or name the layers that slide",
        where, (long long)c->sliding_window);
  return CH_OK;
}

static ch_status check_sinks(const ch_config *c, const char *where, ch_error *error) {
  if (!c->attention_sinks || c->sliding_window) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"attention_sinks\" is %lld, but without \"sliding_window\" every layer sees all tokens; "
      "leave it out, or give a window",
      where, (long long)c->attention_sinks);
}

static ch_status check_vision(const ch_config *c, const char *where, ch_error *error) {
  if (!ch_config_is_vision(c) || (!c->sliding_window && !c->layer_types.count && !c->linear_attention.type))
    return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"%s\" is for text models, but \"model_type\" is \"%s\"; leave it out", where,
                 c->sliding_window      ? "sliding_window"
                 : c->layer_types.count ? "layer_types"
                                        : "linear_attention",
                 c->model_type);
}

static ch_status check_sink_logits(const ch_config *c, const char *where, ch_error *error) {
  if (!c->attention.sink_logits) return CH_OK;
  if (!(ch_mechanism_of(c)->modules & CH_MODULE_SINK_LOGITS))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.sink_logits\" is true, which cannot be combined with \"attention.type\" "
                   "\"%s\"; leave one of them out",
                   where, c->attention.type);
  if (c->attention.head_norm)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.sink_logits\" is true, but \"attention.head_norm\" would cancel its "
                   "effect; leave one of them out",
                   where);
  return CH_OK;
}

/* --- linear layers -------------------------------------------------------------------------------------- */

enum { MOST_LINEAR_WIDTH = 1 << 24, MOST_LINEAR_STATE = 1 << 30 };

static ch_status check_linear_sizes(const ch_config *c, const char *where, ch_error *error) {
  const ch_linear_attention *l = &c->linear_attention;
  const struct {
    const char *heads, *size;
    int64_t width;
  } widths[] = {{"heads", "head_dim", l->heads * l->head_dim},
                {"value_heads", "value_head_dim", l->value_heads * l->value_head_dim}};
  if (l->value_heads < l->heads || l->value_heads % l->heads != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"linear_attention.value_heads\" is %lld; it must be a multiple of "
                   "\"linear_attention.heads\", %lld",
                   where, (long long)l->value_heads, (long long)l->heads);
  for (int i = 0; i < 2; i++)
    if (widths[i].width > MOST_LINEAR_WIDTH)
      return ch_fail(
          error, CH_ERROR_CONFIG,
          "%s: \"linear_attention.%s\" times \"linear_attention.%s\" is %lld; it must be at most %d", where,
          widths[i].heads, widths[i].size, (long long)widths[i].width, MOST_LINEAR_WIDTH);
  if (l->value_heads * l->value_head_dim > MOST_LINEAR_STATE / l->head_dim)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"linear_attention\" has %lld value heads with states of %lld by %lld; at most %d "
                   "elements per layer are supported",
                   where, (long long)l->value_heads, (long long)l->head_dim, (long long)l->value_head_dim,
                   MOST_LINEAR_STATE);
  return CH_OK;
}

static ch_status check_linear(const ch_config *c, const char *where, ch_error *error) {
  const bool given = c->linear_attention.type != CH_LINEAR_NONE;
  int64_t first = 0;
  while (first < c->num_hidden_layers && !ch_layer_is_linear(c, (int)first)) first++;
  const bool used = first < c->num_hidden_layers;
  if (used && !given)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"layer_types\" says \"linear_attention\" for layer %lld, but \"linear_attention\" is "
        "missing; it must be an object {\"type\": \"gdn\", \"heads\": ..., \"head_dim\": ...}",
        where, (long long)first);
  if (given && !used)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"linear_attention\" is given, but \"layer_types\" says \"linear_attention\" for no "
                   "layer; leave it out, or name the layers that it is for",
                   where);
  if (!given) return CH_OK;
  if (c->sharing.type != CH_SHARING_NONE)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing\" is for projections that all layers have, but \"layer_types\" says "
                   "\"linear_attention\" for layer %lld, which has others; leave one of them out",
                   where, (long long)first);
  return check_linear_sizes(c, where, error);
}

/* --- groups of layers ----------------------------------------------------------------------------------- */

static ch_status check_group_length(const ch_config *c, const char *key, int64_t layers, const char *where,
                                    ch_error *error) {
  if (layers <= c->num_hidden_layers) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.%s\" is %lld; it must be at most \"num_hidden_layers\", %lld", where, key,
                 (long long)layers, (long long)c->num_hidden_layers);
}

ch_status ch_config_settle_layer_groups(ch_config *config, const char *where, ch_error *error) {
  ch_attention_config *a = &config->attention;
  if (a->kv_layer_group <= 1 || !ch_mechanism_has_key(ch_mechanism_of(config), "layer_group_size"))
    return CH_OK;
  CH_TRY(check_group_length(config, "kv_layer_group", a->kv_layer_group, where, error));
  if (a->layer_group_size > 1 && a->layer_group_size != a->kv_layer_group)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.kv_layer_group\" is %lld and \"attention.layer_group_size\" is %lld, but "
                   "with \"attention.type\" \"%s\" they mean the same; leave one of them out",
                   where, (long long)a->kv_layer_group, (long long)a->layer_group_size, a->type);
  a->layer_group_size = a->kv_layer_group;
  a->kv_layer_group = 1;
  return CH_OK;
}

static bool are_of_one_type(const ch_config *c, int i, int j) {
  return ch_layer_slides(c, i) == ch_layer_slides(c, j) &&
         ch_layer_is_linear(c, i) == ch_layer_is_linear(c, j);
}

/* Returns the key of a list that names only one of two layers, or NULL if they rotate queries and keys alike. */
static const char *rotated_apart(const ch_config *c, int64_t i, int64_t j) {
  if (ch_layer_is_listed(c->nope_layers, i) != ch_layer_is_listed(c->nope_layers, j)) return "nope_layers";
  return ch_layer_is_listed(c->local_rope_layers, i) != ch_layer_is_listed(c->local_rope_layers, j)
             ? "local_rope_layers"
             : NULL;
}

/* Fails if a group has layers of different types or rotations. All layers of a group read the same stored keys and
   values. */
static ch_status check_group_types(const ch_config *c, const char *key, int64_t group, const char *where,
                                   ch_error *error) {
  for (int64_t i = 0; group > 1 && i < c->num_hidden_layers; i++) {
    const int64_t first = i - i % group;
    const char *list = rotated_apart(c, i, first);
    if (!are_of_one_type(c, (int)i, (int)first))
      return ch_fail(
          error, CH_ERROR_CONFIG,
          "%s: \"attention.%s\" is %lld, but \"layer_types\" has different types for layers %lld and "
          "%lld of one group; they must be the same",
          where, key, (long long)group, (long long)first, (long long)i);
    if (list)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"attention.%s\" is %lld, but \"%s\" names only one of layers %lld and %lld of one "
                     "group; name both or none",
                     where, key, (long long)group, list, (long long)first, (long long)i);
  }
  return CH_OK;
}

static ch_status check_group(const ch_config *c, const char *where, ch_error *error) {
  const int64_t group = c->attention.kv_layer_group;
  if (group <= 1) return CH_OK;
  if (!(ch_mechanism_of(c)->modules & CH_MODULE_KV_GROUP))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.kv_layer_group\" is %lld, which cannot be combined with "
                   "\"attention.type\" \"%s\"; leave one of them out",
                   where, (long long)group, c->attention.type);
  CH_TRY(check_group_length(c, "kv_layer_group", group, where, error));
  for (int i = 0; i < c->sharing.projection_count; i++)
    if (ch_is_of_writer(c->sharing.projections[i]))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"sharing.projections\" names \"%s\", which only the first layer of an "
                     "\"attention.kv_layer_group\" of %lld has; leave one of them out",
                     where, c->sharing.projections[i], (long long)group);
  return CH_OK;
}

ch_status ch_config_check_layers(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  CH_TRY(check_vision(config, where, error));
  CH_TRY(check_types(config, where, error));
  CH_TRY(check_linear(config, where, error));
  CH_TRY(check_sinks(config, where, error));
  CH_TRY(check_sink_logits(config, where, error));
  CH_TRY(check_group(config, where, error));
  CH_TRY(check_group_types(config, "kv_layer_group", a->kv_layer_group, where, error));
  if (a->layer_group_size > 1)
    CH_TRY(check_group_length(config, "layer_group_size", a->layer_group_size, where, error));
  return check_group_types(config, "layer_group_size", a->layer_group_size, where, error);
}

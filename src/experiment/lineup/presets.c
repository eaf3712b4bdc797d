/* Parses and applies the names that `compare` accepts: "gqa:4", "mfa+masa-qkvo", "gated+xsa", "mha+moe". A preset
 * changes only what its name says in a base configuration, so that models can be compared. */
#include "experiment/lineup/presets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "attention/registry.h"
#include "config_file/config_json.h"

enum { LONGEST_NAME = 64, MOST_NUMBER = 1 << 20 };

/* --- modules by name: presets based on a mechanism's ------------------------------------------------------------- */

/* Applies the registry's preset `name`. */
static ch_status apply_mechanism(const char *name, ch_config *config, int64_t number, const char *where,
                                 ch_error *error);

static void mix_heads(ch_config *config, int64_t components) {
  config->attention.head_norm = true;
  config->attention.head_mix.on = CH_ON_K | CH_ON_V;
  config->attention.head_mix.component_heads = components;
}

/* Configures MEA with as many component heads as key-value heads. */
static ch_status mea(ch_config *config, int64_t number, const char *where, ch_error *error) {
  CH_TRY(apply_mechanism(number ? "gqa" : "mha", config, number, where, error));
  mix_heads(config, config->num_key_value_heads);
  return CH_OK;
}

/* Configures MEA with fewer component heads, the only ones that are cached; the other heads are virtual. */
static ch_status mea_virtual(ch_config *config, int64_t number, const char *where, ch_error *error) {
  CH_TRY(apply_mechanism("mha", config, 0, where, error));
  mix_heads(config, number ? number : (config->num_attention_heads + 1) / 2);
  return CH_OK;
}

static ch_status knocking(ch_config *config, ch_knocking_type type, unsigned on, int64_t number,
                          const char *where, ch_error *error) {
  CH_TRY(apply_mechanism("gqa", config, number, where, error));
  config->attention.knocking = (ch_knocking){.type = type, .on = on};
  return CH_OK;
}

static ch_status map_for_each_head(ch_config *config, ch_status status) {
  config->attention.knocking.per_head = true;
  return status;
}

static ch_status kha_linear(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_LINEAR, CH_ON_Q | CH_ON_K | CH_ON_V, number, where, error);
}

static ch_status kha_mlp(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_MLP, CH_ON_V, number, where, error);
}

static ch_status kha_linear_per_head(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return map_for_each_head(config, kha_linear(config, number, where, error));
}

static ch_status kha_mlp_per_head(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return map_for_each_head(config, kha_mlp(config, number, where, error));
}

static ch_status kha_gate(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_GATE, CH_ON_V, number, where, error);
}

static const ch_preset modules[] = {
    {"mea", ch_preset_counts_groups,
     "multi-head explicit attention: mixed key-value heads, head norm (default: as mha)", mea},
    {"mea-virtual", "component heads", "mea with heads mixed from fewer cached heads (default: half as many)",
     mea_virtual},
    {"kha-linear", ch_preset_counts_groups, "gqa with linear knocking on queries, keys and values",
     kha_linear},
    {"kha-mlp", ch_preset_counts_groups, "gqa with MLP knocking on values", kha_mlp},
    {"kha-gate", ch_preset_counts_groups, "gqa with a knocking gate on values, the paper's negative control",
     kha_gate},
    {"kha-linear-per-head", ch_preset_counts_groups, "kha-linear with a map for each head: nothing is shared",
     kha_linear_per_head},
    {"kha-mlp-per-head", ch_preset_counts_groups, "kha-mlp with an MLP for each head: nothing is shared",
     kha_mlp_per_head},
};

static const char window_words[] = "tokens of the window", head_words[] = "heads of its layers";

/* Enables exclusive attention. The mechanism must support it. */
static ch_status xsa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  (void)where;
  (void)error;
  config->attention.exclusive = true;
  return CH_OK;
}

/* Returns true for layers that keep attention to all tokens: every `every`-th layer and the last; none if `every` is
 * 0. */
static bool stays_full(const ch_config *config, int64_t every, int64_t layer) {
  return every && ((layer + 1) % every == 0 || layer + 1 == config->num_hidden_layers);
}

/* Checks that the number of layers allows a type for each layer, and that the preset changes at least one layer. `all`
 * is the preset that changes every layer. */
static ch_status check_layers(const ch_config *config, int64_t every, const char *all, const char *where,
                              ch_error *error) {
  if (config->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: %lld layers are too many for layer types; the limit is %d",
                   where, (long long)config->num_hidden_layers, CH_MAX_LISTED_LAYERS);
  if (every && config->num_hidden_layers == 1)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s does not change the last layer, and there is only one; use at least 2 layers, or %s",
                   where, all);
  return CH_OK;
}

/* Gives layers a sliding window of `window` tokens, by default a quarter of the context. Every `every`-th layer and the
 * last keep full attention; if `every` is 0, all layers slide. */
static ch_status slide(ch_config *config, int64_t window, int64_t every, const char *where, ch_error *error) {
  CH_TRY(check_layers(config, every, "swa-all", where, error));
  int64_t quarter = (config->max_position_embeddings + 3) / 4;
  config->sliding_window = window ? window : quarter;
  config->layer_types.count = every ? config->num_hidden_layers : 0;
  for (int64_t i = 0; i < config->layer_types.count; i++)
    config->layer_types.type[i] = stays_full(config, every, i) ? CH_LAYER_FULL : CH_LAYER_SLIDING;
  return CH_OK;
}

#define EVERY(name, make, every)                                                                             \
  static ch_status name(ch_config *config, int64_t number, const char *where, ch_error *error) {             \
    return make(config, number, every, where, error);                                                        \
  }

EVERY(swa, slide, 4)
EVERY(swa_half, slide, 2)
EVERY(swa_five_sixths, slide, 6)
EVERY(swa_all, slide, 0)

/* Replaces attention by Gated DeltaNet in all layers except every `every`-th and the last; if `every` is 0, in all
 * layers. Keys have half the width and values the full width, so that a layer has as many parameters as multi-head
 * attention. States are about 64 x 128 per head unless `heads` is given. */
static ch_status make_linear(ch_config *config, int64_t heads, int64_t every, const char *where,
                             ch_error *error) {
  enum { WIDTH_OF_A_HEAD = 128 };
  const int64_t usual = config->hidden_size / WIDTH_OF_A_HEAD;
  CH_TRY(check_layers(config, every, "gdn-all", where, error));
  if (!heads) heads = usual > 1 ? usual : 1;
  const int64_t dim = config->hidden_size / 2 / heads;
  config->linear_attention = (ch_linear_attention){.type = CH_LINEAR_GDN,
                                                   .heads = heads,
                                                   .value_heads = heads,
                                                   .head_dim = dim > 1 ? dim : 1,
                                                   .value_head_dim = dim > 1 ? 2 * dim : 2,
                                                   .conv = 4,
                                                   .gate = true};
  for (int64_t i = 0; i < config->num_hidden_layers; i++) {
    const bool slides = ch_layer_slides(config, (int)i);
    config->layer_types.type[i] = !stays_full(config, every, i) ? CH_LAYER_LINEAR
                                  : slides                      ? CH_LAYER_SLIDING
                                                                : CH_LAYER_FULL;
  }
  config->layer_types.count = config->num_hidden_layers;
  return CH_OK;
}

EVERY(gdn, make_linear, 4)
EVERY(gdn_half, make_linear, 2)
EVERY(gdn_five_sixths, make_linear, 6)
EVERY(gdn_all, make_linear, 0)

/* Groups layers so that each group shares the keys and values of its first layer. */
static ch_status cla(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  config->attention.kv_layer_group = number ? number : 2;
  return CH_OK;
}

/* Modules that are added to a mechanism after a plus, each at most once. They are applied in this order. */
static const ch_preset added[] = {
    {"swa", window_words, "sliding windows in 3 of 4 layers (default: a quarter of the sequence length)",
     swa},
    {"swa-half", window_words, "sliding windows in every second layer", swa_half},
    {"swa-five-sixths", window_words, "sliding windows in 5 of 6 layers", swa_five_sixths},
    {"swa-all", window_words, "sliding windows in all layers", swa_all},
    {"gdn", head_words,
     "Gated DeltaNet in 3 of 4 layers: states of a fixed size (default: 64 x 128 per head)", gdn},
    {"gdn-half", head_words, "Gated DeltaNet in every second layer", gdn_half},
    {"gdn-five-sixths", head_words, "Gated DeltaNet in 5 of 6 layers", gdn_five_sixths},
    {"gdn-all", head_words, "Gated DeltaNet in all layers: a cache that does not grow", gdn_all},
    {"cla", "layers per group", "cross-layer attention: 2 layers share keys and values", cla},
    {"xsa", NULL, "exclusive attention: the output of each head without its part along the token's own value",
     xsa},
};

enum { ADDED = sizeof added / sizeof *added };

/* --- all presets ------------------------------------------------------------------------------------------------- */

/* Returns preset number `index`. *of receives its mechanism, or NULL. */
static const ch_preset *preset_at(int index, const ch_mechanism **of) {
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++)
    for (const ch_preset *p = (*m)->presets; p && p->name; p++)
      if (index-- == 0) {
        *of = *m;
        return p;
      }
  *of = NULL;
  int count = (int)(sizeof modules / sizeof *modules);
  if (index < count) return &modules[index];
  index -= count;
  if (index < ADDED) return &added[index];
  count = ADDED;
  for (const ch_preset *p = ch_sharing_presets; p->name; p++)
    if (index-- == count) return p;
  return index == count ? &ch_expert_preset : NULL;
}

static bool shares(const ch_preset *preset) {
  for (const ch_preset *p = ch_sharing_presets; p->name; p++)
    if (p == preset) return true;
  return false;
}

const ch_preset *ch_preset_at(int index) {
  const ch_mechanism *of;
  return preset_at(index, &of);
}

const ch_preset *ch_preset_of(const char *name) {
  const ch_preset *preset;
  const size_t length = strcspn(name, ":+");
  for (int i = 0; (preset = ch_preset_at(i)) != NULL; i++)
    if (strlen(preset->name) == length && strncmp(preset->name, name, length) == 0) break;
  return preset;
}

/* Returns the preset with this name in any case ("mla", "MLA"), or NULL. *of receives its mechanism, or NULL. */
static const ch_preset *find_preset_of_word(const char *word, const ch_mechanism **of) {
  const ch_preset *preset;
  for (int i = 0; (preset = preset_at(i, of)); i++)
    if (strcasecmp(preset->name, word) == 0) return preset;
  return NULL;
}

static ch_status apply_preset(const ch_preset *preset, const ch_mechanism *of, ch_config *config,
                              int64_t number, const char *where, ch_error *error) {
  if (of) ch_config_set_mechanism(config, of->name);
  return preset->apply ? preset->apply(config, number, where, error) : CH_OK;
}

static ch_status apply_mechanism(const char *name, ch_config *config, int64_t number, const char *where,
                                 ch_error *error) {
  const ch_mechanism *of;
  const ch_preset *preset = find_preset_of_word(name, &of);
  return apply_preset(preset, of, config, number, where, error);
}

/* --- names ------------------------------------------------------------------------------------------------------- */

bool ch_preset_is_path(const char *name) {
  size_t length = strlen(name);
  return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

/* Returns true for a name whose number lacks the colon ("gqa8", "gqa-8"), and writes "gqa:8" to `meant`. */
static bool lacks_colon(const char *word, char *meant, size_t size) {
  const ch_mechanism *of;
  char name[LONGEST_NAME];
  size_t length = strcspn(word, "0123456789");
  const char *digits = word + length;
  if (!*digits || digits[strspn(digits, "0123456789")] || length >= sizeof name) return false;
  snprintf(name, sizeof name, "%.*s", (int)length, word);
  const ch_preset *preset = find_preset_of_word(name, &of);
  if (!preset && length > 1 && strchr("-_=", name[length - 1])) {
    name[length - 1] = 0;
    preset = find_preset_of_word(name, &of);
  }
  if (!preset || !preset->number) return false;
  snprintf(meant, size, "%s:%.20s", preset->name, digits);
  return true;
}

/* Fails for a part of a name whose word before the colon is not a preset. */
static ch_status unknown(const char *part, const char *word, ch_error *error) {
  enum { MOST = 64 };
  const char *names[MOST + 1] = {0};
  char known[768] = "", meant[2 * LONGEST_NAME];
  size_t used = 0;
  const ch_preset *preset;
  for (int i = 0; i < MOST && (preset = ch_preset_at(i)); i++) {
    names[i] = preset->name;
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s%s", i ? ", " : "", names[i],
                               preset->number ? "[:N]" : "");
  }
  const char *near = lacks_colon(part, meant, sizeof meant) ? meant : ch_nearest_name(word, names);
  if (near) return ch_fail(error, CH_ERROR_ARGUMENT, "unknown name '%.64s'; did you mean %s?", part, near);
  return ch_fail(error, CH_ERROR_ARGUMENT, "unknown name '%.64s'; use %s, or the path of a config.json", part,
                 known);
}

/* One preset of a name, with its number (0: none) and its mechanism (NULL: none). */
typedef struct preset_choice {
  const ch_preset *preset;
  const ch_mechanism *of;
  int64_t number;
} preset_choice;

/* Parses one part of a name: "gqa:4". */
static ch_status parse_part(const char *part, preset_choice *choice, ch_error *error) {
  char word[LONGEST_NAME];
  size_t length = strcspn(part, ":");
  snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), part);
  choice->number = 0;
  choice->preset = find_preset_of_word(word, &choice->of);
  if (!choice->preset) return unknown(part, word, error);
  if (!part[length]) return CH_OK;
  if (!choice->preset->number)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s does not accept a number, as in '%.64s'; write %s", word,
                   part, word);
  const char *digits = part + length + 1;
  size_t count = strspn(digits, "0123456789");
  long long value = count && !digits[count] && count < 10 ? atoll(digits) : 0;
  if (value < 1 || value > MOST_NUMBER)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "'%.64s' needs a whole number of %s from 1 to %d after the colon, as in %s:4", part,
                   choice->preset->number, MOST_NUMBER, word);
  choice->number = value;
  return CH_OK;
}

/* A whole name: a mechanism's preset and the presets that are added with pluses. The preset of a missing part is
 * NULL. */
typedef struct name_parts {
  preset_choice mechanism, added[ADDED], sharing, experts;
} name_parts;

/* Returns the place of an added module, or NULL. */
static preset_choice *place_of_added(const ch_preset *preset, name_parts *parts) {
  for (int i = 0; i < ADDED; i++)
    if (&added[i] == preset) return &parts->added[i];
  return NULL;
}

/* Puts a part in its place, which must be free. A mechanism must be the first part. */
static ch_status place_part(const char *name, const preset_choice *part, bool first, name_parts *parts,
                            ch_error *error) {
  preset_choice *to = shares(part->preset)                  ? &parts->sharing
                      : part->preset == &ch_expert_preset   ? &parts->experts
                      : place_of_added(part->preset, parts) ? place_of_added(part->preset, parts)
                                                            : &parts->mechanism;
  if (to->preset || (to == &parts->mechanism && !first))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "'%.64s' must be a mechanism, and after plus signs a sharing scheme, experts or "
                   "modules, each once, as in mfa+masa-qkvo, kha-mlp+moe or gated+xsa",
                   name);
  *to = *part;
  return CH_OK;
}

static ch_status parse(const char *name, name_parts *parts, ch_error *error) {
  *parts = (name_parts){0};
  for (const char *at = name;; at++) {
    char text[LONGEST_NAME];
    preset_choice part;
    size_t length = strcspn(at, "+");
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), at);
    CH_TRY(parse_part(text, &part, error));
    CH_TRY(place_part(name, &part, at == name, parts, error));
    at += length;
    if (!*at) return CH_OK;
  }
}

ch_status ch_preset_check(const char *name, ch_error *error) {
  name_parts parts;
  return parse(name, &parts, error);
}

static ch_status apply_part(const char *name, const preset_choice *part, ch_config *config, ch_error *error) {
  if (!part->preset) return CH_OK;
  CH_TRY(ch_config_validate(config, name, error));
  return part->preset->apply(config, part->number, name, error);
}

static ch_status apply_parts(const char *name, const name_parts *parts, ch_config *config, ch_error *error) {
  const preset_choice *mechanism = &parts->mechanism;
  if (mechanism->preset)
    CH_TRY(apply_preset(mechanism->preset, mechanism->of, config, mechanism->number, name, error));
  else
    CH_TRY(apply_mechanism("mha", config, 0, name, error));
  for (int i = 0; i < ADDED; i++) CH_TRY(apply_part(name, &parts->added[i], config, error));
  CH_TRY(apply_part(name, &parts->sharing, config, error));
  CH_TRY(apply_part(name, &parts->experts, config, error));
  return ch_config_validate(config, name, error);
}

ch_status ch_preset_apply(const char *name, ch_config *config, ch_error *error) {
  name_parts parts;
  CH_TRY(parse(name, &parts, error));
  return apply_parts(name, &parts, config, error);
}

/* --- sizes by the cache ------------------------------------------------------------------------------------------ */

/* The largest number that is tried after a name, and the maximum number of sizes that a message lists. */
enum { MOST_TRIED = 8192, MOST_NAMED = 8 };
/* The smallest cache that counts as equal, as a share of the requested one. */
static const double least_share = 0.75;

ch_status ch_check_cache(const char *name, int64_t elements, int64_t most, const char *possible,
                         ch_error *error) {
  if (elements <= most && (double)elements >= least_share * (double)most) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s cannot have a cache of %.0f to %lld elements per token: %s%s%lld; give another "
                 "{cache_per_token}, or leave this mechanism out",
                 name, ceil(least_share * (double)most), (long long)most,
                 possible ? "possible sizes are " : "its size is ", possible ? possible : "",
                 (long long)elements);
}

/* Possible sizes of a cache, for a message. */
typedef struct cache_sizes {
  int64_t elements[MOST_NAMED]; /* [count] the last different sizes that were tried */
  int count;
} cache_sizes;

static void note_size(cache_sizes *sizes, int64_t elements) {
  for (int i = 0; i < sizes->count; i++)
    if (sizes->elements[i] == elements) return;
  if (sizes->count == MOST_NAMED)
    memmove(sizes->elements, sizes->elements + 1, (size_t)--sizes->count * sizeof *sizes->elements);
  sizes->elements[sizes->count++] = elements;
}

static ch_status refuse_sizes(const char *name, const cache_sizes *sizes, int64_t most, ch_error *error) {
  char possible[MOST_NAMED * 24] = "";
  size_t used = 0;
  for (int i = 0; i + 1 < sizes->count; i++)
    used +=
        (size_t)snprintf(possible + used, sizeof possible - used, "%lld, ", (long long)sizes->elements[i]);
  return ch_check_cache(name, sizes->elements[sizes->count - 1], most, possible, error);
}

ch_status ch_preset_apply_cache(const char *name, int64_t most, ch_config *config, ch_error *error) {
  name_parts parts;
  cache_sizes sizes = {.count = 0};
  ch_config best = *config;
  int64_t reached = 0;
  CH_TRY(parse(name, &parts, error));
  preset_choice *mechanism = &parts.mechanism;
  if (!mechanism->preset || !mechanism->preset->number || mechanism->number) {
    CH_TRY(apply_parts(name, &parts, config, error));
    return ch_check_cache(name, ch_state_elements(config), most, NULL, error);
  }
  int64_t before = 0;
  for (int64_t number = 1; number <= MOST_TRIED; number++) {
    ch_config trial = *config;
    mechanism->number = number;
    if (apply_parts(name, &parts, &trial, NULL) != CH_OK) continue;
    int64_t elements = ch_state_elements(&trial);
    note_size(&sizes, elements);
    if (elements <= most && elements > reached) {
      reached = elements;
      best = trial;
    }
    if (elements > most && before > most && sizes.count == MOST_NAMED)
      break; /* caches grow with the number */
    before = elements;
  }
  if (sizes.count == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "%s has no size that fits this shape", name);
  if ((double)reached < least_share * (double)most) return refuse_sizes(name, &sizes, most, error);
  *config = best;
  return CH_OK;
}

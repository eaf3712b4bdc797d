/* Names of mechanisms such as mha, gqa:4 or mqa, and the shape that compared models share. */
#ifndef CH_EXPERIMENT_LINEUP_PRESETS_H
#define CH_EXPERIMENT_LINEUP_PRESETS_H

#include "attention/preset.h"
#include "experiment/lineup/match_size.h"

/* Returns preset number `index`, NULL after the last. The order: presets of mechanisms in the registry, modules
 * (presets.c), modules that are added after a plus, sharing, experts. */
const ch_preset *ch_preset_at(int index);
/* Returns the preset with which a name begins: gqa for "gqa:4" and for "gqa+xsa". NULL for other names and paths. */
const ch_preset *ch_preset_of(const char *name);
/* The preset that replaces the FFN by experts. Its name follows a mechanism and a plus ("kha-mlp+moe"). */
extern const ch_preset ch_expert_preset;

/* Returns true if the name is the path of a file: it has a slash or ends in .json. */
bool ch_preset_is_path(const char *name);
/* Checks the spelling of a name, before any shape is known: "name[:N]", "name[:N]+xsa+sharing[:N]+moe[:N]" with any of
 * the additions, or additions alone. */
ch_status ch_preset_check(const char *name, ch_error *error);
/* Applies a name to a base configuration and validates the result. */
ch_status ch_preset_apply(const char *name, ch_config *config, ch_error *error);

/* Works like ch_preset_apply, but fails unless the cache has at most `most` elements per token and at least three
 * quarters of that. A name without a number ("gqa", "mla") gets the number that fits best. The error message lists
 * caches that are possible. */
ch_status ch_preset_apply_cache(const char *name, int64_t most, ch_config *config, ch_error *error);
/* Fails for a cache of `elements` that ch_preset_apply_cache would refuse. `possible` lists sizes that are possible
 * besides `elements`, each followed by ", "; or NULL. */
ch_status ch_check_cache(const char *name, int64_t elements, int64_t most, const char *possible,
                         ch_error *error);

/* The user's settings of the shared shape. 0 means that a number is chosen. */
typedef struct ch_shape_wishes {
  int64_t params; /* parameters of a model, embeddings included (see ch_counted_by) */
  ch_match match; /* quantity that is made equal */
  int64_t cache;  /* with CH_MATCH_CACHE: largest number of cache elements per token */
  int64_t vocab;  /* vocabulary size; ch_base_shape needs it */
  int64_t layers, hidden, heads;
  int64_t context; /* max_position_embeddings */
  ch_init init;
  ch_parametrization parametrization;
  struct {
    int64_t size, channels, classes, patch;
  } image; /* size 0: a text model; else an image model without `vocab`. patch 0: the size of patches is chosen */
} ch_shape_wishes;

/* Returns the usual vocabulary size for a model with `params` parameters and a text of `text_bytes` bytes. */
int64_t ch_base_vocabulary(int64_t params, int64_t text_bytes);
/* Fills in the shared shape: layers, width, heads and head size by the rule in docs/compare.md, tied embeddings, RoPE,
 * SwiGLU and multi-head attention. The FFN has the customary 8/3 of the width until sizes are matched (match_size.h).
 * For images it is a Vision Transformer with an FFN of 4 times the width. */
ch_status ch_base_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error);
/* Copies a text model's shape as a base for presets, with MHA. RoPE base, eps, multipliers and windows are default. */
void ch_shape_of(const ch_config *from, ch_config *base);

#endif

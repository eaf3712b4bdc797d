/* Mechanisms by short names: what `compare` understands by mha, gqa:4 or mqa, and the shape that all of them share. */
#ifndef CH_EXPERIMENT_LINEUP_PRESETS_H
#define CH_EXPERIMENT_LINEUP_PRESETS_H

#include "attention/preset.h"
#include "experiment/lineup/match_size.h"

/* Returns preset number `index`: those of the mechanisms in the registry, then modules (presets.c), modules
 * that are added after a plus, sharing and experts. NULL after the last. */
const ch_preset *ch_preset_at(int index);
/* Returns the preset that a name begins with: gqa for "gqa:4" and for "gqa+xsa"; NULL for the path of a
 * file. */
const ch_preset *ch_preset_of(const char *name);
/* Experts in place of the FFN, written after a mechanism and a plus ("kha-mlp+moe"). */
extern const ch_preset ch_expert_preset;

/* Returns true if the name means a file: it has a slash or ends in .json. */
bool ch_preset_is_path(const char *name);
/* Checks the spelling of "name[:N]", "name[:N]+xsa+sharing[:N]+moe[:N]" with some of the additions, or additions
 * alone, before any shape is known. */
ch_status ch_preset_check(const char *name, ch_error *error);
/* Applies such a name to a base configuration and validates the result. */
ch_status ch_preset_apply(const char *name, ch_config *config, ch_error *error);

/* Works like ch_preset_apply, and checks that the cache has at most `most` elements per token and at least
 * three quarters of that. A name without a number ("gqa", "mla") gets the number that fits best. The error
 * names the possible caches. */
ch_status ch_preset_apply_cache(const char *name, int64_t most, ch_config *config, ch_error *error);
/* Fails for a cache of `elements` that is not so large. `possible`: what could be instead, in words; or NULL. */
ch_status ch_check_cache(const char *name, int64_t elements, int64_t most, const char *possible,
                         ch_error *error);

/* The user's settings of the shared shape; 0 = to be chosen. */
typedef struct ch_shape_wishes {
  int64_t params; /* parameters of a model, embeddings included, */
  ch_match match; /* what models are matched by */
  int64_t cache;  /* of a token, with CH_MATCH_CACHE */
  int64_t vocab;  /* never 0 in ch_base_shape */
  int64_t layers, hidden, heads;
  int64_t context; /* max_position_embeddings */
  ch_init init;
  ch_parametrization parametrization;
  struct {
    int64_t size, channels, classes, patch;
  } image; /* size 0: models of text; patch 0 = to be chosen. vocab then does not count */
} ch_shape_wishes;

/* Returns the vocabulary size for a model with so many parameters and so many bytes of text. */
int64_t ch_base_vocabulary(int64_t params, int64_t text_bytes);
/* Fills the shared shape: layers, width, heads and head size by the rule in docs/compare.md, tied embeddings,
 * RoPE, SwiGLU. intermediate_size is the customary 8/3 of the width; see match_size.h. For images: a Vision
 * Transformer, with an FFN of 4 times the width. It has multi-head attention until a preset is applied. */
ch_status ch_base_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error);
/* Copies the shape of a text model as a base for presets: everything outside attention, and the query
 * heads. */
void ch_shape_of(const ch_config *from, ch_config *base);

#endif

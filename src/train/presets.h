/* Mechanisms by short names: what `compare` understands by mha, gqa:4 or mqa, and the shape that all of them share. */
#ifndef CH_TRAIN_PRESETS_H
#define CH_TRAIN_PRESETS_H

#include "attention/preset.h"
#include "train/match.h"

/* Preset number `index` of all: those of the mechanisms in the registry, those that are modules (presets.c), and of
   sharing; NULL behind the last. */
const ch_preset *ch_preset_at(int index);

/* True when the name means a file: it has a slash or ends in .json. */
bool ch_preset_is_path(const char *name);
/* Checks the spelling of "name[:N]", "name[:N]+sharing[:N]" or "sharing[:N]" alone, before any shape is known. */
ch_status ch_preset_check(const char *name, ch_error *error);
/* Applies such a name to a base configuration and validates the result. */
ch_status ch_preset_apply(const char *name, ch_config *config, ch_error *error);

/* What the user asked of the shape that all models share; 0 = to be chosen. */
typedef struct ch_shape_wishes {
  int64_t params;     /* parameters of a model, embeddings included, */
  ch_counted counted; /* of these */
  int64_t vocab;      /* never 0 in ch_base_shape */
  int64_t layers, hidden, heads;
  int64_t context; /* max_position_embeddings */
  ch_init init;
  struct {
    int64_t size, channels, classes, patch;
  } image; /* size 0: models of text; patch 0 = to be chosen. vocab then does not count */
} ch_shape_wishes;

/* The vocabulary size for a model of so many parameters trained on so many bytes of text. */
int64_t ch_base_vocabulary(int64_t params, int64_t text_bytes);
/* The shared shape: layers, width, heads and head size by the rule in docs/compare.md, tied embeddings, RoPE, SwiGLU.
   intermediate_size is left at the customary 8/3 of the width; see match.h. Of images: a Vision Transformer, with an FFN
   of 4 times the width. Multi-head until a preset is applied. */
ch_status ch_base_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error);

#endif

/* The record of a mechanism for tests: a second definition, and the combinations to test.
 *
 * A file NAME.c in this folder defines `const tested_mechanism tested_NAME`. CMake finds it and builds the
 * program test_combinations_NAME from it. test_mechanisms.c checks these files against the registry: a
 * mechanism without a file fails. */
#ifndef TESTS_ATTENTION_MECHANISM_H
#define TESTS_ATTENTION_MECHANISM_H

#include "attention/harness/combinations.h"
#include "attention/reference/private.h"

enum { MOST_PROJECTIONS = 10 };

/* A projection [out, in] by the definition. */
typedef struct projection_shape {
  const char *name;
  int64_t out, in;
} projection_shape;

/* One configuration, as arguments of add_combination. The end of a list has no `attention`. */
typedef struct tried {
  const char *attention, *sizes;
} tried;

/* A name of `compare`, and the elements per token in a layer's cache with 8 heads of 16. */
typedef struct tested_preset {
  const char *name;
  int64_t elements;
} tested_preset;

typedef struct tested_mechanism {
  const char *name; /* attention.type */

  /* --- the definition --- */
  bool one_key;        /* one key-value head when the config does not say */
  bool normed;         /* the head norm is on when the config does not say */
  bool scales_latents; /* normed latents are scaled when the config does not say */
  /* linear knocking of keys cannot be folded: the projected key is also used elsewhere */
  bool key_kept;
  /* Completes a configuration after its keys are read; NULL: nothing to do. */
  void (*complete)(reference_config *config);
  /* The attention of a layer: x [length][hidden] -> [length][hidden]. */
  double *(*attention)(reference_run *run, const double *x);
  /* A layer's projections, returning how many, and the parameters of its other tensors, those of modules apart (NULL:
     none). */
  int (*projections)(const reference_config *config, int layer, projection_shape shapes[MOST_PROJECTIONS]);
  int64_t (*others)(const reference_config *config, int layer);
  /* Elements of a token in a layer's cache. */
  int64_t (*cache)(const reference_config *config, int layer);
  /* Heads times the rank of what they read; NULL: of keys as wide as knocking sees them. */
  int64_t (*total_effective_rank)(const reference_config *config);
  /* The width of the space that heads share; NULL: that of the heads with the fewest components. */
  int64_t (*shared_latent_dim)(const reference_config *config);

  /* --- how decoding must read its cache --- */
  bool absorbs_latents; /* as latents, never expanded, unless a gate or a norm of keys comes first */
  bool absorbs_mixes;   /* as components if nothing but mixing comes first */
  /* as factors: of keys and values by token, or where those over heads are fixed with them absorbed */
  bool reads_factors;

  /* --- what it is tried on --- */
  void (*combinations)(combination_list *list);
  const tried *with_experts; /* together with mixtures of experts */
  const tried *long_texts;   /* with heads wider than a vector register, on texts longer than a block */
  const tried *learns;       /* models 32 wide that must learn, besides those of its presets */
  tested_preset presets[8];  /* closed by one without a name */
} tested_mechanism;

/* Return all mechanisms, NULL-terminated, and the one of that name, or NULL. */
const tested_mechanism *const *tested_mechanisms(void);
const tested_mechanism *tested_mechanism_find(const char *name);

#endif

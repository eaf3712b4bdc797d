/* A mechanism's definition for the reference, and the combinations to test.
 *
 * A file NAME.c in this folder defines `const tested_mechanism tested_NAME`. CMake finds it and builds the program
 * test_combinations_NAME from it. test_mechanisms.c fails if a mechanism of the registry has no such file. */
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

/* A preset of `compare`, and the elements per token in a layer's cache with 8 heads of 16. */
typedef struct tested_preset {
  const char *name;
  int64_t elements;
} tested_preset;

typedef struct tested_mechanism {
  const char *name; /* attention.type */

  /* --- the definition --- */
  bool one_key;        /* true if there is one key-value head by default */
  bool normed;         /* true if the head norm is on by default */
  bool scales_latents; /* true if normed latents are scaled by default */
  bool key_kept;       /* true if linear knocking of keys cannot be folded, because values use the key too */
  /* Completes a configuration after its keys are read; NULL: nothing to do. */
  void (*complete)(reference_config *config);
  /* Returns the attention [length][hidden] of a layer for x [length][hidden]. */
  double *(*attention)(reference_run *run, const double *x);
  /* Lists a layer's projections and returns their number. */
  int (*projections)(const reference_config *config, int layer, projection_shape shapes[MOST_PROJECTIONS]);
  /* Returns the number of parameters in a layer's other tensors, without modules; NULL: none. */
  int64_t (*others)(const reference_config *config, int layer);
  /* Returns the elements per token in a layer's cache. */
  int64_t (*cache)(const reference_config *config, int layer);
  /* Returns the sum of the ranks of all heads' scores; NULL: heads * key_dim. */
  int64_t (*total_effective_rank)(const reference_config *config);
  /* Returns the width of the space that heads share; NULL: head_dim times the fewest key, value or component heads. */
  int64_t (*shared_latent_dim)(const reference_config *config);

  /* --- decoding --- */
  bool absorbs_latents; /* true if latents are read unexpanded, unless there is a gate or a norm of keys */
  bool absorbs_mixes;   /* true if component heads are read unmixed, unless they have other modules */
  bool reads_factors;   /* true if factors by token are read as stored, and fixed factors are absorbed */

  /* --- tests --- */
  void (*combinations)(combination_list *list);
  const tried *with_experts; /* configurations to which mixtures of experts are added */
  const tried *long_texts;   /* configurations with wide heads for texts that are longer than a block */
  const tried *learns;       /* configurations 32 wide that must learn, in addition to the presets */
  tested_preset presets[8];  /* presets, and an element without a name */
} tested_mechanism;

/* tested_mechanisms returns all mechanisms, NULL-terminated. tested_mechanism_find returns the mechanism `name`, or
   NULL. */
const tested_mechanism *const *tested_mechanisms(void);
const tested_mechanism *tested_mechanism_find(const char *name);

#endif

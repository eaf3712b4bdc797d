/* Groups of layers that read the keys and values of their first layer: CLA (Brandon et al.), MLKV (Zuhri et al.).
 *
 * Mechanisms need no code for groups. The layers after the first write nothing (ch_layer_state) and declare no tensor
 * of the writing side. If reading needs such a tensor, for example the norm of keys that are computed on read, it
 * uses the first layer's. */
#include <string.h>

#include "attention/mechanism.h"

/* Projections, norms and modules that compute keys and values from x. A tensor's name is one of these, or begins with
   one and a dot. */
static const char *const of_writer[] = {
    "k_proj",         "v_proj",    "kv_proj", "k_rope_proj", "kv_a_proj_with_mqa",
    "kv_a_layernorm", "kv_b_proj", "k_norm",  "k_mix",       "v_mix",
    "k_knock",        "v_knock",   "v_reuse"};

bool ch_is_of_writer(const char *name) {
  const size_t length = strcspn(name, ".");
  for (size_t i = 0; i < sizeof of_writer / sizeof *of_writer; i++)
    if (strlen(of_writer[i]) == length && strncmp(name, of_writer[i], length) == 0) return true;
  return false;
}

/* The list of the mechanisms that "attention.type" can name, and the properties of a configuration that its mechanism
   determines. */
#ifndef CH_ATTENTION_REGISTRY_H
#define CH_ATTENTION_REGISTRY_H

#include "attention/mechanism.h"

/* Returns the listed mechanism of this name, or NULL if there is none. Gated DeltaNet is not listed. */
const ch_mechanism *ch_mechanism_find(const char *name);
/* Returns the listed mechanisms, NULL-terminated. */
const ch_mechanism *const *ch_mechanisms(void);
/* Returns the names of the listed mechanisms, NULL-terminated. */
const char *const *ch_mechanism_names(void);
/* Returns true if `key` is among the mechanism's own keys of the `attention` object. Returns false if mechanism is
   NULL. */
bool ch_mechanism_has_key(const ch_mechanism *mechanism, const char *key);
/* Returns the mechanism of `attention` in a validated config. */
const ch_mechanism *ch_mechanism_of(const ch_config *config);
/* Returns the mechanism of a layer: Gated DeltaNet for layers of linear attention, else that of `attention`. */
const ch_mechanism *ch_mechanism_in(const ch_config *config, int layer);
/* Returns the number of elements of a sequence's states of constant size, in all layers together. */
int64_t ch_fixed_state_elements(const ch_config *config);
/* Sets attention.type to a registered mechanism and sets the mechanism's defaults. */
void ch_config_set_mechanism(ch_config *config, const char *type);
/* Lists the projections that the mechanism of a config declares (shared_projections.c). */
ch_status ch_list_projections(const ch_config *config, ch_projection_shapes *shapes, ch_error *error);
/* Fails unless every entry of "sharing.projections" is a projection of the mechanism with a matrix in every layer.
   The matrices must also have one shape, except for low-rank sharing. The error names the entry. */
ch_status ch_check_shared_projections(const ch_config *config, const char *where, ch_error *error);
/* Returns the number of elements that one token occupies in the cache in all layers: the width of its states. */
int64_t ch_state_elements(const ch_config *config);
/* Returns the number of elements in the cache of a sequence with `tokens` tokens. A layer with a sliding window
   stores at most the tokens of the window and the sinks. */
int64_t ch_state_elements_at(const ch_config *config, int64_t tokens);
/* Returns the number of elements of all parts of a kind. Parts that each token has count once for each token that a
   layer stores. */
int64_t ch_state_elements_of(const ch_config *config, ch_part_kind kind, int64_t tokens);
/* Returns the bytes of ch_state_elements_at in a cache of these types. */
int64_t ch_state_bytes_at(const ch_config *config, const ch_cache_types *types, int64_t tokens);
/* Returns the bytes of ch_fixed_state_elements. They are F32 in every cache. */
int64_t ch_fixed_state_bytes(const ch_config *config);
/* Returns the bytes of ch_state_elements in a cache of these types. */
int64_t ch_state_bytes(const ch_config *config, const ch_cache_types *types);
/* Returns the number of tokens per pass of a long prompt. */
int64_t ch_prefill_tokens(const ch_config *config);
/* Lists the parts of every layer, for ch_cache_create. parts [num_hidden_layers]. */
void ch_state_parts(const ch_config *config, ch_layer_parts *parts);

#endif

/* Latent attention with separate latents of keys and values, or a latent of only one of them (mla_apart.c). mla.c calls
 * these functions if the configuration has "k_lora_rank" or "v_lora_rank". */
#ifndef CH_ATTENTION_MLA_APART_H
#define CH_ATTENTION_MLA_APART_H

#include "attention/mechanism.h"

bool ch_mla_is_apart(const ch_config *config);
ch_status ch_mla_apart_check(const ch_config *config, const char *where, ch_error *error);
/* Declares the tensors and modules of keys and values, for the first layer of a group. */
void ch_mla_apart_declare(ch_declaration *declaration);
int ch_mla_apart_state(const ch_config *config, ch_state_part parts[CH_MAX_STATE_PARTS]);
int ch_mla_apart_rows(const ch_config *config, ch_state_rows made[2]);
void ch_mla_apart_write(ch_builder *builder, ch_node *x, ch_node *out[]);
/* Computes the heads' contexts [N, H v] of queries [N, H (n + r)]. `builder` is at the reading layer, whose sinks
   and window apply. `there` is at the layer that has the tensors of keys and values. */
ch_node *ch_mla_apart_attend(ch_builder *builder, ch_builder *there, ch_node *q, ch_node *const states[],
                             double scale);
/* Returns the number of multiply-adds that expand one head's key and value of a token from their latents. */
int64_t ch_mla_apart_expanding(const ch_config *config);
int64_t ch_mla_apart_shared_dim(const ch_config *config);

#endif

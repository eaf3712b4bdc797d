/* Queries from two factors, for MFA and MFA-KR. */
#ifndef CH_ATTENTION_FACTORED_QUERY_H
#define CH_ATTENTION_FACTORED_QUERY_H

#include "attention/mechanism.h"

/* Declares q_a_proj [C_q, D], q_b_proj [m C, C_q], the norm between them if the config has one, and the
   modules on queries. */
void ch_factored_query_declare(ch_declaration *declaration);
ch_node *ch_factored_query(ch_builder *builder, ch_node *x);
/* Sets the default of num_key_value_heads, 1. ch_check_one_key_head rejects any other value. */
void ch_one_key_head(ch_config *config);
ch_status ch_check_one_key_head(const ch_config *config, const char *where, ch_error *error);
/* Presets MFA's proportions: 7/8 as many heads (rounded), of `number` dims each. For 0, heads have twice as many dims
   as before. */
ch_status ch_preset_factored(ch_config *config, int64_t number, const char *where, ch_error *error);

#endif

/* A model's figures as one JSON object: what `crosshead info --json` prints. */
#include <inttypes.h>

#include "base/json.h"
#include "model/accounting.h"

static void put_whole(ch_text *json, const char *key, int64_t value) {
  ch_text_printf(json, ",\n  \"%s\": %" PRId64, key, value);
}

void ch_account_json(const ch_config *config, const ch_account *account, int64_t depth,
                     const char *cache_dtype, ch_text *json) {
  ch_text_puts(json, "{\n  \"model_type\": ");
  ch_json_put_string(json, config->model_type);
  ch_text_puts(json, ",\n  \"attention_type\": ");
  ch_json_put_string(json, config->attention.type);
  put_whole(json, "parameters_total", account->parameters_total);
  put_whole(json, "parameters_attention", account->parameters_attention);
  put_whole(json, "parameters_embedding", account->parameters_embedding);
  put_whole(json, "parameters_gate_embedding", account->parameters_gate_embedding);
  put_whole(json, "parameters_active", account->parameters_active);
  put_whole(json, "cache_elements_per_token", account->cache_elements_per_token);
  put_whole(json, "cache_bytes_per_token", account->cache_bytes_per_token);
  ch_text_puts(json, ",\n  \"cache_dtype\": ");
  ch_json_put_string(json, cache_dtype);
  put_whole(json, "depth", depth);
  ch_text_printf(json, ",\n  \"flops_per_token_forward\": %.0f", account->flops.total);
  ch_text_printf(json,
                 ",\n  \"flops_terms\": {\"attention_projections\": %.0f, \"attention_context\": %.0f, "
                 "\"feed_forward\": %.0f, \"lm_head\": %.0f}",
                 account->flops.attention_projections, account->flops.attention_context,
                 account->flops.feed_forward, account->flops.lm_head);
  put_whole(json, "total_effective_rank", account->total_effective_rank);
  put_whole(json, "shared_latent_dim", account->shared_latent_dim);
  ch_text_puts(json, "\n}\n");
}

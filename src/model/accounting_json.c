/* Writes a model's figures as one JSON object, the output of `crosshead info --json`. */
#include <inttypes.h>

#include "base/json.h"
#include "model/accounting.h"

static void put_whole(ch_text *json, const char *key, int64_t value) {
  ch_text_printf(json, ",\n  \"%s\": %" PRId64, key, value);
}

static void put_flops(ch_text *json, const char *key, double flops) {
  ch_text_printf(json, ",\n  \"%s\": %.0f", key, flops);
}

/* Writes the figures of a model of images, which has no cache and no decoding. */
static void put_images(const ch_config *config, const ch_account *account, ch_text *json) {
  const ch_flops *flops = &account->flops;
  int64_t tokens = ch_config_image_tokens(config);
  put_whole(json, "parameters_patch_embedding", account->parameters_patch);
  put_whole(json, "parameters_position_embedding", account->parameters_position);
  put_whole(json, "parameters_head", account->parameters_head);
  put_whole(json, "cache_elements_per_token", 0);
  put_whole(json, "cache_bytes_per_token", 0);
  put_whole(json, "image_tokens", tokens);
  put_flops(json, "flops_per_image_forward", flops->total);
  ch_text_printf(json,
                 ",\n  \"flops_terms\": {\"patch_embedding\": %.0f, \"attention_projections\": %.0f, "
                 "\"attention_context\": %.0f, \"feed_forward\": %.0f, \"head\": %.0f}",
                 flops->patches, flops->attention_projections, flops->attention_context, flops->feed_forward,
                 flops->lm_head);
  put_flops(json, "flops_per_image_training", 3 * flops->total);
  put_flops(json, "flops_per_token_forward", flops->total / (double)tokens);
}

static void put_terms(ch_text *json, const char *key, const ch_flops *flops) {
  ch_text_printf(json,
                 ",\n  \"%s\": {\"attention_projections\": %.0f, \"attention_context\": %.0f, "
                 "\"feed_forward\": %.0f, \"lm_head\": %.0f}",
                 key, flops->attention_projections, flops->attention_context, flops->feed_forward,
                 flops->lm_head);
}

/* Writes the cache and the FLOPs of a model of text. */
static void put_text(const ch_account *account, int64_t depth, const char *cache_dtype, ch_text *json) {
  put_whole(json, "cache_elements_per_token", account->cache_elements_per_token);
  put_whole(json, "cache_bytes_per_token", account->cache_bytes_per_token);
  ch_text_puts(json, ",\n  \"cache_dtype\": ");
  ch_json_put_string(json, cache_dtype);
  put_whole(json, "depth", depth);
  put_whole(json, "cache_elements_at_depth", account->cache_elements_at_depth);
  if (account->state_elements_per_sequence)
    put_whole(json, "state_elements_per_sequence", account->state_elements_per_sequence);
  put_flops(json, "flops_per_token_forward", account->flops.total);
  put_terms(json, "flops_terms", &account->flops);
  put_flops(json, "flops_per_token_training", 3 * account->flops.total);
  put_flops(json, "flops_per_token_prefill", account->prefill.total);
  put_flops(json, "flops_per_token_decode", account->decode.total);
  put_terms(json, "flops_decode_terms", &account->decode);
}

void ch_account_json(const char *name, const ch_config *config, const ch_account *account, int64_t depth,
                     const char *cache_dtype, ch_text *json) {
  ch_text_puts(json, "{\n  ");
  if (name) {
    ch_text_puts(json, "\"name\": ");
    ch_json_put_string(json, name);
    ch_text_puts(json, ",\n  ");
  }
  ch_text_puts(json, "\"model_type\": ");
  ch_json_put_string(json, config->model_type);
  ch_text_puts(json, ",\n  \"attention_type\": ");
  ch_json_put_string(json, config->attention.type);
  put_whole(json, "parameters_total", account->parameters_total);
  put_whole(json, "parameters_attention", account->parameters_attention);
  put_whole(json, "parameters_embedding", account->parameters_embedding);
  put_whole(json, "parameters_gate_embedding", account->parameters_gate_embedding);
  put_whole(json, "parameters_feed_forward", account->parameters_feed_forward);
  put_whole(json, "parameters_norm", account->parameters_norm);
  put_whole(json, "parameters_active", account->parameters_active);
  if (ch_config_is_vision(config))
    put_images(config, account, json);
  else
    put_text(account, depth, cache_dtype, json);
  put_whole(json, "total_effective_rank", account->total_effective_rank);
  put_whole(json, "shared_latent_dim", account->shared_latent_dim);
  ch_text_puts(json, "\n}");
}

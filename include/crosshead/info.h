/* A model's shape and costs, computed from its configuration alone: parameters, key-value cache, arithmetic.
 * Weights are not read.
 *
 *   ch_info *info;
 *   ch_account account;
 *   if (ch_info_open("config.json", &info, NULL) == CH_OK) {
 *     if (ch_info_account(info, NULL, &account, NULL) == CH_OK)
 *       printf("%lld bytes per token\n", (long long)account.cache_bytes_per_token);
 *     ch_info_free(info);
 *   }
 *
 * From simple to advanced: a configuration and its page, tables of several, the figures as numbers. */
#ifndef CROSSHEAD_INFO_H
#define CROSSHEAD_INFO_H

#include <crosshead/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A configuration that was read. It never changes: any number of threads may use it at the same time. */
typedef struct ch_info ch_info;

/* Reads the configuration of a model directory, or a config.json. Sizes that it leaves open ("sharing.rank")
 * are those of the directory's weights. Errors: CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG,
 * CH_ERROR_MEMORY; each names the file and the key. */
CH_API ch_status ch_info_open(const char *path, ch_info **info, ch_error *error);

/* NULL is fine. */
CH_API void ch_info_free(ch_info *info);

/* The settings that some figures depend on. Fill with ch_info_defaults, then change what should differ:
 * members may be added in later versions. */
typedef struct ch_info_settings {
  int64_t depth;      /* tokens of context, for FLOPs; default 0 */
  ch_precision cache; /* element type of the cache; default BF16 */
  /* Types of keys, values and latents, if they differ; default: as `cache`. */
  ch_precision cache_keys, cache_values, cache_latents;
  /* The name of these types on pages and in JSON; NULL = by their names, "bf16" or "k=q8_0,v=q4_0". */
  const char *cache_name;
} ch_info_settings;

CH_API void ch_info_defaults(ch_info_settings *settings);

/* Writes the page that `crosshead info` prints. In all functions of this header settings may be NULL for the
 * defaults. *text is NUL-terminated and the caller's: release it with ch_free. Errors of all of them:
 * CH_ERROR_ARGUMENT for settings out of range, CH_ERROR_MEMORY. */
CH_API ch_status ch_info_page(const ch_info *info, const ch_info_settings *settings, char **text,
                              ch_error *error);

/* Writes the object of `crosshead info --json`: parameters_total, cache_elements_per_token and the rest.
 * *json is the caller's: release it with ch_free. */
CH_API ch_status ch_info_json(const ch_info *info, const ch_info_settings *settings, char **json,
                              ch_error *error);

/* Write a table with a line for each of infos [count], at least one, and the object of `crosshead info
 * --table --json`. */
CH_API ch_status ch_info_table(const ch_info *const *infos, size_t count, const ch_info_settings *settings,
                               char **text, ch_error *error);
CH_API ch_status ch_info_table_json(const ch_info *const *infos, size_t count,
                                    const ch_info_settings *settings, char **json, ch_error *error);

/* ---- The figures as numbers ---- */

/* FLOPs (two per multiply-add) of one token; in models of images, of one image. */
typedef struct ch_flops {
  /* every matrix under self_attn and linear_attn, and states of constant size */
  double attention_projections;
  double attention_context; /* what grows with the context: scores, weighted values */
  double feed_forward;
  /* 2 V D, tied or not; looking up an embedding is no product. In models of images: the classifier */
  double lm_head;
  double patches; /* the patch embedding of images */
  double total;
} ch_flops;

typedef struct ch_account {
  int64_t parameters_total;
  int64_t parameters_attention; /* under self_attn, linear_attn and model.dictionary, without gate tables */
  /* embed_tokens and an untied lm_head; for models of images all of the next three */
  int64_t parameters_embedding;
  int64_t parameters_patch, parameters_position, parameters_head; /* positions with the class token */
  int64_t parameters_gate_embedding;                              /* lookup tables of embedding gates */
  int64_t parameters_feed_forward;
  int64_t parameters_norm;          /* norms outside attention */
  int64_t parameters_active;        /* the total minus gate tables and experts not chosen */
  int64_t cache_elements_per_token; /* summed over layers; 0 for models of images */
  /* elements in the cache of one sequence after `depth` tokens; a layer with a sliding window holds at most
   * its window and sinks */
  int64_t cache_elements_at_depth;
  /* states of constant size, in F32 whatever the cache's type; summed over layers */
  int64_t state_elements_per_sequence;
  int64_t cache_bytes_per_token;
  /* Per layer with attention: heads times the rank of a head's query-key map, and the width of the latent
   * space that heads share; 0 if there is no such layer. */
  int64_t total_effective_rank, shared_latent_dim;
  ch_flops flops; /* one forward pass, as in training; a training step has three times as many */
  /* through the cache: many tokens at once, and one token; 0 for models of images */
  ch_flops prefill, decode;
} ch_account;

/* Computes the figures; settings may be NULL for the defaults. Errors: as ch_info_page. */
CH_API ch_status ch_info_account(const ch_info *info, const ch_info_settings *settings, ch_account *account,
                                 ch_error *error);

/* Sets *roles to the kinds of states in the model's cache, bits of ch_cache_role; none for models of
 * images. */
CH_API ch_status ch_info_cache_roles(const ch_info *info, unsigned *roles, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

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

/* The configuration of a model. It never changes: any number of threads may use it at the same time. */
typedef struct ch_info ch_info;

/* Reads the configuration of a model directory, or a config.json; release *info with ch_info_free. Sizes that it
 * does not give ("sharing.rank") are those of the directory's weights. Errors: CH_ERROR_IO, CH_ERROR_FORMAT and
 * CH_ERROR_CONFIG, which name the file and the key; CH_ERROR_MEMORY; CH_ERROR_ARGUMENT for NULL. */
CH_API ch_status ch_info_open(const char *path, ch_info **info, ch_error *error);

/* Releases the configuration. NULL is fine. */
CH_API void ch_info_free(ch_info *info);

/* The settings that some figures depend on. Fill with ch_info_defaults, then change what should differ: later
 * versions may add members. */
typedef struct ch_info_settings {
  int64_t depth;      /* tokens of context, for FLOPs and cache_elements_at_depth; default 0 */
  ch_precision cache; /* element type of the cache: F32, F16, BF16 (default), Q8_0 or Q4_0 */
  /* element types of cached keys, values and latents, if they differ; default: as `cache` */
  ch_precision cache_keys, cache_values, cache_latents;
  /* name of the cache's types on pages and in JSON; NULL (default) = "bf16", "k=q8_0,v=q4_0" and the like */
  const char *cache_name;
} ch_info_settings;

/* Fills in the defaults. */
CH_API void ch_info_defaults(ch_info_settings *settings);

/* Writes the page that `crosshead info` prints. In all functions of this header settings may be NULL for the
 * defaults, and *text and *json are NUL-terminated and the caller's: release them with ch_free. Errors of all
 * of them: CH_ERROR_ARGUMENT for settings out of range and for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_info_page(const ch_info *info, const ch_info_settings *settings, char **text,
                              ch_error *error);

/* Writes the object of `crosshead info --json`: parameters_total, cache_elements_per_token and the rest. *json is
 * the caller's: release it with ch_free. Errors: those of ch_info_page. */
CH_API ch_status ch_info_json(const ch_info *info, const ch_info_settings *settings, char **json,
                              ch_error *error);

/* Write a table with a line for each of infos [count], at least one, and the object of `crosshead info
 * --table --json`. *text and *json are the caller's: release them with ch_free. Errors: those of
 * ch_info_page. */
CH_API ch_status ch_info_table(const ch_info *const *infos, size_t count, const ch_info_settings *settings,
                               char **text, ch_error *error);
CH_API ch_status ch_info_table_json(const ch_info *const *infos, size_t count,
                                    const ch_info_settings *settings, char **json, ch_error *error);

/* ---- The figures as numbers ---- */

/* FLOPs (two per multiply-add) of one token; in models of images, of one image. */
typedef struct ch_flops {
  double attention_projections; /* all matrices of attention, and states of constant size */
  double attention_context;     /* the part that grows with the context: scores, weighted values */
  double feed_forward;          /* FFNs, or the chosen experts and the router */
  /* the LM head, 2 V D, tied or not; in models of images, the classifier. Looking up an embedding is not counted. */
  double lm_head;
  double patches; /* patch embedding of images */
  double total;   /* sum of the other members */
} ch_flops;

/* The figures of a model. */
typedef struct ch_account {
  int64_t parameters_total;
  /* parameters under self_attn, linear_attn and model.dictionary, without gate tables */
  int64_t parameters_attention;
  /* parameters of embed_tokens and an untied lm_head; of models of images, those of patches, positions and the
   * classifier */
  int64_t parameters_embedding;
  /* of images: parameters of the patch embedding; of the patches' positions, with the class token; of the
   * classifier */
  int64_t parameters_patch, parameters_position, parameters_head;
  int64_t parameters_gate_embedding; /* parameters of the lookup tables of embedding gates */
  int64_t parameters_feed_forward;   /* parameters of the FFNs, or of all experts and routers */
  int64_t parameters_norm;           /* parameters of norms outside attention */
  int64_t parameters_active;         /* all parameters except gate tables and experts that are not chosen */
  int64_t cache_elements_per_token;  /* elements that a token adds to the cache, all layers; 0 for images */
  /* elements in the cache of one sequence after `depth` tokens; a layer with a sliding window holds at most
   * its window and sinks */
  int64_t cache_elements_at_depth;
  /* elements of states of constant size, all layers together; always in F32 */
  int64_t state_elements_per_sequence;
  int64_t cache_bytes_per_token; /* bytes that a token adds to the cache, in the types of the settings */
  /* of a layer with attention: heads times the rank of a head's query-key map, and the width of the latent
   * space that heads share; 0 without such a layer */
  int64_t total_effective_rank, shared_latent_dim;
  ch_flops flops; /* FLOPs of a forward pass, as in training; a training step has three times as many */
  /* FLOPs of a token through the cache, in a pass over many tokens and alone; 0 for models of images */
  ch_flops prefill, decode;
} ch_account;

/* Computes the figures; settings may be NULL for the defaults. Errors: those of ch_info_page, and CH_ERROR_CONFIG
 * for a configuration that cannot be computed. */
CH_API ch_status ch_info_account(const ch_info *info, const ch_info_settings *settings, ch_account *account,
                                 ch_error *error);

/* Sets *roles to the kinds of states in the model's cache, bits of ch_cache_role; 0 for models of images.
 * Errors: CH_ERROR_ARGUMENT for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_info_cache_roles(const ch_info *info, unsigned *roles, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

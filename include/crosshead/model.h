/* Models: directories with config.json, model.safetensors and tokenizer.json, opened to be run.
 *
 *   ch_model *model;
 *   ch_error error;
 *   if (ch_model_open("model", &model, &error) == CH_OK) {
 *     printf("%s: %d layers\n", ch_model_type(model), (int)ch_model_layers(model));
 *     ch_model_close(model);
 *   }
 *
 * From simple to advanced: open and close, facts about a model, settings of opening. */
#ifndef CROSSHEAD_MODEL_H
#define CROSSHEAD_MODEL_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open model. It never changes: any number of threads may use one model at the same time. */
typedef struct ch_model ch_model;

/* ---- Opening ---- */

/* Opens the model of DIRECTORY, in Crosshead's form or of one of the Hugging Face families in docs/model-files.md;
 * release *model with ch_model_close. Weights are mapped from the files, not copied: opening a large model is quick,
 * processes share one copy, and the files must stay unchanged until ch_model_close. A model without a tokenizer opens
 * too, but cannot encode or decode text. A model of images opens, but sessions reject it (<crosshead/evaluate.h>
 * measures it). Errors: CH_ERROR_IO, CH_ERROR_FORMAT and CH_ERROR_CONFIG, which name the file and the key;
 * CH_ERROR_MEMORY; CH_ERROR_ARGUMENT for NULL. */
CH_API ch_status ch_model_open(const char *directory, ch_model **model, ch_error *error);

/* Releases the model and its tokenizer. Free all sessions, generations and chats that use them first. NULL is fine. */
CH_API void ch_model_close(ch_model *model);

/* ---- Facts ---- */

/* Returns V, the number of token ids: valid ids are 0 ... V - 1. */
CH_API int64_t ch_model_vocab_size(const ch_model *model);

/* Returns true if the model classifies images; else it reads and writes tokens. */
CH_API bool ch_model_takes_images(const ch_model *model);

/* Returns "model_type" of the model's configuration, e.g. "llama". The text belongs to the model. */
CH_API const char *ch_model_type(const ch_model *model);

/* Returns the number of layers. */
CH_API int64_t ch_model_layers(const ch_model *model);

/* Returns the longest sequence that the model supports, in tokens. */
CH_API int64_t ch_model_context_length(const ch_model *model);

/* Returns the maximum number of tokens of a sequence: the context length of models with rotary or learned positions;
 * INT64_MAX for others, which can read more tokens than the context length. */
CH_API int64_t ch_model_context_limit(const ch_model *model);

/* The kinds of states in a key-value cache. */
typedef enum ch_cache_role {
  CH_CACHE_KEYS = 1,
  CH_CACHE_VALUES = 2,
  CH_CACHE_LATENTS = 4 /* states from which keys and values are computed */
} ch_cache_role;

/* Sets *roles to the kinds of states in the model's cache, bits of ch_cache_role; 0 for models of images.
 * Errors: CH_ERROR_ARGUMENT for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_model_cache_roles(const ch_model *model, unsigned *roles, ch_error *error);

/* Writes the figures of `crosshead info --json` (<crosshead/info.h> has them as numbers): one JSON object with
 * parameters_total, cache_elements_per_token and the rest. *json is NUL-terminated and the caller's: release it with
 * ch_free. The function reads the model's configuration again. Errors: those of ch_info_open and ch_info_json. */
CH_API ch_status ch_model_info(const ch_model *model, char **json, ch_error *error);

/* Returns the number of ids that end a text of this model, as its files name them, at most 16. *ids [returned
 * count] belongs to the model. A session starts with those that are in the vocabulary;
 * ch_session_set_end_tokens changes them for that session. */
CH_API size_t ch_model_end_tokens(const ch_model *model, const int32_t **ids);

/* ---- Settings ---- */

/* Settings for opening a model. Zero-initialise it; later versions may add members. */
typedef struct ch_model_settings {
  /* A tokenizer.json, tokenizer.bin or a directory with one, in place of the model's; or NULL. */
  const char *tokenizer;
  /* Compute the matrices of a model whose layers share atoms (MASA) on use, with less memory and more time. By
   * default they are materialised when the model is opened. */
  bool keep_dictionary;
  bool preload;      /* read the weights when the model is opened, not when they are first used */
  bool no_tokenizer; /* do not open a tokenizer, for callers that pass tokens */
} ch_model_settings;

/* Opens a model as ch_model_open does, with settings (NULL = all zero).
 *
 *   ch_model *model;
 *   ch_error error;
 *   ch_model_settings settings = {.tokenizer = "other/tokenizer.json", .preload = true};
 *   if (ch_model_open_with("model", &settings, &model, &error) != CH_OK) puts(error.message);
 *
 * Errors: those of ch_model_open and of ch_tokenizer_open; CH_ERROR_ARGUMENT for keep_dictionary and a model
 * whose layers share no atoms. */
CH_API ch_status ch_model_open_with(const char *directory, const ch_model_settings *settings,
                                    ch_model **model, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

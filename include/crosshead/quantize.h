/* Rounds a model's matrices to fewer bits. Link libcrosshead-train.
 *
 *   ch_error error;
 *   if (ch_quantize("model", "model-q8_0", NULL, NULL, &error) != CH_OK) puts(error.message);
 *
 *   ch_quantize_settings settings;
 *   ch_quantize_defaults(&settings);
 *   settings.type = CH_PRECISION_Q4_0;
 *   ch_quantize("model", "model-q4_0", &settings, NULL, NULL); */
#ifndef CROSSHEAD_QUANTIZE_H
#define CROSSHEAD_QUANTIZE_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of rounding a model. Fill with ch_quantize_defaults, then change what should differ: later
 * versions may add members. */
typedef struct ch_quantize_settings {
  ch_precision type;   /* type of matrices: BF16, F16, Q8_0, Q6_K, Q4_K or Q4_0; default Q8_0 */
  bool keep_embedding; /* true: the embedding and the LM head keep their type */
  /* callback for progress in bytes written, or NULL; after it cancels, `out` holds no files of the model */
  ch_progress progress;
  void *user; /* argument of `progress` */
} ch_quantize_settings;

/* Fills in the defaults. */
CH_API void ch_quantize_defaults(ch_quantize_settings *settings);

/* Writes the model of DIRECTORY to the directory OUT with its matrices in settings->type; settings may be NULL
 * for the defaults. OUT is created if it does not exist; a model in it is replaced. If the length of a row is not a
 * multiple of the type's block, the matrix becomes Q8_0 or, where that does not fit either, F16. Norms, biases
 * and matrices that multiply cached states keep their type. *json (json may be NULL) becomes the object of
 * `crosshead quantize --json`, NUL-terminated and the caller's: release it with ch_free. Errors:
 * CH_ERROR_ARGUMENT when OUT is DIRECTORY or the type is not supported; CH_ERROR_CONFIG for a model that is
 * quantised already, shares matrices between layers or has no matrix to quantise; CH_ERROR_NUMERIC for a value
 * that is not finite or does not fit the type; CH_ERROR_INTERRUPTED when progress returned false; those of
 * ch_model_open. */
CH_API ch_status ch_quantize(const char *directory, const char *out, const ch_quantize_settings *settings,
                             char **json, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

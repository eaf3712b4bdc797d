/* Imports models of other programs, and exports models for them. Link libcrosshead-train.
 *
 *   ch_error error;
 *   if (ch_import("model.gguf", "model", NULL, NULL, &error) != CH_OK) puts(error.message);
 *
 *   ch_export_settings settings;
 *   ch_export_defaults(&settings);
 *   settings.format = CH_EXPORT_GGUF;
 *   ch_export("model", "model.gguf", &settings, NULL, NULL); */
#ifndef CROSSHEAD_CONVERT_H
#define CROSSHEAD_CONVERT_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of an import. Fill with ch_import_defaults, then change what should differ: later versions may add
 * members. */
typedef struct ch_import_settings {
  const char *tokenizer; /* a tokenizer.json or llama2.c tokenizer.bin in place of the model's own; or NULL */
  /* type of all tensors: F32, F16 or BF16; default: each keeps its type, and quantised ones become F32 */
  ch_precision type;
  bool keep_blocks; /* true: matrices of Q8_0, Q6_K, Q4_K and Q4_0 keep their type, whatever `type` is */
  /* callback for progress in thousandths, or NULL; after it cancels, `out` holds no model */
  ch_progress progress;
  void *user; /* argument of `progress` */
  /* result of a success: number of block-quantised matrices in the source, even if they were written in another type;
   * or NULL */
  int64_t *matrices_quantised;
} ch_import_settings;

/* Fills in the defaults. */
CH_API void ch_import_defaults(ch_import_settings *settings);

/* Converts PATH (a GGUF file, a llama2.c checkpoint or a Hugging Face directory) to the model directory OUT,
 * which must not hold a model; settings may be NULL for the defaults. *json (json may be NULL) becomes the
 * object of `crosshead import --json`, NUL-terminated and the caller's: release it with ch_free. Errors:
 * CH_ERROR_IO, CH_ERROR_FORMAT and CH_ERROR_CONFIG, which name the file; CH_ERROR_ARGUMENT for another type and
 * for an OUT that holds a model; CH_ERROR_MEMORY; CH_ERROR_INTERRUPTED when progress returned false. */
CH_API ch_status ch_import(const char *path, const char *out, const ch_import_settings *settings, char **json,
                           ch_error *error);

/* The format of an exported model. */
typedef enum ch_export_format {
  CH_EXPORT_SAFETENSORS = 0, /* a Hugging Face model directory */
  CH_EXPORT_GGUF = 1,        /* one file, for llama.cpp */
  /* a directory that transformers loads: of a Hugging Face family if one describes the model, else with the
   * PyTorch code of exactly this model (AutoModelForCausalLM.from_pretrained with trust_remote_code=True) */
  CH_EXPORT_TRANSFORMERS = 2
} ch_export_format;

/* The settings of an export. Fill with ch_export_defaults, then change what should differ: later versions may add
 * members. */
typedef struct ch_export_settings {
  ch_export_format format; /* format of the exported model; default CH_EXPORT_SAFETENSORS */
  /* type of matrices: F32, F16, BF16 or, in GGUF, Q8_0. Default: each keeps its type, except that
   * CH_EXPORT_TRANSFORMERS writes quantised matrices in F32, and GGUF all in the embedding's type if some were
   * folded. */
  ch_precision type;
  bool no_tokenizer; /* true: do not write the tokenizer */
  /* callback for progress in thousandths, or NULL; after it cancels, `out` holds no model */
  ch_progress progress;
  void *user; /* argument of `progress` */
  /* CH_EXPORT_GGUF: write the virtual heads of a model as heads. GGUF has no virtual heads (head mixing whose
   * cache holds fewer component heads), and the cache becomes as large as without them. Without this setting
   * such a model is an error. */
  bool expand_heads;
  bool untrained; /* CH_EXPORT_TRANSFORMERS: DIRECTORY is a config.json, and no weights are written */
  /* CH_EXPORT_TRANSFORMERS: write Crosshead's PyTorch code, even if a class of transformers would suffice */
  bool own_code;
  /* with `untrained`: a tokenizer.json, or a directory with one, to write; NULL: that of the configuration's
   * directory, if it has one. A vocabulary larger than the model's is an error. */
  const char *tokenizer;
} ch_export_settings;

/* Fills in the defaults. */
CH_API void ch_export_defaults(ch_export_settings *settings);

/* Writes the model of DIRECTORY for other programs to OUT, a directory that must not hold a model or, for GGUF, a
 * file that must not exist; settings may be NULL for the defaults. GGUF holds plain models: linear knocking, head
 * mixing and shared matrices are folded into the weights. *json (json may be NULL) becomes the object of `crosshead
 * export --json`, NUL-terminated and the caller's: release it with ch_free. Errors: those of ch_import;
 * CH_ERROR_CONFIG for a model that the format cannot hold; CH_ERROR_ARGUMENT for a model that needs expand_heads and
 * for settings that exclude each other. */
CH_API ch_status ch_export(const char *directory, const char *out, const ch_export_settings *settings,
                           char **json, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

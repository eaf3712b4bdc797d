/* Importing models of other programs, and exporting models for them. Link libcrosshead-train.
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

/* Fill with ch_import_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_import_settings {
  const char *tokenizer; /* a tokenizer.json or llama2.c tokenizer.bin in place of the model's own; or NULL */
  /* F32, F16 or BF16 for all tensors; default: each tensor's own; F32 for quantised tensors */
  ch_precision type;
  bool keep_blocks;     /* matrices of Q8_0, Q6_K, Q4_K and Q4_0 stay as they are */
  ch_progress progress; /* or NULL; in thousandths. false: nothing is left in `out` */
  void *user;           /* progress's */
  /* Or NULL; a success sets it to the number of matrices that PATH holds quantised, whether they stayed so or
     not. */
  int64_t *matrices_quantised;
} ch_import_settings;

CH_API void ch_import_defaults(ch_import_settings *settings);

/* Converts PATH (a GGUF file, a llama2.c checkpoint or a Hugging Face directory) to the model directory OUT;
 * settings may be NULL. *json (json may be NULL) becomes the object of `crosshead import --json`,
 * NUL-terminated and the caller's: release it with ch_free. Errors: CH_ERROR_IO, CH_ERROR_FORMAT and
 * CH_ERROR_CONFIG, which name the file; CH_ERROR_ARGUMENT for any other type,
 * CH_ERROR_INTERRUPTED when progress returned false. */
CH_API ch_status ch_import(const char *path, const char *out, const ch_import_settings *settings, char **json,
                           ch_error *error);

/* The format of an exported model. */
typedef enum ch_export_format {
  CH_EXPORT_SAFETENSORS = 0, /* a Hugging Face model directory */
  CH_EXPORT_GGUF = 1,        /* one file, for llama.cpp */
  /* A directory that transformers loads: of a Hugging Face family if one describes the model, else with the
     PyTorch code of exactly this model (AutoModelForCausalLM.from_pretrained with trust_remote_code=True). */
  CH_EXPORT_TRANSFORMERS = 2
} ch_export_format;

/* Fill with ch_export_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_export_settings {
  ch_export_format format;
  ch_precision type;    /* type of matrices: F32, F16, BF16 or, in GGUF, Q8_0; default: each keeps its type */
  bool no_tokenizer;    /* leave the tokenizer out */
  ch_progress progress; /* or NULL; in thousandths. false: nothing is left in `out` */
  void *user;           /* progress's */
  /* CH_EXPORT_GGUF: GGUF has no virtual heads (head mixing whose cache holds fewer component heads). A model
   * that has them is refused unless this is set: its heads are then written out, and its cache is as large as
   * without them. */
  bool expand_heads;
  /* CH_EXPORT_TRANSFORMERS: */
  bool untrained; /* DIRECTORY is a config.json of any size, and no weights are written */
  bool own_code;  /* with Crosshead's PyTorch code, even if a class of transformers would suffice */
  /* With untrained: the tokenizer.json, or a directory that has one, to write; NULL: that of the
   * configuration's directory, if there is one. Its vocabulary must fit the model's (else
   * CH_ERROR_ARGUMENT). */
  const char *tokenizer;
} ch_export_settings;

CH_API void ch_export_defaults(ch_export_settings *settings);

/* Writes the model of DIRECTORY for other programs: the directory or the file OUT; settings may be NULL. GGUF
 * holds plain models: knocking, head mixing and shared matrices are folded into the weights on the way. *json
 * (may be NULL) becomes the object of `crosshead export --json`, the caller's. Errors: those of ch_import,
 * and CH_ERROR_CONFIG for a model that the format cannot hold, CH_ERROR_ARGUMENT for one that needs
 * expand_heads. */
CH_API ch_status ch_export(const char *directory, const char *out, const ch_export_settings *settings,
                           char **json, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

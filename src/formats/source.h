/* A model in another format, opened for conversion: its configuration and tokenizer as texts, its tensors
 * row by row on demand. Each format is one source; none depends on the format that is written. */
#ifndef CH_FORMATS_SOURCE_H
#define CH_FORMATS_SOURCE_H

#include "config/config.h"
#include "config/params.h"
#include "formats/deepseek_layout.h"

typedef struct ch_source {
  const char *format; /* name for messages: "llama2.c, version 1" */
  ch_config config;   /* configuration, of a Hugging Face family if one fits */
  ch_params params;
  ch_dtype *dtypes; /* [params.count] stored type of each tensor; F32 for types that a model cannot hold */
  ch_text tokenizer, tokenizer_config; /* tokenizer.json and tokenizer_config.json, or empty */
  ch_text chat_template;               /* chat_template.jinja if tokenizer_config has no template, or empty */
  ch_text generation_config;           /* generation_config.json, or empty */
  ch_deepseek_layout layout;           /* changes that `rows` and `blocks` make to latent attention */
  ch_text config_json;                 /* text to write as config.json instead of `config`; or empty */
  char *companions;                    /* directory whose tokenizer files are also copied, or NULL */
  void *context;
  /* Reads `count` rows of a matrix from row `first` on. A vector is one row. */
  ch_status (*rows)(const struct ch_source *source, int index, int64_t first, int64_t count, float *values,
                    ch_error *error);
  /* Reads rows of a block-quantised matrix in stored form. */
  ch_status (*blocks)(const struct ch_source *source, int index, int64_t first, int64_t count, void *blocks,
                      ch_error *error);
  void (*close)(void *context);
} ch_source;

/* Returns the row of llama2.c's and GGUF's Llama weights that corresponds to Hugging Face's row `row` of a
   projection with `size` rows per head. Their rotary pairs are neighbours; Hugging Face's are rows i and
   i + size / 2. */
int64_t ch_interleaved_row(int64_t row, int64_t size);
/* Returns Hugging Face's row for interleaved row `row`: the inverse of ch_interleaved_row. */
int64_t ch_halved_row(int64_t row, int64_t size);
/* Sets the numbers of rows and columns of a tensor. A vector is one row. */
void ch_rows_of(const ch_param *param, int64_t *rows, int64_t *columns);
/* Declares the parameter table of source->config, and dtypes that are all F32. */
ch_status ch_source_declare(ch_source *source, const char *where, ch_error *error);
/* Closes a source. A source of all zeros is allowed. */
void ch_source_close(ch_source *source);

/* The readers of the formats. They close the source if they fail. vocabulary: true to read the tokenizer too. */
ch_status ch_llama2c_open(const char *path, ch_source *source, ch_error *error);
ch_status ch_gguf_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error);
ch_status ch_directory_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error);
/* Wraps a source of Crosshead's tensors as one with the tensors of `family` (config_file/adopted.h): its names,
   its fused and transposed matrices. Takes ownership of inner and config_json, the family's config.json, even on
   failure. */
ch_status ch_family_source_open(ch_source *inner, const char *family, ch_text *config_json, ch_source *source,
                                ch_error *error);
/* Opens a model of any format, which is recognised by its content. tokenizer: a tokenizer.json or tokenizer.bin
   to use instead of the model's own; or NULL. */
ch_status ch_source_open(const char *path, const char *tokenizer, ch_source *source, ch_error *error);

typedef struct ch_source_writing {
  const ch_dtype *dtype; /* type to write; NULL: each tensor's stored type, F32 if block-quantised */
  bool keep_blocks;      /* true if block-quantised tensors are copied, whatever `dtype` is */
  /* called regularly; true stops with CH_ERROR_INTERRUPTED. May be NULL */
  bool (*stop)(void *context);
  void (*progress)(void *context, double share); /* called with the share done, 0 to 1; may be NULL */
  void *context;                                 /* first argument of `stop` and `progress` */
  /* Writes config.json and the files that belong to it. NULL: ch_config_store does. */
  ch_status (*finish)(const ch_source *source, const char *directory, ch_error *error);
} ch_source_writing;

/* Writes the model as a directory, a piece of a tensor at a time: weights, tokenizer, config.json last. */
ch_status ch_source_write(const ch_source *source, const char *directory, const ch_source_writing *writing,
                          ch_error *error);

#endif

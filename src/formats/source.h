/* A model in another format, opened for conversion: its configuration and tokenizer as texts, its tensors
 * row by row on demand. Each format is one source; none knows what is written from it. */
#ifndef CH_FORMATS_SOURCE_H
#define CH_FORMATS_SOURCE_H

#include "config/config.h"
#include "config/params.h"
#include "formats/deepseek_layout.h"

typedef struct ch_source {
  const char *format; /* for people: "llama2.c, version 1" */
  ch_config config;   /* of a Hugging Face family */
  ch_params params;
  ch_dtype *dtypes; /* [params.count] the stored type of each tensor; F32 if no model of ours has that type */
  ch_text tokenizer, tokenizer_config; /* tokenizer.json and tokenizer_config.json, or empty */
  ch_text chat_template;               /* chat_template.jinja, if no tokenizer_config has it; or empty */
  ch_text generation_config;           /* generation_config.json, or empty */
  ch_deepseek_layout layout; /* what `rows` and `blocks` do to latent attention of a model directory */
  ch_text config_json;       /* the text of config.json instead of `config`'s; or empty */
  char *companions;          /* a directory whose tokenizer files are copied too; or NULL */
  void *context;
  /* Values of rows `first` on of a matrix; of a vector all (first 0, count 1). */
  ch_status (*rows)(const struct ch_source *source, int index, int64_t first, int64_t count, float *values,
                    ch_error *error);
  /* Like rows, in stored form, for a block-quantised matrix. */
  ch_status (*blocks)(const struct ch_source *source, int index, int64_t first, int64_t count, void *blocks,
                      ch_error *error);
  void (*close)(void *context);
} ch_source;

/* Returns the row of Llama weights in llama2.c and GGUF, whose rotary pairs are neighbours, for row `row` of
   a projection with heads of `size` in Hugging Face's order, which pairs rows i and i + size / 2. */
int64_t ch_interleaved_row(int64_t row, int64_t size);
/* Reverses ch_interleaved_row: returns Hugging Face's row for their row `row`. */
int64_t ch_halved_row(int64_t row, int64_t size);
/* Returns the shape of a tensor as rows of columns: a vector is one row. */
void ch_rows_of(const ch_param *param, int64_t *rows, int64_t *columns);
/* Declares the parameter table of source->config, and dtypes that are all F32. */
ch_status ch_source_declare(ch_source *source, const char *where, ch_error *error);
/* Closes a source. Harmless on one that is all zeros. */
void ch_source_close(ch_source *source);

/* The readers of each format. They close what they opened if they fail. vocabulary: whether to read its
   tokenizer too. */
ch_status ch_llama2c_open(const char *path, ch_source *source, ch_error *error);
ch_status ch_gguf_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error);
ch_status ch_directory_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error);
/* Wraps a source of our own tensors as one with those of its family (config_file/adopted.h): names, fused and
   transposed matrices. Takes over inner and config_json, the family's, even on failure. */
ch_status ch_family_source_open(ch_source *inner, const char *family, ch_text *config_json, ch_source *source,
                                ch_error *error);
/* Opens what `path` turns out to be. tokenizer: a tokenizer.json or tokenizer.bin to use instead of the
   model's own; or NULL. */
ch_status ch_source_open(const char *path, const char *tokenizer, ch_source *source, ch_error *error);

typedef struct ch_source_writing {
  const ch_dtype *dtype;       /* of all tensors; NULL: each its own, F32 if block-quantised */
  bool keep_blocks;            /* block-quantised tensors stay so, whatever `dtype` says */
  bool (*stop)(void *context); /* called now and then; true: CH_ERROR_INTERRUPTED. Or NULL */
  void (*progress)(void *context, double share); /* or NULL */
  void *context;
  /* Writes config.json, and what goes with it, in place of ch_config_store; or NULL. */
  ch_status (*finish)(const ch_source *source, const char *directory, ch_error *error);
} ch_source_writing;

/* Writes the model as a directory, a piece of a tensor at a time: weights, tokenizer, config.json last. */
ch_status ch_source_write(const ch_source *source, const char *directory, const ch_source_writing *writing,
                          ch_error *error);

#endif

/* llama.cpp's architectures that models can be written as: the features of each, and the reasons why a
 * model does not fit one. */
#ifndef CH_FORMATS_GGUF_ARCHITECTURES_H
#define CH_FORMATS_GGUF_ARCHITECTURES_H

#include "base/error.h"
#include "config/config.h"

typedef enum ch_gguf_tie { CH_GGUF_TIED_OR_NOT, CH_GGUF_TIED, CH_GGUF_UNTIED } ch_gguf_tie;

typedef struct ch_gguf_architecture {
  const char *family, *name;
  bool turned;        /* rows of queries and keys have their rotary pairs as neighbours */
  bool experts;       /* every layer has experts */
  bool experts_alone; /* the width of experts is feed_forward_length */
  bool joins_qkv;     /* queries, keys and values are one tensor */
  bool joins_up;      /* gate and up projection are one tensor */
  bool norm_after;    /* the norm before the feed-forward network is named post_attention_norm */
  bool windows;       /* supports "attention.sliding_window" */
  bool multipliers;   /* writes Granite's four multipliers */
  bool parallel;      /* writes "use_parallel_residual" */
  bool square;        /* num_attention_heads x head_dim must equal hidden_size */
  bool query_biases;  /* allows attention_bias */
  bool output_biases; /* allows attention_output_bias */
  bool mlp_biases;    /* allows mlp_bias */
  bool untruncated;   /* YaRN's "truncate" must be false; else true */
  ch_gguf_tie tie;    /* required tie of embedding and head */
  /* number of layers of the Gemma model that scales scores by hidden_size / num_attention_heads; other sizes
     scale by head_dim. 0: no Gemma */
  int64_t widest_layers;
} ch_gguf_architecture;

/* Fails with "llama.cpp's GGUF architectures do not support WHAT". */
ch_status ch_gguf_cannot(const char *what, ch_error *error);
/* Finds the architecture of a model: by the name of its Hugging Face family, or of the family that a Crosshead
   model equals (config_file/adopted.h). The error names what the architecture cannot express. */
ch_status ch_gguf_architecture_of(const ch_config *config, const ch_gguf_architecture **of, ch_error *error);

#endif

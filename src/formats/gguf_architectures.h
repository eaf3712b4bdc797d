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
  bool experts;       /* every layer has some, */
  bool experts_alone; /* and nothing else: their width is feed_forward_length */
  bool joins_qkv;     /* queries, keys and values are one tensor, */
  bool joins_up;      /* and so are gate and up */
  bool norm_after;    /* the norm before the feed-forward network has the name of the one after attention */
  bool windows;       /* "attention.sliding_window" counts */
  bool multipliers;   /* Granite's four */
  bool parallel;      /* "use_parallel_residual" is said */
  bool square;        /* heads are as wide together as the model */
  bool query_biases;  /* attention_bias, */
  bool output_biases; /* attention_output_bias */
  bool mlp_biases;    /* and mlp_bias are allowed */
  bool untruncated;   /* YaRN's "truncate" is false */
  ch_gguf_tie tie;    /* of embedding and head */
  int64_t widest_layers; /* Gemma: with this many layers, scores are scaled by D / H, else by head_dim */
} ch_gguf_architecture;

/* Fails with "GGUF's architectures have no WHAT". */
ch_status ch_gguf_cannot(const char *what, ch_error *error);
/* Finds the architecture of a model: of a family by name, or of our own that is exactly one
   (config_file/adopted.h). The error says what it cannot express. */
ch_status ch_gguf_architecture_of(const ch_config *config, const ch_gguf_architecture **of, ch_error *error);

#endif

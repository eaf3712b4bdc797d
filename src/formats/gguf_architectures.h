/* llama.cpp's architectures that models can be written as: the features of each, and the reasons why a
 * model does not fit one. */
#ifndef CH_FORMATS_GGUF_ARCHITECTURES_H
#define CH_FORMATS_GGUF_ARCHITECTURES_H

#include "base/error.h"
#include "config/config.h"

typedef enum ch_gguf_tie { CH_GGUF_TIED_OR_NOT, CH_GGUF_TIED, CH_GGUF_UNTIED } ch_gguf_tie;

typedef struct ch_gguf_architecture {
  const char *family, *name;
  bool turned;        /* true if the rows of queries and keys have their rotary pairs as neighbours */
  bool experts;       /* true if every layer has experts */
  bool experts_alone; /* true if the width of experts is feed_forward_length */
  bool joins_qkv;     /* true if queries, keys and values are one tensor */
  bool joins_up;      /* true if the gate and up projections are one tensor */
  bool norm_after;    /* true if the norm before the feed-forward network is named post_attention_norm */
  bool windows;       /* true if "attention.sliding_window" is supported */
  bool multipliers;   /* true if Granite's four multipliers are written */
  bool parallel;      /* true if "use_parallel_residual" is written */
  bool square;        /* true if num_attention_heads x head_dim must equal hidden_size */
  bool query_biases;  /* true if attention_bias is allowed */
  bool output_biases; /* true if attention_output_bias is allowed */
  bool mlp_biases;    /* true if mlp_bias is allowed */
  bool untruncated;   /* true if YaRN's "truncate" must be false; otherwise it must be true */
  ch_gguf_tie tie;    /* required tie of embedding and head */
  /* number of layers of the Gemma model that scales scores by hidden_size / num_attention_heads; other sizes
     scale by head_dim. 0: not a Gemma model */
  int64_t widest_layers;
} ch_gguf_architecture;

/* Fails with "llama.cpp's GGUF architectures do not support WHAT". */
ch_status ch_gguf_cannot(const char *what, ch_error *error);
/* Finds the architecture of a model: by the name of its Hugging Face family, or of the family that a Crosshead
   model equals (config_file/adopted.h). The error names what the architecture cannot express. */
ch_status ch_gguf_architecture_of(const ch_config *config, const ch_gguf_architecture **of, ch_error *error);

#endif

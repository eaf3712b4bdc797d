/* A model's configuration: the keys of config.json, ours and Hugging Face's, validated. */
#ifndef CH_CONFIG_CONFIG_H
#define CH_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

enum { CH_NAME_SIZE = 32 };

typedef enum ch_position { CH_POSITION_ROPE, CH_POSITION_ALIBI, CH_POSITION_NONE } ch_position;
typedef enum ch_activation { CH_ACTIVATION_SILU, CH_ACTIVATION_GELU } ch_activation;
typedef enum ch_init { CH_INIT_DEFAULT, CH_INIT_DEEPSEEK } ch_init;
typedef enum ch_rope_type { CH_ROPE_DEFAULT, CH_ROPE_LINEAR, CH_ROPE_LLAMA3 } ch_rope_type;

typedef struct ch_rope_scaling {
  ch_rope_type type;
  double factor;
  /* llama3 only */
  double low_freq_factor, high_freq_factor;
  int64_t original_max_position_embeddings;
} ch_rope_scaling;

/* The `attention` object. Keys that other mechanisms add join this struct, with a row in config_table.c. */
typedef struct ch_attention_config {
  char type[CH_NAME_SIZE]; /* a name of attention/registry.c */
  bool qk_norm, head_norm;
} ch_attention_config;

typedef struct ch_config {
  char model_type[CH_NAME_SIZE]; /* "crosshead", "llama", "qwen2", "qwen3", "mistral" */
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int64_t num_attention_heads, num_key_value_heads, head_dim;
  int64_t max_position_embeddings;
  double rms_norm_eps;
  bool tie_word_embeddings, attention_bias; /* attention_bias: q/k/v biases */
  bool attention_output_bias;               /* o_proj too has one (Hugging Face llama, qwen3) */
  ch_activation hidden_act;
  ch_position position;
  double rope_theta;
  bool rope_interleaved;
  ch_rope_scaling rope_scaling;
  ch_attention_config attention;
  ch_init init;
  int64_t sliding_window; /* active window of a Hugging Face config, or 0; a longer text is an error */
  int64_t bos_token_id, eos_token_id; /* -1 when the config has none */
} ch_config;

/* Parses and validates the text of a config.json; `where` names the file in messages. Unknown keys of our own
   configs are errors (with the nearest known key); of Hugging Face configs they are ignored unless they
   change the result. */
ch_status ch_config_parse(const char *text, const char *where, ch_config *config, ch_error *error);
/* Reads DIR/config.json, or PATH itself when it is a file. */
ch_status ch_config_read(const char *path, ch_config *config, ch_error *error);
/* Checks that the values make a model (positive sizes, G divides H, even rotary dims, ...). */
ch_status ch_config_validate(const ch_config *config, const char *where, ch_error *error);
/* Writes the config as config.json text of model_type "crosshead" or its Hugging Face family. */
void ch_config_write(const ch_config *config, ch_text *json);
/* The default of every key that has one; sizes are 0. */
void ch_config_defaults(ch_config *config);

#endif

/* The table of adopted families. adopted.c reads their files, adopted_spell.c writes them. */
#ifndef CH_CONFIG_FILE_ADOPTED_FAMILY_H
#define CH_CONFIG_FILE_ADOPTED_FAMILY_H

#include "config_file/adopted.h"

/* The features of a family, and the keys that its files have for them. */
typedef struct ch_adopted_family {
  const char *name, *architecture;
  const char *assumed; /* Crosshead keys for the family's fixed features and its class's defaults */
  /* further keys besides ch_adopted_keys, each as "theirs" or "theirs=ours" */
  const char *keys;
  const char *activation;       /* key that names the activation; NULL: all models have one activation */
  bool gated;                   /* true if the FFN has a gate */
  double partial_rotary_factor; /* default of the class; 0: all dims are rotated, whatever the file says */
  bool window_by_layer;         /* true if only some layers have the window: by layer_types or `every` */
  /* without layer_types, all layers but every `every`-th have the window; 0: the layers without rotation */
  int64_t every;
  bool window_asked; /* true if the window needs use_sliding_window */
  int64_t window;    /* default length of the window; 0: none */
  /* default RoPE base of layers with a window, which ignore the scaling of the others; 0: all layers are alike */
  double local_theta;
  bool older_keys; /* true if older files have "rope_local_base_freq" and "sliding_window_pattern" */
  bool windows;    /* true if files may have a window of all layers */
  bool square;     /* true if head_dim is always hidden_size / num_attention_heads */
  /* Reads the other keys of the file; may be NULL. */
  ch_status (*read)(const json_t *root, const char *where, json_t *ours, ch_error *error);
  /* Writes the other keys of `ours` to `theirs`; may be NULL. */
  void (*write)(const json_t *ours, json_t *theirs);
} ch_adopted_family;

extern const ch_adopted_family ch_adopted_families[];
extern const int ch_adopted_family_count;
/* The keys, separated by spaces, that all families share with Crosshead. */
extern const char ch_adopted_keys[];
/* Reads the first entry of a list of keys, "theirs" or "theirs=ours". Returns the rest of the list. */
const char *ch_adopted_next_key(const char *keys, char theirs[64], char ours[64]);

/* The `write` functions of the families (adopted_write.c). */
void ch_adopted_write_phi3(const json_t *ours, json_t *theirs);
void ch_adopted_write_smollm3(const json_t *ours, json_t *theirs);
void ch_adopted_write_experts(const json_t *ours, json_t *theirs);
void ch_adopted_write_gemma(const json_t *ours, json_t *theirs);
void ch_adopted_write_gpt2(const json_t *ours, json_t *theirs);

/* Returns Hugging Face's name of "hidden_act" `ours` in networks with or without a gate, or NULL. */
const char *ch_adopted_activation(const char *ours, bool gated);

#endif

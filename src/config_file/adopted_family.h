/* The table of families that adopted.h reads and writes. */
#ifndef CH_CONFIG_FILE_ADOPTED_FAMILY_H
#define CH_CONFIG_FILE_ADOPTED_FAMILY_H

#include "config_file/adopted.h"

/* The properties that a family shares with others, and the keys in which it writes them. */
typedef struct ch_adopted_family {
  const char *name, *architecture;
  const char *assumed; /* a configuration of ours: what the family always is, and its class's defaults */
  /* the keys that it has besides those of all families, as "theirs" or "theirs=ours" */
  const char *keys;
  const char *activation; /* the key that names it; NULL: all have the same */
  bool gated;
  double partial_rotary_factor; /* the class's default; 0: all dims turn, whatever the file says */
  bool window_by_layer;         /* only some of its layers have a window: those that layer_types lists, */
  int64_t every;                /* else all but every `every`-th; 0: those that do not turn, */
  bool window_asked;            /* and only with use_sliding_window */
  int64_t window;               /* how long it is, if the file does not say */
  double local_theta; /* layers with a window turn without the scaling of the others and by this base, */
                      /* if the file has none; 0: all layers turn in one way */
  bool older_keys;    /* of older files: "rope_local_base_freq" for that base and */
                      /* "sliding_window_pattern" for `every` */
  bool windows;       /* a window of its files counts in all layers */
  bool square;        /* heads are as wide together as the model, whatever a file says */
  /* Reads the other keys of the file; or NULL. */
  ch_status (*read)(const json_t *root, const char *where, json_t *ours, ch_error *error);
  /* The other way: what else `theirs` must say of `ours`; or NULL. */
  void (*write)(const json_t *ours, json_t *theirs);
} ch_adopted_family;

extern const ch_adopted_family ch_adopted_families[];
extern const int ch_adopted_family_count;
/* The keys that all of them have as we do, with spaces between. */
extern const char ch_adopted_keys[];
/* Reads the first entry of a list of keys, "theirs" or "theirs=ours". Returns the rest of the list. */
const char *ch_adopted_next_key(const char *keys, char theirs[64], char ours[64]);

/* The `write` functions of the families (adopted_write.c). */
void ch_adopted_write_phi3(const json_t *ours, json_t *theirs);
void ch_adopted_write_smollm3(const json_t *ours, json_t *theirs);
void ch_adopted_write_experts(const json_t *ours, json_t *theirs);
void ch_adopted_write_gemma(const json_t *ours, json_t *theirs);
void ch_adopted_write_gpt2(const json_t *ours, json_t *theirs);

/* Returns their name of "hidden_act" `ours`, in networks with a gate or without, or NULL. */
const char *ch_adopted_activation(const char *ours, bool gated);

#endif

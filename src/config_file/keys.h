/* The table of configuration keys and its generic reader. A mechanism's new key is one row (and one struct
 * member). */
#ifndef CH_CONFIG_FILE_KEYS_H
#define CH_CONFIG_FILE_KEYS_H

#include "base/json.h"
#include "config/config.h"

typedef enum ch_key_type {
  CH_KEY_WHOLE,  /* int64_t from min to max */
  CH_KEY_NUMBER, /* double above 0 when min is 0 (from 0 with `zero`), else from min, to max */
  CH_KEY_BOOL,   /* bool */
  CH_KEY_CHOICE, /* int (an enum): the index into `choices`, plus `first` */
  CH_KEY_SET,    /* unsigned: a list of distinct `choices`, one at least; the bit 1 << (index + first) each */
  CH_KEY_ID,     /* int64_t token id, -1 = none; a list gives its first */
  CH_KEY_NAME,   /* char[32]: one of names() */
  CH_KEY_SPAN,   /* two int64_t: a list [first, last], both included; {0, -1} = all */
  CH_KEY_COMPONENTS,  /* ch_head_mix: a number for all layers, or a list with one per layer */
  CH_KEY_PROJECTIONS, /* ch_sharing: a list of distinct names of projections, one at least */
  CH_KEY_GROUPS,      /* ch_sharing: a list of lists [first, last] of layers */
  CH_KEY_LAYERS,      /* bool[CH_MAX_LISTED_LAYERS]: a list of distinct layers, which may be empty */
  CH_KEY_LAYER_TYPES, /* ch_layer_list: a list with one of `choices` per layer */
  CH_KEY_FACTORS,     /* ch_pair_factors: a list of numbers above 0, as NUMBER's */
  CH_KEY_OBJECT       /* a nested object: the rows of group `members` */
} ch_key_type;

/* Whose files a key is read from. */
enum { CH_KEY_OURS = 1, CH_KEY_HUGGING_FACE = 2, CH_KEY_EVERYWHERE = 3 };

/* The input of the models that a key belongs to; 0: any. */
typedef enum ch_key_models { CH_KEY_ALL_MODELS, CH_KEY_TEXT_MODELS, CH_KEY_IMAGE_MODELS } ch_key_models;

typedef struct ch_config_key {
  const char *group; /* "" for the top level, else the `members` of the object that holds the key */
  const char *name;
  ch_key_type type;
  int files; /* CH_KEY_OURS | CH_KEY_HUGGING_FACE */
  ch_key_models models;
  /* if its object is present and, for a key of mechanisms, the attention type is one of them */
  bool required;
  bool nullable;    /* null means absent; written only when it is not at its default */
  bool alias;       /* another name of the key below it: read, never written */
  size_t offset;    /* of the member of ch_config, or CH_KEY_NO_MEMBER */
  double min, max;  /* WHOLE, NUMBER */
  bool zero;        /* NUMBER: 0 is in range too */
  double otherwise; /* the default: a number, a bool's 0 or 1, the index of a choice or of one of names() */
  const char *const *choices;
  int first; /* the enum of choices[0] */
  const char *const *(*names)(void);
  const char *members;
  bool of_mechanisms; /* belongs to the attention types that name it in ch_mechanism.keys; with others it must
                         hold its default */
  bool unsupported;   /* this version knows it but does not implement it: it must hold its default */
} ch_config_key;

#define CH_KEY_NO_MEMBER ((size_t)-1)

extern const ch_config_key ch_config_keys[];
extern const int ch_config_key_count;

/* Reads the rows of `group` from `object` into config, nested objects too. Absent keys leave their member
   unchanged. `prefix` comes before a key in messages ("" or "attention."). strict: an unknown key is an
   error; else it is ignored. */
ch_status ch_config_read_group(const json_t *object, const char *group, const char *prefix, int files,
                               bool strict, const char *where, ch_config *config, ch_error *error);
/* Returns true if our own files may have such a key, of some model. */
bool ch_config_knows_key(const char *group, const char *name);
/* Reads the one key of `group` from `object`, the group's own. */
ch_status ch_config_read_key(const json_t *object, const char *group, const char *prefix, const char *name,
                             const char *where, ch_config *config, ch_error *error);
/* Checks the ranges of the members themselves, for configs that were built, not read. */
ch_status ch_config_check_ranges(const ch_config *config, const char *where, ch_error *error);
/* Sets every member that has a row to its default; where rows of text and of images share one, the model type
   that the config has decides (none: text). */
void ch_config_apply_defaults(ch_config *config);
/* Writes the rows of `group` that belong in `files` as the inside of an object, a line each with `indent`
   spaces; rows that other attention types own and nullable rows at their default are left out. */
void ch_config_put_group(const char *group, int indent, int files, const ch_config *config, ch_text *json);

/* --- lists (lists.c): CH_KEY_SPAN, CH_KEY_COMPONENTS, CH_KEY_PROJECTIONS, CH_KEY_GROUPS, CH_KEY_LAYERS,
   CH_KEY_LAYER_TYPES, CH_KEY_FACTORS --------------------------------------------------------------------- */

/* Reads the list; returns false if the value is not one. */
bool ch_config_read_list(const ch_config_key *key, const json_t *json, ch_config *config);
void ch_config_default_list(const ch_config_key *key, ch_config *config);
bool ch_config_list_is_default(const ch_config_key *key, const ch_config *config);
/* Returns true if the members hold numbers that such a list can. */
bool ch_config_list_in_range(const ch_config_key *key, const ch_config *config);
void ch_config_put_list(const ch_config_key *key, const ch_config *config, ch_text *json);

#endif

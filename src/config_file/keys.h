/* The table of configuration keys, and the functions that read, check and write keys by it. A new key of a mechanism is
 * one row and one struct member. */
#ifndef CH_CONFIG_FILE_KEYS_H
#define CH_CONFIG_FILE_KEYS_H

#include "base/json.h"
#include "config/config.h"

typedef enum ch_key_type {
  CH_KEY_WHOLE,  /* int64_t from min to max */
  CH_KEY_NUMBER, /* double from min to max; if min is 0, the value 0 is valid only with `zero` */
  CH_KEY_BOOL,   /* bool */
  CH_KEY_CHOICE, /* int (an enum): the index into `choices`, plus `first` */
  CH_KEY_SET,    /* unsigned: a list of one or more distinct `choices`, each the bit 1 << (index + first) */
  CH_KEY_ID,     /* int64_t: a token id, or the first of a list of ids; -1 = none */
  CH_KEY_NAME,   /* char[CH_NAME_SIZE]: one of names() */
  CH_KEY_SPAN,   /* two int64_t: a list [first, last], both inclusive; {0, -1} = all */
  CH_KEY_COMPONENTS,  /* ch_head_mix: a number for all layers, or a list with one per layer */
  CH_KEY_PROJECTIONS, /* ch_sharing: a list of one or more distinct names of projections */
  CH_KEY_GROUPS,      /* ch_sharing: a list of lists [first, last] of layers */
  CH_KEY_LAYERS,      /* bool[CH_MAX_LISTED_LAYERS]: a list of distinct layers, which may be empty */
  CH_KEY_LAYER_TYPES, /* ch_layer_list: a list with one of `choices` per layer */
  CH_KEY_FACTORS,     /* ch_pair_factors: a list of numbers above 0 */
  CH_KEY_OBJECT       /* a nested object: the rows of group `members` */
} ch_key_type;

/* Kinds of files that a key is read from: Crosshead's, Hugging Face's. */
enum { CH_KEY_OURS = 1, CH_KEY_HUGGING_FACE = 2, CH_KEY_EVERYWHERE = 3 };

/* The models that a key belongs to, by their input. */
typedef enum ch_key_models { CH_KEY_ALL_MODELS, CH_KEY_TEXT_MODELS, CH_KEY_IMAGE_MODELS } ch_key_models;

typedef struct ch_config_key {
  const char *group; /* "" for the top level, else the `members` of the object that holds the key */
  const char *name;
  ch_key_type type;
  int files; /* CH_KEY_OURS | CH_KEY_HUGGING_FACE */
  ch_key_models models;
  /* true if the key must exist in its object; a key of mechanisms only with one of their attention types */
  bool required;
  bool nullable;    /* true if null means absent; such a key is written only if it is not at its default */
  bool alias;       /* true for another name of the next row's key: read, never written */
  size_t offset;    /* offset of the member in ch_config, or CH_KEY_NO_MEMBER */
  double min, max;  /* WHOLE, NUMBER: range */
  bool zero;        /* NUMBER with min 0: true if 0 is valid */
  double otherwise; /* default: a number, a bool's 0 or 1, the index of a choice or of a name */
  const char *const *choices;        /* CHOICE, SET, LAYER_TYPES: NULL-terminated */
  int first;                         /* CHOICE, SET: value of choices[0] */
  const char *const *(*names)(void); /* NAME: returns the valid names, NULL-terminated */
  const char *members;               /* OBJECT: group of the object's keys */
  /* true if the key belongs to the attention types that list it in ch_mechanism.keys; other types need its default */
  bool of_mechanisms;
  bool unsupported; /* true if this version does not implement the key: it must have its default */
} ch_config_key;

#define CH_KEY_NO_MEMBER ((size_t)-1)

extern const ch_config_key ch_config_keys[];
extern const int ch_config_key_count;

/* Reads the rows of `group` from `object` into config, nested objects too. Absent keys leave their member unchanged.
   `prefix` comes before a key in messages ("" or "attention."). With `strict`, an unknown key is an error; otherwise
   it is ignored. */
ch_status ch_config_read_group(const json_t *object, const char *group, const char *prefix, int files,
                               bool strict, const char *where, ch_config *config, ch_error *error);
/* Returns true if Crosshead's own files, of any model, may have the key. */
bool ch_config_knows_key(const char *group, const char *name);
/* Reads a single key of `group` from `object`. */
ch_status ch_config_read_key(const json_t *object, const char *group, const char *prefix, const char *name,
                             const char *where, ch_config *config, ch_error *error);
/* Checks the ranges of all members. The config need not have been read from a file. */
ch_status ch_config_check_ranges(const ch_config *config, const char *where, ch_error *error);
/* Sets every member that has a row to its default. If rows of text and of image models share a member,
   config->model_type decides ("": text). */
void ch_config_apply_defaults(ch_config *config);
/* Writes the rows of `group` that belong in `files` as the members of an object, one line each, indented by
   `indent` spaces. Rows of other attention types and nullable rows at their default are left out. */
void ch_config_put_group(const char *group, int indent, int files, const ch_config *config, ch_text *json);

/* --- lists (lists.c): CH_KEY_SPAN, CH_KEY_COMPONENTS, CH_KEY_PROJECTIONS, CH_KEY_GROUPS, CH_KEY_LAYERS,
   CH_KEY_LAYER_TYPES, CH_KEY_FACTORS --------------------------------------------------------------------- */

/* Reads the list. Returns false if the value is not a valid list. */
bool ch_config_read_list(const ch_config_key *key, const json_t *json, ch_config *config);
void ch_config_default_list(const ch_config_key *key, ch_config *config);
bool ch_config_list_is_default(const ch_config_key *key, const ch_config *config);
/* Returns true if the members hold values that a valid list can have. */
bool ch_config_list_in_range(const ch_config_key *key, const ch_config *config);
void ch_config_put_list(const ch_config_key *key, const ch_config *config, ch_text *json);

#endif

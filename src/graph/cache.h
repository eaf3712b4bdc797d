/* The KV cache: the states that tokens wrote, layer by layer and part by part.
 *
 * A mechanism declares the parts of its states. The cache stores them without knowing what they mean;
 * operations append to them and read them in blocks. */
#ifndef CH_GRAPH_CACHE_H
#define CH_GRAPH_CACHE_H

#include "base/error.h"
#include "tensor/gated_attend.h"
#include "tensor/kernels.h"

typedef enum ch_part_kind {
  CH_PART_ELEMENTS, /* elements of every token, in the cache's type; only they count as token_bytes */
  CH_PART_SCALARS,  /* scalars of every token, in F32; not counted as token_bytes */
  CH_PART_BY_ID,    /* one row per id of the vocabulary, in F32, that depends on the id alone */
  CH_PART_FIXED     /* one row per sequence, in F32, updated by every token */
} ch_part_kind;

/* The use of a part: keys, values or, for a latent, both. It decides the part's type in the cache. */
typedef enum ch_state_role { CH_ROLE_KEY, CH_ROLE_VALUE, CH_ROLE_LATENT, CH_STATE_ROLES } ch_state_role;

/* One part of a token's state in one layer, e.g. the keys of all key-value heads. */
typedef struct ch_state_part {
  const char *name; /* short name: "k" */
  int64_t width;    /* elements per token; CH_PART_FIXED: per sequence */
  ch_part_kind kind;
  ch_state_role role; /* use of a part of kind CH_PART_ELEMENTS */
} ch_state_part;

/* The types in which elements are stored, by role: F32, F16, BF16, Q8_0 or Q4_0. Q8_0 and Q4_0 quantise blocks
   of 32 elements along the width of a part, across head boundaries. A width that is not a multiple of 32 is
   padded with zeros, which count as bytes. A zeroed struct means F32. */
typedef struct ch_cache_types {
  ch_dtype of[CH_STATE_ROLES];
} ch_cache_types;

/* Returns types that store all roles in `dtype`. */
static inline ch_cache_types ch_cache_of(ch_dtype dtype) {
  return (ch_cache_types){{dtype, dtype, dtype}};
}
bool ch_is_cache_type(ch_dtype dtype);
/* Returns the type in which a part is stored. Scalars, parts by id and fixed parts are F32. */
ch_dtype ch_part_type(const ch_state_part *part, const ch_cache_types *types);
/* Returns the number of elements that a token of a part of `width` takes: the width, filled up to whole blocks. */
int64_t ch_stored_width(int64_t width, ch_dtype dtype);

/* The parts of one layer. A part of width 0 does not exist. */
typedef struct ch_layer_parts {
  ch_state_part part[CH_MAX_STATE_PARTS];
  bool slides; /* true if only the last `window` and the first `sinks` tokens of ch_cache_shape are stored */
} ch_layer_parts;

typedef struct ch_cache {
  ch_cache_types types;
  int64_t sequences, capacity; /* number of sequences, and maximum number of tokens of each */
  int64_t vocabulary;          /* rows of a part by id */
  int layers;
  /* [layers] data of each part: [sequence, token, width], or [id, width] */
  ch_state_view (*views)[CH_MAX_STATE_PARTS];
  int32_t *length; /* [sequences] tokens of each sequence */
  /* [sequences] end of the tokens that were written to the rings: of the tokens before it, only the last `window` and
     the sinks are stored */
  int32_t *reached;
  const int32_t *order; /* [sequences] in a selection: each sequence's index in the whole cache; else NULL */
  /* A layer with a window stores a ring of window + sinks tokens, if the capacity is larger. Token t is in row
     t, or, from token window + sinks on, in row sinks + (t - sinks) mod window. */
  int64_t window, sinks;
  bool *rings;   /* [layers] true for layers with a ring */
  bool any_ring; /* true if a layer has a ring */
  /* true if there are parts of kind CH_PART_FIXED. Tokens cannot be removed from them, and they are undefined
     while a sequence is empty. */
  bool any_fixed;
  /* [sequences] in all rings: rows that the first query of the pass of ch_cache_begin sees before its own */
  int32_t *rows_before;
  ch_row_places *places; /* [sequences] in all rings: tokens of the rows that the pass sees */
  int32_t *tokens;       /* [sequences, capacity] ids of the tokens, or NULL: no part is by id */
  size_t bytes;          /* size of elements, scalars, fixed parts and ids, without parts by id */
  void *data;            /* elements, scalars and fixed parts */
  size_t data_bytes;
  int64_t token_elements, token_bytes; /* elements and bytes per token, of all layers */
  char *by_id;                         /* all parts by id; memory is used as rows are written */
  size_t by_id_bytes;
  const ch_value_memory *memory; /* memory of `data` and `by_id`; everything else is in the host's */
} ch_cache;

typedef struct ch_cache_shape {
  int layers;
  const ch_layer_parts *parts; /* [layers] */
  int64_t sequences, capacity, vocabulary;
  int64_t window, sinks; /* tokens that layers with a window store */
  ch_cache_types types;
  const ch_value_memory *memory; /* memory of the kernels that write and read the cache */
} ch_cache_shape;

/* Returns the bytes of all layers' elements per token. */
int64_t ch_token_bytes(const ch_layer_parts *parts, int layers, const ch_cache_types *types);

/* Creates a cache and allocates storage for its capacity once. */
ch_status ch_cache_create(const ch_cache_shape *shape, ch_cache **cache, ch_error *error);
void ch_cache_free(ch_cache *cache);

/* The functions below write and copy the cache's states. Operations read states through the cache's views. `width` is
   the part's width, and x is of the kernels' type. */

/* Begins a pass over `count` tokens of every sequence: sets rows_before and places. A single token is written
   to the rings and read there. Several tokens are read after a copy of the rows that the first one sees
   (ch_cache_stage). */
void ch_cache_begin(ch_cache *cache, int64_t count);
/* Returns the maximum number of rows of a stage for `count` tokens, if sequences have up to `capacity` tokens. */
int64_t ch_stage_rows(int64_t window, int64_t sinks, int64_t capacity, int64_t count);
/* Writes the rows of a sequence that a pass over x [count, width] sees to `stage`: rows_before rows from the
   part's ring, then those of x. Also writes the last rows of x to the ring. */
void ch_cache_stage(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                    int part, int64_t sequence, int64_t count, int64_t width, const void *x, void *stage);
/* Writes x [count, width] after the sequence's tokens; the length does not change. In a ring, count must be 1. */
void ch_cache_append(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                     int part, int64_t sequence, int64_t count, int64_t width, const void *x);
/* Writes row r of x [count, width] as the row of ids[r] [host] of a part by id. */
void ch_cache_put_by_id(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                        int part, int64_t count, const int32_t *ids, int64_t width, const void *x);
/* Reads `width` columns from `first` on of the rows of ids [count] [host], in the part's stored type. */
void ch_cache_get_by_id(const ch_cache *cache, int layer, int part, int64_t count, const int32_t *ids,
                        int64_t first, int64_t width, void *rows);
/* Fills a part of all sequences with arbitrary states: `bytes` of stored elements, in the cache's memory,
   repeated. */
void ch_cache_fill(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer, int part,
                   const void *stored, size_t bytes);
/* Makes the memory of a sequence's first `tokens` tokens resident, so that no pass waits for page faults. Its
   contents do not change. Does nothing if the cache is not in the host's memory. */
void ch_cache_touch(const ch_cache *cache, int64_t sequence, int64_t tokens);
/* Returns the array in which the cache stores the ids of a sequence's tokens. */
int32_t *ch_cache_tokens(const ch_cache *cache, int64_t sequence);
/* Returns true if a layer stores this part for every sequence. Returns false for a part by id. */
bool ch_cache_holds(const ch_cache *cache, int layer, int part);

/* Some sequences of a cache, in any order, as a cache over the same memory. */
typedef struct ch_cache_selection {
  ch_cache cache;
  ch_cache *whole;
} ch_cache_selection;
/* Creates room for selections of a cache. Release with ch_cache_selection_free; the cache must outlive it. */
ch_status ch_cache_selection_create(ch_cache *whole, ch_cache_selection **selection, ch_error *error);
void ch_cache_selection_free(ch_cache_selection *selection);
/* Selects sequences order [count], none twice; `order` must last as long as the selection is used. */
void ch_cache_select(ch_cache_selection *selection, const int32_t *order, int64_t count);
/* Copies the current lengths of the selection's sequences to the whole cache. */
void ch_cache_selection_keep(const ch_cache_selection *selection);

/* Returns true if a sequence can be truncated to its first `length` tokens. It cannot if a ring has overwritten
   tokens that the next one would see, or if a fixed part, which has only its last state, would lose tokens. Any
   sequence can go back to length 0. */
bool ch_cache_can_go_back(const ch_cache *cache, int64_t sequence, int32_t length);
/* Sets the number of tokens that a sequence holds: more after a pass, fewer if it can go back to them. */
void ch_cache_set_length(ch_cache *cache, int64_t sequence, int32_t length);
/* Replaces sequence `to` by the first `length` tokens of sequence `from`. ch_cache_can_go_back must hold for
   `from`. */
void ch_cache_copy(ch_cache *cache, int64_t from, int64_t to, int32_t length);
/* Copies every sequence of `from` to `to`, a cache of the same shape. */
void ch_cache_copy_all(const ch_cache *from, ch_cache *to);
/* Drops all tokens after the first `length` of every sequence. ch_cache_can_go_back must hold for each. */
void ch_cache_truncate(ch_cache *cache, int32_t length);

#endif

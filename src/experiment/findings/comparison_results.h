/* The results of a comparison, as in results.json. <crosshead/compare.h> declares the results of a model. */
#ifndef CH_EXPERIMENT_FINDINGS_COMPARISON_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_COMPARISON_RESULTS_H

#include <crosshead/compare.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "bench/machine.h"
#include "config/config.h"

/* The number of turns in which models are timed after training. */
enum { CH_COMPARE_TURNS = 5 };

/* The training of all models. */
typedef struct ch_comparison_training {
  /* `eval_tokens` is the number of tokens (or images) that an evaluation predicts. */
  int64_t tokens, steps, batch, sequence, warmup, eval_tokens;
  double lr, weight_decay;
  const char *schedule;
  uint64_t seed; /* seed of the first run */
  int64_t seeds;
  bool flip;    /* true if images are mirrored at random */
  int64_t crop; /* maximum number of pixels by which images are shifted */
} ch_comparison_training;

typedef struct ch_ladder ch_ladder;

struct ch_comparison {
  const char *command, *version, *created; /* `created` is a time in UTC (ISO 8601) */
  const char *out; /* output directory, which has the models' directories; or NULL: nothing is read from it */
  ch_comparison_data data;
  ch_comparison_training training;
  ch_machine machine;
  ch_training_engine engine;
  const char *device; /* the user's name of PyTorch's device; NULL: its first accelerator, else the CPU */
  /* share of the best loss (on images, difference of accuracy) within which the smallest cache is chosen */
  double tolerance;
  double cache_budget;     /* maximum bytes of cache per token of the choice; 0: no limit */
  ch_match match;          /* quantity that is equal in all models */
  int64_t cache_per_token; /* with CH_MATCH_CACHE: largest number of cache elements per token */
  double budget_seconds;   /* with CH_MATCH_TIME: training time of each run */
  /* true if seeds are added until there is a verdict; the errors at all numbers of seeds then sum to 5 % */
  bool until_decided;
  bool open;               /* true while seeds may still be added */
  int planned;             /* number of planned runs; more than `count` if some are not finished */
  ch_model_result *models; /* [count] results of the finished runs */
  int count;
  const ch_ladder *ladder; /* results at all sizes of the ladder; NULL: there is no ladder */
  ch_arena arena;
};

enum { CH_CACHE_ELEMENT_BYTES = 2 }; /* elements of the cache count as 16 bits, as in `crosshead info` */
/* Returns the FLOPs of the forward pass of a token or an image. */
double ch_model_result_flops(const ch_model_result *run);
/* Returns the training time of a run in seconds. For files of earlier versions it follows from the speed. */
double ch_model_result_seconds(const ch_model_result *run);
/* Returns the size by which caches are compared: elements per token of a sequence of cache_depth tokens, including
 * states of constant size. Without states and windows it is cache_elements_per_token. */
double ch_model_result_cache(const ch_model_result *model);
/* Returns the bytes of ch_model_result_cache, with 32 bits per element of states and 16 bits per other element. */
double ch_model_result_cache_bytes(const ch_model_result *model);
/* Returns true if the cache per token depends on the depth, because layers have windows or states of constant size. */
bool ch_model_result_depends_on_depth(const ch_model_result *model);

/* Copies the strings into the arena. Returns false when out of memory. */
bool ch_trained_on_copy(const ch_trained_on *from, ch_arena *arena, ch_trained_on *to);
/* Adds the known members to `object`; ch_trained_on_take reads them back. Return false when out of memory. */
bool ch_trained_on_put(const ch_trained_on *on, json_t *object);
bool ch_trained_on_take(const json_t *object, ch_arena *arena, ch_trained_on *on);

/* Returns a list of [tokens, loss], with null for a loss that is not finite; NULL when out of memory. The caller
 * releases it with json_decref. */
json_t *ch_curve_to_json(const ch_curve_point *points, int64_t count);

/* Returns a result as JSON, or NULL when out of memory. The caller releases it with json_decref. */
json_t *ch_model_result_to_json(const ch_model_result *model);
/* Reads a result that ch_model_result_to_json wrote; `where` names the file in messages. Strings and arrays go into
 * `arena`. Errors: CH_ERROR_FORMAT with the key that is missing or wrong. */
ch_status ch_model_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_model_result *model, ch_error *error);

/* Significant digits of written numbers: enough for readers, and enough to restore the same bits. */
enum { CH_DIGITS_SHOWN = 9, CH_DIGITS_EXACT = 17 };

/* Writes an object as indented JSON to a temporary file, which is then renamed. Releases the object; NULL means out of
   memory. */
ch_status ch_write_json(const char *path, json_t *object, int digits, ch_error *error);

/* Returns {"value", "low", "high"}, with null for numbers that are not finite. */
json_t *ch_estimate_to_json(const ch_estimate *e);

#endif

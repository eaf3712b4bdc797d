/* The results of a comparison: the contents of results.json, of which <crosshead/compare.h> shows the models. */
#ifndef CH_EXPERIMENT_FINDINGS_COMPARISON_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_COMPARISON_RESULTS_H

#include <crosshead/compare.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "bench/machine.h"
#include "config/config.h"

/* The rounds in which models are timed after training. */
enum { CH_COMPARE_TURNS = 5 };

/* The training that all models had. */
typedef struct ch_comparison_training {
  int64_t tokens, steps, batch, sequence, warmup,
      eval_tokens; /* eval_tokens: predicted for validation_loss */
  double lr, weight_decay;
  const char *schedule;
  uint64_t seed; /* of the first run */
  int64_t seeds;
  bool flip; /* images */
  int64_t crop;
} ch_comparison_training;

typedef struct ch_ladder ch_ladder;

struct ch_comparison {
  const char *command, *version, *created; /* created: UTC, ISO 8601 */
  const char *out; /* the directory of the models' directories, or NULL: nothing is read from it */
  ch_comparison_data data;
  ch_comparison_training training;
  ch_machine machine;
  ch_training_engine engine;
  const char *device; /* of PyTorch: as the user named it; NULL: its first accelerator, else the CPU */
  /* the verdict chooses the smallest cache among models within this share of the best loss */
  double tolerance;
  double cache_budget;     /* bytes of cache per token that the choice may have; 0: any */
  ch_match match;          /* the quantity that is equal */
  int64_t cache_per_token; /* with CH_MATCH_CACHE */
  double budget_seconds;   /* of training, with CH_MATCH_TIME */
  bool until_decided;      /* seeds were added until a verdict: intervals are widened for all looks */
  bool open;               /* more may be planned: seeds are still being added */
  int planned;             /* requested models; more than `count` in an unfinished comparison */
  ch_model_result *models; /* [count] */
  int count;
  const ch_ladder *ladder; /* what other sizes found; NULL: there are none */
  ch_arena arena;
};

enum { CH_CACHE_ELEMENT_BYTES = 2 }; /* 16 bits, as `info` counts */
/* FLOPs of the forward pass of a token or an image. */
double ch_model_result_flops(const ch_model_result *run);
/* How long the run trained; files of earlier versions only have the speed. */
double ch_model_result_seconds(const ch_model_result *run);
/* Returns the measure by which caches are compared: elements per token of a sequence of cache_depth tokens,
 * including states of constant size. Without states and windows it is cache_elements_per_token. */
double ch_model_result_cache(const ch_model_result *model);
/* Returns the bytes of that cache: 16 bits per element, but 32 of states. */
double ch_model_result_cache_bytes(const ch_model_result *model);
/* Returns true if a token adds more or less than that, because some layers have windows or states of constant size. */
bool ch_model_result_depends_on_depth(const ch_model_result *model);

/* Copies strings into the arena; false: out of memory. */
bool ch_trained_on_copy(const ch_trained_on *from, ch_arena *arena, ch_trained_on *to);
/* Adds the known members to `object`; ch_trained_on_take reads them back. Return false when out of memory. */
bool ch_trained_on_put(const ch_trained_on *on, json_t *object);
bool ch_trained_on_take(const json_t *object, ch_arena *arena, ch_trained_on *on);

/* Returns a list of [tokens, loss] with null for a loss that is not finite. The caller's; NULL when out of
 * memory. */
json_t *ch_curve_to_json(const ch_curve_point *points, int64_t count);

/* Converts a result to JSON. The caller's (json_decref); NULL when out of memory. */
json_t *ch_model_result_to_json(const ch_model_result *model);
/* Reads one back; `where` names the file in messages. Strings and arrays go into `arena`. */
ch_status ch_model_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_model_result *model, ch_error *error);

/* Digits of written numbers: enough for reading, and enough to restore the same bits. */
enum { CH_DIGITS_SHOWN = 9, CH_DIGITS_EXACT = 17 };

/* Writes an object as indented JSON, under another name and renamed. The reference to the object is taken; it may
   be NULL, when memory was out. */
ch_status ch_write_json(const char *path, json_t *object, int digits, ch_error *error);

/* Returns {"value", "low", "high"}, with null for what is unknown or unbounded. */
json_t *ch_estimate_to_json(const ch_estimate *e);

#endif

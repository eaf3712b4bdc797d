/* What a comparison found: the contents of results.json. */
#ifndef CH_TRAIN_COMPARE_RESULTS_H
#define CH_TRAIN_COMPARE_RESULTS_H

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "config/config.h"

/* The most seeds of a comparison. */
enum { CH_COMPARE_MOST_SEEDS = 100 };
/* How often every model is timed, in turns with the others, when all are trained. */
enum { CH_COMPARE_TURNS = 5 };

/* A loss after so many training tokens; or what else there is at a number of tokens. */
typedef struct ch_curve_point {
  int64_t tokens;
  double loss;
} ch_curve_point;

/* One trained model. Strings and arrays belong to the ch_comparison. */
typedef struct ch_compared {
  const char *name;      /* as the user wrote it: "gqa:4", "configs/mine.json" */
  const char *directory; /* of the trained model, below the comparison's */
  const char *mechanism; /* attention.type */
  int64_t layers, hidden_size, heads, key_value_heads, head_dim, intermediate_size;
  int64_t parameters, cache_elements_per_token, cache_bytes_per_token;
  double validation_loss; /* perplexity is exp of it */
  double train_tokens_per_second, decode_tokens_per_second;
  int64_t
      timing_turns; /* the latter is the median of so many, in turns with the other models; 0: of one, alone */
  int64_t tokens_trained;
  /* On images: the three above count images, of which the second is how many are told apart in a second; nothing is
     cached; and */
  bool images;
  int64_t parameters_attention;
  double top1, top5; /* shares of the images that validate */
  /* What was counted before files said so is 0, which also stands for "not known". */
  int64_t parameters_embedding, parameters_feed_forward, parameters_gate_embedding;
  double flops;        /* a token (or image), forward, with nothing to look back at; */
  int64_t flops_depth; /* with so many tokens to look back at: */
  double flops_projections, flops_context, flops_feed_forward, flops_head;
  uint64_t seed;
  ch_curve_point *curve, *validation_curve;
  ch_curve_point *decode_curve; /* tokens in the cache, tokens decoded a second; of images none */
  int curve_points, validation_points, decode_points;
} ch_compared;

/* The text, and how it became tokens; or the images, which are counted where tokens are. */
typedef struct ch_compared_data {
  const char *file;
  int64_t bytes, train_tokens, validation_tokens, vocab_size;
  const char *tokenizer; /* the file it came from, or "trained on this text" */
  bool images;
  const char *format; /* "CIFAR-10" */
  int64_t image_size, channels, classes;
} ch_compared_data;

/* How every model was trained. */
typedef struct ch_compared_training {
  int64_t tokens, steps, batch, sequence, warmup,
      eval_tokens; /* eval_tokens: predicted for validation_loss */
  double lr, weight_decay;
  const char *schedule;
  uint64_t seed; /* of the first run */
  int64_t seeds;
  bool flip; /* images */
  int64_t crop;
} ch_compared_training;

typedef struct ch_machine {
  char processor[128], system[128], kernels[32]; /* kernels: the instruction set in use */
  int64_t cores, threads, memory_bytes;
} ch_machine;

typedef struct ch_comparison {
  const char *command, *version, *created; /* created: UTC, ISO 8601 */
  const char *out; /* the directory that the models' lie in, or NULL: nothing is read from it */
  ch_compared_data data;
  ch_compared_training training;
  ch_machine machine;
  double tolerance;    /* share of the best loss within which the smallest cache is taken */
  int planned;         /* models asked for; more than `count` while the comparison is unfinished */
  ch_compared *models; /* [count] */
  int count;
  ch_arena arena;
} ch_comparison;

/* JSON both ways. The returned object is the caller's (json_decref); NULL when memory is out. */
json_t *ch_compared_to_json(const ch_compared *model);
/* Reads one back; `where` names the file in messages. Strings and arrays go into `arena`. */
ch_status ch_compared_from_json(const json_t *object, const char *where, ch_arena *arena, ch_compared *model,
                                ch_error *error);
json_t *ch_comparison_to_json(const ch_comparison *comparison);

/* Digits of written numbers: enough to read, and enough to get the same bits back. */
enum { CH_DIGITS_SHOWN = 9, CH_DIGITS_EXACT = 17 };

/* Writes an object as indented JSON with a closing newline, beside and renamed. object may be NULL (memory was out);
   the reference is taken. */
ch_status ch_write_json(const char *path, json_t *object, int digits, ch_error *error);

/* A copy in the arena that is valid UTF-8 whatever a file name holds: stray bytes become U+FFFD. NULL when memory is
   out. */
const char *ch_valid_text(ch_arena *arena, const char *text);

#endif

/* How fast a model runs: prefill, decoding at a depth, training steps; each with what the machine could do at most. */
#ifndef CH_EVAL_SPEED_H
#define CH_EVAL_SPEED_H

#include "graph/plan.h"
#include "infer/model.h"

/* The machine's limits, measured with all threads (tensor/limits.h); 0: it has no such instruction, or does not say how large
   the cache is. */
typedef struct ch_speed_limits {
  double fma_peak, bf16_peak, int8_peak;             /* FLOP/s, or integer operations a second */
  double read_bandwidth, l3_bandwidth, l2_bandwidth; /* bytes/s */
} ch_speed_limits;

void ch_speed_limits_measure(ch_speed_limits *limits);
/* The most arithmetic that values of a type allow: BF16 dot products of BF16, integer ones of types in blocks, where the
   machine has them and they are the faster; else F32 multiply-adds. *name (or NULL) gets "F32", "BF16" or "INT8". */
double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name);
/* The least time that so much arithmetic on values of a type, and so many bytes from memory, can take. */
double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes);
/* The type that most elements of a model's matrices have. */
ch_dtype ch_speed_matrix_type(const ch_model *model);

typedef struct ch_speed_options {
  int64_t batch;  /* sequences in step */
  int64_t tokens; /* a sequence: of the prompt, or decoded in one repetition, or of a training step */
  int64_t depth;  /* decoding: tokens in the cache before the first; the cache is filled, no prompt is run */
  ch_cache_types cache;                /* what the cache stores */
  int repeat;                          /* repetitions after one that is not counted; the median is reported */
  bool precompute_gates, expand_gates; /* ch_timeline_options' */
  const int32_t *ids; /* of the tokens in the cache, again and again; or NULL: made-up ones */
  int64_t id_count;
  ch_dtype compute;              /* training: CH_F32 or CH_BF16; else the model's own counts */
  const ch_speed_limits *limits; /* decoding: what `share` is to be of, or NULL */
  ch_profile *profile; /* or NULL: time by operation of all counted repetitions; events, of the last */
} ch_speed_options;

typedef struct ch_speed {
  double seconds;           /* the median repetition's */
  double tokens_per_second; /* all sequences together */
  double flops;             /* of one repetition */
  double attention_flops;   /* decoding: of them attention's over the cache */
  double bytes;             /* of matrices and cache, read once in each pass of one repetition */
  double cache_bytes;       /* of them the cache's */
  double share, bandwidth;  /* decoding: of the limit, and the read bandwidth; medians of the repetitions */
  size_t memory;            /* training: peak resident bytes of the process during the steps */
} ch_speed;

/* All prompts at once from an empty cache. */
ch_status ch_speed_prefill(const ch_model *model, const ch_speed_options *options, ch_speed *speed,
                           ch_error *error);
/* `tokens` steps of one token a sequence. The limit is, for the matrices, the slower of their bytes over the read bandwidth
   and their products over the peak for their type, and for attention the slower of the cache's bytes and its products (as
   ch_account counts them) at the peak for the cache's type. Bandwidth is that before and after each repetition: where memory is shared it changes while one measures. */
ch_status ch_speed_decode(const ch_model *model, const ch_speed_options *options, ch_speed *speed,
                          ch_error *error);
/* One optimizer step: forward, backward, AdamW. */
ch_status ch_speed_train(const ch_config *config, const ch_speed_options *options, ch_speed *speed,
                         ch_error *error);

/* Bytes of the matrices that a decoding step of so many sequences reads: all but an untied embedding, of which it reads
   single rows, and of experts the share that as many independent, even choices would hit. */
double ch_speed_matrix_bytes(const ch_model *model, int64_t sequences);

#endif

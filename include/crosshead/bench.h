/* Measures speed: prefill, decoding and training, compared with the machine's limits; profiles and traces.
 * Link libcrosshead-train.
 *
 *   ch_speed speed;
 *   ch_speed_settings settings;
 *   ch_speed_defaults(&settings);
 *   settings.depth = 4096; // tokens in the cache
 *   if (ch_speed_decode(model, &settings, &speed, NULL) == CH_OK)
 *     printf("%.1f tokens/s\n", speed.tokens_per_second);
 *
 * From simple to advanced: the machine and its limits, the speed of a model, profiles and traces. */
#ifndef CROSSHEAD_BENCH_H
#define CROSSHEAD_BENCH_H

#include <crosshead/model.h>
#include <crosshead/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The machine ---- */

/* The machine of a measurement. Members that the system does not report are empty or 0. */
typedef struct ch_machine {
  char processor[128], system[128], kernels[32]; /* kernels: the instruction set in use */
  int64_t cores, threads, memory_bytes;
} ch_machine;

CH_API void ch_machine_describe(ch_machine *machine);

/* The machine's limits with all threads; 0: it has no such instruction, or does not say how large the cache
 * is. */
typedef struct ch_speed_limits {
  double fma_peak, bf16_peak, int8_peak;             /* FLOP/s, or integer operations a second */
  double read_bandwidth, l3_bandwidth, l2_bandwidth; /* bytes/s */
} ch_speed_limits;

/* Measures the limits, in some seconds. */
CH_API void ch_speed_limits_measure(ch_speed_limits *limits);

/* ---- The speed of a model ---- */

/* Creates a model with random weights, to measure speed without a trained one. PATH is a config.json or a
 * directory that holds one; matrices are stored as `type` (F32, F16 or BF16; default F32) with the initial
 * values of training. Of settings (may be NULL) only keep_dictionary counts. Errors: CH_ERROR_ARGUMENT,
 * CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG, CH_ERROR_MEMORY. */
CH_API ch_status ch_model_open_random(const char *path, ch_precision type, uint64_t seed,
                                      const ch_model_settings *settings, ch_model **model, ch_error *error);

/* The matrices of a model, as they bound its speed. */
typedef struct ch_speed_matrices {
  double parameters; /* number of parameters of all tensors, as they run */
  const char *type;  /* the type of most elements of the matrices, e.g. "BF16"; static storage */
  /* bytes that one token of one sequence reads. An untied embedding is not counted, since only single rows
   * of it are read; of experts, the share that equally likely choices would read */
  double bytes_decoded;
} ch_speed_matrices;

CH_API void ch_speed_matrices_of(const ch_model *model, ch_speed_matrices *matrices);

/* The settings of a measurement. Fill with ch_speed_defaults, then change what should differ: members may be
 * added in later versions. */
typedef struct ch_speed_settings {
  int64_t batch; /* sequences that are computed together; default 1 */
  /* per sequence: of the prompt, decoded in one repetition, or of a training step; default 32 */
  int64_t tokens;
  /* decoding: tokens in the cache before the first; it is filled with arbitrary states; default 0 */
  int64_t depth;
  int32_t repeat; /* timed repetitions, after an untimed one; the median is reported; 1 ... 1000, default 5 */
  ch_precision cache; /* what the cache stores; default F32 */
  /* Types of keys, values and latents, if they differ; default: as `cache`. */
  ch_precision cache_keys, cache_values, cache_latents;
  ch_precision compute;  /* arithmetic of large products: F32 (default) or BF16 */
  bool precompute_gates; /* of models with embedding gates: as in ch_session_settings */
  bool expand_gates;     /* decode by expanding every gated latent, to compare with grouping equal ids */
  /* [id_count] ids of the tokens in the cache, repeated, where its states depend on them; NULL: arbitrary
     ones. */
  const int32_t *ids;
  int64_t id_count;
  const ch_speed_limits *limits; /* the limits that ch_speed.share refers to; NULL: no shares */
  /* or NULL; gets the time by operation of the timed repetitions, and the events of the last */
  ch_profile *profile;
} ch_speed_settings;

CH_API void ch_speed_defaults(ch_speed_settings *settings);

/* The results of a measurement. */
typedef struct ch_speed {
  double seconds;           /* seconds of the median repetition */
  double tokens_per_second; /* all sequences together */
  double flops;             /* of one repetition */
  double attention_flops;   /* decoding: attention's part of the FLOPs, over the cache */
  double bytes;             /* bytes of matrices and cache that one repetition reads, counted once per pass */
  double cache_bytes;       /* the cache's part of these bytes */
  double share;             /* share of the limit, with `limits`: the limit's time over the time taken */
  /* what that limit is: "F32", "BF16" or "INT8" arithmetic; "" in decoding, which has both */
  const char *limit;
  double bandwidth; /* decoding, with `limits`: read bandwidth, the median around the repetitions */
  size_t memory;    /* training: peak resident bytes of the process during the steps */
} ch_speed;

/* Measures the prefill of all prompts together, from an empty cache. The limit is the arithmetic peak for the
 * type of most matrices. Errors of all three: CH_ERROR_ARGUMENT, CH_ERROR_CONFIG, CH_ERROR_MEMORY. */
CH_API ch_status ch_speed_prefill(const ch_model *model, const ch_speed_settings *settings, ch_speed *speed,
                                  ch_error *error);

/* Decodes `tokens` tokens per sequence. The limit for matrices is the longer of two times: that of reading
 * their bytes, and that of their products at the peak for their type. The limit for attention is the longer
 * of the times of reading the cache and of its products (as ch_account counts them) at the peak for the
 * cache's type. The read bandwidth is measured before and after each repetition, because it varies where
 * machines share memory. */
CH_API ch_status ch_speed_decode(const ch_model *model, const ch_speed_settings *settings, ch_speed *speed,
                                 ch_error *error);

/* Measures optimizer steps of a new model with the configuration of PATH, a config.json or a directory that
 * holds one: forward, backward, AdamW. The limit is the arithmetic peak for `compute`. */
CH_API ch_status ch_speed_train(const char *path, const ch_speed_settings *settings, ch_speed *speed,
                                ch_error *error);

/* The memory saved and the time lost when a model computes matrices from a dictionary of atoms on use. */
typedef struct ch_dictionary_cost {
  double slowdown;      /* time of a decoded token, relative to that with the matrices */
  double bytes;         /* bytes of attention's weights with atoms */
  double written_bytes; /* and with matrices */
} ch_dictionary_cost;

/* Decodes single tokens of one sequence with atoms and with matrices, in turns. The matrices are not
 * computed; the atoms, which have as many bytes, are read instead. The model must have been opened with
 * keep_dictionary. */
CH_API ch_status ch_dictionary_cost_measure(const ch_model *model, ch_dictionary_cost *cost, ch_error *error);

/* ---- Profiles ---- */

/* Writes a table of a profile's operations, the slowest first: calls, milliseconds, rates, share of the
 * limit. Calls and times are per step; `steps` is the number of steps (tokens, prompts, training steps).
 * *text is NUL-terminated and the caller's: release it with ch_free. */
CH_API ch_status ch_profile_table(const ch_profile *profile, const char *title, double steps,
                                  const ch_speed_limits *limits, char **text, ch_error *error);

/* Returns the profile as a JSON object whose "operations" is an array of objects; the caller's. */
CH_API ch_status ch_profile_json(const ch_profile *profile, double steps, const ch_speed_limits *limits,
                                 char **json, ch_error *error);

/* A profile with events, and a title for what was measured. */
typedef struct ch_trace_part {
  const char *title;
  const ch_profile *profile;
  bool from_zero; /* the times of its events count from the trace's start, not from its own first event */
} ch_trace_part;

/* Writes the events of traced [parts] to a file in the Trace Event Format, which chrome://tracing and
 * Perfetto open. Each part becomes a process of the trace, with one thread for spans and one for operations;
 * times count from the start of the part. Every operation has its layer, FLOPs, bytes and, if `limits` is not
 * NULL, its share of them. The file is written under another name and renamed. */
CH_API ch_status ch_trace_write(const char *path, int parts, const ch_trace_part *traced,
                                const ch_speed_limits *limits, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

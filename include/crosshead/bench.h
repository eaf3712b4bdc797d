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
  /* names of the processor, of the operating system, and of the instruction set that the library uses ("avx512") */
  char processor[128], system[128], kernels[32];
  int64_t cores, threads, memory_bytes; /* number of processors, threads that OpenMP gives, bytes of memory */
} ch_machine;

/* Fills *machine for the machine that this runs on. */
CH_API void ch_machine_describe(ch_machine *machine);

/* The machine's limits with all threads. A limit is 0 if the machine has no such instruction or does not report
 * the size of that cache. */
typedef struct ch_speed_limits {
  /* FLOP/s of F32 multiply-adds and of BF16 dot products; operations/s of integer dot products */
  double fma_peak, bf16_peak, int8_peak;
  /* bytes/s from main memory, the L3 cache and the L2 caches */
  double read_bandwidth, l3_bandwidth, l2_bandwidth;
} ch_speed_limits;

/* Measures the limits, which takes some seconds, and fills *limits. */
CH_API void ch_speed_limits_measure(ch_speed_limits *limits);

/* ---- The speed of a model ---- */

/* Creates a model with random weights, to measure speed without a trained one; release *model with
 * ch_model_close. PATH is a config.json or a directory that holds one; matrices are stored as `type` (F32, F16
 * or BF16; default F32) with the initial values of training for the seed. Of settings (may be NULL) only
 * keep_dictionary counts. Errors: CH_ERROR_ARGUMENT for another type and for keep_dictionary of a model without
 * atoms, CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG, CH_ERROR_MEMORY. */
CH_API ch_status ch_model_open_random(const char *path, ch_precision type, uint64_t seed,
                                      const ch_model_settings *settings, ch_model **model, ch_error *error);

/* The facts about a model's matrices that bound its speed. */
typedef struct ch_speed_matrices {
  double parameters; /* number of parameters of all tensors, in the form that is computed with */
  const char *type;  /* the type of most elements of the matrices, e.g. "BF16"; static storage */
  /* Bytes that one token of one sequence reads. An untied embedding is not counted, because only single rows of it are
   * read. Experts count by the share that equally likely choices would read. */
  double bytes_decoded;
} ch_speed_matrices;

/* Fills *matrices for a model. */
CH_API void ch_speed_matrices_of(const ch_model *model, ch_speed_matrices *matrices);

/* The settings of a measurement. Fill with ch_speed_defaults, then change what should differ: later versions may
 * add members. */
typedef struct ch_speed_settings {
  int64_t batch; /* sequences that are computed together; default 1 */
  /* tokens per sequence: length of the prompt, number of tokens decoded in one repetition, or length of a training
   * sequence; default 32 */
  int64_t tokens;
  /* decoding: tokens in the cache before the first decoded one, with arbitrary states; default 0 */
  int64_t depth;
  /* number of timed repetitions, 1 ... 1000, after an untimed one; their median counts; default 5 */
  int32_t repeat;
  ch_precision cache; /* element type of the cache; default F32 */
  /* element types of cached keys, values and latents, if they differ; default: as `cache` */
  ch_precision cache_keys, cache_values, cache_latents;
  ch_precision compute;  /* arithmetic of large products: F32 (default) or BF16 */
  bool precompute_gates; /* models with embedding gates: as ch_session_settings.precompute_gates */
  bool expand_gates;     /* decode by expanding every gated latent, to compare with grouping equal ids */
  /* decoding: [id_count] ids of the tokens in the cache, for models whose cached states depend on ids; repeated as
   * often as `depth` needs. NULL: arbitrary ids */
  const int32_t *ids;
  int64_t id_count;
  const ch_speed_limits *limits; /* the limits that ch_speed.share refers to; NULL: no shares */
  /* receives the times of operations in the timed repetitions, and the events of the last one; or NULL */
  ch_profile *profile;
} ch_speed_settings;

/* Fills in the defaults. */
CH_API void ch_speed_defaults(ch_speed_settings *settings);

/* The results of a measurement. */
typedef struct ch_speed {
  double seconds;           /* seconds of the median repetition */
  double tokens_per_second; /* tokens per second, all sequences together */
  double flops;             /* FLOPs of one repetition */
  double attention_flops;   /* decoding: attention's part of the FLOPs, over the cache */
  /* bytes that a repetition reads: of matrices in prefill, of matrices and cache in decoding; 0 for training */
  double bytes;
  double cache_bytes; /* decoding: the cache's part of `bytes` */
  double share;       /* with `limits`: shortest time that they allow, divided by the measured time; else 0 */
  /* with `limits`: arithmetic that sets the limit, "F32", "BF16" or "INT8"; "" without `limits`, and in decoding,
   * whose limit is reading too */
  const char *limit;
  double bandwidth; /* decoding, with `limits`: read bandwidth around the repetitions, bytes/s, the median */
  size_t memory;    /* training: peak resident bytes of the process, from the creation of the model on */
} ch_speed;

/* Measures the prefill of all prompts together, from an empty cache, and fills *speed. The limit is the arithmetic
 * peak for the type of most matrices. settings must not be NULL. Errors: CH_ERROR_ARGUMENT for settings out of
 * range and for a model of images, CH_ERROR_CONFIG for settings that the model cannot have, CH_ERROR_MEMORY. */
CH_API ch_status ch_speed_prefill(const ch_model *model, const ch_speed_settings *settings, ch_speed *speed,
                                  ch_error *error);

/* Measures the decoding of `tokens` tokens per sequence, and fills *speed. The limit for matrices is the longer of
 * two times: that of reading their bytes, and that of their products at the peak for their type. The limit for
 * attention is the longer of the times of reading the cache and of its products (as ch_account counts them) at the
 * peak for the cache's type. With settings->limits, the read bandwidth is measured before and after each repetition,
 * because it varies on shared machines. settings must not be NULL. Errors: those of ch_speed_prefill. */
CH_API ch_status ch_speed_decode(const ch_model *model, const ch_speed_settings *settings, ch_speed *speed,
                                 ch_error *error);

/* Measures optimizer steps of a new model with the configuration of PATH, a config.json or a directory that
 * holds one: forward, backward, AdamW. Fills *speed. The limit is the arithmetic peak for `compute`. settings
 * must not be NULL. Errors: those of ch_speed_prefill, CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_NUMERIC. */
CH_API ch_status ch_speed_train(const char *path, const ch_speed_settings *settings, ch_speed *speed,
                                ch_error *error);

/* The memory saved and the time lost when a model computes matrices from a dictionary of atoms on use. */
typedef struct ch_dictionary_cost {
  double slowdown;      /* time of a decoded token with atoms, divided by that with matrices */
  double bytes;         /* bytes of attention's weights with atoms */
  double written_bytes; /* bytes of attention's weights with matrices */
} ch_dictionary_cost;

/* Decodes single tokens of one sequence with atoms and with matrices, in turns, and fills *cost. Matrices
 * are not computed: atoms of equal size are read in their place. Errors: CH_ERROR_ARGUMENT for a model that was
 * not opened with keep_dictionary, CH_ERROR_MEMORY. */
CH_API ch_status ch_dictionary_cost_measure(const ch_model *model, ch_dictionary_cost *cost, ch_error *error);

/* ---- Profiles ---- */

/* *text becomes a table of a profile's operations, the slowest first: calls, milliseconds, rates, share of the limit.
 * Calls and times are per step; `steps` is the number of steps (tokens, prompts, training steps). *text is
 * NUL-terminated and the caller's: release it with ch_free. Errors: CH_ERROR_ARGUMENT for NULL, limits included;
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_profile_table(const ch_profile *profile, const char *title, double steps,
                                  const ch_speed_limits *limits, char **text, ch_error *error);

/* *json becomes a JSON object whose "operations" is an array of objects, with figures per step. *json is
 * NUL-terminated and the caller's: release it with ch_free. Errors: those of ch_profile_table. */
CH_API ch_status ch_profile_json(const ch_profile *profile, double steps, const ch_speed_limits *limits,
                                 char **json, ch_error *error);

/* A part of a trace. */
typedef struct ch_trace_part {
  const char *title;         /* name of the part in the trace */
  const ch_profile *profile; /* a profile with events (keep_events of ch_profile_new) */
  /* true: times of events are written as recorded; false: they count from the profile's first event */
  bool from_zero;
} ch_trace_part;

/* Writes the events of the profiles in traced [parts] to a file in the Trace Event Format, which chrome://tracing and
 * Perfetto open. Each part becomes a process of the trace, with one thread for spans and one for operations. Every
 * operation has its layer, FLOPs, bytes and, if `limits` is not NULL, its share of the limit. The file is written
 * under another name and renamed. Errors: CH_ERROR_IO, and CH_ERROR_MEMORY, also for a profile that ran out of memory
 * for events. */
CH_API ch_status ch_trace_write(const char *path, int parts, const ch_trace_part *traced,
                                const ch_speed_limits *limits, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

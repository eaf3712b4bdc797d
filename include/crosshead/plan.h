/* Estimates which models fit into a memory, and how fast they run: for models, and mechanisms by name, with a
 * context, a number of users and a budget of memory. `crosshead plan` prints it; docs/plan.md has the
 * formulas. Link libcrosshead-train.
 *
 *   char *text;
 *   ch_device device;
 *   ch_capacity *capacity;
 *   ch_capacity_settings settings;
 *   ch_capacity_defaults(&settings);
 *   settings.mechanisms = "mha,gqa:4,mla";
 *   settings.parameters = 7000000000;
 *   settings.context = 32768;
 *   settings.devices = &device;
 *   settings.device_count = 1;
 *   if (ch_device_read("h100-sxm", &device, NULL) == CH_OK &&
 *       ch_capacity_plan(&settings, &capacity, NULL) == CH_OK) {
 *     if (ch_capacity_text(capacity, &text, NULL) == CH_OK) {
 *       puts(text);
 *       ch_free(text);
 *     }
 *     ch_capacity_free(capacity);
 *   } */
#ifndef CROSSHEAD_PLAN_H
#define CROSSHEAD_PLAN_H

#include <crosshead/compare.h>
#include <crosshead/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ---- */

enum { CH_DEVICE_RATES = 10 };

/* Read bandwidth of `bytes` that are read again and again. */
typedef struct ch_read_rate {
  double bytes;
  double rate; /* bytes/s */
} ch_read_rate;

/* The limits of a machine, and the shares of them that inference reaches. */
typedef struct ch_device {
  char name[32];          /* "h100-sxm"; "here" for the machine that this runs on */
  char title[96];         /* for people */
  char source[256];       /* source of the figures: the title of a data sheet, or "measured" */
  double read_bandwidth;  /* of memory, bytes/s */
  double flops;           /* FLOP/s of products: dense, not sparse */
  double flops_quantised; /* the same for products with block-quantised weights; 0: `flops` */
  int64_t memory;         /* bytes */
  /* The shares of these that inference reaches, from 0 to 1: reading; products of prompts, and of decoding
   * steps; products with block-quantised weights. */
  double reading, computing, computing_step, computing_quantised;
  double layer_seconds; /* further seconds of a pass, per layer, besides reading and arithmetic */
  /* Read bandwidth of what fits into caches, for rising bytes; above the last one it is read_bandwidth. */
  ch_read_rate rates[CH_DEVICE_RATES];
  int32_t rate_count;
} ch_device;

/* Fills known device number `index`, from 0, with published figures. Returns false after the last. */
CH_API bool ch_device_at(int32_t index, ch_device *device);

/* Fills a device by its name, or by a line of figures, "name=mine,gb/s=900,flop/s=120T,memory=48GB". Counts
 * may have k, M, G or T; memory also KiB, MiB or GiB, and a B. Optional: reading=PERCENT and
 * computing=PERCENT. Errors (CH_ERROR_ARGUMENT): an unknown name (the nearest is suggested); keys or values
 * that are wrong or missing. */
CH_API ch_status ch_device_read(const char *text, ch_device *device, ch_error *error);

/* Describes the machine that this runs on. Measures its limits with all threads, in some seconds; compute:
 * arithmetic of large products, F32 (default) or BF16. Errors: CH_ERROR_ARGUMENT, CH_ERROR_MEMORY. */
CH_API ch_status ch_device_measure(ch_precision compute, ch_device *device, ch_error *error);

/* ---- The question ---- */

/* Fill with ch_capacity_defaults, then set what should differ: members may be added in later versions. All
 * that it points to is the caller's and must last until ch_capacity_plan has returned. */
typedef struct ch_capacity_settings {
  const char *const *models; /* [model_count] model directories and config.json files */
  size_t model_count;
  /* Names separated by commas, "mha,gqa:4,mla" (ch_mechanism_name_at lists them), or config.json files; NULL:
     none. */
  const char *mechanisms;
  /* A configuration or model directory whose shape the named mechanisms get; NULL: the first of `models`, or
   * the members below if one is not 0. The FFN width is adjusted, so that they have about as many
   * parameters. */
  const char *like;
  int64_t parameters, layers, hidden, heads, vocab; /* 0 = chosen as for ch_compare_settings */
  ch_match match;                                   /* CH_MATCH_PARAMETERS (default) or CH_MATCH_ACTIVE */
  int64_t context;                                  /* tokens of every user; must be set */
  int64_t users;                                    /* sequences at the same time; default 1 */
  int64_t memory;                                   /* bytes; 0 (default) = the memory of each device */
  double least_speed;   /* tokens per second that every user must get; default 0 */
  ch_precision weights; /* type of the matrices; default: as in the files; BF16 for a configuration alone */
  ch_precision cache;   /* element type of the cache; default BF16 */
  /* Types of keys, values and latents, if they differ; default: as `cache`. */
  ch_precision cache_keys, cache_values, cache_latents;
  /* The name of the cache's types on pages and in JSON; NULL = by their names, "bf16" or
     "k=q8_0,v=q4_0,latent=bf16". */
  const char *cache_name;
  const ch_device *devices; /* [device_count], at least one */
  size_t device_count;
  int32_t ranks; /* ranks that train each candidate, to learn the memory of each; default 0: no training */
  ch_precision training; /* the type that they train in: F32 (default) or BF16 */
} ch_capacity_settings;

CH_API void ch_capacity_defaults(ch_capacity_settings *settings);

/* ---- The answer ---- */

/* A candidate, independent of the device. Strings belong to the answer; members may be added in later
 * versions. */
typedef struct ch_capacity_candidate {
  const char *name;      /* as it was given */
  const char *mechanism; /* attention.type */
  const char *weights;   /* the type that most elements of its matrices have, "bf16" */
  const char *excluded;  /* why it is excluded on every device, a sentence; "" if it is not */
  int64_t layers, hidden_size, intermediate_size, parameters;
  int64_t weight_bytes;             /* bytes of all tensors, including lookup tables */
  int64_t step_weight_bytes;        /* bytes that one decoding step of all users reads */
  int64_t cache_elements_per_token; /* of all layers */
  int64_t cache_bytes_per_token;
  int64_t cache_bytes_per_user; /* at the requested context */
  int64_t cache_bytes;          /* of all users */
  int64_t gate_bytes;           /* rows of embedding gates by token id, at most */
  int64_t work_bytes;           /* activations, logits and scratch */
  int64_t needed_bytes;         /* bytes of weights, cache, gate rows and work memory together */
  double prefill_flops;         /* FLOPs of one prompt of the context's length */
  double decode_flops;          /* FLOPs of one token at the context's end */
  /* memory of a rank that trains it, in micro-batches of one sequence of the context's length */
  ch_train_memory training;
} ch_capacity_candidate;

/* A candidate on a device. A candidate that is excluded everywhere has no other figures. */
typedef struct ch_capacity_estimate {
  const char *excluded;     /* why it is excluded, a sentence; "" if it is not */
  int64_t memory;           /* bytes that may be used */
  int64_t users;            /* users that fit with the given context */
  int64_t context;          /* tokens of context that fit with the given users */
  double step_seconds;      /* seconds of a step: one token of every user, with full contexts */
  double tokens_per_second; /* decoded tokens per second, of all users together */
  double user_tokens_per_second;
  double prompt_seconds; /* prefill of one prompt of the context's length, alone */
  /* the largest part of a step's time: "weights", "cache", "arithmetic" or "layers"; static */
  const char *bound;
} ch_capacity_estimate;

typedef struct ch_capacity ch_capacity;

/* Computes the answer. Weights are not read. Release *capacity with ch_capacity_free. A candidate that is not
 * possible is excluded; that is no error. Errors: CH_ERROR_ARGUMENT for settings out of range and unknown
 * names (the nearest is suggested), CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG, CH_ERROR_MEMORY. */
CH_API ch_status ch_capacity_plan(const ch_capacity_settings *settings, ch_capacity **capacity,
                                  ch_error *error);

/* NULL is fine. */
CH_API void ch_capacity_free(ch_capacity *capacity);

/* Candidates: the models, then the mechanisms. */
CH_API int32_t ch_capacity_count(const ch_capacity *capacity);

/* Return candidate `index` of 0 ... count - 1, and its estimates on a device of the settings. NULL for other
 * indices. */
CH_API const ch_capacity_candidate *ch_capacity_candidate_at(const ch_capacity *capacity, int32_t index);
CH_API const ch_capacity_estimate *ch_capacity_estimate_at(const ch_capacity *capacity, int32_t index,
                                                           int32_t device);

/* *json becomes the object of `crosshead plan --json`; NUL-terminated and the caller's: release it with
 * ch_free. */
CH_API ch_status ch_capacity_json(const ch_capacity *capacity, char **json, ch_error *error);

/* *text becomes tables for a terminal; on each device, candidates that fit come first, the fastest decoding
 * before others. The caller's. */
CH_API ch_status ch_capacity_text(const ch_capacity *capacity, char **text, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

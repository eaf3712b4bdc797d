/* Estimates which models fit into a memory, and how fast they run: models, and mechanisms by name, with a context,
 * a number of users and a budget of memory. `crosshead plan` prints it; docs/plan.md has the formulas. Link
 * libcrosshead-train.
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

/* The maximum number of read rates of a device. */
enum { CH_DEVICE_RATES = 10 };

/* The bandwidth of reading the same memory again and again. */
typedef struct ch_read_rate {
  double bytes; /* size of the memory in bytes */
  double rate;  /* read bandwidth, bytes/s */
} ch_read_rate;

/* The limits of a machine, and the shares of them that inference reaches. */
typedef struct ch_device {
  char name[32];          /* "h100-sxm"; "here" for the machine that this runs on */
  char title[96];         /* full name: "NVIDIA H100 SXM, 80 GB" */
  char source[256];       /* source of the figures: the title of a data sheet, "measured" or "given" */
  double read_bandwidth;  /* bandwidth of memory, bytes/s */
  double flops;           /* FLOP/s of dense products */
  double flops_quantised; /* operations/s of products with block-quantised weights; 0: as `flops` */
  int64_t memory;         /* bytes of memory */
  /* Shares that inference reaches, above 0 and at most 1: of read_bandwidth, of `flops` in prompts, of `flops` in
   * decoding steps, and of flops_quantised; the last is 0 if flops_quantised is 0. */
  double reading, computing, computing_step, computing_quantised;
  double layer_seconds; /* seconds per layer that a pass needs in addition to reading and arithmetic */
  /* [rate_count] read bandwidths of caches, by rising size; read_bandwidth counts for memory larger than the last */
  ch_read_rate rates[CH_DEVICE_RATES];
  int32_t rate_count;
} ch_device;

/* Fills *device with published figures of known device `index`, from 0. Returns false after the last. */
CH_API bool ch_device_at(int32_t index, ch_device *device);

/* Fills *device by the name of a known device, or by a line of figures,
 * "name=mine,gb/s=900,flop/s=120T,memory=48GB". Counts may have k, M, G or T; memory also KiB, MiB or GiB, and
 * a B. Optional: reading=PERCENT and computing=PERCENT. Errors: CH_ERROR_ARGUMENT for an unknown name (the
 * nearest is suggested), for "here", which ch_device_measure describes, and for keys or values that are wrong
 * or missing. */
CH_API ch_status ch_device_read(const char *text, ch_device *device, ch_error *error);

/* Fills *device with the limits of the machine that this runs on. It measures them with all threads for some
 * seconds. compute: arithmetic of large products, F32 (default) or BF16. Errors: CH_ERROR_ARGUMENT for other
 * arithmetic, CH_ERROR_MEMORY. */
CH_API ch_status ch_device_measure(ch_precision compute, ch_device *device, ch_error *error);

/* ---- The question ---- */

/* The settings of a plan. Fill with ch_capacity_defaults, then set `context`, `devices`, the candidates and what
 * should differ: later versions may add members. All that it points to is the caller's and must last until
 * ch_capacity_plan has returned. */
typedef struct ch_capacity_settings {
  const char *const *models; /* [model_count] candidates: model directories and config.json files */
  size_t model_count;
  /* more candidates, separated by commas: names like "mha,gqa:4,mla" (ch_mechanism_name_at lists them), or
   * config.json files; NULL: none */
  const char *mechanisms;
  /* A configuration or model directory whose shape the named mechanisms get; it excludes parameters, layers,
   * hidden, heads and vocab. The FFN width is adjusted for about as many parameters. NULL: the first of `models`
   * or the first file in `mechanisms`, if none of those five is set. */
  const char *like;
  /* shape of the named mechanisms: set `parameters`, or `layers` and `hidden`; 0 (default) = chosen to fit */
  int64_t parameters, layers, hidden, heads, vocab;
  ch_match match;       /* count of parameters to match: CH_MATCH_PARAMETERS (default) or CH_MATCH_ACTIVE */
  int64_t context;      /* tokens of each user's sequence; must be set */
  int64_t users;        /* number of sequences that are decoded at the same time; default 1 */
  int64_t memory;       /* bytes that may be used; 0 (default) = the memory of each device */
  double least_speed;   /* tokens per second that every user must get; default 0 */
  ch_precision weights; /* type of the matrices; default: as in the files; BF16 for a configuration alone */
  ch_precision cache;   /* element type of the cache; default BF16 */
  /* element types of cached keys, values and latents, if they differ; default: as `cache` */
  ch_precision cache_keys, cache_values, cache_latents;
  /* name of the cache's types on pages and in JSON; NULL (default) = "bf16", "k=q8_0,v=q4_0,latent=bf16" and the
   * like */
  const char *cache_name;
  const ch_device *devices; /* [device_count] devices to plan for, at least one */
  size_t device_count;
  int32_t ranks;         /* number of ranks whose training memory is estimated; default 0: no training */
  ch_precision training; /* type that the ranks train in: F32 (default) or BF16 */
} ch_capacity_settings;

/* Fills in the defaults. */
CH_API void ch_capacity_defaults(ch_capacity_settings *settings);

/* ---- The answer ---- */

/* A candidate, independent of the device. Strings belong to the answer; later versions may add members. */
typedef struct ch_capacity_candidate {
  const char *name;      /* name or path, as the settings spell it */
  const char *mechanism; /* attention.type of its configuration */
  const char *weights;   /* the type of most elements of its matrices, "bf16" */
  /* the reason why it is excluded on every device, a sentence; "" if it is not. A candidate that cannot exist in
   * the shape, or is for images, has no other figures. */
  const char *excluded;
  /* number of layers, width, width of an FFN or of an expert, number of all parameters */
  int64_t layers, hidden_size, intermediate_size, parameters;
  int64_t weight_bytes;             /* bytes of all tensors, including lookup tables */
  int64_t step_weight_bytes;        /* bytes that one decoding step of all users reads */
  int64_t cache_elements_per_token; /* elements that a token adds to the cache, all layers together */
  int64_t cache_bytes_per_token;    /* bytes that a token adds to the cache, all layers together */
  int64_t cache_bytes_per_user;     /* bytes of a user's cache at the requested context */
  int64_t cache_bytes;              /* bytes of the caches of all users */
  int64_t gate_bytes;               /* maximum bytes of embedding gates' rows, one for each token id */
  int64_t work_bytes;               /* bytes of activations, logits and scratch */
  int64_t needed_bytes;             /* bytes of weights, cache, gate rows and work memory together */
  double prefill_flops;             /* FLOPs of one prompt of the context's length */
  double decode_flops;              /* FLOPs of one token at the context's end */
  /* memory of a rank that trains it, in micro-batches of one sequence of the context's length; zeros without
   * ch_capacity_settings.ranks */
  ch_train_memory training;
} ch_capacity_candidate;

/* A candidate on a device. A candidate without figures has only `excluded`. */
typedef struct ch_capacity_estimate {
  const char *excluded;          /* the reason why it is excluded, a sentence; "" if it is not */
  int64_t memory;                /* bytes that may be used */
  int64_t users;                 /* users that fit with the requested context */
  int64_t context;               /* tokens of context that fit with the requested users */
  double step_seconds;           /* seconds of a step: one token of every user, with full contexts */
  double tokens_per_second;      /* decoded tokens per second, all users together */
  double user_tokens_per_second; /* decoded tokens per second of one user */
  double prompt_seconds;         /* seconds of one prompt of the context's length, alone */
  /* the largest part of a step's time: "weights", "cache", "arithmetic" or "layers"; "" without figures */
  const char *bound;
} ch_capacity_estimate;

/* The answer: candidates, and estimates of them on devices. */
typedef struct ch_capacity ch_capacity;

/* Computes the answer. Weights are not read. Release *capacity with ch_capacity_free. A candidate that is not
 * possible is excluded, which is not an error. Errors: CH_ERROR_ARGUMENT for settings that are NULL, missing or out of
 * range and for unknown names (the nearest is suggested), CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG,
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_capacity_plan(const ch_capacity_settings *settings, ch_capacity **capacity,
                                  ch_error *error);

/* Releases the answer. NULL is fine. */
CH_API void ch_capacity_free(ch_capacity *capacity);

/* Returns the number of candidates. The models come first, then the mechanisms. */
CH_API int32_t ch_capacity_count(const ch_capacity *capacity);

/* Return candidate `index`, 0 ... count - 1, and its estimate on device `device`, an index of the settings'
 * devices. Both belong to the answer. NULL for other indices. */
CH_API const ch_capacity_candidate *ch_capacity_candidate_at(const ch_capacity *capacity, int32_t index);
CH_API const ch_capacity_estimate *ch_capacity_estimate_at(const ch_capacity *capacity, int32_t index,
                                                           int32_t device);

/* *json becomes the object of `crosshead plan --json`. *json is NUL-terminated and the caller's: release it with
 * ch_free. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_capacity_json(const ch_capacity *capacity, char **json, ch_error *error);

/* *text becomes tables for a terminal. On each device, candidates that fit come first, and faster decoding before
 * slower. *text is NUL-terminated and the caller's: release it with ch_free. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_capacity_text(const ch_capacity *capacity, char **text, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

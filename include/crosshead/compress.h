/* Makes trained models smaller or plainer without training. Link libcrosshead-train.
 *
 *   ch_error error;
 *   if (ch_absorb_model("model", "plain", NULL, NULL, &error) != CH_OK) puts(error.message);
 *
 *   ch_compress_settings settings;
 *   ch_compress_defaults(&settings);
 *   settings.method = CH_COMPRESSION_SVD_LLM;
 *   settings.ratio = 0.2;
 *   settings.calibration = "book.txt";
 *   ch_compress_model("model", "small", &settings, NULL, NULL);
 *
 * ch_absorb_model removes modules and changes no output beyond rounding. ch_compress_model trades some quality for
 * size. */
#ifndef CROSSHEAD_COMPRESS_H
#define CROSSHEAD_COMPRESS_H

#include <crosshead/common.h>
#include <crosshead/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Absorbing ---- */

/* The settings of absorbing. Fill with ch_absorb_defaults, then change what should differ: later versions may add
 * members. */
typedef struct ch_absorb_settings {
  bool keep_cache; /* true: do not fold head mixing where that would make the cache larger */
  /* element type of all tensors: F32, F16 or BF16; default: F32 if anything was folded, else the embedding's */
  ch_precision type;
  /* result of a success: true if knocking stayed in the model because it is not linear; or NULL */
  bool *nonlinear_left;
  /* callback for progress in bytes written, or NULL; after it cancels, `out` holds no files of the model */
  ch_progress progress;
  void *user; /* argument of `progress` */
} ch_absorb_settings;

/* Fills in the defaults. */
CH_API void ch_absorb_defaults(ch_absorb_settings *settings);

/* Folds the linear modules around a projection into its weights: linear knocking, head mixing, shared
 * matrices, low-rank residuals. The plainer model computes the same and is written to the directory OUT, where
 * it replaces a model; settings may be NULL for the defaults. *json (json may be NULL) becomes the object of
 * `crosshead absorb --json`, NUL-terminated and the caller's: release it with ch_free. Errors:
 * CH_ERROR_ARGUMENT when OUT is DIRECTORY or the type is not F32, F16 or BF16, CH_ERROR_CONFIG for a quantised model,
 * CH_ERROR_NUMERIC for a value that is not finite or does not fit the type, CH_ERROR_INTERRUPTED when progress
 * returned false, and those of ch_model_open. */
CH_API ch_status ch_absorb_model(const char *directory, const char *out, const ch_absorb_settings *settings,
                                 char **json, ch_error *error);

/* ---- Compressing ---- */

/* The methods of compression. */
typedef enum ch_compression {
  /* fewer key and value heads in the cache, of which each layer's heads are combinations */
  CH_COMPRESSION_MEA = 0,
  CH_COMPRESSION_MASA = 1,    /* attention's matrices as combinations of atoms that groups of layers share */
  CH_COMPRESSION_SVD_LLM = 2, /* truncated SVD, weighted by the statistics of the inputs */
  CH_COMPRESSION_SVD = 3,     /* truncated SVD of the weights alone */
  /* truncated SVD of adjacent layers together, which then share their first factors (arXiv 2410.03765) */
  CH_COMPRESSION_BASIS_SHARING = 4
} ch_compression;

/* The weights of matrices' errors when atoms are computed and ranks searched. */
typedef enum ch_error_weighting {
  /* relative to the matrix's outputs, times attention's share of the residual stream in the layer, and larger for
   * output and key projections */
  CH_ERROR_WEIGHTING_MEASURED = 0,
  CH_ERROR_WEIGHTING_PAPER = 1 /* equal for all, as in the MASA paper (eq. 4) */
} ch_error_weighting;

/* The rules that turn a budget of parameters into ranks of factors and residuals. */
typedef enum ch_ranks {
  CH_RANKS_DEFAULT = 0,    /* masa: SEARCHED, with the paper's weighting PROJECTION; the others: SHARE */
  CH_RANKS_SHARE = 1,      /* every matrix keeps the same share of its parameters */
  CH_RANKS_PROJECTION = 2, /* every matrix gets the same share of the rank that it can have */
  CH_RANKS_SEARCHED = 3    /* a search adds rank where a parameter lowers the weighted error most */
} ch_ranks;

/* The settings of a compression. Fill with ch_compress_defaults, then change what should differ: later versions
 * may add members. All that it points to is the caller's and must last until ch_compress_model has returned. */
typedef struct ch_compress_settings {
  ch_compression method; /* method of compression; default CH_COMPRESSION_MEA */
  /* mea: number of key and value heads to keep, from 1 to the model's number; -1 (default) = chosen by `budget` or
   * `cache` */
  int64_t component_heads;
  /* mea: the first and last layer to compress, counted from 0; -1 = the last one; default 0 and -1 */
  int64_t first_layer, last_layer;
  /* mea: a share above 0 and at most 1, or 0 (default) = none. With component_heads: the share of layers to
   * compress, those that cost least. Without it: the share of the cache to save, by a number of heads for
   * each layer so that the loss grows least. Both are measured on the calibration text, one layer at a time
   * (MEA, Figure 8). */
  double budget;
  /* mea: a goal in place of component_heads, budget and layers: the share of a 16-bit cache to save, above 0
   * and below 1; 0 (default) = none. The cheapest remedy that reaches it is chosen: 8-bit elements; 4-bit
   * values, or 4-bit elements; fewer heads with 8-bit elements, if their predicted loss is lower. Element types
   * change no weights: the report names the type that sessions must use (`cache_dtype`). Needs `report` and a
   * calibration text. */
  double cache;
  bool profile; /* mea: measure and report the loss of each compressed layer, even without `budget` */
  double ratio; /* all but mea: share of the attention parameters to remove, above 0 and below 1 */
  /* all but mea: projections that are not compressed, separated by commas: "q,o" or "q_proj,o_proj" */
  const char *keep;
  /* masa: number of groups of layers, and number of atoms of each group; 0 (default) = chosen */
  int64_t groups, atoms;
  int64_t group_size; /* basis sharing: number of adjacent layers that share a basis; default 2 */
  ch_ranks ranks;     /* all but mea: rule that turns the ratio into ranks */
  /* masa, and other methods with CH_RANKS_SEARCHED: weights of the matrices' errors; elsewhere
   * CH_ERROR_WEIGHTING_PAPER is an error */
  ch_error_weighting weighting;
  /* calibration text, UTF-8; NULL = the weights alone decide. svd-llm and basis sharing need it, svd ignores
   * it. */
  const char *calibration;
  int64_t calibration_tokens; /* number of tokens of the calibration text to use; default 65536 */
  /* mea and masa: compute the factors from the weights alone, even with a calibration text, which budget and profile
   * still use */
  bool data_free;
  ch_precision type; /* element type of the new matrices: F32, F16 or BF16; default: the embedding's */
  /* Measure perplexity and, of models up to 4 GiB, decoding speed of both models, and write report.json and
   * report.html to `out`. */
  bool report;
  /* with `report`: the text whose perplexity is measured, UTF-8; NULL = the last fifth of the calibration text,
   * which then does not calibrate. Without either text perplexity is not measured. */
  const char *text;
  /* command line and name of the output for the report; NULL = "ch_compress_model" and `out` */
  const char *command, *name;
  /* result of a success: the report for a terminal, NUL-terminated and the caller's: release it with ch_free; or
   * NULL */
  char **table;
  /* number of threads; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  /* The ranks of a job (ranks.h), which share the passes of text through models, or NULL: this process alone. All
   * ranks call ch_compress_model with the same settings; `out`, `command` and `name` are those of rank 0, which
   * computes the factors, measures the speeds, writes the files and returns the report. Each rank calls its own
   * callbacks. With the same number of threads for each rank, the files have the same bits for any number of
   * ranks. */
  ch_rank_group *job;
  /* callback for progress in millionths of a stage, or NULL; after it cancels while the compressed model is
   * measured, that model is in `out` */
  ch_progress progress;
  ch_stage_sink stage; /* callback for the stages of the work; or NULL */
  void *user;          /* argument of both callbacks */
} ch_compress_settings;

/* Fills in the defaults. */
CH_API void ch_compress_defaults(ch_compress_settings *settings);

/* Writes a smaller form of the model of DIRECTORY to the directory OUT, where it replaces a model. settings must not
 * be NULL: every method needs some. *json (json may be NULL) becomes the report of `crosshead compress --json`:
 * parameters before and after, the error of every matrix, and with settings->report the measurements. It is
 * NUL-terminated and the caller's: release it with ch_free. On ranks other than 0 *json and *settings->table become
 * NULL. Errors: CH_ERROR_ARGUMENT for settings that do not fit the method or the model and when OUT is DIRECTORY;
 * CH_ERROR_CONFIG for a model that the method cannot compress (a quantised one, for example); CH_ERROR_NUMERIC for
 * values that are not finite; CH_ERROR_INTERRUPTED when progress returned false; those of ch_model_open, and for the
 * texts those of ch_evaluate_text. */
CH_API ch_status ch_compress_model(const char *directory, const char *out,
                                   const ch_compress_settings *settings, char **json, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* Smaller and plainer models from trained ones, without training. Link libcrosshead-train.
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
 * ch_absorb_model removes modules and changes no number beyond rounding; ch_compress_model loses some quality
 * for size. */
#ifndef CROSSHEAD_COMPRESS_H
#define CROSSHEAD_COMPRESS_H

#include <crosshead/common.h>
#include <crosshead/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Absorbing ---- */

/* Fill with ch_absorb_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_absorb_settings {
  bool keep_cache; /* leave head mixing alone where folding it would make the cache larger */
  /* The element type of the written matrices: F32, F16 or BF16; default: F32 if anything was folded, else the
   * embedding's. */
  ch_precision type;
  /* Or NULL; a success sets it to whether knocking was left in the model because it is not linear. */
  bool *nonlinear_left;
  ch_progress progress; /* or NULL; the unit is bytes written. false: nothing is left in `out` */
  void *user;           /* progress's */
} ch_absorb_settings;

CH_API void ch_absorb_defaults(ch_absorb_settings *settings);

/* Folds the linear modules around a projection into its weights: linear knocking, head mixing, shared
 * matrices, low-rank residuals. The plainer model computes the same and is written to the directory OUT;
 * settings may be NULL. *json (may be NULL) becomes the object of `crosshead absorb --json`, NUL-terminated
 * and the caller's: release it with ch_free. Errors: CH_ERROR_ARGUMENT when OUT is DIRECTORY or the type is
 * none of these, CH_ERROR_CONFIG for a quantised model, CH_ERROR_INTERRUPTED when progress returned false,
 * and those of ch_model_open. */
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
  /* Relative to a matrix' outputs, times the share that its layer's attention has of the residual stream,
   * more for output and key projections. */
  CH_ERROR_WEIGHTING_MEASURED = 0,
  CH_ERROR_WEIGHTING_PAPER = 1 /* equally, as in the MASA paper (eq. 4) */
} ch_error_weighting;

/* The rules that turn a budget of parameters into ranks of factors and residuals. */
typedef enum ch_ranks {
  CH_RANKS_DEFAULT = 0,    /* masa: SEARCHED, with the paper's weighting PROJECTION; the others: SHARE */
  CH_RANKS_SHARE = 1,      /* every matrix keeps the same share of its parameters */
  CH_RANKS_PROJECTION = 2, /* every matrix gets the same share of the rank that it can have */
  CH_RANKS_SEARCHED = 3    /* each unit goes where a parameter lowers the weighted error most */
} ch_ranks;

/* Fill with ch_compress_defaults, then change what should differ: members may be added in later versions. All
 * that it points to is the caller's and must last until ch_compress_model has returned. */
typedef struct ch_compress_settings {
  ch_compression method;
  int64_t component_heads; /* mea: key and value heads to keep, 1 to the model's; -1 = `budget` decides */
  /* mea: the first and last layer to compress, counted from 0; default 0 and -1, the last one */
  int64_t first_layer, last_layer;
  /* mea: a share above 0 and at most 1, or 0 = none. With component_heads: the share of layers to
   * compress, those that cost least. Without it: the share of the cache to save, by a number of heads for
   * each layer so that the loss grows least. Both are measured on the calibration text, one layer at a time
   * (MEA, Figure 8). */
  double budget;
  /* mea: a goal in place of component_heads, budget and layers: the share of a 16-bit cache to save, above 0
   * and below 1; 0 = none. The cheapest remedy that reaches it is taken: 8-bit elements; 4-bit values, or
   * 4-bit elements; fewer heads with 8-bit elements, where their loss is predicted to be lower. Types of
   * elements leave the weights as they are: the report names the type that sessions must then be given
   * (`cache_dtype`). Needs `report` and a calibration text. */
  double cache;
  bool profile; /* mea: measure and report that without a budget too */
  double ratio; /* all but mea: share of the attention parameters to remove, above 0 and below 1 */
  /* all but mea: projections to leave alone, separated by commas: "q,o" or "q_proj,o_proj" */
  const char *keep;
  int64_t groups, atoms; /* masa: groups of layers, and atoms of each; 0 = chosen */
  int64_t group_size;    /* basis sharing: adjacent layers that share a basis; default 2 */
  ch_ranks ranks;        /* all but mea */
  /* masa, and the others with CH_RANKS_SEARCHED; the paper's weighting is an error where it would do
     nothing */
  ch_error_weighting weighting;
  /* The calibration text, UTF-8; NULL = the weights alone decide. svd-llm and basis sharing need it, svd
     never uses it. */
  const char *calibration;
  int64_t calibration_tokens; /* tokens of it that are used, from the first; default 65536 */
  bool data_free; /* only the weights decide, also with a calibration text; budget and profile still use it */
  ch_precision type; /* element type of the new matrices: F32, F16 or BF16; default: the embedding's */
  /* Measure perplexity and decoding speed of both models, and write report.json and report.html to `out`. */
  bool report;
  /* Perplexity is of this text, UTF-8; NULL = of the last fifth of the calibration text, which is then not
     used for calibration. */
  const char *text;
  /* For the report: the command, and the name of the output if it is first written under another one; NULL =
   * "ch_compress_model", and `out`. */
  const char *command, *name;
  /* Or NULL; a success sets it to the report for a terminal, the caller's: release it with ch_free. */
  char **table;
  int32_t threads; /* 0 = as many as OpenMP gives (OMP_NUM_THREADS, else all cores) */
  /* The ranks of a job (crosshead/ranks.h), which share the passes of text through models, or NULL: this
   * process alone. All ranks call ch_compress_model with the same settings; `out`, `command` and `name` are
   * those of rank 0, which computes the factors, measures the speeds, writes the files and has the report.
   * With the same number of threads for each rank, the files have the same bits for any number of ranks. */
  ch_rank_group *job;
  ch_progress progress; /* or NULL; in millionths of a part of the work. false: nothing is left in `out` */
  ch_stage_sink stage;  /* called with the parts that are done; or NULL */
  void *user;           /* the two callbacks' */
} ch_compress_settings;

CH_API void ch_compress_defaults(ch_compress_settings *settings);

/* Writes a smaller form of the model of DIRECTORY to the directory OUT. *json (may be NULL) becomes the
 * report of `crosshead compress --json`: parameters before and after, the error of every matrix, and with
 * settings->report what was measured. It is NUL-terminated and the caller's: release it with ch_free. On
 * other ranks than 0 it and *settings->table become NULL. Errors: CH_ERROR_ARGUMENT for settings that do not
 * fit the method or the model, CH_ERROR_CONFIG for a model that this method cannot compress (a quantised one,
 * for example), CH_ERROR_INTERRUPTED when progress returned false, and those of ch_model_open. */
CH_API ch_status ch_compress_model(const char *directory, const char *out,
                                   const ch_compress_settings *settings, char **json, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif

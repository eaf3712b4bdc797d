/* One call of ch_compress_model: what it holds, and its parts. */
#ifndef CH_API_COMPRESS_PRIVATE_H
#define CH_API_COMPRESS_PRIVATE_H

#include <crosshead/compress.h>

#include "api/adapters.h"
#include "attention/registry.h"
#include "compress/absorb.h"
#include "compress/calibration.h"
#include "compress/sensitivity.h"
#include "eval/document_set.h"
#include "ranks/shared.h"
#include "report/compression.h"

typedef struct ch_compress_job {
  const ch_compress_settings *s;
  const char *directory, *out;
  bool mea;
  int64_t first, last; /* layers */
  char names[CH_MAX_PROJECTIONS][CH_PROJECTION_NAME_SIZE];
  const char *keep[CH_MAX_PROJECTIONS]; /* [keep_count] full names of s->keep */
  int keep_count;
  ch_api_progress progress;
  const char *stage;     /* that was reported last */
  ch_shared_work shared; /* while rank 0 does a part alone */
  ch_model *before;      /* as it runs, to be measured; or NULL */
  ch_model *after;       /* its compressed form */
  ch_model *own;         /* as its files have it, */
  ch_absorption absorbed;
  ch_model plain;        /* with what mixes heads taken into the projections, */
  const ch_model *model; /* whichever of the two the method uses */
  ch_tokenizer *tokenizer;
  ch_document_set calibration_text, text; /* text: what perplexities are of */
  ch_ids tokens;                          /* of the calibration text */
  ch_calibration *calibration;
  ch_sensitivity sensitivity;
  int64_t heads[CH_MAX_LISTED_LAYERS]; /* mea: h' of each layer */
  ch_cache_types types;                /* that the result is measured with, if report.cache_types is set */
  ch_dtype dtype;                      /* of the new matrices */
  ch_compressed_model compressed;
  ch_compression_report report;
} ch_compress_job;

/* A ch_compress_step: tells parts and progress; CH_ERROR_INTERRUPTED once the caller cancelled (compress_step.c). */
ch_compress_step ch_compress_job_step;

/* "mea", "masa" ..., in the order of ch_compression; "measured", "paper" (compress_read.c). */
extern const char *const ch_compression_names[], *const ch_compression_weightings[];
/* Returns true if errors of matrices are weighed against each other: in the atoms of masa, and where ranks are
 * searched. */
bool ch_compression_weighs(const ch_compress_settings *s);
/* Returns "share", "projection" or "searched", with the method's default if none is given. */
const char *ch_compression_ranks_name(const ch_compress_settings *s);

/* Checks the settings alone (compress_read.c). */
ch_status ch_compress_job_check(const ch_compress_settings *s, ch_error *error);
/* Layers, heads, projections and element type for the model that c->own is. */
ch_status ch_compress_job_read(ch_compress_job *c, ch_error *error);

/* Checks that all ranks are about to do the same and, once the model is open, with the same model and text
 * (compress_ranks.c). */
ch_status ch_compress_job_compare(ch_compress_job *c, bool opened, ch_error *error);
/* Fails on all ranks if one fails. */
ch_status ch_compress_job_agree(const ch_compress_job *c, ch_status status, ch_error *error);
/* A part of the work that rank 0 does, while the others wait for it, all with what came of it. */
typedef ch_status ch_compress_job_part(ch_compress_job *c, ch_error *error);
ch_status ch_compress_job_by_first(ch_compress_job *c, ch_compress_job_part *part, ch_error *error);

/* Runs the calibration text through the model if the method needs it: c->calibration (compress_choose.c). */
ch_status ch_compress_job_calibrate(ch_compress_job *c, ch_error *error);
/* Chooses how many heads each layer keeps for mea, c->heads: the requested number, or one chosen by a profile
 * within the budget. */
ch_status ch_compress_job_choose_heads(ch_compress_job *c, ch_error *error);

/* Measures how much the loss changes when each layer alone is compressed, for mea: c->sensitivity. */
ch_status ch_compress_job_profile(ch_compress_job *c, ch_error *error);

/* Measures the model as it is with an 8-bit cache: the remedy that costs least (compress_goal.c). */
ch_status ch_compress_job_eight_bit(ch_compress_job *c, ch_error *error);
/* Chooses types and, where they do not suffice, heads for s->cache: c->types, c->heads. */
ch_status ch_compress_job_pursue(ch_compress_job *c, ch_error *error);

/* Measures the perplexity of a model on the held-out text. types: of the cache, NULL: without one
 * (compress_measure.c). */
ch_status ch_compress_job_perplexity(ch_compress_job *c, const ch_model *model, const char *what,
                                     const ch_cache_types *types, ch_compression_figures *figures,
                                     ch_error *error);
/* Sizes, and how fast before and after decode, in turns. The size of the cache is that at 16 bits. */
ch_status ch_compress_job_count(const ch_model *model, ch_compression_figures *figures, ch_error *error);
ch_status ch_compress_job_race(ch_compress_job *c, ch_error *error);

/* Writes the compressed model, then its report (compress_write.c). */
ch_status ch_compress_job_write(ch_compress_job *c, ch_error *error);
ch_status ch_compress_job_write_report(const ch_compress_job *c, ch_error *error);

#endif

/* One call of ch_compress_model: its state and its parts. */
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
  int64_t first, last; /* first and last layer to compress */
  char names[CH_MAX_PROJECTIONS][CH_PROJECTION_NAME_SIZE];
  const char *keep[CH_MAX_PROJECTIONS]; /* [keep_count] full names of the projections in s->keep */
  int keep_count;
  ch_api_progress progress;
  const char *stage;     /* stage that was reported last */
  ch_shared_work shared; /* state of the other ranks' wait while rank 0 works alone */
  ch_model *before;      /* original model in the form for measuring, or NULL */
  ch_model *after;       /* compressed model */
  ch_model *own;         /* original model with dense matrices */
  ch_absorption absorbed;
  ch_model plain;        /* original model with mixed heads folded into the projections (`absorbed`) */
  const ch_model *model; /* input of the method: own or &plain */
  ch_tokenizer *tokenizer;
  /* calibration_text: text for calibration; text: text for perplexities */
  ch_document_set calibration_text, text;
  ch_ids tokens; /* ids of the calibration text */
  ch_calibration *calibration;
  ch_sensitivity sensitivity;
  int64_t heads[CH_MAX_LISTED_LAYERS]; /* mea: number of heads that each layer keeps */
  ch_cache_types types;                /* cache types of the result, if report.cache_types is set */
  ch_dtype dtype;                      /* type of the new matrices */
  ch_compressed_model compressed;
  ch_compression_report report;
} ch_compress_job;

/* A ch_compress_step: reports stages and progress. Fails with CH_ERROR_INTERRUPTED once the caller has cancelled
   (compress_step.c). */
ch_compress_step ch_compress_job_step;

/* Names of ch_compression ("mea", ...) and of ch_error_weighting ("measured", "paper"), indexed by the enums and
   NULL-terminated (compress_read.c). */
extern const char *const ch_compression_names[], *const ch_compression_weightings[];
/* Returns true if the method weights the errors of matrices: masa for its atoms, and any method with searched
   ranks. */
bool ch_compression_weighs(const ch_compress_settings *s);
/* Returns "share", "projection" or "searched": the setting, or the method's default. */
const char *ch_compression_ranks_name(const ch_compress_settings *s);

/* Checks the settings alone (compress_read.c). */
ch_status ch_compress_job_check(const ch_compress_settings *s, ch_error *error);
/* Sets the layers, projections and element type for the model c->own from the settings, and checks the heads. */
ch_status ch_compress_job_read(ch_compress_job *c, ch_error *error);

/* Checks that all ranks have the same settings and, with `opened`, the same model and text (compress_ranks.c). */
ch_status ch_compress_job_compare(ch_compress_job *c, bool opened, ch_error *error);
/* Fails on all ranks if one fails. */
ch_status ch_compress_job_agree(const ch_compress_job *c, ch_status status, ch_error *error);
/* A part of the work. */
typedef ch_status ch_compress_job_part(ch_compress_job *c, ch_error *error);
/* Runs a part on rank 0 while the other ranks wait. All ranks return its status. */
ch_status ch_compress_job_by_first(ch_compress_job *c, ch_compress_job_part *part, ch_error *error);

/* Sets c->calibration: runs the calibration text through the model if the method needs it (compress_choose.c). */
ch_status ch_compress_job_calibrate(ch_compress_job *c, ch_error *error);
/* Sets c->heads, the number of heads that each layer keeps with mea: the requested number, or a choice by a profile
 * within the budget. */
ch_status ch_compress_job_choose_heads(ch_compress_job *c, ch_error *error);

/* Sets c->sensitivity for mea: measures the change of the loss when each layer alone is compressed. */
ch_status ch_compress_job_profile(ch_compress_job *c, ch_error *error);

/* Measures the original model with an 8-bit cache, the cheapest way to save cache (compress_goal.c). */
ch_status ch_compress_job_eight_bit(ch_compress_job *c, ch_error *error);
/* Sets c->types and c->heads to reach s->cache: smaller types and, if they do not suffice, fewer heads. */
ch_status ch_compress_job_pursue(ch_compress_job *c, ch_error *error);

/* Measures the perplexity of a model on c->text. types: types of the cache; NULL: without a cache
 * (compress_measure.c). */
ch_status ch_compress_job_perplexity(ch_compress_job *c, const ch_model *model, const char *what,
                                     const ch_cache_types *types, ch_compression_figures *figures,
                                     ch_error *error);
/* Sets the sizes of a model in *figures. The size of the cache is the size at 16 bits. */
ch_status ch_compress_job_count(const ch_model *model, ch_compression_figures *figures, ch_error *error);
/* Measures the decoding speed of the original and the compressed model in turns. Does nothing for a large model and for
   weights that did not change. */
ch_status ch_compress_job_race(ch_compress_job *c, ch_error *error);

/* Write the compressed model, and its report (compress_write.c). */
ch_status ch_compress_job_write(ch_compress_job *c, ch_error *error);
ch_status ch_compress_job_write_report(const ch_compress_job *c, ch_error *error);

#endif

/* One run of crosshead compress: what it holds, and its parts. */
#ifndef CH_CLI_SHRINKING_H
#define CH_CLI_SHRINKING_H

#include "base/progress.h"
#include "compress/absorb.h"
#include "compress/calibration.h"
#include "compress/sensitivity.h"
#include "eval/document_set.h"
#include "report/compression.h"

typedef struct ch_shrinking {
  const char *directory, *out;
  ch_progress_line progress;
  double stage_began, stage_share; /* when, and how much of the work was done then */
  const char *stage;               /* that the progress line shows */
  ch_model *before;                /* as it runs */
  ch_model *own;                   /* as its files have it, */
  ch_absorbed absorbed;
  ch_model plain;        /* with what mixes heads taken into the projections, */
  const ch_model *model; /* whichever of the two a method takes */
  ch_tokenizer *tokenizer;
  ch_document_set calibration_text, text; /* text: what perplexities are of */
  ch_ids tokens;                          /* of the calibration text */
  ch_calibration *calibration;
  ch_sensitivity sensitivity;
  int64_t heads[CH_MAX_LISTED_LAYERS]; /* mea: h' of each layer */
  ch_dtype dtype;                      /* of the matrices that are made */
  ch_compressed compressed;
  char *staging; /* where the model is written first, or NULL */
  ch_compression_report report;
} ch_shrinking;

/* ch_compress_step: shows how far the work is; CH_ERROR_INTERRUPTED after a signal. */
ch_compress_step ch_shrinking_step;
/* The perplexity of a model on the text that was kept back. */
ch_status ch_shrinking_perplexity(ch_shrinking *s, const ch_model *model, const char *what,
                                  ch_compression_figures *figures, ch_error *error);
/* Sizes, and how fast before and after decode, in turns. */
ch_status ch_shrinking_count(const ch_model *model, ch_compression_figures *figures, ch_error *error);
ch_status ch_shrinking_race(ch_shrinking *s, const ch_model *after, ch_error *error);

/* Writes the compressed model beside --out; measures what was written; puts it with its report into place. */
ch_status ch_shrinking_write(ch_shrinking *s, ch_error *error);
ch_status ch_shrinking_publish(ch_shrinking *s, ch_error *error);
/* Removes what was written beside, if it was not put into place. */
void ch_shrinking_clean(ch_shrinking *s);

#endif

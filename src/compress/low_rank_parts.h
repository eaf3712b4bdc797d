/* One matrix through truncated SVD: taken apart, given a rank, written as factors, reported on. */
#ifndef CH_COMPRESS_LOW_RANK_PARTS_H
#define CH_COMPRESS_LOW_RANK_PARTS_H

#include "compress/matrices.h"
#include "compress/ranks.h"
#include "compress/truncation.h"

/* Tells the caller of a method how far it is; CH_OK to go on. */
ch_status ch_compress_tell(const ch_compress_options *options, const char *what, double done, double total,
                           ch_error *error);
/* Truncates M [out, in] to `rank` and writes the factors as tensors "model.layers.{l}.self_attn.{name}{stem}.a.weight" and
   ".b.weight", rounded; M becomes M - b a. */
ch_status ch_write_factors(const ch_matrix *matrix, const char *stem, int64_t rank,
                           const ch_autocorrelation *c, double *m, ch_compressed *compressed,
                           ch_error *error);
/* Adds the row of the report: the matrix against what is missing [out, in] in the end; c may be NULL. */
ch_status ch_note_matrix(const ch_model *model, const ch_matrix *matrix, const double *missing,
                         const ch_autocorrelation *c, int64_t after, int64_t rank, ch_compressed *compressed,
                         ch_error *error);

#endif

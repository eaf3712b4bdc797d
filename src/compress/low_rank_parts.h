/* Shared by methods with low-rank factors: progress, names of factors, writing of factors, the report. */
#ifndef CH_COMPRESS_LOW_RANK_PARTS_H
#define CH_COMPRESS_LOW_RANK_PARTS_H

#include "compress/matrices.h"
#include "compress/matrix_ranks.h"
#include "compress/truncation.h"

enum { CH_TENSOR_NAME_SIZE = 160 };

/* Reports progress to the caller of a method. A status other than CH_OK must stop the method. */
ch_status ch_compress_tell(const ch_compress_options *options, const char *what, double done, double total,
                           ch_error *error);
/* Writes the name of a matrix's own first factor, "model.layers.{l}.self_attn.{name}{stem}.a.weight". */
void ch_first_factor_name(const ch_matrix *matrix, const char *stem, char name[CH_TENSOR_NAME_SIZE]);
/* Truncates M [count * out, in], the stacked matrices of `count` layers, to `rank`. Writes their first factor
   a [rank, in], rounded, as the tensor `first`, and each layer's second factor b [out, rank] as
   "model.layers.{l}.self_attn.{name}{stem}.b.weight". M becomes M - b a. */
ch_status ch_write_factors(const ch_matrix *const *matrices, int count, const char *first, const char *stem,
                           int64_t rank, const ch_autocorrelation *c, double *m,
                           ch_compressed_model *compressed, ch_error *error);
/* Adds a row to the report. missing [out, in]: the matrix minus its final approximation; c may be NULL. */
ch_status ch_note_matrix(const ch_model *model, const ch_matrix *matrix, const double *missing,
                         const ch_autocorrelation *c, int64_t after, int64_t rank,
                         ch_compressed_model *compressed, ch_error *error);
/* Compares two rows of the report, ch_compressed_matrix, for qsort: by layer, then by projection. */
int ch_order_of_matrices(const void *a, const void *b);

#endif

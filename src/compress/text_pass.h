/* Runs a text through a model, window by window: computes its mean loss, and lets an observer see intermediate
 * values. */
#ifndef CH_COMPRESS_TEXT_PASS_H
#define CH_COMPRESS_TEXT_PASS_H

#include "compress/compress.h"
#include "model/runner.h"
#include "ranks/collector.h"

/* The text's windows and the plans to run them. */
typedef struct ch_text_pass ch_text_pass;

typedef struct ch_text_pass_options {
  int64_t window;         /* tokens seen at once; 0: the model's context, at most 1024 */
  ch_compress_step *step; /* progress callback, or NULL */
  void *context;          /* context of `step` */
  const char *what;       /* name of the work for `step` */
  ch_rank_group *ranks;   /* ranks that share the windows; NULL: this process runs all */
} ch_text_pass_options;

/* Cuts tokens [count] into windows of one length; a remainder at the end is not used. model and tokens must outlive
 * the pass. Fails when there are fewer than two tokens. Every rank creates a pass, with the same text. */
ch_status ch_text_pass_create(const ch_model *model, const int32_t *tokens, int64_t count,
                              const ch_text_pass_options *options, ch_text_pass **pass, ch_error *error);
void ch_text_pass_free(ch_text_pass *pass);
/* Runs all windows with `tensors` (the model's own, or others of the same shapes). *loss is the mean over the
 * predicted tokens, equal on all ranks. observer may be NULL. Each of several ranks runs one batch of windows
 * at a time; an observer sums data over batches by ch_text_pass_collect. */
ch_status ch_text_pass_run(ch_text_pass *pass, const ch_tensor *tensors, const ch_observer *observer,
                           double *loss, ch_error *error);
/* Sends `data` [rows row_bytes] of this batch to a rank chosen by `number`, which adds the batches in order. An
 * observer calls it, at a node that all batches have. row_bytes 0: the data has `fixed_bytes`, whatever the number of
 * rows. */
ch_status ch_text_pass_collect(ch_text_pass *pass, int64_t number, const void *data, size_t row_bytes,
                               size_t fixed_bytes, ch_collector_take *take, void *context, ch_error *error);
/* Broadcasts `data` after a run from the rank that `number` chooses (see ch_text_pass_collect). Every rank calls it. */
void ch_text_pass_share(ch_text_pass *pass, int64_t number, void *data, size_t bytes);
/* Makes all ranks fail if one rank fails. Every rank calls it, but not during a run. */
ch_status ch_text_pass_agree(ch_text_pass *pass, ch_status status, ch_error *error);
/* Returns the number of tokens that one run predicts. */
int64_t ch_text_pass_tokens(const ch_text_pass *pass);
/* Returns the pass's matrix multiplication, for observers. */
ch_gemm *ch_text_pass_gemm(const ch_text_pass *pass);

#endif

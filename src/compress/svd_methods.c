/* SVD-LLM and plain SVD: every matrix W_l = B_l A_l, of the rank that the ratio leaves to it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/low_rank_parts.h"

typedef struct work {
  const ch_model *model;
  const ch_calibration *calibration; /* NULL: plain */
  const ch_compress_options *options;
  ch_compressed *compressed;
  ch_error *error;
  ch_matrices list;
  int64_t *ranks; /* [list.count] */
  double *matrix; /* room for the largest */
} work;

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory to compress a model");
}

static int64_t largest(const ch_matrices *list) {
  int64_t most = 0;
  for (int i = 0; i < list->count; i++)
    if (list->rows[i].out * list->rows[i].in > most) most = list->rows[i].out * list->rows[i].in;
  return most;
}

static int64_t most_rank(const ch_matrix *m) {
  return m->out < m->in ? m->out : m->in;
}

/* The rank, not whole, at which the factors have that share of the matrix' parameters. */
static double exact_rank(const ch_matrix *m, double share) {
  return share * (double)m->out * (double)m->in / (double)(m->out + m->in);
}

static ch_status inputs_of(const work *w, const ch_matrix *m, const ch_autocorrelation **c) {
  *c = w->calibration ? ch_calibration_of(w->calibration, m->layer, m->name) : NULL;
  if (*c || !w->calibration) return CH_OK;
  return ch_fail(w->error, CH_ERROR_ARGUMENT, "calibration has no inputs of %s in layer %d", m->name,
                 m->layer);
}

/* The same share of every matrix' parameters. What whole units of rank leave over goes, unit by unit, where most of one is
   missing; so no matrix is taken apart before its rank is known. */
static void choose_ranks(work *w) {
  int64_t all = 0, left = w->list.budget;
  for (int i = 0; i < w->list.count; i++) all += w->list.rows[i].out * w->list.rows[i].in;
  double share = (double)left / (double)all;
  for (int i = 0; i < w->list.count; i++) {
    const ch_matrix *m = &w->list.rows[i];
    double rank = fmin(exact_rank(m, share), (double)most_rank(m));
    w->ranks[i] = rank < 1 ? 1 : (int64_t)rank;
    left -= w->ranks[i] * (m->out + m->in);
  }
  for (int best = 0; best >= 0;) {
    double most = -INFINITY;
    best = -1;
    for (int i = 0; i < w->list.count; i++) {
      const ch_matrix *m = &w->list.rows[i];
      double missing = exact_rank(m, share) - (double)w->ranks[i];
      if (w->ranks[i] >= most_rank(m) || m->out + m->in > left || missing <= most) continue;
      most = missing;
      best = i;
    }
    if (best < 0) return;
    w->ranks[best]++;
    left -= w->list.rows[best].out + w->list.rows[best].in;
  }
}

/* The new model: factors in place of matrices. */
static ch_status begin(work *w) {
  ch_config config = w->model->config;
  config.sharing = (ch_sharing){.type = CH_SHARING_LOW_RANK, .projection_count = w->list.name_count};
  for (int i = 0; i < w->list.name_count; i++)
    memcpy(config.sharing.projections[i], w->list.names[i], CH_PROJECTION_NAME_SIZE);
  ch_shape_list shapes = {0};
  for (int i = 0; i < w->list.count; i++)
    ch_shape_list_add(&shapes, 2, w->ranks[i], "model.layers.%d.self_attn.%s.a.weight", w->list.rows[i].layer,
                      w->list.rows[i].name);
  ch_status status = ch_compressed_begin(w->model, &config, &shapes, w->options, w->compressed, w->error);
  ch_shape_list_free(&shapes);
  return status;
}

static ch_status write(work *w, int i) {
  const ch_matrix *m = &w->list.rows[i];
  const ch_autocorrelation *c;
  int64_t rank = w->ranks[i];
  CH_TRY(inputs_of(w, m, &c));
  ch_matrix_read(w->model, m, 0, m->out * m->in, w->matrix);
  CH_TRY(ch_write_factors(m, "", rank, c, w->matrix, w->compressed, w->error));
  return ch_note_matrix(w->model, m, w->matrix, c, rank * (m->out + m->in), rank, w->compressed, w->error);
}

static ch_status compress_all(work *w) {
  CH_TRY(ch_matrices_list(w->model, w->options, &w->list, w->error));
  w->ranks = calloc((size_t)w->list.count, sizeof *w->ranks);
  w->matrix = malloc((size_t)largest(&w->list) * sizeof *w->matrix);
  w->compressed->matrices = calloc((size_t)w->list.count, sizeof *w->compressed->matrices);
  if (!w->ranks || !w->matrix || !w->compressed->matrices) return no_memory(w->error);
  choose_ranks(w);
  CH_TRY(begin(w));
  double done = 0, total = 0;
  for (int i = 0; i < w->list.count; i++) total += ch_matrix_work(&w->list.rows[i]);
  for (int i = 0; i < w->list.count; i++) {
    CH_TRY(ch_compress_tell(w->options, "low-rank factors", done, total, w->error));
    CH_TRY(write(w, i));
    done += ch_matrix_work(&w->list.rows[i]);
  }
  CH_TRY(ch_compressed_end(&w->list, w->compressed, w->error));
  return ch_compress_tell(w->options, "low-rank factors", total, total, w->error);
}

static ch_status compress(const ch_model *model, const ch_calibration *calibration,
                          const ch_compress_options *options, ch_compressed *compressed, ch_error *error) {
  *compressed = (ch_compressed){0};
  work w = {.model = model,
            .calibration = calibration,
            .options = options,
            .compressed = compressed,
            .error = error};
  ch_status status = compress_all(&w);
  free(w.ranks), free(w.matrix);
  ch_matrices_free(&w.list);
  if (status != CH_OK) ch_compressed_free(compressed);
  return status;
}

ch_status ch_compress_svd_llm(const ch_model *model, const ch_calibration *calibration,
                              const ch_compress_options *options, ch_compressed *compressed,
                              ch_error *error) {
  *compressed = (ch_compressed){0};
  if (!calibration)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "svd-llm weighs errors by a text: give one with --calibration, or take the method svd");
  return compress(model, calibration, options, compressed, error);
}

ch_status ch_compress_svd(const ch_model *model, const ch_calibration *calibration,
                          const ch_compress_options *options, ch_compressed *compressed, ch_error *error) {
  (void)calibration;
  return compress(model, NULL, options, compressed, error);
}

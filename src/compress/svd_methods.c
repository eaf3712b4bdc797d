/* SVD-LLM, plain SVD and Basis Sharing: every matrix becomes W_l = B_l A_l, of a rank within the budget.
 *
 * In Basis Sharing (Wang et al., ICLR 2025, arXiv 2410.03765) the matrices of n adjacent layers are stacked, [n out,
 * in], and go through one whitened truncated SVD: with the mean of the layers' E[x x^T] = R R^T, U S V^T of the stack
 * times R gives a first factor A_g, the basis that the group's layers share, and B_l, the coefficients of each. The
 * output projection keeps a basis for each layer, as in the paper. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/error_weights.h"
#include "compress/low_rank_parts.h"

/* The matrices of one projection that share a first factor: one, or those of a group of layers. */
typedef struct family {
  int group, count;
  const ch_matrix **members; /* [count], by layer */
  int64_t rows, in;          /* rows and columns of the stack */
} family;

typedef struct work {
  const ch_model *model;
  const ch_calibration *calibration; /* calibration; NULL: plain SVD */
  const ch_compress_options *options;
  ch_compressed_model *compressed;
  ch_error *error;
  int64_t group_size; /* layers that share a basis; 0: nothing is shared */
  ch_matrices list;
  const ch_matrix **members; /* [list.count], family after family */
  family *families;          /* [family_count] */
  int family_count;
  ch_ranked_matrix *ranks; /* [family_count] */
  double *matrix;          /* memory for the largest stack */
  double done, total;      /* progress, in units of ch_matrix_work */
} work;

/* --- families ---------------------------------------------------------------------------------------------------- */

static bool is_shared(const work *w, const ch_matrix *m) {
  return w->group_size > 0 && strcmp(m->name, "o_proj") != 0;
}

static int matrix_group(const work *w, const ch_matrix *m) {
  return w->group_size > 0 ? (int)(m->layer / w->group_size) : m->layer;
}

/* Collects matrix `i` and the later ones that share its first factor. They have equal numbers of inputs. */
static ch_status collect_family(work *w, int i, bool *taken, const ch_matrix **members) {
  const ch_matrix *m = &w->list.rows[i];
  family *f = &w->families[w->family_count++];
  *f = (family){.group = matrix_group(w, m), .members = members, .in = m->in};
  for (int k = i; k < w->list.count; k++) {
    const ch_matrix *other = &w->list.rows[k];
    bool joins = k == i ||
                 (is_shared(w, m) && strcmp(other->name, m->name) == 0 && matrix_group(w, other) == f->group);
    if (!joins) continue;
    if (other->in != m->in)
      return ch_fail(w->error, CH_ERROR_ARGUMENT,
                     "%s has %lld inputs in layer %d and %lld in layer %d, but a basis needs one number; "
                     "exclude it with {keep}",
                     m->name, (long long)m->in, m->layer, (long long)other->in, other->layer);
    taken[k] = true;
    f->members[f->count++] = other;
    f->rows += other->out;
  }
  return CH_OK;
}

static ch_status list_families(work *w) {
  bool *taken = calloc((size_t)w->list.count, sizeof *taken);
  const ch_matrix **members = w->members = calloc((size_t)w->list.count, sizeof *members);
  w->families = calloc((size_t)w->list.count, sizeof *w->families);
  ch_status status = taken && members && w->families ? CH_OK : ch_no_memory(w->error);
  for (int i = 0; status == CH_OK && i < w->list.count; i++) {
    if (taken[i]) continue;
    status = collect_family(w, i, taken, members);
    members += w->families[w->family_count - 1].count;
  }
  free(taken);
  return status;
}

static void read_family(const work *w, const family *f) {
  double *to = w->matrix;
  for (int l = 0; l < f->count; l++) {
    ch_matrix_read(w->model, f->members[l], 0, f->members[l]->out * f->in, to);
    to += f->members[l]->out * f->in;
  }
}

/* --- inputs ------------------------------------------------------------------------------------------------------ */

static ch_status inputs_of(const work *w, const ch_matrix *m, const ch_autocorrelation **c) {
  *c = w->calibration ? ch_calibration_of(w->calibration, m->layer, m->name) : NULL;
  if (*c || !w->calibration) return CH_OK;
  return ch_fail(w->error, CH_ERROR_ARGUMENT, "calibration has no inputs of %s in layer %d", m->name,
                 m->layer);
}

/* Computes the mean of E[x x^T] over the family's layers, as for the paper's stacked X. *c is NULL without
 * calibration. *own receives memory that the caller frees, or NULL. */
static ch_status inputs_of_family(const work *w, const family *f, ch_autocorrelation *sum, float **own,
                                  const ch_autocorrelation **c) {
  *own = NULL;
  CH_TRY(inputs_of(w, f->members[0], c));
  if (!*c || f->count == 1) return CH_OK;
  int64_t size = f->in * f->in;
  *own = calloc((size_t)size, sizeof **own);
  if (!*own) return ch_no_memory(w->error);
  for (int l = 0; l < f->count; l++) {
    const ch_autocorrelation *here = NULL;
    CH_TRY(inputs_of(w, f->members[l], &here));
    for (int64_t i = 0; i < size; i++) (*own)[i] += here->c[i] / (float)f->count;
  }
  *sum = (ch_autocorrelation){.n = f->in, .c = *own};
  *c = sum;
  return CH_OK;
}

/* --- ranks ------------------------------------------------------------------------------------------------------- */

static ch_status report_family(work *w, const char *what, const family *f) {
  ch_status status = ch_compress_tell(w->options, what, w->done, w->total, w->error);
  for (int l = 0; f && l < f->count; l++) w->done += ch_matrix_work(f->members[l]);
  return status;
}

/* Computes how much each unit of rank reduces the error. The weight of the family's error is the mean of its layers'
   weights. */
static ch_status measure_family(work *w, const family *f, ch_ranked_matrix *rank) {
  ch_autocorrelation sum;
  const ch_autocorrelation *c;
  float *own;
  ch_truncation t = {0};
  CH_TRY(report_family(w, "singular values", f));
  rank->weight = 0;
  for (int l = 0; l < f->count; l++) {
    double weight;
    CH_TRY(
        ch_error_weight(w->model, f->members[l], w->calibration, w->options, w->matrix, &weight, w->error));
    rank->weight += weight / f->count;
  }
  ch_status status = inputs_of_family(w, f, &sum, &own, &c);
  if (status == CH_OK) {
    read_family(w, f);
    status = ch_truncation_find(f->rows, f->in, w->matrix, c, false, &t, w->error);
  }
  if (status == CH_OK) rank->values = t.values;
  free(own);
  return status;
}

/* Gives each family rank 1, then the remaining units of rank to the families whose error they reduce most. */
static ch_status search_ranks(work *w) {
  int64_t left = w->list.budget;
  for (int f = 0; f < w->family_count; f++) {
    CH_TRY(measure_family(w, &w->families[f], &w->ranks[f]));
    w->ranks[f].rank = 1;
    left -= w->ranks[f].cost;
  }
  ch_allocate_ranks(w->ranks, w->family_count, left);
  return CH_OK;
}

static ch_status choose_ranks(work *w) {
  bool searched = w->options->ranks == CH_RANKS_SEARCHED;
  double *parts = malloc((size_t)w->family_count * sizeof *parts);
  w->ranks = calloc((size_t)w->family_count, sizeof *w->ranks);
  if (!parts || !w->ranks) {
    free(parts);
    return ch_no_memory(w->error);
  }
  for (int i = 0; i < w->family_count; i++) {
    const family *f = &w->families[i];
    w->ranks[i] =
        (ch_ranked_matrix){.cost = f->rows + f->in, .most = f->rows < f->in ? f->rows : f->in, .weight = 1};
    parts[i] = ch_rank_part(w->options->ranks, f->rows, f->in);
  }
  ch_status status = CH_OK;
  if (searched)
    status = search_ranks(w);
  else
    ch_proportional_ranks(w->ranks, parts, w->family_count, 1, w->list.budget);
  free(parts);
  return status;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static void first_name(const work *w, const family *f, char name[CH_TENSOR_NAME_SIZE]) {
  if (is_shared(w, f->members[0]))
    snprintf(name, CH_TENSOR_NAME_SIZE, "model.dictionary.%d.%s.basis", f->group, f->members[0]->name);
  else
    ch_first_factor_name(f->members[0], "", name);
}

static void put_groups(const work *w, ch_sharing *sharing) {
  int64_t layers = w->model->config.num_hidden_layers;
  for (int64_t first = 0; w->group_size > 0 && first < layers; first += w->group_size) {
    int64_t last = first + w->group_size - 1;
    sharing->groups[sharing->group_count][0] = (uint16_t)first;
    sharing->groups[sharing->group_count++][1] = (uint16_t)(last < layers ? last : layers - 1);
  }
}

/* Begins the new model, with factors in place of matrices. */
static ch_status begin_svd(work *w) {
  ch_config config = w->model->config;
  config.sharing = (ch_sharing){.type = CH_SHARING_LOW_RANK, .projection_count = w->list.name_count};
  for (int i = 0; i < w->list.name_count; i++)
    memcpy(config.sharing.projections[i], w->list.names[i], CH_PROJECTION_NAME_SIZE);
  put_groups(w, &config.sharing);
  w->compressed->groups = config.sharing.group_count;
  ch_shape_list shapes = {0};
  for (int f = 0; f < w->family_count; f++) {
    char name[CH_TENSOR_NAME_SIZE];
    first_name(w, &w->families[f], name);
    ch_shape_list_add(&shapes, 2, w->ranks[f].rank, "%s", name);
  }
  ch_status status = ch_compressed_begin(w->model, &config, &shapes, w->options, w->compressed, w->error);
  ch_shape_list_free(&shapes);
  return status;
}

/* Adds a family's matrices to the report. A factor of several layers is counted once, in `shared`. */
static ch_status note(work *w, const family *f, int64_t rank) {
  const double *missing = w->matrix;
  bool shared = is_shared(w, f->members[0]);
  if (shared) w->compressed->shared += rank * f->in;
  for (int l = 0; l < f->count; l++) {
    const ch_matrix *m = f->members[l];
    const ch_autocorrelation *c;
    CH_TRY(inputs_of(w, m, &c));
    CH_TRY(ch_note_matrix(w->model, m, missing, c, rank * (m->out + (shared ? 0 : m->in)), rank,
                          w->compressed, w->error));
    missing += m->out * m->in;
  }
  return CH_OK;
}

static ch_status write(work *w, int i) {
  const family *f = &w->families[i];
  char first[CH_TENSOR_NAME_SIZE];
  ch_autocorrelation sum;
  const ch_autocorrelation *c;
  float *own;
  CH_TRY(report_family(w, "low-rank factors", f));
  first_name(w, f, first);
  ch_status status = inputs_of_family(w, f, &sum, &own, &c);
  if (status == CH_OK) {
    read_family(w, f);
    status = ch_write_factors(f->members, f->count, first, "", w->ranks[i].rank, c, w->matrix, w->compressed,
                              w->error);
  }
  free(own);
  return status == CH_OK ? note(w, f, w->ranks[i].rank) : status;
}

/* --- all steps --------------------------------------------------------------------------------------------------- */

static ch_status allocate_work(work *w) {
  int64_t most = 0;
  for (int f = 0; f < w->family_count; f++) {
    int64_t size = w->families[f].rows * w->families[f].in;
    if (size > most) most = size;
  }
  w->matrix = malloc((size_t)most * sizeof *w->matrix);
  w->compressed->matrices = calloc((size_t)w->list.count, sizeof *w->compressed->matrices);
  return w->matrix && w->compressed->matrices ? CH_OK : ch_no_memory(w->error);
}

static ch_status compress_all(work *w) {
  CH_TRY(ch_matrices_list(w->model, w->options, &w->list, w->error));
  CH_TRY(list_families(w));
  CH_TRY(allocate_work(w));
  for (int i = 0; i < w->list.count; i++)
    w->total += (w->options->ranks == CH_RANKS_SEARCHED ? 2 : 1) * ch_matrix_work(&w->list.rows[i]);
  CH_TRY(choose_ranks(w));
  CH_TRY(begin_svd(w));
  for (int f = 0; f < w->family_count; f++) CH_TRY(write(w, f));
  if (w->group_size > 0)
    qsort(w->compressed->matrices, (size_t)w->compressed->matrix_count, sizeof *w->compressed->matrices,
          ch_order_of_matrices);
  CH_TRY(ch_compressed_end(&w->list, w->compressed, w->error));
  return report_family(w, "low-rank factors", NULL);
}

static ch_status compress(const ch_model *model, const ch_calibration *calibration,
                          const ch_compress_options *options, int64_t group_size,
                          ch_compressed_model *compressed, ch_error *error) {
  *compressed = (ch_compressed_model){0};
  work w = {.model = model,
            .calibration = calibration,
            .options = options,
            .compressed = compressed,
            .group_size = group_size,
            .error = error};
  ch_status status = compress_all(&w);
  for (int f = 0; w.ranks && f < w.family_count; f++) free((double *)w.ranks[f].values);
  free(w.ranks), free(w.matrix), free(w.families), free(w.members);
  ch_matrices_free(&w.list);
  if (status != CH_OK) ch_compressed_free(compressed);
  return status;
}

ch_status ch_compress_svd_llm(const ch_model *model, const ch_calibration *calibration,
                              const ch_compress_options *options, ch_compressed_model *compressed,
                              ch_error *error) {
  *compressed = (ch_compressed_model){0};
  if (!calibration)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "svd-llm needs a text in {calibration}; without one, use the method svd");
  return compress(model, calibration, options, 0, compressed, error);
}

ch_status ch_compress_svd(const ch_model *model, const ch_calibration *calibration,
                          const ch_compress_options *options, ch_compressed_model *compressed,
                          ch_error *error) {
  (void)calibration;
  return compress(model, NULL, options, 0, compressed, error);
}

ch_status ch_compress_basis_sharing(const ch_model *model, const ch_calibration *calibration,
                                    const ch_compress_options *options, ch_compressed_model *compressed,
                                    ch_error *error) {
  *compressed = (ch_compressed_model){0};
  if (!calibration)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "basis-sharing needs a text in {calibration}; without one, use the method svd");
  if (options->group_size < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%lld layers share a basis; give at least 1",
                   (long long)options->group_size);
  return compress(model, calibration, options, options->group_size, compressed, error);
}

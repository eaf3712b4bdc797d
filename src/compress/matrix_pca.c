/* MASA of a trained model: Matrix PCA in groups of layers, and whitened residuals whose ranks come from one budget.
 * pca_search.c chooses groups and numbers of atoms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/error_weights.h"
#include "compress/low_rank_parts.h"
#include "compress/pca_search.h"

typedef struct work {
  ch_pca pca;
  ch_compressed_model *compressed;
} work;

/* --- writing the new model --------------------------------------------------------------------------------------- */

static const char *atoms_name(const ch_pca_family *f, const char *projection, char *name, size_t size) {
  snprintf(name, size, "model.dictionary.%d.%s.atoms", f->group, projection);
  return name;
}

static ch_status write_family(work *w, const ch_pca_family *f) {
  ch_pca *p = &w->pca;
  const ch_matrix *const *matrices = p->sorted + f->first;
  char name[160];
  ch_atoms atoms;
  atoms_name(f, matrices[0]->name, name, sizeof name);
  CH_TRY(ch_pca_atoms(p, f, &atoms));
  ch_status status = ch_atoms_write(p->model, matrices, &atoms, f->kept, name, w->compressed, p->error);
  ch_atoms_free(&atoms);
  CH_TRY(status);
  for (int l = 0; l < f->count; l++) {
    const ch_matrix *m = matrices[l];
    const ch_autocorrelation *c = ch_pca_inputs(p, m);
    int64_t rank = p->ranks[f->first + l].rank;
    CH_TRY(ch_pca_tell(p, "writing"));
    CH_TRY(ch_atoms_missing_written(p->model, m, f->kept, name, w->compressed, p->matrix, p->error));
    if (rank) {
      char first[CH_TENSOR_NAME_SIZE];
      ch_first_factor_name(m, ".residual", first);
      CH_TRY(ch_write_factors(&m, 1, first, ".residual", rank, c, p->matrix, w->compressed, p->error));
    }
    CH_TRY(ch_note_matrix(p->model, m, p->matrix, c, f->kept + rank * (m->out + m->in), rank, w->compressed,
                          p->error));
  }
  w->compressed->shared += f->kept * matrices[0]->out * matrices[0]->in;
  w->compressed->atoms += f->kept;
  return CH_OK;
}

/* Begins the new model. The shapes of its tensors give the numbers of atoms and the ranks of residuals. */
static ch_status begin_pca(work *w) {
  const ch_pca *p = &w->pca;
  ch_config config = p->model->config;
  config.sharing = (ch_sharing){.type = CH_SHARING_MASA, .projection_count = p->list.name_count};
  for (int i = 0; i < p->list.name_count; i++)
    memcpy(config.sharing.projections[i], p->list.names[i], CH_PROJECTION_NAME_SIZE);
  config.sharing.group_count = p->groups;
  memcpy(config.sharing.groups, p->spans, sizeof config.sharing.groups);
  ch_shape_list shapes = {0};
  char name[160];
  for (int f = 0; f < p->family_count; f++)
    ch_shape_list_add(&shapes, 3, p->families[f].kept, "%s",
                      atoms_name(&p->families[f], p->sorted[p->families[f].first]->name, name, sizeof name));
  for (int i = 0; i < p->list.count; i++)
    if (p->ranks[i].rank)
      ch_shape_list_add(&shapes, 2, p->ranks[i].rank, "model.layers.%d.self_attn.%s.residual.a.weight",
                        p->sorted[i]->layer, p->sorted[i]->name);
  ch_status status = ch_compressed_begin(p->model, &config, &shapes, p->options, w->compressed, p->error);
  ch_shape_list_free(&shapes);
  return status;
}

/* --- all steps --------------------------------------------------------------------------------------------------- */

static int by_projection(const void *a, const void *b) {
  const ch_matrix *x = *(const ch_matrix *const *)a, *y = *(const ch_matrix *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->layer - y->layer;
}

static ch_status check_shapes(const ch_pca *p) {
  for (int i = 1; i < p->list.count; i++) {
    const ch_matrix *a = p->sorted[i - 1], *b = p->sorted[i];
    if (strcmp(a->name, b->name) == 0 && (a->out != b->out || a->in != b->in))
      return ch_fail(p->error, CH_ERROR_ARGUMENT,
                     "%s is [%lld, %lld] in layer %d and [%lld, %lld] in layer %d, but atoms need one shape; "
                     "exclude it with {keep}",
                     b->name, (long long)a->out, (long long)a->in, a->layer, (long long)b->out,
                     (long long)b->in, b->layer);
  }
  return CH_OK;
}

/* Computes each projection's Gram matrix over all of its layers. */
static ch_status measure_grams(ch_pca *p) {
  for (int first = 0, count, i = 0; first < p->list.count; first += count) {
    for (count = 1; first + count < p->list.count; count++)
      if (strcmp(p->sorted[first + count]->name, p->sorted[first]->name) != 0) break;
    for (i = 0; strcmp(p->list.names[i], p->sorted[first]->name) != 0;) i++;
    p->grams[i] = malloc((size_t)count * (size_t)count * sizeof **p->grams);
    if (!p->grams[i]) return ch_no_memory(p->error);
    CH_TRY(ch_gram_of_matrices(p->model, p->sorted + first, count, p->grams[i], p->error));
  }
  return CH_OK;
}

/* Computes the weight of each matrix's squared error. */
static ch_status measure_weights(ch_pca *p) {
  int64_t most = 0;
  for (int i = 0; i < p->list.count; i++)
    if (p->list.rows[i].out * p->list.rows[i].in > most) most = p->list.rows[i].out * p->list.rows[i].in;
  p->matrix = malloc((size_t)most * sizeof *p->matrix);
  if (!p->matrix) return ch_no_memory(p->error);
  for (int i = 0; i < p->list.count; i++)
    CH_TRY(ch_error_weight(p->model, p->sorted[i], p->calibration, p->options, p->matrix, &p->weights[i],
                           p->error));
  return CH_OK;
}

static ch_status compress_all(work *w) {
  ch_pca *p = &w->pca;
  CH_TRY(ch_matrices_list(p->model, p->options, &p->list, p->error));
  size_t count = (size_t)p->list.count;
  p->sorted = calloc(count, sizeof *p->sorted);
  p->grams = calloc((size_t)p->list.name_count, sizeof *p->grams);
  p->ranks = calloc(count, sizeof *p->ranks);
  p->weights = calloc(count, sizeof *p->weights);
  p->families = calloc(count, sizeof *p->families);
  w->compressed->matrices = calloc(count, sizeof *w->compressed->matrices);
  if (!p->sorted || !p->grams || !p->ranks || !p->weights || !p->families || !w->compressed->matrices)
    return ch_no_memory(p->error);
  for (size_t i = 0; i < count; i++) p->sorted[i] = &p->list.rows[i];
  qsort(p->sorted, count, sizeof *p->sorted, by_projection);
  CH_TRY(check_shapes(p));
  CH_TRY(measure_grams(p));
  CH_TRY(measure_weights(p));
  CH_TRY(ch_pca_search(p));
  CH_TRY(begin_pca(w));
  for (int f = 0; f < p->family_count; f++) CH_TRY(write_family(w, &p->families[f]));
  qsort(w->compressed->matrices, count, sizeof *w->compressed->matrices, ch_order_of_matrices);
  w->compressed->groups = p->groups;
  CH_TRY(ch_compressed_end(&p->list, w->compressed, p->error));
  return ch_compress_tell(p->options, "writing", p->total, p->total, p->error);
}

ch_status ch_compress_masa(const ch_model *model, const ch_calibration *calibration,
                           const ch_compress_options *options, ch_compressed_model *compressed,
                           ch_error *error) {
  *compressed = (ch_compressed_model){0};
  work *w = calloc(1, sizeof *w);
  if (!w) return ch_no_memory(error);
  ch_pca *p = &w->pca;
  *p = (ch_pca){.model = model, .calibration = calibration, .options = options, .error = error};
  p->rule = options->ranks;
  if (p->rule == CH_RANKS_DEFAULT) p->rule = options->unweighted ? CH_RANKS_PROJECTION : CH_RANKS_SEARCHED;
  w->compressed = compressed;
  ch_status status = compress_all(w);
  for (int i = 0; p->grams && i < p->list.name_count; i++) free(p->grams[i]);
  free(p->sorted), free(p->grams), free(p->ranks), free(p->weights), free(p->matrix), free(p->families);
  ch_matrices_free(&p->list);
  free(w);
  if (status != CH_OK) ch_compressed_free(compressed);
  return status;
}

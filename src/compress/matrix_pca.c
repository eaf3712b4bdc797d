/* MASA of a trained model: Matrix PCA in groups of layers, whitened residuals of ranks from one budget, and the number of
 * groups and atoms by which least is lost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/layer_groups.h"
#include "compress/low_rank_parts.h"
#include "compress/matrix_atoms.h"

/* A way to spend the budget. */
typedef struct plan {
  int groups, atoms;
  double error; /* what is lost of the outputs, as a share of each matrix's, summed */
} plan;

typedef struct work {
  const ch_model *model;
  const ch_calibration *calibration;
  const ch_compress_options *options;
  ch_compressed *compressed;
  ch_error *error;
  ch_matrices list;
  const ch_matrix **sorted; /* [list.count] by projection, then layer */
  double **grams;           /* [list.name_count] of all matrices of a projection */
  ch_ranked *ranks;         /* [list.count], as `sorted` */
  double *weights;          /* [list.count] 1 / |W R|^2 */
  double *matrix;           /* room for the largest */
  uint16_t spans[CH_MAX_GROUPS][2];
  double all, done, total; /* ch_matrix_work of all matrices; of what was done, and will be */
} work;

/* Members of one projection in one group: sorted[first ... first + count - 1]. */
typedef struct family {
  int projection, group, first, count, kept;
} family;

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory to compress a model");
}

static const ch_autocorrelation *inputs_of(const work *w, const ch_matrix *m) {
  return w->calibration ? ch_calibration_of(w->calibration, m->layer, m->name) : NULL;
}

static int projection_of(const ch_matrices *list, const char *name) {
  int i = 0;
  while (strcmp(list->names[i], name) != 0) i++;
  return i;
}

/* --- families ---------------------------------------------------------------------------------------------------- */

/* Calls `visit` for every projection of every group under a plan; spans hold the groups. */
typedef ch_status visitor(work *w, const family *f);

static ch_status for_families(work *w, const plan *p, visitor *visit) {
  CH_TRY(ch_group_layers(w->calibration ? ch_calibration_drift(w->calibration) : NULL,
                         (int)w->model->config.num_hidden_layers, p->groups, w->spans, w->error));
  for (int first = 0, count; first < w->list.count; first += count) {
    const ch_matrix *m = w->sorted[first];
    family f = {.projection = projection_of(&w->list, m->name), .first = first};
    while (m->layer > w->spans[f.group][1]) f.group++;
    for (count = 1; first + count < w->list.count; count++) {
      const ch_matrix *next = w->sorted[first + count];
      if (strcmp(next->name, m->name) != 0 || next->layer > w->spans[f.group][1]) break;
    }
    f.count = count;
    f.kept = p->atoms < count ? p->atoms : count;
    CH_TRY(visit(w, &f));
  }
  return CH_OK;
}

/* Parameters of atoms and coefficients under a plan. */
static int64_t count_atoms(const work *w, const plan *p) {
  work copy = *w;
  int64_t sum = 0;
  copy.error = NULL;
  if (ch_group_layers(w->calibration ? ch_calibration_drift(w->calibration) : NULL,
                      (int)w->model->config.num_hidden_layers, p->groups, copy.spans, NULL) != CH_OK)
    return INT64_MAX;
  for (int first = 0, count, group; first < w->list.count; first += count) {
    const ch_matrix *m = w->sorted[first];
    for (group = 0; m->layer > copy.spans[group][1];) group++;
    for (count = 1; first + count < w->list.count; count++) {
      const ch_matrix *next = w->sorted[first + count];
      if (strcmp(next->name, m->name) != 0 || next->layer > copy.spans[group][1]) break;
    }
    int64_t kept = p->atoms < count ? p->atoms : count;
    sum += kept * (m->out * m->in + count);
  }
  return sum;
}

/* The atoms of a family, from its part of the projection's Gram matrix. */
static ch_status find_atoms(work *w, const family *f, ch_atoms *atoms) {
  int start = f->first, all = 0;
  while (start > 0 && strcmp(w->sorted[start - 1]->name, w->sorted[f->first]->name) == 0) start--;
  while (start + all < w->list.count && strcmp(w->sorted[start + all]->name, w->sorted[start]->name) == 0)
    all++;
  double *gram = malloc((size_t)f->count * (size_t)f->count * sizeof *gram);
  if (!gram) return no_memory(w->error);
  for (int i = 0; i < f->count; i++)
    for (int j = 0; j < f->count; j++)
      gram[i * f->count + j] = w->grams[f->projection][(f->first - start + i) * all + f->first - start + j];
  ch_status status = ch_atoms_find(f->count, gram, atoms, w->error);
  free(gram);
  return status;
}

/* --- what a plan costs ------------------------------------------------------------------------------------------- */

/* Before work on a matrix. */
static ch_status tell(work *w, const char *what, const ch_matrix *m) {
  double done = w->done;
  w->done += ch_matrix_work(m);
  return ch_compress_tell(w->options, what, done, w->total, w->error);
}

static ch_status look_at(work *w, const family *f) {
  ch_atoms atoms;
  CH_TRY(find_atoms(w, f, &atoms));
  ch_status status = CH_OK;
  for (int l = 0; status == CH_OK && l < f->count; l++) {
    int i = f->first + l;
    const ch_matrix *m = w->sorted[i];
    ch_truncation t = {0};
    free((double *)w->ranks[i].values);
    w->ranks[i] = (ch_ranked){0};
    status = tell(w, "atoms and residuals", m);
    if (status == CH_OK)
      status = ch_atoms_missing(w->model, w->sorted + f->first, &atoms, f->kept, l, w->matrix, w->error);
    if (status == CH_OK)
      status = ch_truncation_find(m->out, m->in, w->matrix, inputs_of(w, m), false, &t, w->error);
    if (status == CH_OK)
      w->ranks[i] =
          (ch_ranked){.cost = m->out + m->in, .most = t.most, .values = t.values, .weight = w->weights[i]};
  }
  ch_atoms_free(&atoms);
  return status;
}

static ch_status evaluate(work *w, plan *p) {
  CH_TRY(for_families(w, p, look_at));
  ch_allocate_ranks(w->ranks, w->list.count, w->list.budget - count_atoms(w, p));
  p->error = ch_error_left(w->ranks, w->list.count);
  return CH_OK;
}

/* --- choosing one ------------------------------------------------------------------------------------------------ */

enum { MOST_PLANS = 64 };

static void add_plan(const work *w, plan *plans, int *count, int groups, int atoms) {
  plan p = {.groups = groups, .atoms = atoms};
  if (*count < MOST_PLANS && count_atoms(w, &p) <= w->list.budget) plans[(*count)++] = p;
}

/* Few groups or several; of their layers a quarter to all but one as atoms. What the caller asks for is not varied. */
static int list_plans(const work *w, plan *plans) {
  static const int group_counts[] = {1, 2, 3, 4, 6, 8};
  int count = 0, layers = (int)w->model->config.num_hidden_layers;
  int asked_groups = (int)w->options->groups, asked_atoms = (int)w->options->atoms;
  for (int i = 0; i < (int)(sizeof group_counts / sizeof *group_counts); i++) {
    int groups = asked_groups ? asked_groups : group_counts[i];
    if (groups > layers || (!asked_groups && groups > 1 && groups > layers / 2) || (asked_groups && i > 0))
      break;
    int most = layers - groups + 1, step = most > 8 ? most / 8 : 1;
    if (asked_atoms)
      add_plan(w, plans, &count, groups, asked_atoms);
    else if (w->options->ratio == 0)
      add_plan(w, plans, &count, groups, layers);
    else
      for (int atoms = 1; atoms < most || atoms == 1; atoms += step)
        add_plan(w, plans, &count, groups, atoms);
  }
  return count;
}

/* The sentence for more groups than layers. */
static ch_status check_groups(work *w) {
  return ch_group_layers(NULL, (int)w->model->config.num_hidden_layers, (int)w->options->groups, w->spans,
                         w->error);
}

/* The plan by which least is lost. With more atoms the error falls and then rises, or rises at once: once it has risen,
   more atoms of the same groups are not tried. */
static ch_status choose(work *w, plan *best) {
  plan plans[MOST_PLANS];
  double before = INFINITY;
  int count = list_plans(w, plans);
  if (!count) {
    const plan least = {.groups = w->options->groups ? (int)w->options->groups : 1,
                        .atoms = w->options->atoms ? (int)w->options->atoms : 1};
    if (least.groups > w->model->config.num_hidden_layers) return check_groups(w);
    double most = 1 - (double)(w->list.others + count_atoms(w, &least)) / (double)w->list.before;
    return ch_fail(w->error, CH_ERROR_ARGUMENT,
                   "%s cannot lose %g of its attention parameters with groups and atoms: %d of %d leave at "
                   "least %.3f of "
                   "them; ask for a ratio of at most %.3f",
                   w->model->directory, w->options->ratio, least.groups, least.atoms, 1 - most,
                   most > 0 ? most : 0);
  }
  w->total = w->all * (count + (count > 1) + 1);
  for (int i = 0; i < count; i++) {
    bool same = i > 0 && plans[i].groups == plans[i - 1].groups;
    plans[i].error = INFINITY;
    if (same && !(plans[i - 1].error < before)) { /* more atoms of such groups did not help already */
      w->total -= w->all;
      continue;
    }
    before = same ? plans[i - 1].error : INFINITY;
    CH_TRY(evaluate(w, &plans[i]));
    if (i == 0 || plans[i].error < best->error) *best = plans[i];
  }
  return count > 1 ? evaluate(w, best) : CH_OK;
}

/* --- writing it -------------------------------------------------------------------------------------------------- */

static const char *atoms_name(const family *f, const char *projection, char *name, size_t size) {
  snprintf(name, size, "model.dictionary.%d.%s.atoms", f->group, projection);
  return name;
}

static ch_status write_family(work *w, const family *f) {
  char name[160];
  ch_atoms atoms;
  atoms_name(f, w->sorted[f->first]->name, name, sizeof name);
  CH_TRY(find_atoms(w, f, &atoms));
  ch_status status =
      ch_atoms_write(w->model, w->sorted + f->first, &atoms, f->kept, name, w->compressed, w->error);
  ch_atoms_free(&atoms);
  CH_TRY(status);
  for (int l = 0; l < f->count; l++) {
    int i = f->first + l;
    const ch_matrix *m = w->sorted[i];
    const ch_autocorrelation *c = inputs_of(w, m);
    int64_t rank = w->ranks[i].rank;
    CH_TRY(tell(w, "factors", m));
    CH_TRY(ch_atoms_missing_written(w->model, m, f->kept, name, w->compressed, w->matrix, w->error));
    if (rank) CH_TRY(ch_write_factors(m, ".residual", rank, c, w->matrix, w->compressed, w->error));
    CH_TRY(ch_note_matrix(w->model, m, w->matrix, c, f->kept + rank * (m->out + m->in), rank, w->compressed,
                          w->error));
  }
  w->compressed->shared += f->kept * w->sorted[f->first]->out * w->sorted[f->first]->in;
  return CH_OK;
}

static ch_status begin(work *w, const plan *p) {
  ch_config config = w->model->config;
  config.sharing = (ch_sharing){.type = CH_SHARING_MASA, .projection_count = w->list.name_count};
  for (int i = 0; i < w->list.name_count; i++)
    memcpy(config.sharing.projections[i], w->list.names[i], CH_PROJECTION_NAME_SIZE);
  config.sharing.atoms = p->atoms;
  config.sharing.group_count = p->groups;
  memcpy(config.sharing.groups, w->spans, sizeof config.sharing.groups);
  int64_t most = 0;
  for (int g = 0; g < p->groups; g++) {
    int64_t size = w->spans[g][1] - w->spans[g][0] + 1;
    if (size > most) most = size;
  }
  if (config.sharing.atoms > most) config.sharing.atoms = most;
  ch_shape_list shapes = {0};
  for (int i = 0; i < w->list.count; i++)
    if (w->ranks[i].rank)
      ch_shape_list_add(&shapes, 2, w->ranks[i].rank, "model.layers.%d.self_attn.%s.residual.a.weight",
                        w->sorted[i]->layer, w->sorted[i]->name);
  ch_status status = ch_compressed_begin(w->model, &config, &shapes, w->options, w->compressed, w->error);
  ch_shape_list_free(&shapes);
  return status;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static int by_projection(const void *a, const void *b) {
  const ch_matrix *x = *(const ch_matrix *const *)a, *y = *(const ch_matrix *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->layer - y->layer;
}

static ch_status check_shapes(const work *w) {
  for (int i = 1; i < w->list.count; i++) {
    const ch_matrix *a = w->sorted[i - 1], *b = w->sorted[i];
    if (strcmp(a->name, b->name) == 0 && (a->out != b->out || a->in != b->in))
      return ch_fail(
          w->error, CH_ERROR_ARGUMENT,
          "%s is [%lld, %lld] in layer %d and [%lld, %lld] in layer %d, and atoms have one shape; keep it as "
          "it is with --keep",
          b->name, (long long)a->out, (long long)a->in, a->layer, (long long)b->out, (long long)b->in,
          b->layer);
  }
  return CH_OK;
}

/* Gram matrices of all layers of each projection, and the size of every matrix's outputs. */
static ch_status measure(work *w) {
  int64_t most = 0;
  for (int i = 0; i < w->list.count; i++)
    if (w->list.rows[i].out * w->list.rows[i].in > most) most = w->list.rows[i].out * w->list.rows[i].in;
  w->matrix = malloc((size_t)most * sizeof *w->matrix);
  if (!w->matrix) return no_memory(w->error);
  for (int first = 0, count; first < w->list.count; first += count) {
    for (count = 1; first + count < w->list.count; count++)
      if (strcmp(w->sorted[first + count]->name, w->sorted[first]->name) != 0) break;
    double **gram = &w->grams[projection_of(&w->list, w->sorted[first]->name)];
    *gram = malloc((size_t)count * (size_t)count * sizeof **gram);
    if (!*gram) return no_memory(w->error);
    CH_TRY(ch_gram_of_matrices(w->model, w->sorted + first, count, *gram, w->error));
  }
  for (int i = 0; i < w->list.count; i++) {
    const ch_matrix *m = w->sorted[i];
    ch_matrix_read(w->model, m, 0, m->out * m->in, w->matrix);
    double square = ch_whitened_square(m->out, m->in, w->matrix, inputs_of(w, m));
    if (square < 0) return no_memory(w->error);
    w->weights[i] = square > 0 ? 1 / square : 0;
  }
  return CH_OK;
}

static int report_order(const void *a, const void *b) {
  const ch_compressed_matrix *x = a, *y = b;
  int order = x->layer - y->layer;
  return order ? order : strcmp(x->projection, y->projection);
}

static ch_status compress_all(work *w) {
  CH_TRY(ch_matrices_list(w->model, w->options, &w->list, w->error));
  size_t count = (size_t)w->list.count;
  w->sorted = calloc(count, sizeof *w->sorted);
  w->grams = calloc((size_t)w->list.name_count, sizeof *w->grams);
  w->ranks = calloc(count, sizeof *w->ranks);
  w->weights = calloc(count, sizeof *w->weights);
  w->compressed->matrices = calloc(count, sizeof *w->compressed->matrices);
  if (!w->sorted || !w->grams || !w->ranks || !w->weights || !w->compressed->matrices)
    return no_memory(w->error);
  for (size_t i = 0; i < count; i++) {
    w->sorted[i] = &w->list.rows[i];
    w->all += ch_matrix_work(&w->list.rows[i]);
  }
  qsort(w->sorted, count, sizeof *w->sorted, by_projection);
  CH_TRY(check_shapes(w));
  CH_TRY(measure(w));
  plan best = {0};
  CH_TRY(choose(w, &best));
  CH_TRY(begin(w, &best));
  CH_TRY(for_families(w, &best, write_family));
  qsort(w->compressed->matrices, count, sizeof *w->compressed->matrices, report_order);
  w->compressed->groups = best.groups;
  w->compressed->atoms = best.atoms;
  CH_TRY(ch_compressed_end(&w->list, w->compressed, w->error));
  return ch_compress_tell(w->options, "factors", w->total, w->total, w->error);
}

ch_status ch_compress_masa(const ch_model *model, const ch_calibration *calibration,
                           const ch_compress_options *options, ch_compressed *compressed, ch_error *error) {
  *compressed = (ch_compressed){0};
  work *w = calloc(1, sizeof *w);
  if (!w) return no_memory(error);
  *w = (work){.model = model,
              .calibration = calibration,
              .options = options,
              .compressed = compressed,
              .error = error};
  ch_status status = compress_all(w);
  for (int i = 0; w->ranks && i < w->list.count; i++) free((double *)w->ranks[i].values);
  for (int i = 0; w->grams && i < w->list.name_count; i++) free(w->grams[i]);
  free(w->sorted), free(w->grams), free(w->ranks), free(w->weights), free(w->matrix);
  ch_matrices_free(&w->list);
  free(w);
  if (status != CH_OK) ch_compressed_free(compressed);
  return status;
}

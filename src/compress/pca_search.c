/* A family has the matrices of one projection in one group of layers. Every family of every grouping is examined once
   with several numbers of atoms, which give the singular values of the residuals. Numbers of atoms and ranks of
   residuals are then chosen within one budget. If ranks are searched, each family has its own number of atoms; else all
   have one number, and ranks follow the rule. */
#include "compress/pca_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/layer_groups.h"
#include "compress/low_rank_parts.h"
#include "compress/truncation.h"

enum { MOST_GROUPINGS = 8, MOST_CHOICES = 10, WIDE = 1024 };

/* Numbers of atoms to try for all families alike. If matrices are wide, only the first three are tried. */
static const int alike[] = {1, 2, 4, 3, 6, 8, 12, 16};

/* An examined family. Groupings have some families in common. */
typedef struct family_search {
  ch_pca_family family;
  int count;                 /* number of choices */
  int kept[MOST_CHOICES];    /* [count]: atoms of each choice */
  ch_ranked_matrix *members; /* [count, family.count] */
  ch_ranked_choice choices[MOST_CHOICES];
} family_search;

typedef struct search {
  ch_pca *pca;
  int groupings[MOST_GROUPINGS], grouping_count;
  family_search *pool;
  int pool_count;
} search;

const ch_autocorrelation *ch_pca_inputs(const ch_pca *pca, const ch_matrix *matrix) {
  return pca->calibration ? ch_calibration_of(pca->calibration, matrix->layer, matrix->name) : NULL;
}

ch_status ch_pca_tell(ch_pca *pca, const char *what) {
  return ch_compress_tell(pca->options, what, pca->done++, pca->total, pca->error);
}

/* --- families ---------------------------------------------------------------------------------------------------- */

static int projection_of(const ch_matrices *list, const char *name) {
  int i = 0;
  while (strcmp(list->names[i], name) != 0) i++;
  return i;
}

/* Sets the groups of layers, and the families in them in the order of `sorted`. */
static ch_status list_families(const ch_pca *pca, int groups, uint16_t spans[][2], ch_pca_family *families,
                               int *family_count) {
  const double *drift = pca->calibration ? ch_calibration_drift(pca->calibration) : NULL;
  *family_count = 0;
  CH_TRY(ch_group_layers(drift, (int)pca->model->config.num_hidden_layers, groups, spans, pca->error));
  for (int first = 0, count; first < pca->list.count; first += count) {
    const ch_matrix *m = pca->sorted[first];
    ch_pca_family *f = &families[(*family_count)++];
    *f = (ch_pca_family){.projection = projection_of(&pca->list, m->name), .first = first};
    while (m->layer > spans[f->group][1]) f->group++;
    for (count = 1; first + count < pca->list.count; count++) {
      const ch_matrix *next = pca->sorted[first + count];
      if (strcmp(next->name, m->name) != 0 || next->layer > spans[f->group][1]) break;
    }
    f->count = count;
  }
  return CH_OK;
}

ch_status ch_pca_atoms(const ch_pca *pca, const ch_pca_family *family, ch_atoms *atoms) {
  int start = family->first, all = 0, count = family->count;
  while (start > 0 && strcmp(pca->sorted[start - 1]->name, pca->sorted[start]->name) == 0) start--;
  while (start + all < pca->list.count &&
         strcmp(pca->sorted[start + all]->name, pca->sorted[start]->name) == 0)
    all++;
  const double *whole = pca->grams[family->projection];
  double *gram = malloc((size_t)count * (size_t)count * sizeof *gram);
  if (!gram) return ch_no_memory(pca->error);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count; j++)
      gram[i * count + j] = whole[(family->first - start + i) * all + family->first - start + j];
  ch_status status = ch_atoms_find(count, gram, pca->weights + family->first, atoms, pca->error);
  free(gram);
  return status;
}

static int64_t cost_of_atoms(const ch_pca *pca, const ch_pca_family *family, int kept) {
  const ch_matrix *m = pca->sorted[family->first];
  return kept * (m->out * m->in + family->count);
}

/* --- choices to examine ------------------------------------------------------------------------------------------ */

static bool is_wide(const ch_pca *pca) {
  bool wide = false;
  for (int i = 0; i < pca->list.count; i++)
    wide = wide || (pca->list.rows[i].out > WIDE && pca->list.rows[i].in > WIDE);
  return wide;
}

/* Lists the numbers of groups to try: 1, and several larger ones. If matrices are wide, there are fewer, because each
 * attempt needs seconds. */
static void list_groupings(search *s) {
  static const int counts[] = {1, 2, 3, 4, 6, 8}, few[] = {1, 4};
  const ch_pca *pca = s->pca;
  int layers = (int)pca->model->config.num_hidden_layers;
  bool wide = is_wide(pca);
  if (pca->options->groups) {
    s->groupings[s->grouping_count++] = (int)pca->options->groups;
    return;
  }
  for (int i = 0; i < (wide ? 2 : 6); i++) {
    int groups = wide ? few[i] : counts[i];
    if (groups == 1 || groups <= layers / 2) s->groupings[s->grouping_count++] = groups;
  }
}

static int alike_count(const ch_pca *pca) {
  return is_wide(pca) ? 3 : (int)(sizeof alike / sizeof *alike);
}

/* Returns true if every family has its own number of atoms, and every matrix its own rank. */
static bool is_searched(const ch_pca *pca) {
  return pca->rule == CH_RANKS_SEARCHED;
}

static void add_choice(family_search *l, int kept) {
  for (int i = 0; i < l->count; i++)
    if (l->kept[i] == kept) return;
  l->kept[l->count++] = kept;
}

/* Lists numbers of atoms that a family may have. If ranks are searched, the numbers rise to one atom per matrix, which
 * leaves no residual. */
static void list_atoms(const ch_pca *pca, family_search *l) {
  int all = l->family.count, asked = (int)pca->options->atoms;
  const ch_matrix *m = pca->sorted[l->family.first];
  if (asked || pca->options->ratio == 0) {
    l->kept[l->count++] = asked && asked < all ? asked : all;
    return;
  }
  if (!is_searched(pca)) {
    for (int i = 0; i < alike_count(pca); i++) add_choice(l, alike[i] < all ? alike[i] : all);
    return;
  }
  const int few[] = {1, all - 1, all},
            more[] = {1, 2, 3, all / 4, all / 2, 3 * all / 4, all - 2, all - 1, all};
  bool wide = m->out > WIDE && m->in > WIDE;
  for (int i = 0; i < (wide ? 3 : 9); i++) {
    int kept = wide ? few[i] : more[i];
    if (kept >= 1 && kept <= all && (!l->count || kept > l->kept[l->count - 1])) l->kept[l->count++] = kept;
  }
}

static ch_status add_to_pool(search *s, const ch_pca_family *family) {
  for (int i = 0; i < s->pool_count; i++)
    if (s->pool[i].family.first == family->first && s->pool[i].family.count == family->count) return CH_OK;
  family_search *more = realloc(s->pool, ((size_t)s->pool_count + 1) * sizeof *more);
  if (!more) return ch_no_memory(s->pca->error);
  s->pool = more;
  family_search *l = &more[s->pool_count];
  *l = (family_search){.family = *family};
  list_atoms(s->pca, l);
  l->members = calloc((size_t)(l->count * family->count), sizeof *l->members);
  if (!l->members) return ch_no_memory(s->pca->error);
  s->pool_count++;
  for (int c = 0; c < l->count; c++)
    if (l->kept[c] < family->count) s->pca->total += family->count;
  return CH_OK;
}

/* --- examining --------------------------------------------------------------------------------------------------- */

/* Computes the singular values of every member's residual after the first `kept` atoms. */
static ch_status look(ch_pca *pca, const ch_pca_family *family, const ch_atoms *atoms, int kept,
                      ch_ranked_matrix *members) {
  for (int l = 0; l < family->count; l++) {
    const ch_matrix *m = pca->sorted[family->first + l];
    ch_truncation t = {0};
    members[l] = (ch_ranked_matrix){.cost = m->out + m->in, .weight = pca->weights[family->first + l]};
    if (kept == family->count) continue; /* nothing is left */
    CH_TRY(ch_pca_tell(pca, "atoms and residuals"));
    CH_TRY(
        ch_atoms_missing(pca->model, pca->sorted + family->first, atoms, kept, l, pca->matrix, pca->error));
    CH_TRY(ch_truncation_find(m->out, m->in, pca->matrix, ch_pca_inputs(pca, m), false, &t, pca->error));
    members[l].values = t.values;
    members[l].most = t.most;
  }
  return CH_OK;
}

static ch_status look_at(ch_pca *pca, family_search *l) {
  ch_atoms atoms;
  CH_TRY(ch_pca_atoms(pca, &l->family, &atoms));
  ch_status status = CH_OK;
  for (int c = 0; status == CH_OK && c < l->count; c++) {
    ch_ranked_matrix *members = l->members + (ptrdiff_t)c * l->family.count;
    l->choices[c] = (ch_ranked_choice){cost_of_atoms(pca, &l->family, l->kept[c]), members};
    status = look(pca, &l->family, &atoms, l->kept[c], members);
  }
  ch_atoms_free(&atoms);
  return status;
}

/* --- choosing ---------------------------------------------------------------------------------------------------- */

static const family_search *looked_at_of(const search *s, const ch_pca_family *family) {
  int i = 0;
  while (s->pool[i].family.first != family->first || s->pool[i].family.count != family->count) i++;
  return &s->pool[i];
}

/* Returns the index of the family's choice with `atoms` atoms, or with one per layer if that is fewer. */
static int choice_of(const family_search *l, int atoms) {
  int kept = atoms < l->family.count ? atoms : l->family.count, i = 0;
  while (l->kept[i] != kept) i++;
  return i;
}

/* Computes the remaining error if every family has `atoms` and residuals get ranks by the rule; -1 if the
 * budget is too small. */
static ch_status weigh_alike(const search *s, ch_pca_family *families, int count, int atoms,
                             ch_ranked_matrix *ranks, double *error) {
  const ch_pca *pca = s->pca;
  int64_t budget = pca->list.budget;
  double *parts = malloc((size_t)pca->list.count * sizeof *parts);
  if (!parts) return ch_no_memory(pca->error);
  for (int f = 0; f < count; f++) {
    const family_search *l = looked_at_of(s, &families[f]);
    int choice = choice_of(l, atoms);
    families[f].kept = l->kept[choice];
    budget -= l->choices[choice].cost;
    for (int k = 0; k < families[f].count; k++) {
      int at = families[f].first + k;
      ranks[at] = l->choices[choice].members[k];
      parts[at] = ch_rank_part(pca->rule, pca->sorted[at]->out, pca->sorted[at]->in);
    }
  }
  *error = -1;
  if (budget >= 0) {
    ch_proportional_ranks(ranks, parts, pca->list.count, 0, budget);
    *error = ch_error_left(ranks, pca->list.count);
  }
  free(parts);
  return CH_OK;
}

/* Chooses the number of atoms of every family and the rank of every matrix that lower the error most. *error
 * receives the remaining error, or -1 if the budget is too small. */
static ch_status weigh_freely(const search *s, ch_pca_family *families, int count, ch_ranked_family *weighed,
                              ch_ranked_matrix *ranks, double *error) {
  for (int f = 0; f < count; f++) {
    const family_search *l = looked_at_of(s, &families[f]);
    weighed[f] =
        (ch_ranked_family){.choices = l->choices, .choice_count = l->count, .members = families[f].count};
  }
  *error = ch_choose_and_rank(weighed, count, s->pca->list.budget, ranks);
  for (int f = 0; f < count; f++) families[f].kept = looked_at_of(s, &families[f])->kept[weighed[f].chosen];
  return CH_OK;
}

static ch_status out_of_reach(const search *s, int64_t cheapest) {
  const ch_pca *pca = s->pca;
  double most = 1 - (double)(pca->list.others + cheapest) / (double)pca->list.before;
  int layers = (int)pca->model->config.num_hidden_layers;
  int atoms = pca->options->atoms ? (int)pca->options->atoms : 1;
  if (most <= 0)
    return ch_fail(pca->error, CH_ERROR_ARGUMENT,
                   "%s has %d layers, so {groups} %d and {atoms} %d save no parameters; give fewer, or use "
                   "{method} svd-llm",
                   pca->model->directory, layers, s->groupings[0], atoms < layers ? atoms : layers);
  return ch_fail(
      pca->error, CH_ERROR_ARGUMENT,
      "%s cannot lose %g of its attention parameters: {groups} %d with {atoms} %d keep at least %.3f of "
      "them; use a ratio of at most %.3f",
      pca->model->directory, pca->options->ratio, s->groupings[0], atoms < layers ? atoms : layers, 1 - most,
      most);
}

/* Tries a candidate. It becomes the best if its error is smaller than that of all earlier ones. */
static ch_status keep_if_better(ch_pca *pca, int groups, const ch_pca_family *families,
                                const ch_ranked_matrix *ranks, double error, double *least) {
  if (error < 0 || error >= *least) return CH_OK;
  *least = error;
  pca->groups = groups;
  memcpy(pca->ranks, ranks, (size_t)pca->list.count * sizeof *ranks);
  CH_TRY(list_families(pca, groups, pca->spans, pca->families, &pca->family_count));
  for (int f = 0; f < pca->family_count; f++) pca->families[f].kept = families[f].kept;
  return CH_OK;
}

static ch_status choose_with(const search *s, int groups, ch_pca_family *families, ch_ranked_family *weighed,
                             ch_ranked_matrix *ranks, double *least) {
  ch_pca *pca = s->pca;
  uint16_t spans[CH_MAX_GROUPS][2];
  double error = -1;
  int count, asked = (int)pca->options->atoms;
  CH_TRY(list_families(pca, groups, spans, families, &count));
  if (is_searched(pca)) {
    CH_TRY(weigh_freely(s, families, count, weighed, ranks, &error));
    return keep_if_better(pca, groups, families, ranks, error, least);
  }
  bool given = asked || pca->options->ratio == 0;
  for (int i = 0; i < (given ? 1 : alike_count(pca)); i++) {
    int atoms = !given ? alike[i] : asked ? asked : (int)pca->model->config.num_hidden_layers;
    CH_TRY(weigh_alike(s, families, count, atoms, ranks, &error));
    CH_TRY(keep_if_better(pca, groups, families, ranks, error, least));
  }
  return CH_OK;
}

static ch_status choose_components(search *s) {
  ch_pca *pca = s->pca;
  size_t most = (size_t)pca->list.count;
  ch_pca_family *families = malloc(most * sizeof *families);
  ch_ranked_family *weighed = malloc(most * sizeof *weighed);
  ch_ranked_matrix *ranks = malloc(most * sizeof *ranks);
  ch_status status = families && weighed && ranks ? CH_OK : ch_no_memory(pca->error);
  double least = INFINITY;
  for (int g = 0; status == CH_OK && g < s->grouping_count; g++)
    status = choose_with(s, s->groupings[g], families, weighed, ranks, &least);
  free(families), free(weighed), free(ranks);
  return status;
}

/* Checks, before anything is examined, that the grouping with the fewest groups and its fewest atoms meets the
 * ratio. */
static ch_status check_reach(const search *s) {
  const ch_pca *pca = s->pca;
  int count;
  int64_t cheapest = 0;
  CH_TRY(list_families(pca, s->groupings[0], s->pca->spans, s->pca->families, &count));
  for (int f = 0; f < count; f++) {
    family_search l = {.family = pca->families[f]};
    list_atoms(pca, &l);
    cheapest += cost_of_atoms(pca, &l.family, l.kept[0]);
  }
  return cheapest <= pca->list.budget ? CH_OK : out_of_reach(s, cheapest);
}

static ch_status run_search(search *s) {
  ch_pca *pca = s->pca;
  list_groupings(s);
  CH_TRY(check_reach(s));
  for (int g = 0; g < s->grouping_count; g++) {
    int count;
    CH_TRY(list_families(pca, s->groupings[g], pca->spans, pca->families, &count));
    for (int f = 0; f < count; f++) CH_TRY(add_to_pool(s, &pca->families[f]));
  }
  for (int i = 0; i < s->pool_count; i++) CH_TRY(look_at(pca, &s->pool[i]));
  return choose_components(s);
}

ch_status ch_pca_search(ch_pca *pca) {
  search s = {.pca = pca};
  pca->total += pca->list.count; /* the matrices are written later */
  ch_status status = run_search(&s);
  for (int i = 0; i < s.pool_count; i++) {
    const family_search *l = &s.pool[i];
    for (int k = 0; k < l->count * l->family.count; k++) free((double *)l->members[k].values);
    free(l->members);
  }
  free(s.pool);
  return status;
}

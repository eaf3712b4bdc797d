/* Folds linear knocking (KHA eq. 8) and head mixing (MEA eq. 11) into projections, after shared projections are
 * materialised.
 *
 * A head's rows W_h of a projection, mixed over heads by M and knocked by T, give T (sum over j of M[g, j] W_j) x,
 * which is another projection. A bias is one more column. Mixing and knocking act before norms and rotations, so
 * nothing else changes. */
#include "compress/absorb.h"

#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "model/transformer.h"
#include "config_file/config_json.h"
#include "config_file/families.h"
#include "tensor/gemm.h"

enum { NAME = 160 };

typedef struct fold_job {
  const ch_model *model; /* model in which every projection is a matrix of its layer */
  ch_absorption *absorbed;
  ch_gemm *gemm;
  ch_error *error;
  unsigned knocked; /* CH_ON_ bits to fold */
  bool keep_cache;  /* true if mixing stays where folding it would enlarge the cache */
  int layer;        /* layer being folded */
} fold_job;

/* --- modules that can be folded ---------------------------------------------------------------------------------- */

static const char *letter(unsigned on) {
  return on == CH_ON_Q ? "q" : on == CH_ON_K ? "k" : "v";
}

/* Finds a tensor of a layer by its name in two parts ("k_proj" and ".weight"); -1 if there is none. */
static int find_layer_param(const ch_params *params, int layer, const char *stem, const char *suffix) {
  char name[NAME];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%.64s%.32s", layer, stem, suffix);
  return ch_params_find(params, name);
}

static int projections_of(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  return mechanism->rows ? mechanism->rows(config, made) : 0;
}

static int64_t components(const ch_config *config, int layer) {
  int64_t of_keys = ch_mixed_components(config, layer, CH_ON_K);
  return of_keys ? of_keys : ch_mixed_components(config, layer, CH_ON_V);
}

/* Returns true if the cache of a layer holds components, which are fewer than the heads mixed from them. */
static bool mixing_saves(const ch_config *config, int layer) {
  return ch_mixed_on_read(config, layer, CH_ON_K) || ch_mixed_on_read(config, layer, CH_ON_V);
}

/* Returns true if the mixing of a layer is folded. The projection then computes all G heads, and the cache holds
   them. */
static bool mixing_folds(const fold_job *f, int layer) {
  const ch_config *c = &f->model->config;
  return components(c, layer) && !(f->keep_cache && mixing_saves(c, layer));
}

/* Returns true if mixing of the state stays in some layer. Maps of single heads then act on the heads that are mixed
 * from components. */
static bool mixing_stays(const fold_job *f, unsigned on) {
  for (int layer = 0; layer < f->model->config.num_hidden_layers; layer++)
    if (ch_mixed_components(&f->model->config, layer, on) && !mixing_folds(f, layer)) return true;
  return false;
}

/* Returns true if knocking of the state can be folded: it is linear, maps of single heads do not act on heads that
   remain mixed, and every layer that knocks the state also has the projection that computes it. */
static bool knocking_folds(const fold_job *f, unsigned on) {
  const ch_model *model = f->model;
  const ch_knocking *knocking = &model->config.attention.knocking;
  ch_state_rows made[CH_MAX_STATE_ROWS];
  int count = projections_of(&model->config, made), i = 0;
  while (i < count && made[i].on != on) i++;
  if (i == count || knocking->type != CH_KNOCKING_LINEAR) return false;
  if (knocking->per_head && mixing_stays(f, on)) return false;
  for (int layer = 0; layer < model->config.num_hidden_layers; layer++)
    if (find_layer_param(&model->params, layer, letter(on), "_knock.weight") >= 0 &&
        find_layer_param(&model->params, layer, made[i].name, ".weight") < 0)
      return false;
  return true;
}

static ch_status settle_mixing(fold_job *f, ch_config *result) {
  const ch_config *c = &f->model->config;
  ch_absorption *a = f->absorbed;
  for (int layer = 0; layer < c->num_hidden_layers; layer++) {
    bool folds = mixing_folds(f, layer);
    a->mixed_layers += folds;
    a->mixes_left += !folds && components(c, layer);
  }
  ch_head_mix *mix = &result->attention.head_mix;
  if (!a->mixed_layers && a->mixes_left) return CH_OK;
  *mix = (ch_head_mix){.last_layer = -1};
  if (!a->mixes_left) return CH_OK;
  if (c->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(f->error, CH_ERROR_CONFIG,
                   "%s has %lld layers, too many for a list of component heads; fold all of them",
                   f->model->directory, (long long)c->num_hidden_layers);
  mix->on = c->attention.head_mix.on;
  mix->listed_layers = c->num_hidden_layers;
  for (int layer = 0; layer < c->num_hidden_layers; layer++) {
    bool kept = components(c, layer) && !mixing_folds(f, layer);
    mix->listed[layer] = (uint16_t)(kept ? components(c, layer) : ch_unmixed_entry(c));
  }
  return CH_OK;
}

static void settle_knocking(fold_job *f, ch_config *result) {
  static const unsigned states[] = {CH_ON_Q, CH_ON_K, CH_ON_V};
  unsigned on = f->model->config.attention.knocking.on;
  for (int i = 0; i < 3; i++)
    if ((on & states[i]) && knocking_folds(f, states[i])) f->knocked |= states[i];
  f->absorbed->knocked = f->knocked;
  f->absorbed->knocks_left = on & ~f->knocked;
  result->attention.knocking.on = f->absorbed->knocks_left;
  if (!f->absorbed->knocks_left) result->attention.knocking = (ch_knocking){0};
}

/* Returns true if the config, written as a model of that type and read again, is unchanged. */
static bool expressible(const ch_config *config, const char *type, ch_config *as) {
  ch_config again;
  ch_text json = {0};
  *as = *config;
  memset(as->model_type, 0, sizeof as->model_type); /* clears the rest of the longer name */
  snprintf(as->model_type, sizeof as->model_type, "%s", type);
  ch_config_spell_family(as);
  if (ch_config_validate(as, type, NULL) != CH_OK) return false;
  ch_config_write(as, &json);
  bool same = !json.failed && ch_config_parse(json.data, type, &again, NULL) == CH_OK &&
              memcmp(as, &again, sizeof again) == 0;
  ch_text_free(&json);
  return same;
}

/* Tries families that other programs load, in the order of `types`. */
void ch_choose_model_type(ch_config *config) {
  static const char *const types[] = {"llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3", "deepseek_v2"};
  ch_config as;
  if (strcmp(config->model_type, "crosshead") != 0) return;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (expressible(config, types[i], &as)) {
      *config = as;
      return;
    }
}

/* --- folding ---------------------------------------------------------------------------------------------------- */

/* Converts a tensor to F32, in the arena. */
static float *real(fold_job *f, const ch_tensor *tensor) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  int64_t count = ch_tensor_count(tensor);
  float *data = ch_arena_alloc(&f->absorbed->arena, (size_t)count * sizeof *data);
  if (data) kernels->convert_from(ch_team_here(), count, tensor->data, tensor->dtype, data);
  return data;
}

/* Mixes rows [components stride, columns] into rows [heads stride, columns]. */
static ch_status mix_rows(fold_job *f, const ch_state_rows *p, int mix, ch_tensor *rows) {
  const ch_tensor *weight = &f->model->weights.tensors[mix];
  int64_t heads = weight->shape[0], inner = weight->shape[1];
  int64_t columns = rows->rank == 2 ? rows->shape[1] : 1, width = p->stride * columns;
  float *m = real(f, weight);
  float *mixed = ch_arena_alloc(&f->absorbed->arena, (size_t)(heads * width) * sizeof *mixed);
  if (!m || !mixed) return ch_no_memory(f->error);
  rows->shape[0] = heads * p->stride;
  const void *from = rows->data;
  rows->data = mixed;
  return ch_gemm_run(f->gemm, false, false, heads, width, inner, m, inner, from, width, mixed, width, false,
                     f->error);
}

/* Multiplies the `size` rows from `offset` of every head by its map T. */
static ch_status knock_rows(fold_job *f, const ch_state_rows *p, int knock, ch_tensor *rows) {
  int64_t columns = rows->rank == 2 ? rows->shape[1] : 1, heads = rows->shape[0] / p->stride;
  const ch_tensor *map = &f->model->weights.tensors[knock];
  const int64_t next = map->rank == 3 ? p->size * p->size : 0; /* a map for each head, or one for all */
  float *t = real(f, map);
  size_t bytes = (size_t)(p->size * columns) * sizeof(float);
  float *product = ch_arena_alloc(&f->absorbed->arena, bytes);
  if (!t || !product) return ch_no_memory(f->error);
  for (int64_t h = 0; h < heads; h++) {
    float *at = (float *)rows->data + (h * p->stride + p->offset) * columns;
    CH_TRY(ch_gemm_run(f->gemm, false, false, p->size, columns, p->size, t + h * next, p->size, at, columns,
                       product, columns, false, f->error));
    memcpy(at, product, bytes);
  }
  return CH_OK;
}

/* Folds the modules of one state into its rows. */
static ch_status fold_state(fold_job *f, const ch_state_rows *p, bool *changed, ch_tensor *rows) {
  const ch_params *params = &f->model->params;
  int mix = p->on == CH_ON_Q ? -1 : find_layer_param(params, f->layer, letter(p->on), "_mix.weight");
  if (mix >= 0 && mixing_folds(f, f->layer)) {
    CH_TRY(mix_rows(f, p, mix, rows));
    *changed = true;
  }
  int knock = f->knocked & p->on ? find_layer_param(params, f->layer, letter(p->on), "_knock.weight") : -1;
  if (knock < 0) return CH_OK;
  *changed = true;
  return knock_rows(f, p, knock, rows);
}

/* Folds the modules of all states of a projection into one of its tensors. */
static ch_status fold_tensor(fold_job *f, const ch_state_rows *made, int count, int first,
                             const char *suffix) {
  int from = find_layer_param(&f->model->params, f->layer, made[first].name, suffix);
  int to = find_layer_param(&f->absorbed->params, f->layer, made[first].name, suffix);
  if (from < 0 || to < 0) return CH_OK;
  ch_tensor rows = f->model->weights.tensors[from];
  rows.data = real(f, &rows);
  rows.dtype = CH_F32;
  if (!rows.data) return ch_no_memory(f->error);
  bool changed = false;
  for (int i = first; i < count; i++)
    if (strcmp(made[i].name, made[first].name) == 0) CH_TRY(fold_state(f, &made[i], &changed, &rows));
  if (changed) f->absorbed->tensors[to] = rows;
  return CH_OK;
}

static ch_status fold_layer(fold_job *f) {
  ch_state_rows made[CH_MAX_STATE_ROWS];
  int count = projections_of(&f->model->config, made);
  for (int i = 0; i < count; i++) {
    int first = 0;
    while (strcmp(made[first].name, made[i].name) != 0) first++;
    if (first < i) continue; /* an earlier iteration folded this projection */
    CH_TRY(fold_tensor(f, made, count, i, ".weight"));
    CH_TRY(fold_tensor(f, made, count, i, ".bias"));
  }
  return CH_OK;
}

/* Reuses the original's tensor for every name that remains. */
static ch_status take_over(fold_job *f) {
  ch_absorption *a = f->absorbed;
  a->tensors = ch_arena_alloc(&a->arena, ((size_t)a->params.count + 1) * sizeof *a->tensors);
  if (!a->tensors) return ch_no_memory(f->error);
  for (int i = 0; i < a->params.count; i++) {
    int from = ch_params_find(&f->model->params, a->params.rows[i].name);
    if (from >= 0) a->tensors[i] = f->model->weights.tensors[from];
  }
  return CH_OK;
}

static ch_status check_shapes(const fold_job *f) {
  const ch_absorption *a = f->absorbed;
  for (int i = 0; i < a->params.count; i++) {
    const ch_param *row = &a->params.rows[i];
    if (!a->tensors[i].data || memcmp(a->tensors[i].shape, row->shape, sizeof row->shape) != 0)
      return ch_fail(f->error, CH_ERROR_CONFIG,
                     "folding %s left no %s of the right shape; this is a bug in Crosshead",
                     f->model->directory, row->name);
  }
  return CH_OK;
}

static ch_status fold_all(fold_job *f) {
  ch_absorption *a = f->absorbed;
  CH_TRY(settle_mixing(f, &a->config));
  settle_knocking(f, &a->config);
  ch_choose_model_type(&a->config);
  CH_TRY(ch_model_declare(&a->config, &a->params, f->error));
  CH_TRY(take_over(f));
  if (a->knocked || a->mixed_layers) {
    CH_TRY(ch_model_check_plain(f->model, "be folded", f->error));
    for (f->layer = 0; f->layer < a->config.num_hidden_layers; f->layer++)
      if (!ch_layer_is_linear(&a->config, f->layer)) CH_TRY(fold_layer(f));
  }
  a->cache_before = ch_state_elements(&f->model->config);
  a->cache_after = ch_state_elements(&a->config);
  return check_shapes(f);
}

ch_status ch_absorb(const ch_model *model, const ch_absorb_options *options, ch_absorption *absorbed,
                    ch_error *error) {
  *absorbed = (ch_absorption){0};
  ch_model dense = *model;
  if (ch_materialise_changes(&model->config, &model->params, CH_MATERIALISE_DENSE)) {
    CH_TRY(ch_model_check_plain(model, "be folded", error));
    CH_TRY(ch_materialise(&model->config, &model->params, model->weights.tensors, CH_MATERIALISE_DENSE,
                          &absorbed->dense, error));
    dense.config = absorbed->dense.config;
    dense.params = absorbed->dense.params;
    dense.weights.tensors = absorbed->dense.tensors;
  }
  absorbed->config = dense.config;
  absorbed->shared = model->config.sharing.projection_count;
  absorbed->residuals = ch_count_residuals(&model->params);
  const ch_team team = ch_team_of(0);
  fold_job f = {.model = &dense, .absorbed = absorbed, .error = error, .keep_cache = options->keep_cache};
  ch_status status = ch_gemm_create(ch_kernels_best(CH_F32), &team, &f.gemm, error);
  if (status == CH_OK) status = fold_all(&f);
  ch_gemm_free(f.gemm);
  if (status != CH_OK) ch_absorbed_free(absorbed);
  return status;
}

void ch_absorbed_free(ch_absorption *absorbed) {
  ch_materialised_model_free(&absorbed->dense);
  ch_params_free(&absorbed->params);
  ch_arena_free(&absorbed->arena);
}

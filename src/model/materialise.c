/* Computes shared and factored matrices with the graph that a pass would use, and stores the results as tensors. */
#include "model/materialise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/weight_source.h"
#include "base/memory.h"
#include "model/runner.h"

enum { ALIGNMENT = 64 };

static const char residual_a[] = ".residual.a.weight";

/* --- the configuration of the result -------------------------------------------------------------------- */

int64_t ch_count_residuals(const ch_params *params) {
  int64_t count = 0;
  for (int i = 0; i < params->count; i++) count += strstr(params->rows[i].name, residual_a) != NULL;
  return count;
}

bool ch_materialise_changes(const ch_config *config, const ch_params *params, ch_materialise_for as) {
  const ch_sharing *sharing = &config->sharing;
  if (as == CH_MATERIALISE_INFERENCE) return sharing->coefficients == CH_COEFFICIENTS_MLP;
  return sharing->type != CH_SHARING_NONE || ch_count_residuals(params) > 0;
}

/* Returns true if a graph reads the whole product of a projection's factors:
   "model.layers.0.self_attn.{name}.b.weight". */
static bool asks_for_product(const ch_graph *graph, const char *name) {
  char factor[80];
  snprintf(factor, sizeof factor, ".self_attn.%s.b.weight", name);
  for (int i = 0; i < graph->count; i++) {
    const ch_node *node = graph->nodes[i];
    if (node->op && strcmp(node->op->name, "matrix_product") == 0 && strstr(node->in[0]->label, factor))
      return true;
  }
  return false;
}

/* Limits config->sharing to the projections whose low-rank factors decoding applies one after the other. */
static ch_status keep_factors(const ch_params *params, ch_config *config, ch_error *error) {
  const ch_model_graph shape = {
      .sequences = 1, .length = 1, .dtype = CH_F32, .head = CH_HEAD_LOGITS, .cached = true};
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_model_build(config, params, &shape, &graph, &root);
  ch_status status = CH_OK;
  if (!graph || !root) {
    status = graph ? ch_fail_as(error, graph->error.status, &graph->error) : ch_no_memory(error);
  } else {
    ch_sharing kept = config->sharing;
    kept.projection_count = 0;
    for (int i = 0; i < config->sharing.projection_count; i++)
      if (!asks_for_product(graph, config->sharing.projections[i]))
        memcpy(kept.projections[kept.projection_count++], config->sharing.projections[i],
               CH_PROJECTION_NAME_SIZE);
    config->sharing = kept.projection_count ? kept : (ch_sharing){0};
  }
  ch_graph_free(graph);
  return status;
}

static ch_status settle(const ch_params *params, ch_materialise_for as, ch_config *config, ch_error *error) {
  if (as == CH_MATERIALISE_INFERENCE)
    config->sharing.coefficients = CH_COEFFICIENTS_DIRECT;
  else if (as == CH_MATERIALISE_SERVING && config->sharing.type == CH_SHARING_LOW_RANK)
    return keep_factors(params, config, error);
  else
    config->sharing = (ch_sharing){0};
  return CH_OK;
}

/* --- values of the given tensors ------------------------------------------------------------------------ */

/* The state of materialising a model. */
typedef struct materialisation {
  const ch_config *config;
  const ch_params *params;
  const ch_tensor *tensors;
  ch_materialise_for as;
  ch_engine engine;
  ch_materialised_model *to;
  ch_error *error;
} materialisation;

/* A row of the result whose tensor is computed from the given ones: coefficients or the matrix of projection `name`
   in `layer`. */
typedef struct made_row {
  int layer;
  char name[CH_PROJECTION_NAME_SIZE];
  bool coefficients; /* true: coefficients of atoms; false: the matrix */
} made_row;

static bool parse_row(const char *full, made_row *row) {
  char suffix[16];
  int end = 0;
  if (sscanf(full, "model.layers.%d.self_attn.%31[a-z0-9_].%15[a-z]%n", &row->layer, row->name, suffix,
             &end) != 3 ||
      full[end])
    return false;
  row->coefficients = strcmp(suffix, "coefficients") == 0;
  return row->coefficients || strcmp(suffix, "weight") == 0;
}

static int atoms_row(const materialisation *r, const made_row *row) {
  return ch_atoms_row(r->config, r->params, row->layer, row->name);
}

/* Returns true if the row is a matrix to which a residual is added. */
static bool joins_residual(const materialisation *r, const made_row *row) {
  return !row->coefficients && r->as != CH_MATERIALISE_STAND_IN &&
         ch_has_residual(r->params, row->layer, row->name) &&
         !ch_has_residual(&r->to->params, row->layer, row->name);
}

/* Returns true if a layer's matrix is one of the atoms, and makes *tensor a view of that atom. */
static bool is_view(const materialisation *r, const made_row *row, ch_tensor *tensor) {
  if (joins_residual(r, row)) return false;
  int index = atoms_row(r, row);
  int64_t atom = r->as == CH_MATERIALISE_STAND_IN && index >= 0 ? row->layer % r->tensors[index].shape[0]
                                                                : ch_atom_of_layer(r->config, row->layer);
  if (atom < 0 || index < 0 || row->coefficients) return false;
  const ch_tensor *atoms = &r->tensors[index];
  size_t bytes = ch_tensor_bytes(atoms) / (size_t)atoms->shape[0];
  *tensor = (ch_tensor){.dtype = atoms->dtype,
                        .rank = 2,
                        .shape = {atoms->shape[1], atoms->shape[2]},
                        .data = (char *)atoms->data + (size_t)atom * bytes};
  return true;
}

/* Returns the type of a computed tensor. */
static ch_dtype type_of(const materialisation *r, const made_row *row, const ch_param *param) {
  int index = atoms_row(r, row);
  ch_dtype real = r->engine.kernels->dtype;
  if (index < 0) index = ch_params_find(r->params, param->name); /* a matrix to which a residual is added */
  if (r->as != CH_MATERIALISE_SERVING || param->always_real || index < 0) return real;
  return r->tensors[index].dtype;
}

static ch_status run_graph(materialisation *r, ch_graph *graph, ch_node *root, int64_t row,
                           const ch_tensor *to) {
  ch_plan *plan;
  CH_TRY(ch_plan_create(graph, root, r->engine.kernels, &r->engine.team, &(ch_plan_options){0}, &plan,
                        r->error));
  ch_status status =
      ch_workspace_reserve(&r->engine.workspace, r->engine.kernels->memory, ch_plan_bytes(plan), r->error);
  if (status == CH_OK) {
    ch_run run = {.kernels = r->engine.kernels,
                  .team = &r->engine.team,
                  .gemm = r->engine.gemm,
                  .workspace = &r->engine.workspace,
                  .params = r->tensors,
                  .error = r->error};
    status = root->kind == CH_NODE_PARAM ? CH_OK : ch_plan_run(plan, &run);
    int64_t count = ch_tensor_count(to);
    const char *value = status == CH_OK ? ch_run_value(&run, root) : NULL;
    const ch_tensor *stored = ch_run_param(&run, root);
    if (value && stored && stored->dtype != r->engine.kernels->dtype) /* a stored matrix is only widened */
      r->engine.kernels->convert_from(&r->engine.team, count, value, stored->dtype, to->data);
    else if (value)
      r->engine.kernels->convert_to(&r->engine.team, count,
                                    value + (size_t)(row * count) * ch_dtype_size(r->engine.kernels->dtype),
                                    to->dtype, to->data);
  }
  ch_plan_free(plan);
  return status;
}

/* Computes the row's value from the given tensors. */
static ch_status compute(materialisation *r, const made_row *made, const ch_tensor *to) {
  ch_graph *graph = ch_graph_create(r->engine.kernels->dtype, 1, 1);
  ch_node **leaves = calloc((size_t)r->params->count, sizeof *leaves);
  if (!graph || !leaves) {
    ch_graph_free(graph);
    free(leaves);
    return ch_no_memory(r->error);
  }
  ch_builder builder = {
      .graph = graph, .config = r->config, .params = r->params, .leaves = leaves, .layer = made->layer};
  int64_t row = 0;
  ch_node *root = made->coefficients ? ch_masa_coefficients(&builder, made->name, &row)
                                     : ch_projection_weight(&builder, made->name);
  ch_status status = run_graph(r, graph, root, row, to);
  free(leaves);
  return status;
}

/* --- the result ----------------------------------------------------------------------------------------- */

/* Decides the source of every tensor: a given tensor, a view of an atom, or memory in `data`, whose address is set
   later. */
static ch_status place_tensors(materialisation *r) {
  ch_materialised_model *to = r->to;
  for (int i = 0; i < to->params.count; i++) {
    const ch_param *param = &to->params.rows[i];
    int from = ch_params_find(r->params, param->name);
    made_row made;
    bool parsed = parse_row(param->name, &made);
    if (from >= 0 && !(parsed && joins_residual(r, &made))) {
      to->tensors[i] = r->tensors[from];
      continue;
    }
    if (!parsed)
      return ch_fail(r->error, CH_ERROR_CONFIG, "%s has no source; this is a bug in Crosshead", param->name);
    if (is_view(r, &made, &to->tensors[i])) continue;
    to->tensors[i] = (ch_tensor){.dtype = type_of(r, &made, param), .rank = param->rank};
    memcpy(to->tensors[i].shape, param->shape, sizeof param->shape);
    to->data_bytes += (ch_tensor_bytes(&to->tensors[i]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  return CH_OK;
}

static ch_status compute_all(materialisation *r) {
  ch_materialised_model *to = r->to;
  char *place = to->data = ch_pages_alloc(to->data_bytes);
  if (!place) return ch_no_memory(r->error);
  for (int i = 0; i < to->params.count; i++) {
    ch_tensor *tensor = &to->tensors[i];
    made_row made;
    if (tensor->data || !parse_row(to->params.rows[i].name, &made)) continue;
    tensor->data = place;
    place += (ch_tensor_bytes(tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    CH_TRY(compute(r, &made, tensor));
  }
  return CH_OK;
}

/* Returns true if a given tensor stays in the result. All do except the tensors of a residual, which stay only if
   their projection keeps its factors. */
static bool stays(const materialisation *r, const char *name) {
  const char *mark = strstr(name, ".residual.");
  char projection[CH_PROJECTION_NAME_SIZE];
  int layer;
  if (!mark || r->as == CH_MATERIALISE_INFERENCE) return true;
  if (r->as == CH_MATERIALISE_SERVING && r->to->config.sharing.type == CH_SHARING_LOW_RANK &&
      sscanf(name, "model.layers.%d.self_attn.%31[a-z0-9_]", &layer, projection) == 2)
    return ch_is_shared(&r->to->config, projection);
  return false;
}

/* Declares the result. Shapes that its config leaves open are those of the given tensors. */
static ch_status declare(materialisation *r) {
  ch_known_shapes known = {.rows = calloc((size_t)r->params->count + 1, sizeof *known.rows)};
  if (!known.rows) return ch_no_memory(r->error);
  for (int i = 0; i < r->params->count; i++) {
    const ch_param *row = &r->params->rows[i];
    if (!stays(r, row->name)) continue;
    ch_known_shape *shape = &known.rows[known.count++];
    *shape = (ch_known_shape){.name = row->name, .rank = row->rank};
    memcpy(shape->shape, row->shape, sizeof row->shape);
  }
  qsort(known.rows, (size_t)known.count, sizeof *known.rows, ch_known_shape_order);
  r->to->params.known = &known;
  ch_status status = ch_model_declare(&r->to->config, &r->to->params, r->error);
  r->to->params.known = NULL;
  free(known.rows);
  return status;
}

static ch_status materialise(materialisation *r) {
  CH_TRY(settle(r->params, r->as, &r->to->config, r->error));
  CH_TRY(declare(r));
  r->to->tensors = calloc((size_t)r->to->params.count + 1, sizeof *r->to->tensors);
  if (!r->to->tensors) return ch_no_memory(r->error);
  CH_TRY(place_tensors(r));
  return compute_all(r);
}

ch_status ch_materialise(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                         ch_materialise_for as, ch_materialised_model *materialised, ch_error *error) {
  *materialised = (ch_materialised_model){.config = *config};
  materialisation r = {
      .config = config, .params = params, .tensors = tensors, .as = as, .to = materialised, .error = error};
  ch_dtype real = params->count && tensors[0].dtype == CH_F64 ? CH_F64 : CH_F32;
  CH_TRY(ch_engine_init_host(&r.engine, real, error));
  ch_status status = materialise(&r);
  ch_engine_free(&r.engine);
  if (status != CH_OK) ch_materialised_model_free(materialised);
  return status;
}

void ch_materialised_model_free(ch_materialised_model *materialised) {
  ch_params_free(&materialised->params);
  free(materialised->tensors);
  ch_pages_free(materialised->data, materialised->data_bytes);
  *materialised = (ch_materialised_model){0};
}

ch_status ch_write_projection(const ch_config *config, const ch_params *params, const ch_tensor *tensors,
                              int layer, const char *name, const ch_tensor *matrix, ch_error *error) {
  materialisation r = {.config = config, .params = params, .tensors = tensors, .error = error};
  made_row made = {.layer = layer};
  snprintf(made.name, sizeof made.name, "%s", name);
  CH_TRY(ch_engine_init_host(&r.engine, CH_F32, error));
  ch_status status = compute(&r, &made, matrix);
  ch_engine_free(&r.engine);
  return status;
}

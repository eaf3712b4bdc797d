/* Decomposes the heads of a projection by the eigenvectors of their inner products, and rebuilds them from fewer
 * components. It works on the weights of one layer, and on the autocorrelation of their inputs if there is a
 * calibration. api/compress_choose.c decides how many heads each layer keeps. */
#include "compress/virtual_heads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "compress/linear_algebra.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

/* Singular values below this share of the largest are noise of F32, and nothing is divided by them. */
static const double least_value = 1e-6;

/* --- models that can be compressed ------------------------------------------------------------------------------- */

static const char *projection_of(unsigned state) {
  return state == CH_ON_K ? "k_proj" : "v_proj";
}

/* Returns true if whole heads of head_dim are adjacent in the projection. */
static bool lies_by_heads(const ch_config *config, unsigned state) {
  ch_state_rows made[CH_MAX_STATE_ROWS];
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  int count = mechanism->rows ? mechanism->rows(config, made) : 0;
  for (int i = 0; i < count; i++)
    if (made[i].on == state && strcmp(made[i].name, projection_of(state)) == 0)
      return made[i].offset == 0 && made[i].size == config->head_dim && made[i].stride == config->head_dim;
  return false;
}

ch_status ch_virtual_heads_check(const ch_model *model, unsigned *states, ch_error *error) {
  const ch_config *c = &model->config;
  const ch_mechanism *mechanism = ch_mechanism_of(c);
  CH_TRY(ch_config_needs_text(c, "the method mea", error));
  *states = 0;
  for (unsigned state = CH_ON_K; state <= CH_ON_V; state <<= 1)
    if ((mechanism->modules & CH_MODULE_HEAD_MIX) && (mechanism->mixes & state) && lies_by_heads(c, state))
      *states |= state;
  if (!*states)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"%s\" attention has no key or value heads to combine; virtual heads need \"gqa\" "
                   "attention, but {method} svd and masa accept any",
                   model->directory, c->attention.type);
  if (ch_heads_differ(c))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s has %lld key and %lld value heads, but virtual heads need equal numbers; {method} svd "
                   "and masa accept any",
                   model->directory, (long long)ch_heads_of(c, CH_ON_K), (long long)ch_heads_of(c, CH_ON_V));
  if (c->attention.head_mix.on)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s already mixes heads; fold the mix into the projections first (crosshead absorb)",
                   model->directory);
  if (c->attention.kv_layer_group > 1)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s shares keys and values between layers, so not every layer has heads to combine; "
                   "{method} svd and masa accept any",
                   model->directory);
  for (unsigned state = CH_ON_K; state <= CH_ON_V; state <<= 1)
    if ((*states & state) && ch_is_shared(c, projection_of(state)))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s shares its %s between layers; expand them first (crosshead absorb)",
                     model->directory, projection_of(state));
  return CH_OK;
}

/* --- inner products of heads ------------------------------------------------------------------------------------- */

static double inner(const float *a, const float *b, int64_t n) {
  double sums[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += (double)a[i + k] * (double)b[i + k];
  for (; i < n; i++) sums[0] += (double)a[i] * (double)b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/* Adds the products of heads' rows in `left` and `right` [G d, columns] to gram [G, G]. It is symmetric
 * because right = left C. */
static void products(const ch_head_factors *f, const float *left, const float *right, int64_t columns,
                     double *gram) {
  int64_t size = f->dim * columns;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t g = 0; g < f->heads; g++)
    for (int64_t j = 0; j <= g; j++) {
      double sum = inner(left + g * size, right + j * size, size);
      gram[g * f->heads + j] += sum;
      if (j < g) gram[j * f->heads + g] += sum;
    }
}

/* Computes E[(W_g x + b_g) . (W_j x + b_j)] = tr(W_g C W_j^T) + b_g . W_j m + b_j . W_g m + b_g . b_j with
 * the mean m of x. */
static ch_status weighted_gram(const ch_head_factors *f, const ch_autocorrelation *x, double *gram,
                               ch_error *error) {
  int64_t rows = f->heads * f->dim, d = f->dim;
  float *product = malloc((size_t)(rows * f->inputs) * sizeof *product);
  float *means = calloc((size_t)rows, sizeof *means);
  const ch_team team = ch_team_of(0);
  ch_gemm *gemm = NULL;
  ch_status status =
      product && means ? ch_gemm_create(ch_kernels_best(CH_F32), &team, &gemm, error) : ch_no_memory(error);
  if (status == CH_OK)
    status = ch_gemm_run(gemm, false, false, rows, f->inputs, f->inputs, f->weight, f->inputs, x->c,
                         f->inputs, product, f->inputs, false, error);
  if (status == CH_OK) {
    products(f, f->weight, product, f->inputs, gram);
    if (f->bias) {
      for (int64_t r = 0; x->mean && r < rows; r++)
        means[r] = (float)inner(f->weight + r * f->inputs, x->mean, f->inputs);
      for (int64_t g = 0; g < f->heads; g++)
        for (int64_t j = 0; j < f->heads; j++)
          gram[g * f->heads + j] += inner(f->bias + g * d, means + j * d, d) +
                                    inner(f->bias + j * d, means + g * d, d) +
                                    inner(f->bias + g * d, f->bias + j * d, d);
    }
  }
  ch_gemm_free(gemm);
  free(product);
  free(means);
  return status;
}

/* Computes the share of a Gram matrix's trace that is lost if only the first 1 ... G columns of V remain:
 * tr(K) - tr(V^T K V). */
static void losses(const ch_head_factors *f, const double *gram, double *lost) {
  int64_t n = f->heads;
  double trace = 0, kept = 0;
  for (int64_t i = 0; i < n; i++) trace += gram[i * n + i];
  for (int64_t j = 0; j < n; j++) {
    for (int64_t a = 0; a < n; a++)
      for (int64_t b = 0; b < n; b++) kept += f->vectors[a * n + j] * gram[a * n + b] * f->vectors[b * n + j];
    lost[j] = j + 1 < n && trace > 0 ? fmax(1 - kept / trace, 0) : 0;
  }
}

/* --- decomposing heads ------------------------------------------------------------------------------------------- */

static const ch_tensor *tensor_of(const ch_model *model, int layer, unsigned state, const char *suffix) {
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s%s", layer, projection_of(state), suffix);
  int row = ch_params_find(&model->params, name);
  return row < 0 ? NULL : &model->weights.tensors[row];
}

static float *real(const ch_tensor *tensor) {
  int64_t count = ch_tensor_count(tensor);
  float *data = malloc((size_t)count * sizeof *data);
  if (data) ch_kernels_best(CH_F32)->convert_from(ch_team_here(), count, tensor->data, tensor->dtype, data);
  return data;
}

static ch_status load(const ch_model *model, int layer, unsigned state, ch_head_factors *f, ch_error *error) {
  const ch_tensor *weight = tensor_of(model, layer, state, ".weight");
  const ch_tensor *bias = tensor_of(model, layer, state, ".bias");
  if (!weight)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: layer %d has no %s.weight to factor", model->directory, layer,
                   projection_of(state));
  f->dim = model->config.head_dim;
  f->heads = weight->shape[0] / f->dim;
  f->inputs = weight->shape[1];
  size_t n = (size_t)f->heads;
  f->weight = real(weight);
  if (bias) f->bias = real(bias);
  f->vectors = calloc(n * n, sizeof *f->vectors);
  f->values = calloc(n, sizeof *f->values);
  f->plain = calloc(n, sizeof *f->plain);
  f->weighted = calloc(n, sizeof *f->weighted);
  bool made = f->weight && (!bias || f->bias) && f->vectors && f->values && f->plain && f->weighted;
  return made ? CH_OK : ch_no_memory(error);
}

/* Sets V to the eigenvectors of the Gram matrix, the largest first, and the singular values to the roots of their
 * eigenvalues. */
static ch_status take_apart(ch_head_factors *f, const double *gram, ch_error *error) {
  int64_t n = f->heads;
  double *rows = malloc((size_t)(n * n) * sizeof *rows);
  if (!rows) return ch_no_memory(error);
  memcpy(rows, gram, (size_t)(n * n) * sizeof *rows);
  ch_status status = ch_eigen(n, rows, f->values, true, error);
  for (int64_t j = 0; status == CH_OK && j < n; j++) {
    f->values[j] = sqrt(fmax(f->values[j], 0));
    for (int64_t g = 0; g < n; g++) f->vectors[g * n + j] = rows[j * n + g];
  }
  free(rows);
  return status;
}

ch_status ch_head_factors_find(const ch_model *model, int layer, unsigned state,
                               const ch_calibration *calibration, ch_head_factors *f, ch_error *error) {
  *f = (ch_head_factors){0};
  double *plain = NULL, *weighted = NULL;
  ch_status status = load(model, layer, state, f, error);
  if (status == CH_OK) {
    size_t count = (size_t)(f->heads * f->heads);
    const ch_autocorrelation *x =
        calibration ? ch_calibration_of(calibration, layer, projection_of(state)) : NULL;
    plain = calloc(count, sizeof *plain);
    weighted = calloc(count, sizeof *weighted);
    status = plain && weighted ? CH_OK : ch_no_memory(error);
    if (status == CH_OK) products(f, f->weight, f->weight, f->inputs, plain);
    if (status == CH_OK && f->bias) products(f, f->bias, f->bias, 1, plain);
    if (status == CH_OK && x) status = weighted_gram(f, x, weighted, error);
    if (status == CH_OK) status = take_apart(f, x ? weighted : plain, error);
    if (status == CH_OK) losses(f, plain, f->plain);
    if (status == CH_OK && x) losses(f, weighted, f->weighted);
    for (int64_t j = 0; status == CH_OK && !x && j < f->heads; j++) f->weighted[j] = -1;
  }
  free(plain);
  free(weighted);
  if (status != CH_OK) ch_head_factors_free(f);
  return status;
}

void ch_head_factors_free(ch_head_factors *f) {
  free(f->weight);
  free(f->bias);
  free(f->vectors);
  free(f->values);
  free(f->plain);
  free(f->weighted);
  *f = (ch_head_factors){0};
}

/* --- rebuilding heads -------------------------------------------------------------------------------------------- */

/* Computes `to` [rows, d columns] = matrix [rows, G] times the heads `from` [G, d columns], in double
 * sums. */
static void combine(const ch_head_factors *f, int64_t rows, const double *matrix, const float *from,
                    int64_t columns, float *to) {
  int64_t size = f->dim * columns;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < size; i++)
    for (int64_t r = 0; r < rows; r++) {
      double sum = 0;
      for (int64_t g = 0; g < f->heads; g++) sum += matrix[r * f->heads + g] * (double)from[g * size + i];
      to[r * size + i] = (float)sum;
    }
}

static void combine_all(const ch_head_factors *f, int64_t rows, const double *matrix, float *weight,
                        float *bias) {
  combine(f, rows, matrix, f->weight, f->inputs, weight);
  if (f->bias) combine(f, rows, matrix, f->bias, 1, bias);
}

/* Returns the factor by which component j is divided and its column of the mix multiplied. */
static double scale_of(const ch_head_factors *f, int64_t j) {
  return f->values[j] > least_value * f->values[0] ? f->values[j] : 1;
}

ch_status ch_head_factors_keep(const ch_head_factors *f, int64_t components, float *weight, float *bias,
                               float *mix, ch_error *error) {
  int64_t n = f->heads;
  double *matrix = malloc((size_t)(components * n) * sizeof *matrix);
  if (!matrix) return ch_no_memory(error);
  for (int64_t j = 0; j < components; j++)
    for (int64_t g = 0; g < n; g++) {
      matrix[j * n + g] = f->vectors[g * n + j] / scale_of(f, j);
      mix[g * components + j] = (float)(f->vectors[g * n + j] * scale_of(f, j));
    }
  combine_all(f, components, matrix, weight, bias);
  free(matrix);
  return CH_OK;
}

ch_status ch_head_factors_rebuild(const ch_head_factors *f, int64_t components, float *weight, float *bias,
                                  ch_error *error) {
  int64_t n = f->heads;
  double *matrix = calloc((size_t)(n * n), sizeof *matrix);
  if (!matrix) return ch_no_memory(error);
  for (int64_t a = 0; a < n; a++)
    for (int64_t b = 0; b < n; b++)
      for (int64_t j = 0; j < components; j++)
        matrix[a * n + b] += f->vectors[a * n + j] * f->vectors[b * n + j];
  combine_all(f, n, matrix, weight, bias);
  free(matrix);
  return CH_OK;
}

/* Creates specimens: random weights, tokens, and the reference's results. */
#include "specimen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "config_file/config_json.h"

/* --- complaints --- */

static int complaint_count;

void complain(const specimen *s, const char *format, ...) {
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  print_error("%s\n    %s\n", s->from->json, text);
  complaint_count++;
}

int complaints(void) {
  return complaint_count;
}

void expect_near(const specimen *s, const char *what, int64_t count, const double *a, const double *b,
                 double scale, double tolerance) {
  if (!a || !b) return;
  double worst = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(a[i] - b[i]);
    if (difference <= worst) continue;
    worst = difference;
    at = i;
    if (isnan(difference)) break;
  }
  if (!(worst <= tolerance * scale))
    complain(s, "%s: element %lld is %.10g and should be %.10g (%.2g of the largest)", what, (long long)at,
             a[at], b[at], worst / scale);
}

double *widened(const float *x, int64_t count) {
  double *wide = malloc((size_t)count * sizeof *wide);
  for (int64_t i = 0; i < count; i++) wide[i] = (double)x[i];
  return wide;
}

/* --- weights --- */

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

/* Returns a random value of a tensor. Its size keeps activations near one, and it differs from the initial value, so
   that no module is an identity. */
static double random_value(const ch_param *row, int64_t i, ch_random *random) {
  double normal = ch_random_normal(random);
  if (row->rank == 1) {
    if (ends_with(row->name, "e_score_correction_bias")) return 0.1 * normal;
    if (strstr(row->name, "lambda_")) return 0.4 * normal;
    if (ends_with(row->name, ".coefficients")) return normal / sqrt((double)row->shape[0]);
    return (ends_with(row->name, ".weight") ? 1 : 0) + 0.4 * normal;
  }
  int64_t columns = row->shape[row->rank - 1];
  if (ends_with(row->name, "_knock.weight") || ends_with(row->name, "up.weight") ||
      ends_with(row->name, "down.weight"))
    return (i / columns % row->shape[row->rank - 2] == i % columns ? 1 : 0) +
           0.5 * normal / sqrt((double)columns);
  if (strstr(row->name, "embed")) return normal;
  /* away from zero, because queries and keys are then divided by their lengths */
  if (ends_with(row->name, "conv1d.weight")) return (1 + 0.4 * normal) / sqrt((double)columns);
  return 1.2 * normal / sqrt((double)columns);
}

static void fill_weights(specimen *s) {
  int64_t total = 0, at = 0;
  int count = s->params.count;
  for (int p = 0; p < count; p++) total += ch_param_count(&s->params.rows[p]);
  double *wide = s->wide_data = malloc((size_t)total * sizeof *wide);
  float *narrow = s->narrow_data = malloc((size_t)total * sizeof *narrow);
  s->wide = calloc((unsigned)count, sizeof *s->wide);
  s->narrow = calloc((unsigned)count, sizeof *s->narrow);
  s->definition_weights.count = count;
  s->definition_weights.tensors = calloc((unsigned)count, sizeof *s->definition_weights.tensors);
  for (int p = 0; p < count; p++) {
    const ch_param *row = &s->params.rows[p];
    s->wide[p] = (ch_tensor){.dtype = CH_F64, .rank = row->rank, .data = wide + at};
    s->narrow[p] = (ch_tensor){.dtype = CH_F32, .rank = row->rank, .data = narrow + at};
    reference_tensor *named = &s->definition_weights.tensors[p];
    *named = (reference_tensor){.name = row->name, .rank = row->rank, .data = wide + at};
    memcpy(s->wide[p].shape, row->shape, sizeof row->shape);
    memcpy(s->narrow[p].shape, row->shape, sizeof row->shape);
    memcpy(named->shape, row->shape, sizeof named->shape);
    ch_random random;
    ch_random_seed(&random, 11, ch_random_stream_of(row->name));
    for (int64_t i = 0; i < ch_param_count(row); i++, at++) {
      narrow[at] = (float)random_value(row, i, &random);
      wide[at] = narrow[at];
    }
  }
}

static void fill_tokens(specimen *s) {
  int64_t count = s->sequences * s->length;
  s->tokens = malloc((size_t)count * sizeof *s->tokens);
  s->targets = malloc((size_t)count * sizeof *s->targets);
  ch_random random;
  ch_random_seed(&random, 12, 0);
  for (int64_t i = 0; i < count; i++) s->tokens[i] = (int32_t)ch_random_below(&random, (uint64_t)s->vocab);
  for (int64_t i = 0; i < count; i++) s->targets[i] = (i + 1) % s->length ? s->tokens[i + 1] : -1;
}

/* Fails if the number of declared parameters is not that of the definition. */
static ch_status check_declared(const specimen *s, ch_error *error) {
  reference_figures figures;
  reference_count(&s->definition, &figures);
  int64_t declared = 0;
  for (int p = 0; p < s->params.count; p++) declared += ch_param_count(&s->params.rows[p]);
  if (declared == figures.parameters_stored) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%lld parameters are declared where the definition has %lld",
                 (long long)declared, (long long)figures.parameters_stored);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ch_known_shape *)a)->name, ((const ch_known_shape *)b)->name);
}

/* Declares a model. The combination's stored sizes are passed as shapes of a checkpoint. */
static ch_status declare(const combination *from, specimen *s, ch_error *error) {
  enum { MOST_STORED = 32 };
  static const char *const formats[] = {"model.layers.%d.self_attn.%s.residual.a.weight",
                                        "model.layers.%d.self_attn.%s.a.weight",
                                        "model.dictionary.%d.%s.atoms", "model.dictionary.%d.%s.basis"};
  char names[MOST_STORED][96];
  ch_known_shape rows[MOST_STORED];
  ch_known_shapes known = {rows, from->stored_count};
  assert_in_range(from->stored_count, 0, MOST_STORED);
  for (int i = 0; i < from->stored_count; i++) {
    const reference_stored *stored = &from->stored[i];
    snprintf(names[i], sizeof names[i], formats[stored->what], stored->at, stored->name);
    rows[i] = (ch_known_shape){
        .name = names[i], .rank = stored->what == REFERENCE_ATOMS ? 3 : 2, .shape = {stored->size, 1, 1}};
  }
  qsort(rows, (size_t)known.count, sizeof *rows, by_name);
  s->params.known = &known;
  ch_status status = ch_model_declare(&s->config, &s->params, error);
  s->params.known = NULL;
  return status;
}

bool specimen_open(const combination *from, specimen *s) {
  ch_error error = {0};
  *s = (specimen){.from = from, .sequences = from->sequences, .length = from->length};
  reference_config_parse(from->json, &s->definition);
  s->definition.stored = from->stored;
  s->definition.stored_count = from->stored_count;
  if (ch_config_parse(from->json, "combination", &s->config, &error) != CH_OK ||
      declare(from, s, &error) != CH_OK || check_declared(s, &error) != CH_OK) {
    print_message("left out: %s\n    %s\n", from->json, error.message);
    ch_params_free(&s->params);
    return false;
  }
  s->vocab = s->definition.vocab;
  fill_weights(s);
  fill_tokens(s);
  int64_t count = s->sequences * s->length * s->vocab;
  s->logits = malloc((size_t)count * sizeof *s->logits);
  s->loss = reference_forward(&s->definition, &s->definition_weights, s->tokens, s->sequences, s->length,
                              NULL, s->logits);
  for (int64_t i = 0; i < count; i++) s->largest = fmax(s->largest, fabs(s->logits[i]));
  return true;
}

void specimen_close(specimen *s) {
  ch_params_free(&s->params);
  free(s->wide), free(s->narrow), free(s->wide_data), free(s->narrow_data);
  free(s->definition_weights.tensors);
  free(s->tokens), free(s->targets), free(s->logits);
}

/* --- running --- */

ch_model_graph specimen_shape(const specimen *s, ch_dtype dtype, ch_head head) {
  return (ch_model_graph){.sequences = s->sequences, .length = s->length, .dtype = dtype, .head = head};
}

double *specimen_run(const specimen *s, ch_engine *engine, const ch_model_graph *shape,
                     const ch_tensor *weights, const int32_t *tokens, const int32_t *document_start,
                     int64_t count) {
  ch_error error = {0};
  ch_runner *runner = NULL;
  const void *value = NULL;
  ch_runner_call call = {
      .weights = weights, .tokens = tokens, .targets = s->targets, .document_start = document_start};
  ch_status status = ch_runner_create(engine, &s->config, &s->params, shape, false, &runner, &error);
  if (status == CH_OK) status = ch_runner_run(runner, &call, &value, &error);
  double *copy = NULL;
  if (status != CH_OK) {
    complain(s, "%s", error.message);
  } else if (shape->dtype == CH_F32) {
    copy = widened(value, count);
  } else {
    copy = malloc((size_t)count * sizeof *copy);
    memcpy(copy, value, (size_t)count * sizeof *copy);
  }
  ch_runner_free(runner);
  return copy;
}

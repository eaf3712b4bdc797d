/* Checks gradients in double. Along a random direction of each tried tensor, they equal central differences of the
 * loss. Recomputation does not change them, and a second accumulated pass doubles them. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "properties.h"
#include "sanitized.h"

/* Gradients of all tensors in one block, in table order. */
typedef struct gradient_set {
  double *data;
  void **place; /* [params] gradient of each tensor in `data` */
  int64_t total;
} gradient_set;

static gradient_set new_gradients(const specimen *s) {
  gradient_set set = {.place = calloc((unsigned)s->params.count, sizeof *set.place)};
  for (int p = 0; p < s->params.count; p++) set.total += ch_param_count(&s->params.rows[p]);
  set.data = malloc((size_t)set.total * sizeof *set.data);
  for (int64_t i = 0; i < set.total; i++) set.data[i] = NAN; /* to detect elements that are not written */
  int64_t at = 0;
  for (int p = 0; p < s->params.count; p++) {
    set.place[p] = set.data + at;
    at += ch_param_count(&s->params.rows[p]);
  }
  return set;
}

static void free_gradients(gradient_set *set) {
  free(set->data);
  free(set->place);
}

/* Returns false for the bias that shifts the choice of experts. The loss is not a smooth function of that bias. */
static bool has_gradient(const char *name) {
  return !strstr(name, "e_score_correction_bias");
}

/* Returns true if a tensor is tested. Passes over long texts are slow, so only the attention of the first layer and
   shared dictionaries are tested with them. */
static bool is_tried(const specimen *s, const char *name) {
  return has_gradient(name) && (s->length <= 64 || strstr(name, "layers.0.self_attn.") ||
                                strstr(name, "layers.0.linear_attn.") || strstr(name, ".dictionary."));
}

static double seed_of(const specimen *s) {
  return 1 / (double)(s->sequences * (s->length - 1));
}

static bool run(const specimen *s, ch_runner *runner, const gradient_set *set, bool accumulate,
                double *loss) {
  ch_error error = {0};
  const void *value = NULL;
  ch_runner_call call = {.weights = s->wide,
                         .tokens = s->tokens,
                         .targets = s->targets,
                         .gradients = set ? set->place : NULL,
                         .accumulate = accumulate,
                         .seed = seed_of(s)};
  if (ch_runner_run(runner, &call, &value, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return false;
  }
  const double *losses = value;
  *loss = 0;
  for (int64_t i = 0; i < s->sequences * s->length; i++) *loss += losses[i] * seed_of(s);
  return true;
}

static ch_runner *new_runner(const specimen *s, laboratory *lab, bool trainable, bool recompute) {
  ch_error error = {0};
  ch_runner *runner = NULL;
  ch_model_graph shape = specimen_shape(s, CH_F64, CH_HEAD_LOSS);
  shape.trainable = trainable;
  if (ch_runner_create(&lab->wide, &s->config, &s->params, &shape, recompute, &runner, &error) != CH_OK)
    complain(s, "%s", error.message);
  return runner;
}

/* Returns the loss with the tensor at `kept` + step * direction, and restores the tensor. */
static double moved_loss(const specimen *s, ch_runner *runner, int p, const double *kept,
                         const double *direction, double step) {
  int64_t count = ch_param_count(&s->params.rows[p]);
  double *x = s->wide[p].data, loss = NAN;
  for (int64_t i = 0; i < count; i++) x[i] = kept[i] + step * direction[i];
  run(s, runner, NULL, false, &loss);
  memcpy(x, kept, (size_t)count * sizeof *x);
  return loss;
}

static void compare_with_differences(const specimen *s, ch_runner *runner, int p, const double *gradient) {
  const double step = 5e-6;
  int64_t count = ch_param_count(&s->params.rows[p]);
  double *kept = malloc((size_t)count * sizeof *kept), *direction = malloc((size_t)count * sizeof *direction);
  memcpy(kept, s->wide[p].data, (size_t)count * sizeof *kept);
  ch_random random;
  ch_random_seed(&random, 13, ch_random_stream_of(s->params.rows[p].name));
  double along = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    direction[i] = ch_random_normal(&random) / sqrt((double)count);
    along += direction[i] * gradient[i];
    size += fabs(direction[i] * gradient[i]);
  }
  double differences =
      (moved_loss(s, runner, p, kept, direction, step) - moved_loss(s, runner, p, kept, direction, -step)) /
      (2 * step);
  if (!(fabs(along - differences) <= 1e-5 * size + 1e-9))
    complain(s, "gradient of %s along a direction is %.10g, differences say %.10g", s->params.rows[p].name,
             along, differences);
  free(kept);
  free(direction);
}

static void compare_sets(const specimen *s, const char *what, const gradient_set *set, double factor,
                         const gradient_set *expected) {
  int64_t at = 0;
  for (int p = 0; p < s->params.count; p++) {
    int64_t count = ch_param_count(&s->params.rows[p]);
    double largest = 0;
    for (int64_t i = at; i < at + count; i++) largest = fmax(largest, fabs(expected->data[i]));
    for (int64_t i = at; has_gradient(s->params.rows[p].name) && i < at + count; i++) {
      if (fabs(set->data[i] - factor * expected->data[i]) <= 1e-12 * (largest + 1e-9)) continue;
      complain(s, "%s: gradient %lld of %s is %.10g and should be %.10g", what, (long long)(i - at),
               s->params.rows[p].name, set->data[i], factor * expected->data[i]);
      break;
    }
    at += count;
  }
}

void check_gradients(laboratory *lab, const specimen *s) {
  if (s->length < 2) return;
  gradient_set kept = new_gradients(s), recomputed = new_gradients(s);
  double loss = 0, again = 0;
  ch_runner *training = new_runner(s, lab, true, false), *frugal = new_runner(s, lab, true, true);
  ch_runner *forward = new_runner(s, lab, false, false);
  if (training && frugal && forward && run(s, training, &kept, false, &loss)) {
    expect_near(s, "loss of a training pass", 1, &loss, &s->loss, s->loss, 1e-9);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* faster for many small passes */
    for (int p = 0; p < s->params.count; p += SANITIZED ? 4 : 1)
      if (is_tried(s, s->params.rows[p].name)) compare_with_differences(s, forward, p, kept.place[p]);
    omp_set_num_threads(threads);
    if (run(s, frugal, &recomputed, false, &again)) compare_sets(s, "recomputed", &recomputed, 1, &kept);
    if (run(s, frugal, &recomputed, true, &again)) compare_sets(s, "accumulated", &recomputed, 2, &kept);
  }
  ch_runner_free(training);
  ch_runner_free(frugal);
  ch_runner_free(forward);
  free_gradients(&kept);
  free_gradients(&recomputed);
}

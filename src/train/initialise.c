/* Truncated normals, uniform numbers, constants and one-hot rows, every piece of a tensor from its own stream
   of random numbers. */
#include "train/initialise.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>

#include "base/random.h"

/* Elements drawn from one stream, few enough to divide a tensor among threads. */
enum { PIECE = 1 << 16 };

static double truncated_normal(ch_random *random) {
  double x;
  do x = ch_random_normal(random);
  while (fabs(x) > 3);
  return x;
}

/* Returns true if element i of a matrix is the hot element of its row. */
static bool is_hot(const ch_param *param, int64_t i) {
  int64_t rows = param->shape[param->rank - 2], columns = param->shape[param->rank - 1];
  return i % columns == i / columns % rows * columns / rows;
}

/* Mamba's ranges of decays, which Gated DeltaNet uses too. */
static const double most_rate = 16, least_step = 0.001, most_step = 0.1, floor_step = 1e-4;

static double decay_bias(ch_random *random) {
  double step = exp(log(least_step) + ch_random_uniform(random) * log(most_step / least_step));
  if (step < floor_step) step = floor_step;
  return step + log(-expm1(-step)); /* the softplus of the result is the step */
}

static double draw(const ch_param *param, ch_random *random) {
  if (param->init == CH_PARAM_INIT_DECAY_RATE) return log(most_rate * fmax(ch_random_uniform(random), 1e-12));
  if (param->init == CH_PARAM_INIT_DECAY_BIAS) return decay_bias(random);
  if (param->init == CH_PARAM_INIT_UNIFORM)
    return param->start + sqrt(3) * param->std * (2 * ch_random_uniform(random) - 1);
  return param->std > 0 ? param->start + param->std * truncated_normal(random) : param->start;
}

static void fill_piece(const ch_param *param, uint64_t seed, int64_t piece, const ch_tensor *weight) {
  ch_random random;
  ch_random_seed(&random, seed, ch_random_stream_of(param->name) + (uint64_t)piece * 0x9e3779b97f4a7c15u);
  int64_t first = piece * PIECE, last = first + PIECE, count = ch_param_count(param);
  if (last > count) last = count;
  for (int64_t i = first; i < last; i++) {
    double value = draw(param, &random);
    if (param->init == CH_PARAM_INIT_ONE_HOT && is_hot(param, i)) value += param->hot > 0 ? param->hot : 1;
    if (weight->dtype == CH_F64)
      ((double *)weight->data)[i] = value;
    else
      ((float *)weight->data)[i] = (float)value;
  }
}

bool ch_initialise_one(const ch_param *param, uint64_t seed, const ch_tensor *weight, ch_stop_test stop,
                       void *context) {
  int64_t pieces = (ch_param_count(param) + PIECE - 1) / PIECE;
  atomic_bool stopped = false;
#pragma omp parallel for schedule(dynamic) if (pieces > 1)
  for (int64_t piece = 0; piece < pieces; piece++) {
    if (stop && omp_get_thread_num() == 0 && !stopped && stop(context)) stopped = true;
    if (!stopped) fill_piece(param, seed, piece, weight);
  }
  return !stopped;
}

void ch_initialise(const ch_params *params, uint64_t seed, const ch_tensor *weights) {
  for (int p = 0; p < params->count; p++) ch_initialise_one(&params->rows[p], seed, &weights[p], NULL, NULL);
}

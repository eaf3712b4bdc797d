/* Finds FFN widths by bisection over the real parameter table, so that no formula can drift from what is trained. */
#include "train/match.h"

#include <stdio.h>

#include "base/text.h"
#include "model/accounting.h"
#include "model/transformer.h"

/* Widths are multiples of the largest of these steps that keeps the counts within `aimed`: even rows are faster. */
static const int64_t steps[] = {64, 32, 16, 8, 4, 2, 1};
static const double aimed = 0.0025;

enum { WIDEST_FFN = 1 << 20 };

static ch_status account(const ch_config *config, ch_account *counted, ch_error *error) {
  ch_params params = {0};
  ch_status status = ch_model_declare(config, &params, error);
  if (status == CH_OK) ch_account_parameters(config, &params, counted);
  ch_params_free(&params);
  return status;
}

ch_status ch_count_parameters(const ch_config *config, ch_counted counted, int64_t *count, ch_error *error) {
  ch_account all = {0};
  CH_TRY(account(config, &all, error));
  *count = counted == CH_COUNT_ACTIVE      ? all.parameters_active
           : counted == CH_COUNT_ATTENTION ? all.parameters_attention
                                           : all.parameters_total;
  return CH_OK;
}

static int64_t *width_of(ch_config *config) {
  return config->moe.experts > 0 ? &config->moe.expert_intermediate_size : &config->intermediate_size;
}

int64_t ch_matched_width(const ch_config *config) {
  ch_config copy = *config;
  return *width_of(&copy);
}

static ch_status count_at(const ch_config *config, ch_counted counted, int64_t width, int64_t *count,
                          ch_error *error) {
  ch_config trial = *config;
  *width_of(&trial) = width;
  return ch_count_parameters(&trial, counted, count, error);
}

/* The width, a multiple of step, whose count is nearest to target: the count grows with the width. */
static ch_status nearest_width(const ch_config *config, ch_counted counted, int64_t target, int64_t step,
                               int64_t *width, int64_t *count, ch_error *error) {
  int64_t low = 1, high = WIDEST_FFN / step, reached, below;
  while (low < high) { /* smallest multiple that reaches the target */
    int64_t middle = (low + high) / 2;
    CH_TRY(count_at(config, counted, middle * step, &reached, error));
    if (reached >= target)
      high = middle;
    else
      low = middle + 1;
  }
  *width = low * step;
  CH_TRY(count_at(config, counted, *width, count, error));
  if (low == 1) return CH_OK;
  CH_TRY(count_at(config, counted, (low - 1) * step, &below, error));
  if (target - below <= *count - target) {
    *width = (low - 1) * step;
    *count = below;
  }
  return CH_OK;
}

/* The difference between the largest and the smallest count, as a share of the smallest. */
static double spread(const int64_t *parameters, int count, int64_t target) {
  int64_t least = target, most = target;
  for (int i = 0; i < count; i++) {
    if (parameters[i] < least) least = parameters[i];
    if (parameters[i] > most) most = parameters[i];
  }
  return (double)(most - least) / (double)least;
}

static int farthest(const int64_t *parameters, int count, int64_t target) {
  int worst = 0;
  for (int i = 1; i < count; i++) {
    int64_t here = parameters[i] - target, there = parameters[worst] - target;
    if ((here < 0 ? -here : here) > (there < 0 ? -there : there)) worst = i;
  }
  return worst;
}

/* Fails for the model that is farthest from the target. */
static ch_status explain(const ch_config *configs, const char *const *names, const int64_t *parameters,
                         int count, int64_t target, ch_error *error) {
  int worst = farthest(parameters, count, target);
  char wanted[32], has[32];
  ch_format_count((double)target, wanted, sizeof wanted);
  ch_format_count((double)parameters[worst], has, sizeof has);
  if (parameters[worst] > target && ch_matched_width(&configs[worst]) == 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has %s parameters even with an FFN of width 1, more than the %s asked for; raise "
                   "--params, or make "
                   "the shape smaller",
                   names[worst], has, wanted);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s comes no nearer to %s parameters than %lld (FFN width %lld), but counts must agree within %.1f %%; "
      "raise --params",
      names[worst], wanted, (long long)parameters[worst], (long long)ch_matched_width(&configs[worst]),
      100 * CH_MATCH_TOLERANCE);
}

/* Sets all widths for a target; *difference is how far the counts then lie apart. */
static ch_status match_to(ch_config *configs, int count, ch_counted counted, int64_t target,
                          int64_t *parameters, double *difference, ch_error *error) {
  *difference = 1;
  for (size_t s = 0; s<sizeof steps / sizeof *steps && * difference> aimed; s++) {
    for (int i = 0; i < count; i++)
      CH_TRY(nearest_width(&configs[i], counted, target, steps[s], width_of(&configs[i]), &parameters[i],
                           error));
    *difference = spread(parameters, count, target);
  }
  return CH_OK;
}

ch_status ch_match_parameters(ch_config *configs, const char *const *names, int count, ch_counted counted,
                              int64_t target, int64_t *parameters, ch_error *error) {
  double difference;
  CH_TRY(match_to(configs, count, counted, target, parameters, &difference, error));
  int worst = farthest(parameters, count, target);
  /* The experts of all layers grow together, so that a mixture has few counts: the others come to the nearest. */
  if (difference > CH_MATCH_TOLERANCE && configs[worst].moe.experts > 0 &&
      ch_matched_width(&configs[worst]) > 1) {
    target = parameters[worst];
    CH_TRY(match_to(configs, count, counted, target, parameters, &difference, error));
  }
  return difference <= CH_MATCH_TOLERANCE ? CH_OK : explain(configs, names, parameters, count, target, error);
}

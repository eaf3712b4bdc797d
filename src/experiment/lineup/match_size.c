/* Finds FFN widths by bisection. It counts the tensors that the model declares, so that the count is that of the
   trained model. */
#include "experiment/lineup/match_size.h"

#include "base/text.h"
#include "model/accounting.h"
#include "model/transformer.h"

/* Widths are multiples of the largest of these steps that keeps the counts within `aimed`, because kernels are faster
   if rows have such lengths. */
static const int64_t steps[] = {64, 32, 16, 8, 4, 2, 1};
static const double aimed = 0.0025;

enum { WIDEST_FFN = 1 << 20 };

const char *const ch_match_names[CH_MATCHES] = {
    [CH_MATCH_PARAMETERS] = "parameters", [CH_MATCH_ACTIVE] = "active",
    [CH_MATCH_FLOPS] = "flops",           [CH_MATCH_TIME] = "time",
    [CH_MATCH_CACHE] = "cache",           [CH_MATCH_NONE] = "none"};

static ch_status account(const ch_config *config, ch_account *counted, ch_error *error) {
  ch_params params = {0};
  ch_status status = ch_model_declare(config, &params, error);
  if (status == CH_OK) ch_account_parameters(config, &params, counted);
  ch_params_free(&params);
  return status;
}

ch_status ch_count_parameters(const ch_config *config, ch_count_kind counted, int64_t *count,
                              ch_error *error) {
  ch_account all = {0};
  CH_TRY(account(config, &all, error));
  *count = counted == CH_COUNT_ACTIVE      ? all.parameters_active
           : counted == CH_COUNT_ATTENTION ? all.parameters_attention
                                           : all.parameters_total;
  return CH_OK;
}

ch_status ch_count_flops(const ch_config *config, int64_t depth, int64_t *flops, ch_error *error) {
  ch_params params = {0};
  ch_account all;
  ch_status status = ch_model_declare(config, &params, error);
  if (status == CH_OK) status = ch_account_model(config, &params, depth, ch_cache_of(CH_F16), &all, error);
  if (status == CH_OK) *flops = (int64_t)all.flops.total;
  ch_params_free(&params);
  return status;
}

/* The quantity to make equal: parameters, or FLOPs at a depth. */
typedef struct aim {
  ch_count_kind counted;
  bool flops;
  int64_t depth;
} aim;

static int64_t *width_of(ch_config *config) {
  return config->moe.experts > 0 ? &config->moe.expert_intermediate_size : &config->intermediate_size;
}

int64_t ch_matched_width(const ch_config *config) {
  ch_config copy = *config;
  return *width_of(&copy);
}

void ch_set_matched_width(ch_config *config, int64_t width) {
  *width_of(config) = width;
}

static ch_status count_at(const ch_config *config, const aim *what, int64_t width, int64_t *count,
                          ch_error *error) {
  ch_config trial = *config;
  *width_of(&trial) = width;
  return what->flops ? ch_count_flops(&trial, what->depth, count, error)
                     : ch_count_parameters(&trial, what->counted, count, error);
}

/* Finds the multiple of `step` whose count is nearest to the target. The count grows with the width. */
static ch_status nearest_width(const ch_config *config, const aim *what, int64_t target, int64_t step,
                               int64_t *width, int64_t *count, ch_error *error) {
  int64_t low = 1, high = WIDEST_FFN / step, reached, below;
  while (low < high) { /* smallest multiple that reaches the target */
    int64_t middle = (low + high) / 2;
    CH_TRY(count_at(config, what, middle * step, &reached, error));
    if (reached >= target)
      high = middle;
    else
      low = middle + 1;
  }
  *width = low * step;
  CH_TRY(count_at(config, what, *width, count, error));
  if (low == 1) return CH_OK;
  CH_TRY(count_at(config, what, (low - 1) * step, &below, error));
  if (target - below <= *count - target) {
    *width = (low - 1) * step;
    *count = below;
  }
  return CH_OK;
}

/* Returns the difference between the largest and the smallest of the counts and the target, as a share of the
 * smallest. */
static double parameter_spread(const int64_t *parameters, int count, int64_t target) {
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
static ch_status explain(const ch_config *configs, const char *const *names, const aim *what,
                         const int64_t *parameters, int count, int64_t target, ch_error *error) {
  int worst = farthest(parameters, count, target);
  char wanted[32], has[32];
  const char *unit = what->flops ? "FLOPs per token" : "parameters";
  const char *advice = what->flops ? "put the mechanism that needs most FLOPs first, or " : "";
  ch_format_count((double)target, wanted, sizeof wanted);
  ch_format_count((double)parameters[worst], has, sizeof has);
  if (parameters[worst] > target && ch_matched_width(&configs[worst]) == 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s has %s %s even with an FFN of width 1, more than the target of %s; %sraise {parameters}, or "
        "make the shape smaller",
        names[worst], has, unit, wanted, advice);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s comes no nearer to %s %s than %lld (FFN width %lld), but counts must agree within %.1f %%; "
      "%sraise {parameters}",
      names[worst], wanted, unit, (long long)parameters[worst], (long long)ch_matched_width(&configs[worst]),
      100 * CH_MATCH_TOLERANCE, advice);
}

/* Sets all widths for a target. *difference receives the largest difference between the counts, as a share. */
static ch_status match_to(ch_config *configs, int count, const aim *what, int64_t target, int64_t *parameters,
                          double *difference, ch_error *error) {
  *difference = 1;
  for (size_t s = 0; s<sizeof steps / sizeof *steps && * difference> aimed; s++) {
    for (int i = 0; i < count; i++)
      CH_TRY(
          nearest_width(&configs[i], what, target, steps[s], width_of(&configs[i]), &parameters[i], error));
    *difference = parameter_spread(parameters, count, target);
  }
  return CH_OK;
}

static ch_status match_widths(ch_config *configs, const char *const *names, int count, const aim *what,
                              int64_t target, int64_t *counts, ch_error *error) {
  double difference;
  CH_TRY(match_to(configs, count, what, target, counts, &difference, error));
  int worst = farthest(counts, count, target);
  /* The experts of all layers change together, so a mixture has few possible counts. The target becomes the nearest of
     them. */
  if (difference > CH_MATCH_TOLERANCE && configs[worst].moe.experts > 0 &&
      ch_matched_width(&configs[worst]) > 1) {
    target = counts[worst];
    CH_TRY(match_to(configs, count, what, target, counts, &difference, error));
  }
  return difference <= CH_MATCH_TOLERANCE ? CH_OK
                                          : explain(configs, names, what, counts, count, target, error);
}

ch_status ch_match_parameters(ch_config *configs, const char *const *names, int count, ch_count_kind counted,
                              int64_t target, int64_t *parameters, ch_error *error) {
  return match_widths(configs, names, count, &(aim){.counted = counted}, target, parameters, error);
}

ch_status ch_match_flops(ch_config *configs, const char *const *names, int count, int64_t depth,
                         int64_t target, ch_error *error) {
  enum { MOST = 64 };
  int64_t flops[MOST];
  if (count > MOST) return ch_fail(error, CH_ERROR_ARGUMENT, "at most %d models can be matched", MOST);
  return match_widths(configs, names, count, &(aim){.flops = true, .depth = depth}, target, flops, error);
}

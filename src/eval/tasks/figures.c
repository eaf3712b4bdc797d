/* Accuracies and perplexities over items. The bootstrap runs in parallel; its result does not depend on the number of
 * threads. */
#include "eval/tasks/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/tasks/python_random.h"

enum { RESAMPLES = 100000, RESAMPLES_A_SEED = 1000 };

/* --- figures ------------------------------------------------------------------------------------------------- */

/* Returns the mean of values [count] and its standard error, sqrt(sum (x - mean)^2 / (n - 1) / n). */
static ch_task_figure mean_of(const double *values, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  double mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  double error = count > 1 ? sqrt(squares / (double)(count - 1)) / sqrt((double)count) : (double)NAN;
  return (ch_task_figure){.value = mean, .error = error};
}

/* Computes RESAMPLES_A_SEED resamples, random.choices(items, k = count) of a generator seeded with `seed`. */
static void resample(uint32_t seed, const double *numerators, const double *denominators, int64_t count,
                     double *results) {
  ch_python_random random;
  ch_python_seed(&random, seed);
  for (int i = 0; i < RESAMPLES_A_SEED; i++) {
    double sum = 0, divisor = denominators ? 0 : (double)count;
    for (int64_t k = 0; k < count; k++) {
      int64_t drawn = (int64_t)(ch_python_uniform(&random) * (double)count);
      sum += numerators[drawn];
      if (denominators) divisor += denominators[drawn];
    }
    results[i] = exp(sum / divisor);
  }
}

/* Computes exp(sum of numerators / sum of denominators) and its standard error by 100,000 resamples of the
 * items, drawn as in the harness. denominators NULL: 1 each. */
static ch_status perplexity_figure(const double *numerators, const double *denominators, int64_t count,
                                   ch_task_figure *figure, ch_error *error) {
  double sum = 0, divisor = denominators ? 0 : (double)count;
  for (int64_t i = 0; i < count; i++) sum += numerators[i];
  for (int64_t i = 0; denominators && i < count; i++) divisor += denominators[i];
  *figure = (ch_task_figure){.value = exp(sum / divisor), .error = (double)NAN};
  if (count < 2) return CH_OK;
  double *results = malloc(RESAMPLES * sizeof *results);
  if (!results) return ch_no_memory(error);
#pragma omp parallel for schedule(dynamic)
  for (int seed = 0; seed < RESAMPLES / RESAMPLES_A_SEED; seed++)
    resample((uint32_t)seed, numerators, denominators, count, results + seed * RESAMPLES_A_SEED);
  figure->error = mean_of(results, RESAMPLES).error * sqrt(RESAMPLES);
  free(results);
  return CH_OK;
}

/* --- outcomes ------------------------------------------------------------------------------------------------ */

/* Returns the true choices' share of the probability of all choices. Terms are relative to the largest. */
static double mass_of_truths(const ch_question *q, const ch_continuation_score *scores) {
  double least = INFINITY, truth = 0, all = 0;
  for (int i = 0; i < q->count; i++) least = fmin(least, scores[i].nll);
  for (int i = 0; i < q->count; i++) {
    double mass = exp(least - scores[i].nll);
    all += mass;
    truth += q->truths[i] ? mass : 0;
  }
  return truth / all;
}

static void judge_choices(const ch_question *q, const ch_continuation_score *scores,
                          ch_task_outcome *outcome) {
  double best = -INFINITY, best_norm = -INFINITY;
  for (int i = 0; i < q->count; i++) {
    double likelihood = -scores[i].nll, norm = likelihood / (double)q->requests[i].characters;
    if (likelihood > best) {
      best = likelihood;
      outcome->choice = i;
    }
    if (norm > best_norm) {
      best_norm = norm;
      outcome->norm_choice = i;
    }
  }
  outcome->acc = q->truths ? mass_of_truths(q, scores) : outcome->choice == q->gold;
  outcome->acc_norm = outcome->norm_choice == q->gold;
}

static void judge_item(ch_task_evaluation *e, int64_t index) {
  const ch_continuation_score *scores = e->scores + e->starts[index];
  ch_task_outcome *outcome = &e->outcomes[index];
  if (e->task->output == CH_TASK_GENERATE) {
    outcome->acc = e->scored[index * e->task->answers.filter_count];
    return;
  }
  *outcome = (ch_task_outcome){0};
  if (e->task->output == CH_TASK_CHOICES || e->task->output == CH_TASK_INPUTS) {
    judge_choices(&e->questions[index], scores, outcome);
    return;
  }
  outcome->acc = scores->greedy;
  for (int64_t i = e->starts[index]; i < e->starts[index + 1]; i++) outcome->nll += e->scores[i].nll;
}

/* --- groups -------------------------------------------------------------------------------------------------- */

static ch_status add_group(ch_task_evaluation *e, const char *name, const double *acc, double *own,
                           ch_error *error) {
  ch_task_group *groups = realloc(e->groups, (size_t)(e->group_count + 1) * sizeof *groups);
  if (!groups) return ch_no_memory(error);
  e->groups = groups;
  int64_t count = 0;
  for (int64_t i = 0; i < e->items.count; i++)
    if (strcmp(e->questions[i].group, name) == 0) own[count++] = acc[i];
  groups[e->group_count++] = (ch_task_group){.name = name, .count = count, .acc = mean_of(own, count)};
  return CH_OK;
}

static bool known_group(const ch_task_evaluation *e, const char *name) {
  for (int64_t i = e->group_count - 1; i >= 0; i--)
    if (strcmp(e->groups[i].name, name) == 0) return true;
  return false;
}

/* Computes the accuracies of groups. The standard error over all items follows from the groups' errors. */
static ch_status figures_of_groups(ch_task_evaluation *e, const double *acc, ch_error *error) {
  if (e->items.count == 0 || !e->questions[0].group) return CH_OK;
  double *own = malloc((size_t)e->items.count * sizeof *own), variance = 0;
  if (!own) return ch_no_memory(error);
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < e->items.count; i++) {
    const char *name = e->questions[i].group ? e->questions[i].group : "";
    if (!known_group(e, name)) status = add_group(e, name, acc, own, error);
  }
  free(own);
  for (int64_t i = 0; i < e->group_count; i++) {
    double n = (double)e->groups[i].count, deviation = e->groups[i].acc.error;
    if (n > 1) variance += (n - 1) * deviation * deviation * n;
  }
  double n = (double)e->items.count, groups = (double)e->group_count;
  e->acc.error = n > groups ? sqrt(variance / (n - groups) / n) : (double)NAN;
  return status;
}

/* --- all figures --------------------------------------------------------------------------------------------- */

static ch_status figures_of_text(ch_task_evaluation *e, double *nll, double *divisor, ch_error *error) {
  for (int64_t i = 0; i < e->items.count; i++) {
    nll[i] = e->outcomes[i].nll;
    divisor[i] = (double)e->questions[i].words;
  }
  CH_TRY(perplexity_figure(nll, divisor, e->items.count, &e->word_perplexity, error));
  for (int64_t i = 0; i < e->items.count; i++) divisor[i] = (double)e->questions[i].bytes;
  CH_TRY(perplexity_figure(nll, divisor, e->items.count, &e->byte_perplexity, error));
  e->bits_per_byte.value = log(e->byte_perplexity.value) / log(2);
  e->bits_per_byte.error = e->byte_perplexity.error / e->byte_perplexity.value / log(2); /* to first order */
  return CH_OK;
}

/* Computes the figures of written answers: one for each way to extract the answer from the text. */
static ch_status figures_of_filters(ch_task_evaluation *e, double *values, ch_error *error) {
  int count = e->task->answers.filter_count;
  e->by_filter = calloc((size_t)count, sizeof *e->by_filter);
  if (!e->by_filter) return ch_no_memory(error);
  for (int f = 0; f < count; f++) {
    for (int64_t i = 0; i < e->items.count; i++) values[i] = e->scored[i * count + f];
    e->by_filter[f] = mean_of(values, e->items.count);
  }
  return CH_OK;
}

static ch_status task_figures(ch_task_evaluation *e, double *values, double *others, ch_error *error) {
  int64_t count = e->items.count;
  if (e->task->output == CH_TASK_ROLLING) return figures_of_text(e, values, others, error);
  if (e->task->output == CH_TASK_GENERATE) CH_TRY(figures_of_filters(e, values, error));
  if (e->task->perplexity) {
    for (int64_t i = 0; i < count; i++) values[i] = e->outcomes[i].nll;
    CH_TRY(perplexity_figure(values, NULL, count, &e->perplexity, error));
  }
  for (int64_t i = 0; i < count; i++) values[i] = e->outcomes[i].acc_norm;
  e->acc_norm = mean_of(values, count);
  for (int64_t i = 0; i < count; i++) values[i] = e->outcomes[i].acc;
  e->acc = mean_of(values, count);
  return figures_of_groups(e, values, error);
}

ch_status ch_task_figures(ch_task_evaluation *e, ch_error *error) {
  size_t count = (size_t)e->items.count + 1;
  double *values = calloc(count, sizeof *values), *others = calloc(count, sizeof *others);
  ch_status status = CH_OK;
  if (values && others) {
    for (int64_t i = 0; i < e->items.count; i++) judge_item(e, i);
    status = task_figures(e, values, others, error);
  } else {
    status = ch_no_memory(error);
  }
  free(values);
  free(others);
  return status;
}

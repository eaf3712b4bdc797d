/* Orders runs by their predicted lengths, and divides the runs of a comparison into shares (`part` of `parts`). Equal
 * settings give equal shares in every process. */
#include "experiment/trial/shares.h"

#include <stdlib.h>

#include "experiment/lineup/match_size.h"
#include "experiment/trial/rate_search.h"

/* Fills order [count] with the indices of costs [count], the largest cost first. Equal costs keep their order. */
static void longest_first(const double *costs, int count, int *order) {
  for (int i = 0; i < count; i++) {
    int at = i;
    for (; at > 0 && costs[order[at - 1]] < costs[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

/* Fills share_of [count] with shares from 0. Each cost, the largest first, goes to the share with the smallest sum. */
static ch_status divide_costs(const double *costs, int count, int shares, int *share_of, ch_error *error) {
  int *order = calloc((size_t)count + 1, sizeof *order);
  double *sums = calloc((size_t)shares, sizeof *sums);
  if (order && sums) longest_first(costs, count, order);
  for (int i = 0; order && sums && i < count; i++) {
    int least = 0;
    for (int s = 1; s < shares; s++)
      if (sums[s] < sums[least]) least = s;
    share_of[order[i]] = least;
    sums[least] += costs[order[i]];
  }
  bool fine = order && sums;
  free(order);
  free(sums);
  return fine ? CH_OK : ch_no_memory(error);
}

/* Estimates the FLOPs of one run of a model. */
static ch_status predict_flops(const ch_compare_setup *setup, int model, double *flops, ch_error *error) {
  const ch_planned_model *planned = &setup->plan.models[model];
  int64_t forward = 0, steps = planned->steps ? planned->steps : setup->training.steps;
  int64_t depth = ch_compare_on_images(setup) ? 0 : setup->settings.lineup.sequence;
  CH_TRY(ch_count_flops(&planned->config, depth, &forward, error));
  *flops = 3 * (double)forward * (double)steps * (double)ch_train_step_tokens(&setup->training);
  return CH_OK;
}

ch_status ch_order_pieces(const ch_compare_setup *setup, ch_assignment *pieces, int *listed, int count,
                          ch_error *error) {
  if (setup->scheduler.groups == 1) return CH_OK;
  size_t room = (size_t)count + 1;
  double *costs = calloc(room, sizeof *costs);
  int *order = calloc(room, sizeof *order), *listed_before = calloc(room, sizeof *listed);
  ch_assignment *before = calloc(room, sizeof *before);
  ch_status status = CH_OK;
  if (!costs || !order || !listed_before || !before) status = ch_no_memory(error);
  for (int i = 0; status == CH_OK && i < count; i++) {
    before[i] = pieces[i];
    listed_before[i] = listed[i];
    status = predict_flops(setup, pieces[i].model, &costs[i], error);
  }
  if (status == CH_OK) longest_first(costs, count, order);
  for (int i = 0; status == CH_OK && i < count; i++) {
    pieces[i] = before[order[i]];
    listed[i] = listed_before[order[i]];
  }
  free(costs);
  free(order);
  free(listed_before);
  free(before);
  return status;
}

/* Divides the runs. If rates are tuned, all runs of a model go to one share. costs [models or runs] is scratch. */
static ch_status divide_units(const ch_compare_setup *setup, double *costs, int *share_of, ch_error *error) {
  int models = setup->plan.count, seeds = (int)setup->settings.training.seeds;
  bool whole_models = setup->settings.rates.tune > 0;
  int units = whole_models ? models : models * seeds;
  for (int u = 0; u < units; u++) {
    CH_TRY(predict_flops(setup, u % models, &costs[u], error));
    if (whole_models) costs[u] *= (double)(seeds + CH_TUNE_LEAST);
  }
  CH_TRY(divide_costs(costs, units, setup->settings.schedule.parts, share_of, error));
  for (int i = units; i < models * seeds; i++) share_of[i] = share_of[i % models];
  return CH_OK;
}

ch_status ch_compare_divide(const ch_compare_setup *setup, int *share_of, ch_error *error) {
  double *costs =
      calloc((size_t)setup->plan.count * (size_t)setup->settings.training.seeds + 1, sizeof *costs);
  ch_status status = costs ? divide_units(setup, costs, share_of, error) : ch_no_memory(error);
  free(costs);
  return status;
}

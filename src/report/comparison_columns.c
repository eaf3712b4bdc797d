/* Defines the columns of a comparison's tables, and formats and judges their values. */
#include "report/comparison_columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

CH_FIGURE_OF_RUN(loss, run->validation_loss)
CH_FIGURE_OF_RUN(perplexity, exp(run->validation_loss))
CH_FIGURE_OF_RUN(parameters, (double)run->parameters)
CH_FIGURE_OF_RUN(elements, ch_model_result_cache(run))
CH_FIGURE_OF_RUN(bytes, ch_model_result_cache_bytes(run))
CH_FIGURE_OF_RUN(training, run->train_tokens_per_second)
CH_FIGURE_OF_RUN(decoding, run->decode_tokens_per_second)
CH_FIGURE_OF_RUN(training_spread, run->train_spread)
CH_FIGURE_OF_RUN(decoding_spread, run->decode_spread)

static bool training_unsteady(const ch_model_result *model) {
  return model->train_unsteady;
}

static bool decoding_unsteady(const ch_model_result *model) {
  return model->decode_unsteady;
}

CH_FIGURE_OF_RUN(top1, 100 * run->top1)
CH_FIGURE_OF_RUN(top5, 100 * run->top5)
CH_FIGURE_OF_RUN(attention, (double)run->parameters_attention)
CH_FIGURE_OF_RUN(trained, (double)run->tokens_trained)

/* The last three columns are shown unless the comparison makes parameters equal. */
enum { COLUMNS_OF_MATCHES = 3 };

static const ch_column of_text[CH_MOST_COLUMNS] = {
    {"validation", "loss", "nats", "validation loss", "nats per token", CH_BEST_LOW, loss, 4, true, NULL,
     NULL},
    {"validation", "perplexity", "", "perplexity", "", CH_BEST_LOW, perplexity, 2, true, NULL, NULL},
    {"", "parameters", "", "parameters", "", CH_BEST_NONE, parameters, 0, false, NULL, NULL},
    {"cache per token", "elements", "", "cache", "elements per token", CH_BEST_LOW, elements, 0, false, NULL,
     NULL},
    {"cache per token", "16-bit", "bytes", "cache at 16 bits", "bytes per token", CH_BEST_LOW, bytes, 0,
     false, NULL, NULL},
    {"speed", "training", "tokens/s", "training", "tokens/s", CH_BEST_HIGH, training, 0, false,
     training_spread, training_unsteady},
    {"speed", "decoding", "tokens/s", "decoding", "tokens/s", CH_BEST_HIGH, decoding, 0, false,
     decoding_spread, decoding_unsteady},
    {"cost", "FLOPs", "per token", "arithmetic", "FLOPs per token", CH_BEST_NONE, ch_model_result_flops, 0,
     false, NULL, NULL},
    {"training", "tokens", "", "trained on", "tokens", CH_BEST_NONE, trained, 0, false, NULL, NULL},
    {"training", "time", "s", "training time", "s", CH_BEST_NONE, ch_model_result_seconds, 1, false, NULL,
     NULL},
};

static const ch_column of_images[CH_MOST_COLUMNS] = {
    {"accuracy", "top-1", "%", "top-1 accuracy", "%", CH_BEST_HIGH, top1, 2, true, NULL, NULL},
    {"accuracy", "top-5", "%", "top-5 accuracy", "%", CH_BEST_HIGH, top5, 2, true, NULL, NULL},
    {"validation", "loss", "nats", "validation loss", "nats per image", CH_BEST_LOW, loss, 4, true, NULL,
     NULL},
    {"parameters", "all", "", "parameters", "", CH_BEST_NONE, parameters, 0, false, NULL, NULL},
    {"parameters", "attention", "", "of attention", "parameters", CH_BEST_LOW, attention, 0, false, NULL,
     NULL},
    {"speed", "training", "images/s", "training", "images/s", CH_BEST_HIGH, training, 0, false,
     training_spread, training_unsteady},
    {"speed", "inference", "images/s", "inference", "images/s", CH_BEST_HIGH, decoding, 0, false,
     decoding_spread, decoding_unsteady},
    {"cost", "FLOPs", "per image", "arithmetic", "FLOPs per image", CH_BEST_NONE, ch_model_result_flops, 0,
     false, NULL, NULL},
    {"training", "images", "", "trained on", "images", CH_BEST_NONE, trained, 0, false, NULL, NULL},
    {"training", "time", "s", "training time", "s", CH_BEST_NONE, ch_model_result_seconds, 1, false, NULL,
     NULL},
};

ch_columns ch_columns_of(const ch_comparison *comparison) {
  bool all = comparison->match != CH_MATCH_PARAMETERS;
  return (ch_columns){comparison->data.images ? of_images : of_text,
                      all ? CH_MOST_COLUMNS : CH_MOST_COLUMNS - COLUMNS_OF_MATCHES};
}

const char *ch_column_format(const ch_column *column, double value, char *buffer, size_t size) {
  char plain[400];
  if (!isfinite(value) || fabs(value) >= 1e15) {
    snprintf(buffer, size, "%.3g", value);
    return buffer;
  }
  int length = snprintf(plain, sizeof plain, "%.*f", column->decimals, value);
  int whole = column->decimals ? length - column->decimals - 1 : length;
  size_t used = 0;
  for (int i = 0; i < length && used + 2 < size; i++) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0 && plain[i - 1] != '-') buffer[used++] = ',';
    buffer[used++] = plain[i];
  }
  buffer[used] = 0;
  return buffer;
}

const char *ch_column_cell(const ch_column *column, const ch_group *group, char *buffer, size_t size) {
  ch_spread spread = ch_group_spread(group, column->value);
  ch_column_format(column, spread.mean, buffer, size);
  if (isinf(spread.mean)) snprintf(buffer, size, "diverged");
  if (column->measured && spread.mean == 0)
    snprintf(buffer, size, "-"); /* no run has weights to decode with */
  double shown = column->spread && spread.count > 1 ? spread.deviation
                 : column->measured                 ? ch_group_spread(group, column->measured).mean
                                                    : 0;
  if (!isfinite(shown) || (!(shown > 0) && !(column->spread && spread.count > 1))) return buffer;
  char deviation[64];
  ch_column_format(column, shown, deviation, sizeof deviation);
  size_t used = strlen(buffer);
  snprintf(buffer + used, size - used, " ± %s", deviation);
  return buffer;
}

static double mean_of(const ch_column *column, const ch_group *group) {
  return ch_group_spread(group, column->value).mean;
}

/* Returns true if both values are written alike. */
static bool alike(const ch_column *column, double a, double b) {
  char first[64], second[64];
  return strcmp(ch_column_format(column, a, first, sizeof first),
                ch_column_format(column, b, second, sizeof second)) == 0;
}

bool ch_column_is_unsteady(const ch_column *column, const ch_group *group) {
  return column->unsteady && ch_group_any(group, column->unsteady);
}

bool ch_columns_have_unsteady(const ch_columns *columns, const ch_summary *summary) {
  for (int c = 0; c < columns->count; c++)
    for (int i = 0; i < summary->count; i++)
      if (ch_column_is_unsteady(&columns->list[c], &summary->groups[i])) return true;
  return false;
}

bool ch_column_is_best(const ch_column *column, const ch_summary *summary, const ch_group *group) {
  if (column->best == CH_BEST_NONE || group->diverged || ch_column_is_unsteady(column, group)) return false;
  double value = mean_of(column, group);
  bool differs = false;
  for (int i = 0; i < summary->count; i++) {
    double other = mean_of(column, &summary->groups[i]);
    if (summary->groups[i].diverged || alike(column, other, value)) continue;
    if (column->best == CH_BEST_LOW ? other < value : other > value) return false;
    differs = true;
  }
  return differs;
}

/* Columns, their best values, and the plain-text table. */
#include "report/comparison_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"
#include "report/equal.h"
#include "report/labels.h"
#include "report/ladder_text.h"
#include "report/task_tables.h"
#include "base/utf8.h"

static double loss(const ch_model_result *model) {
  return model->validation_loss;
}

static double perplexity(const ch_model_result *model) {
  return exp(model->validation_loss);
}

static double parameters(const ch_model_result *model) {
  return (double)model->parameters;
}

static double elements(const ch_model_result *model) {
  return ch_model_result_cache(model);
}

static double bytes(const ch_model_result *model) {
  return ch_model_result_cache_bytes(model);
}

static double training(const ch_model_result *model) {
  return model->train_tokens_per_second;
}

static double decoding(const ch_model_result *model) {
  return model->decode_tokens_per_second;
}

static double training_spread(const ch_model_result *model) {
  return model->train_spread;
}

static double decoding_spread(const ch_model_result *model) {
  return model->decode_spread;
}

static bool training_unsteady(const ch_model_result *model) {
  return model->train_unsteady;
}

static bool decoding_unsteady(const ch_model_result *model) {
  return model->decode_unsteady;
}

static double top1(const ch_model_result *model) {
  return 100 * model->top1;
}

static double top5(const ch_model_result *model) {
  return 100 * model->top5;
}

static double attention(const ch_model_result *model) {
  return (double)model->parameters_attention;
}

static double flops(const ch_model_result *m) {
  return m->flops_projections + m->flops_context + m->flops_feed_forward + m->flops_head;
}

static double trained(const ch_model_result *model) {
  return (double)model->tokens_trained;
}

static double seconds(const ch_model_result *model) {
  if (model->train_seconds > 0) return model->train_seconds;
  return model->train_tokens_per_second > 0 ? (double)model->tokens_trained / model->train_tokens_per_second
                                            : 0;
}

/* The last three are shown unless the models have equal parameters by --match. */
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
    {"cost", "FLOPs", "per token", "arithmetic", "FLOPs per token", CH_BEST_NONE, flops, 0, false, NULL,
     NULL},
    {"training", "tokens", "", "trained on", "tokens", CH_BEST_NONE, trained, 0, false, NULL, NULL},
    {"training", "time", "s", "training time", "s", CH_BEST_NONE, seconds, 1, false, NULL, NULL},
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
    {"cost", "FLOPs", "per image", "arithmetic", "FLOPs per image", CH_BEST_NONE, flops, 0, false, NULL,
     NULL},
    {"training", "images", "", "trained on", "images", CH_BEST_NONE, trained, 0, false, NULL, NULL},
    {"training", "time", "s", "training time", "s", CH_BEST_NONE, seconds, 1, false, NULL, NULL},
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
  double shown = column->spread && spread.count > 1 ? spread.deviation
                 : column->measured                 ? ch_group_spread(group, column->measured).mean
                                                    : 0;
  if (!(shown > 0) && !(column->spread && spread.count > 1)) return buffer;
  char deviation[64];
  ch_column_format(column, shown, deviation, sizeof deviation);
  size_t used = strlen(buffer);
  snprintf(buffer + used, size - used, " ± %s", deviation);
  return buffer;
}

static double mean_of(const ch_column *column, const ch_group *group) {
  return ch_group_spread(group, column->value).mean;
}

/* Equal when they are written alike. */
static bool alike(const ch_column *column, double a, double b) {
  char first[64], second[64];
  return strcmp(ch_column_format(column, a, first, sizeof first),
                ch_column_format(column, b, second, sizeof second)) == 0;
}

bool ch_column_is_unsteady(const ch_column *column, const ch_group *group) {
  bool unsteady = false;
  for (int i = 0; column->unsteady && i < group->count; i++) unsteady |= column->unsteady(group->runs[i]);
  return unsteady;
}

bool ch_columns_have_unsteady(const ch_columns *columns, const ch_summary *summary) {
  for (int c = 0; c < columns->count; c++)
    for (int i = 0; i < summary->count; i++)
      if (ch_column_is_unsteady(&columns->list[c], &summary->groups[i])) return true;
  return false;
}

bool ch_column_is_best(const ch_column *column, const ch_summary *summary, const ch_group *group) {
  if (column->best == CH_BEST_NONE || ch_column_is_unsteady(column, group)) return false;
  double value = mean_of(column, group);
  bool differs = false;
  for (int i = 0; i < summary->count; i++) {
    double other = mean_of(column, &summary->groups[i]);
    if (alike(column, other, value)) continue;
    if (column->best == CH_BEST_LOW ? other < value : other > value) return false;
    differs = true;
  }
  return differs;
}

/* --- the plain-text table ---------------------------------------------------------------------------------------- */

static void pad(int spaces, ch_text *text) {
  ch_text_printf(text, "%*s", spaces > 0 ? spaces : 0, "");
}

static int width_of(const ch_column *column, const ch_summary *summary) {
  int width = ch_utf8_count(column->heading), unit = ch_utf8_count(column->unit);
  if (unit > width) width = unit;
  for (int i = 0; i < summary->count; i++) {
    char buffer[128];
    int length = ch_utf8_count(ch_column_cell(column, &summary->groups[i], buffer, sizeof buffer));
    if (length > width) width = length;
  }
  return width;
}

/* Group headings stand over the right end of their columns. */
static void put_groups(const ch_columns *columns, const int *widths, int names, ch_text *text) {
  pad(names, text);
  int due = 0;
  for (int c = 0; c < columns->count; c++) {
    due += widths[c] + 3;
    const char *group = columns->list[c].group;
    if (c + 1 < columns->count && *group && strcmp(group, columns->list[c + 1].group) == 0) continue;
    pad(due - ch_utf8_count(group) - 1, text);
    ch_text_puts(text, group);
    pad(c + 1 < columns->count, text);
    due = 0;
  }
  ch_text_puts(text, "\n");
}

static void put_headings(const ch_columns *columns, const int *widths, int names, bool units, ch_text *text) {
  const char *first = units ? "" : "mechanism";
  ch_text_puts(text, first);
  pad(names - ch_utf8_count(first), text);
  for (int c = 0; c < columns->count; c++) {
    const char *word = units ? columns->list[c].unit : columns->list[c].heading;
    pad(widths[c] + 2 - ch_utf8_count(word), text);
    ch_text_puts(text, word);
    pad(c + 1 < columns->count, text);
  }
  ch_text_puts(text, "\n");
}

static void put_row(const ch_columns *columns, const ch_summary *summary, const ch_group *group,
                    const int *widths, int names, ch_text *text) {
  ch_text_puts(text, group->name);
  pad(names - ch_utf8_count(group->name), text);
  for (int c = 0; c < columns->count; c++) {
    char buffer[128];
    const char *mark = ch_column_is_unsteady(&columns->list[c], group)        ? "?"
                       : ch_column_is_best(&columns->list[c], summary, group) ? "*"
                                                                              : " ";
    ch_column_cell(&columns->list[c], group, buffer, sizeof buffer);
    pad(widths[c] + 2 - ch_utf8_count(buffer), text);
    ch_text_puts(text, buffer);
    if (*mark != ' ' || c + 1 < columns->count) ch_text_puts(text, mark);
  }
  ch_text_puts(text, "\n");
}

static bool has_spread(const ch_columns *columns, const ch_summary *summary) {
  for (int c = 0; c < columns->count; c++)
    for (int i = 0; columns->list[c].measured && i < summary->count; i++)
      if (ch_group_spread(&summary->groups[i], columns->list[c].measured).mean > 0) return true;
  return false;
}

static void put_speed_notes(const ch_columns *columns, const ch_summary *summary, ch_text *text) {
  if (has_spread(columns, summary))
    ch_text_puts(text, "± of a speed: about half of its measurements are within it.\n");
  if (ch_columns_have_unsteady(columns, summary))
    ch_text_puts(text, "? not steady: " CH_UNSTEADY_NOTE " All models can be timed again.\n");
}

/* "Learning rates: mla 0.0018 (0.0015 to 0.0022 is as good; the usual 0.003 costs 1.9 %); ..." */
static void put_rates(const ch_summary *summary, ch_text *text) {
  int count = 0;
  for (int i = 0; i < summary->count; i++) {
    const ch_model_result *run = summary->groups[i].runs[0];
    if (!run->tried_count) continue;
    ch_text_printf(text, "%s%s %.2g", count++ ? "; " : "Learning rates, tuned: ", summary->groups[i].name,
                   run->lr);
    const char *open = " (";
    if (run->lr_low > 0) {
      ch_text_printf(text, "%s%.2g to %.2g is as good", open, run->lr_low, run->lr_high);
      open = ", ";
    }
    if (run->usual_lr_cost > 0) {
      ch_text_printf(text, "%sthe usual %.2g costs %.1f %%", open, run->tried[0].lr,
                     100 * run->usual_lr_cost);
      open = ", ";
    }
    if (run->lr_at_edge) {
      ch_text_printf(text, "%sthe edge of those tried", open);
      open = ", ";
    }
    if (*open == ',') ch_text_puts(text, ")");
  }
  if (count) ch_text_puts(text, ".\n");
}

static double spikes(const ch_model_result *model) {
  return (double)model->loss_spikes;
}

void ch_spikes_write(const ch_summary *summary, ch_text *text) {
  bool any = false;
  for (int i = 0; i < summary->count; i++)
    for (int r = 0; r < summary->groups[i].count; r++) {
      if (summary->groups[i].runs[r]->loss_spikes < 0) return;
      any = any || summary->groups[i].runs[r]->loss_spikes > 0;
    }
  if (!any) return;
  ch_text_puts(text, "Loss spikes while training");
  for (int i = 0; i < summary->count; i++)
    ch_text_printf(text, "%s %s %.3g", i ? "," : ":", summary->groups[i].name,
                   ch_group_spread(&summary->groups[i], spikes).mean);
  ch_text_puts(text, summary->fewest > 1 ? " (means over seeds)." : ".");
}

static void put_spikes(const ch_summary *summary, ch_text *text) {
  const size_t before = text->size;
  ch_spikes_write(summary, text);
  if (text->size > before) ch_text_puts(text, "\n");
}

static void put_standings(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  (void)comparison;
  ch_verdict_standings(summary, text);
}

/* The notes below the table, a line each. */
static void put_notes(const ch_comparison *comparison, const ch_columns *columns, ch_summary *summary,
                      ch_text *text) {
  ch_warnings warnings;
  ch_error error;
  ch_text_puts(text, "\n* best of its column. ");
  ch_verdict_rule(comparison, text);
  ch_text_puts(text, "\n");
  if (summary->count > 1) {
    ch_equal_write(summary, comparison, text);
    ch_text_puts(text, "\n");
  }
  put_speed_notes(columns, summary, text);
  put_rates(summary, text);
  put_spikes(summary, text);
  void (*const of_risk[])(const ch_summary *, const ch_comparison *,
                          ch_text *) = {put_standings, ch_verdict_tokens, ch_verdict_noise};
  for (size_t i = 0; i < sizeof of_risk / sizeof *of_risk; i++) {
    size_t before = text->size;
    of_risk[i](summary, comparison, text);
    if (text->size > before) ch_text_puts(text, "\n");
  }
  if (ch_comparison_warnings(comparison, summary, &summary->arena, &warnings, &error) != CH_OK) {
    text->failed = true;
    return;
  }
  for (int i = 0; i < warnings.count; i++) ch_text_printf(text, "Warning: %s\n", warnings.list[i].sentence);
}

void ch_table_write(const ch_comparison *comparison, ch_text *text) {
  ch_summary summary;
  ch_error error;
  int widths[CH_MOST_COLUMNS];
  const ch_columns shown = ch_columns_of(comparison), *columns = &shown;
  if (ch_summarise(comparison, &summary, &error) != CH_OK || ch_summary_label(&summary, &error) != CH_OK) {
    text->failed = true;
    ch_arena_free(&summary.arena);
    return;
  }
  int names = ch_utf8_count("mechanism");
  for (int i = 0; i < summary.count; i++) {
    int width = ch_utf8_count(summary.groups[i].name);
    if (width > names) names = width;
  }
  for (int c = 0; c < columns->count; c++) widths[c] = width_of(&columns->list[c], &summary);
  ch_verdict_sentence(&summary, comparison, text);
  ch_text_puts(text, "\n\n");
  put_groups(columns, widths, names, text);
  put_headings(columns, widths, names, false, text);
  put_headings(columns, widths, names, true, text);
  for (int i = 0; i < summary.count; i++) put_row(columns, &summary, &summary.groups[i], widths, names, text);
  ch_tasks_write(&summary, names, text);
  put_notes(comparison, columns, &summary, text);
  if (comparison->ladder) ch_ladder_write(comparison->ladder, text);
  ch_arena_free(&summary.arena);
}

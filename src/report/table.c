/* Columns, their best values, and the plain-text table. */
#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/verdict.h"

static double loss(const ch_compared *model) {
  return model->validation_loss;
}

static double perplexity(const ch_compared *model) {
  return exp(model->validation_loss);
}

static double parameters(const ch_compared *model) {
  return (double)model->parameters;
}

static double elements(const ch_compared *model) {
  return (double)model->cache_elements_per_token;
}

static double bytes(const ch_compared *model) {
  return (double)model->cache_bytes_per_token;
}

static double training(const ch_compared *model) {
  return model->train_tokens_per_second;
}

static double decoding(const ch_compared *model) {
  return model->decode_tokens_per_second;
}

static double top1(const ch_compared *model) {
  return 100 * model->top1;
}

static double top5(const ch_compared *model) {
  return 100 * model->top5;
}

static double attention(const ch_compared *model) {
  return (double)model->parameters_attention;
}

static const ch_column of_text[CH_COLUMNS] = {
    {"validation", "loss", "nats", "validation loss", "nats a token", CH_BEST_LOW, loss, 4, true},
    {"validation", "perplexity", "", "perplexity", "", CH_BEST_LOW, perplexity, 2, true},
    {"", "parameters", "", "parameters", "", CH_BEST_NONE, parameters, 0, false},
    {"cache a token", "elements", "", "cache", "elements a token", CH_BEST_LOW, elements, 0, false},
    {"cache a token", "16-bit", "bytes", "cache at 16 bits", "bytes a token", CH_BEST_LOW, bytes, 0, false},
    {"speed", "training", "tokens/s", "training", "tokens/s", CH_BEST_HIGH, training, 0, false},
    {"speed", "decoding", "tokens/s", "decoding", "tokens/s", CH_BEST_HIGH, decoding, 0, false},
};

static const ch_column of_images[CH_COLUMNS] = {
    {"accuracy", "top-1", "%", "top-1 accuracy", "%", CH_BEST_HIGH, top1, 2, true},
    {"accuracy", "top-5", "%", "top-5 accuracy", "%", CH_BEST_HIGH, top5, 2, true},
    {"validation", "loss", "nats", "validation loss", "nats an image", CH_BEST_LOW, loss, 4, true},
    {"parameters", "all", "", "parameters", "", CH_BEST_NONE, parameters, 0, false},
    {"parameters", "attention", "", "of attention", "parameters", CH_BEST_LOW, attention, 0, false},
    {"speed", "training", "images/s", "training", "images/s", CH_BEST_HIGH, training, 0, false},
    {"speed", "seeing", "images/s", "seeing", "images/s", CH_BEST_HIGH, decoding, 0, false},
};

const ch_column *ch_columns_of(const ch_comparison *comparison) {
  return comparison->data.images ? of_images : of_text;
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
  if (!column->spread || spread.count < 2) return buffer;
  char deviation[64];
  ch_column_format(column, spread.deviation, deviation, sizeof deviation);
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

bool ch_column_is_best(const ch_column *column, const ch_summary *summary, const ch_group *group) {
  if (column->best == CH_BEST_NONE) return false;
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

static int columns_of(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

static void pad(int spaces, ch_text *text) {
  ch_text_printf(text, "%*s", spaces > 0 ? spaces : 0, "");
}

static int width_of(const ch_column *column, const ch_summary *summary) {
  int width = columns_of(column->heading), unit = columns_of(column->unit);
  if (unit > width) width = unit;
  for (int i = 0; i < summary->count; i++) {
    char buffer[128];
    int length = columns_of(ch_column_cell(column, &summary->groups[i], buffer, sizeof buffer));
    if (length > width) width = length;
  }
  return width;
}

/* Group headings stand over the right end of their columns. */
static void put_groups(const ch_column *columns, const int *widths, int names, ch_text *text) {
  pad(names, text);
  int due = 0;
  for (int c = 0; c < CH_COLUMNS; c++) {
    due += widths[c] + 3;
    const char *group = columns[c].group;
    if (c + 1 < CH_COLUMNS && *group && strcmp(group, columns[c + 1].group) == 0) continue;
    pad(due - columns_of(group) - 1, text);
    ch_text_puts(text, group);
    pad(c + 1 < CH_COLUMNS, text);
    due = 0;
  }
  ch_text_puts(text, "\n");
}

static void put_headings(const ch_column *columns, const int *widths, int names, bool units, ch_text *text) {
  const char *first = units ? "" : "mechanism";
  ch_text_puts(text, first);
  pad(names - columns_of(first), text);
  for (int c = 0; c < CH_COLUMNS; c++) {
    const char *word = units ? columns[c].unit : columns[c].heading;
    pad(widths[c] + 2 - columns_of(word), text);
    ch_text_puts(text, word);
    pad(c + 1 < CH_COLUMNS, text);
  }
  ch_text_puts(text, "\n");
}

static void put_row(const ch_column *columns, const ch_summary *summary, const ch_group *group,
                    const int *widths, int names, ch_text *text) {
  ch_text_puts(text, group->name);
  pad(names - columns_of(group->name), text);
  for (int c = 0; c < CH_COLUMNS; c++) {
    char buffer[128];
    bool best = ch_column_is_best(&columns[c], summary, group);
    ch_column_cell(&columns[c], group, buffer, sizeof buffer);
    pad(widths[c] + 2 - columns_of(buffer), text);
    ch_text_puts(text, buffer);
    if (best || c + 1 < CH_COLUMNS) ch_text_puts(text, best ? "*" : " ");
  }
  ch_text_puts(text, "\n");
}

void ch_table_write(const ch_comparison *comparison, ch_text *text) {
  ch_summary summary;
  ch_error error;
  int widths[CH_COLUMNS];
  const ch_column *columns = ch_columns_of(comparison);
  if (ch_summarise(comparison, &summary, &error) != CH_OK) text->failed = true;
  int names = columns_of("mechanism");
  for (int i = 0; i < summary.count; i++) {
    int width = columns_of(summary.groups[i].name);
    if (width > names) names = width;
  }
  for (int c = 0; c < CH_COLUMNS; c++) widths[c] = width_of(&columns[c], &summary);
  put_groups(columns, widths, names, text);
  put_headings(columns, widths, names, false, text);
  put_headings(columns, widths, names, true, text);
  for (int i = 0; i < summary.count; i++) put_row(columns, &summary, &summary.groups[i], widths, names, text);
  ch_text_puts(text, "\n* best of its column. ");
  ch_verdict_rule(comparison, text);
  ch_text_puts(text, "\n");
  ch_verdict_noise(&summary, text);
  if (summary.count > 1) ch_text_puts(text, "\n");
  ch_verdict_sentence(&summary, comparison, text);
  ch_text_puts(text, "\n");
  ch_arena_free(&summary.arena);
}

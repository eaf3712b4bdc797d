/* The forecast cost of a comparison, for a terminal. */
#include "report/forecast_text.h"

#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

enum { COLUMNS = 6, CELL = 40 };

static const char *const headings[COLUMNS] = {"runs", "parameters", NULL, "time", "memory", "disk"};

typedef char cell[CELL];

/* "12.3 MB" */
static const char *put_bytes(double bytes, cell to) {
  char count[32];
  snprintf(to, CELL, "%sB", ch_format_count(bytes, count, sizeof count));
  return to;
}

static void fill(const ch_mechanism_forecast *m, cell *row) {
  char count[32];
  if (m->finished)
    snprintf(row[0], CELL, "%lld of %lld", (long long)(m->runs - m->finished), (long long)m->runs);
  else
    snprintf(row[0], CELL, "%lld", (long long)m->runs);
  snprintf(row[1], CELL, "%s", ch_format_count((double)m->parameters, count, sizeof count));
  if (m->finished == m->runs) {
    for (int c = 2; c < COLUMNS; c++) strcpy(row[c], "-");
    return;
  }
  snprintf(row[2], CELL, "%s", ch_format_count(m->tokens_per_second, count, sizeof count));
  ch_format_duration(m->seconds, row[3], CELL);
  put_bytes((double)m->memory_bytes, row[4]);
  put_bytes((double)m->disk_bytes, row[5]);
}

static int wider(int width, const char *text) {
  int own = ch_utf8_count(text);
  return own > width ? own : width;
}

/* "20.1 k tokens", "18.2 k to 20.1 k tokens" */
static void put_lengths(const ch_compare_forecast *f, ch_text *text) {
  int64_t least = f->models[0].tokens, most = least;
  char count[32];
  for (int i = 1; i < f->count; i++) {
    if (f->models[i].tokens < least) least = f->models[i].tokens;
    if (f->models[i].tokens > most) most = f->models[i].tokens;
  }
  if (least < most) ch_text_printf(text, "%s to ", ch_format_count((double)least, count, sizeof count));
  ch_text_printf(text, "%s %s", ch_format_count((double)most, count, sizeof count),
                 f->images ? "images" : "tokens");
}

static void put_sentence(const ch_compare_forecast *f, ch_text *text) {
  const ch_mechanism_forecast *all = &f->total;
  long long left = (long long)(all->runs - all->finished);
  char duration[32];
  cell memory, disk, machine;
  if (f->parts) ch_text_printf(text, "Share %d of %d. ", f->part, f->parts);
  if (left == 0) {
    ch_text_puts(text, "Every run is finished; nothing would be trained.\n");
    return;
  }
  ch_text_printf(text, "%lld %s of ", left, ch_plural(left, "run", "runs"));
  put_lengths(f, text);
  ch_text_printf(
      text,
      ": about %s to train and evaluate, at most %s of memory, %s on disk. Times are from some steps "
      "of each model; nothing is written.\n",
      ch_format_duration(all->seconds, duration, sizeof duration),
      put_bytes((double)all->memory_bytes, memory), put_bytes((double)all->disk_bytes, disk));
  if (f->tunes)
    ch_text_puts(text, "That counts as many learning rates for each model as the search may try.\n");
  if (f->open) ch_text_puts(text, "Seeds that are added until there is a verdict are not counted.\n");
  if (f->machine_bytes > 0 && (double)all->memory_bytes > f->machine_bytes)
    ch_text_printf(text, "This machine has %s of memory, which is too little.\n",
                   put_bytes(f->machine_bytes, machine));
}

void ch_forecast_write(const ch_compare_forecast *forecast, ch_text *text) {
  const char *rate = forecast->images ? "images/s" : "tokens/s";
  int names = ch_utf8_count("mechanism"), widths[COLUMNS];
  cell row[COLUMNS];
  for (int c = 0; c < COLUMNS; c++) widths[c] = ch_utf8_count(c == 2 ? rate : headings[c]);
  for (int i = 0; i < forecast->count; i++) {
    fill(&forecast->models[i], row);
    names = wider(names, forecast->models[i].name);
    for (int c = 0; c < COLUMNS; c++) widths[c] = wider(widths[c], row[c]);
  }
  ch_text_printf(text, "%-*s", names, "mechanism");
  for (int c = 0; c < COLUMNS; c++) ch_text_printf(text, "   %*s", widths[c], c == 2 ? rate : headings[c]);
  ch_text_puts(text, "\n");
  for (int i = 0; i < forecast->count; i++) {
    const char *name = forecast->models[i].name;
    fill(&forecast->models[i], row);
    ch_text_printf(text, "%s%*s", name, names - ch_utf8_count(name), "");
    for (int c = 0; c < COLUMNS; c++) ch_text_printf(text, "   %*s", widths[c], row[c]);
    ch_text_puts(text, "\n");
  }
  ch_text_puts(text, "\n");
  put_sentence(forecast, text);
}

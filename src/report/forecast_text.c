/* The forecast cost of a comparison, for a terminal. */
#include "report/forecast_text.h"

#include "base/table.h"

static void put_model(const ch_mechanism_forecast *m, bool timed, ch_table *table) {
  char text[32];
  ch_table_cell(table, "%s", m->name);
  if (m->finished)
    ch_table_cell(table, "%lld of %lld", (long long)(m->runs - m->finished), (long long)m->runs);
  else
    ch_table_cell(table, "%lld", (long long)m->runs);
  ch_table_cell(table, "%s", ch_format_count((double)m->parameters, text, sizeof text));
  if (m->finished == m->runs) {
    for (int c = 0; c < 4; c++) ch_table_cell(table, "-");
  } else {
    ch_table_cell(table, "%s", timed ? ch_format_count(m->tokens_per_second, text, sizeof text) : "?");
    ch_table_cell(table, "%s", timed ? ch_format_duration(m->seconds, text, sizeof text) : "?");
    ch_table_cell(table, "%s", timed ? ch_format_bytes((double)m->memory_bytes, text, sizeof text) : "?");
    ch_table_cell(table, "%s", ch_format_bytes((double)m->disk_bytes, text, sizeof text));
  }
  ch_table_end_row(table);
}

/* Writes "20.1 k tokens" or "18.2 k to 20.1 k tokens". */
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
  char memory[32], disk[32], machine[32];
  if (f->parts) ch_text_printf(text, "Share %d of %d. ", f->part, f->parts);
  if (left == 0) {
    ch_text_puts(text, "Every run is finished; nothing would be trained.\n");
    return;
  }
  ch_text_printf(text, "%lld %s of ", left, ch_plural(left, "run", "runs"));
  put_lengths(f, text);
  if (f->untimed) {
    ch_text_printf(text, ": %s on disk; nothing is written. Time and memory are not estimated: %s.\n",
                   ch_format_bytes((double)all->disk_bytes, disk, sizeof disk), f->untimed);
    return;
  }
  ch_text_printf(
      text,
      ": about %s to train and evaluate, at most %s of memory, %s on disk. Times are from some steps "
      "of each model; nothing is written.\n",
      ch_format_duration(all->seconds, duration, sizeof duration),
      ch_format_bytes((double)all->memory_bytes, memory, sizeof memory),
      ch_format_bytes((double)all->disk_bytes, disk, sizeof disk));
  if (f->tunes)
    ch_text_puts(text, "This includes the most learning rates that the search may try for each model.\n");
  if (f->open) ch_text_puts(text, "Seeds that are added until there is a verdict are not counted.\n");
  if (f->pytorch)
    ch_text_puts(text, "One device was timed; times are those of all runs, one after another.\n");
  else if (f->machine_bytes > 0 && (double)all->memory_bytes > f->machine_bytes)
    ch_text_printf(text, "This machine has %s of memory, which is too little.\n",
                   ch_format_bytes(f->machine_bytes, machine, sizeof machine));
}

void ch_forecast_write(const ch_compare_forecast *forecast, ch_text *text) {
  const char *const headings[] = {
      "mechanism", "runs",   "parameters", forecast->images ? "images/s" : "tokens/s",
      "time",      "memory", "disk"};
  ch_table table = {.columns = "lr", .gap = 3};
  ch_table_row(&table, headings, sizeof headings / sizeof *headings);
  for (int i = 0; i < forecast->count; i++) put_model(&forecast->models[i], !forecast->untimed, &table);
  ch_table_write(&table, text);
  ch_text_puts(text, "\n");
  put_sentence(forecast, text);
}

#include "report/ladder_cells.h"

#include <math.h>
#include <stdio.h>

/* Small numbers keep two digits, down to 0.0001. */
static const char *format_estimate(double value, int decimals, char *to, size_t size) {
  if (value >= 1e-4 && value < 5 * pow(10, -decimals))
    snprintf(to, size, "%.2g", value);
  else
    snprintf(to, size, "%.*f", decimals, value);
  return to;
}

/* "3.31 (3.25 to 3.37)"; "-" where nothing is known, "more" without a bound. */
static void put_estimate_cell(const ch_estimate *e, int decimals, const char *unit, ch_table *table) {
  char value[24], low[24], high[24];
  format_estimate(e->value, decimals, value, sizeof value);
  format_estimate(e->low, decimals, low, sizeof low);
  format_estimate(e->high, decimals, high, sizeof high);
  bool bounded = isfinite(e->high) && e->high < 1e6;
  if (isnan(e->value))
    ch_table_cell(table, "-");
  else if (isinf(e->value))
    ch_table_cell(table, "no bound");
  else if (isnan(e->low))
    ch_table_cell(table, "%s%s", value, unit);
  else
    ch_table_cell(table, "%s%s (%s %s%s)", value, unit, low, bounded ? "to " : "and more",
                  bounded ? high : "");
}

ch_table ch_ladder_losses(const ch_ladder *ladder) {
  ch_table table = {.columns = "lr", .gap = 2};
  char size[32];
  ch_table_cell(&table, "loss");
  for (int i = 0; i < ladder->rungs; i++)
    ch_table_cell(&table, "%s", ch_format_count((double)ladder->sizes[i], size, sizeof size));
  ch_table_end_row(&table);
  for (int m = 0; m < ladder->count; m++) {
    ch_table_cell(&table, "%s", ladder->mechanisms[m].name);
    for (int i = 0; i < ladder->rungs; i++) ch_table_cell(&table, "%.4f", ladder->mechanisms[m].losses[i]);
    ch_table_end_row(&table);
  }
  return table;
}

ch_table ch_ladder_predictions(const ch_ladder *ladder) {
  ch_table table = {.columns = "lr", .gap = 2};
  ch_ladder_basis basis;
  bool target = ladder->target > 0;
  double largest = (double)ladder->sizes[ladder->rungs - 1];
  char size[32];
  ch_ladder_basis_of(ladder->laws, &basis);
  ch_table_cell(&table, "law");
  ch_table_cell(&table, "%s from those below", ch_format_count(largest, size, sizeof size));
  ch_table_cell(&table, "true");
  ch_table_cell(&table, "alpha");
  if (target) ch_table_cell(&table, "loss at %s", ch_format_count((double)ladder->target, size, sizeof size));
  ch_table_cell(&table, "FLOPs of %s for it", ch_ladder_laws_at(ladder->laws, basis.baseline)->name);
  ch_table_cell(&table, "its time");
  ch_table_end_row(&table);
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_law *law = ch_ladder_laws_at(ladder->laws, m);
    ch_table_cell(&table, "%s", law->name);
    put_estimate_cell(&law->top, 3, "", &table);
    ch_table_cell(&table, "%.3f", law->top_loss);
    put_estimate_cell(&law->alpha, 3, "", &table);
    if (target) put_estimate_cell(&law->target, 3, "", &table);
    if (m == basis.baseline) {
      ch_table_cell(&table, "1×");
      ch_table_cell(&table, "1×");
    } else {
      put_estimate_cell(&law->multiplier, 2, "×", &table);
      put_estimate_cell(&law->time_multiplier, 2, "×", &table);
    }
    ch_table_end_row(&table);
  }
  return table;
}

/* Fills the cells of a ladder's two tables: the measured losses, and the laws with their predictions. */
#include "report/ladder_cells.h"
#include "laws/ladder_laws.h"

#include <math.h>
#include <stdio.h>

/* The format of a quantity. A law says nothing about values below `least` or above 1,000. */
typedef struct manner {
  int decimals;
  double least;
  const char *unit;
} manner;

static const double most = 1000;
static const manner plain = {3, 0, ""}, times = {2, 0.001, "×"};

/* Writes a value. Small numbers are written with two significant digits, down to 0.0001. */
static const char *format_estimate(double value, const manner *of, char *to, size_t size) {
  if (value > most)
    snprintf(to, size, "over 1,000");
  else if (value < of->least)
    snprintf(to, size, "under %g", of->least);
  else if (value >= 1e-4 && value < 5 * pow(10, -of->decimals))
    snprintf(to, size, "%.2g", value);
  else
    snprintf(to, size, "%.*f", of->decimals, value);
  return to;
}

/* Writes "3.31 (3.25 to 3.37)", "2.04× (0.50 and more)" or "over 1,000× (no bounds)"; "-" if nothing is
 * known, "no bound" if the value is infinite. */
static void put_estimate_cell(const ch_estimate *e, const manner *of, ch_table *table) {
  char value[24], low[24], high[24];
  bool from = e->low >= of->least, to = e->high <= most;
  bool far = e->low > most || e->high < of->least; /* the value alone suffices */
  format_estimate(e->value, of, value, sizeof value);
  format_estimate(e->low, of, low, sizeof low);
  format_estimate(e->high, of, high, sizeof high);
  if (isnan(e->value))
    ch_table_cell(table, "-");
  else if (isinf(e->value))
    ch_table_cell(table, "no bound");
  else if (isnan(e->low) || far)
    ch_table_cell(table, "%s%s", value, of->unit);
  else if (from && to)
    ch_table_cell(table, "%s%s (%s to %s)", value, of->unit, low, high);
  else if (from)
    ch_table_cell(table, "%s%s (%s and more)", value, of->unit, low);
  else if (to)
    ch_table_cell(table, "%s%s (up to %s)", value, of->unit, high);
  else
    ch_table_cell(table, "%s%s (no bounds)", value, of->unit);
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
  const ch_ladder_basis *basis = &ladder->laws->basis;
  bool target = ladder->target > 0;
  double largest = (double)ladder->sizes[ladder->rungs - 1];
  char size[32];
  ch_table_cell(&table, "law");
  ch_table_cell(&table, "%s predicted", ch_format_count(largest, size, sizeof size));
  ch_table_cell(&table, "actual");
  ch_table_cell(&table, "alpha");
  if (target) ch_table_cell(&table, "loss at %s", ch_format_count((double)ladder->target, size, sizeof size));
  ch_table_cell(&table, "FLOPs of %s", ladder->laws->laws[basis->baseline].name);
  ch_table_cell(&table, "time of %s", ladder->laws->laws[basis->baseline].name);
  ch_table_end_row(&table);
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_law *law = &ladder->laws->laws[m];
    ch_table_cell(&table, "%s", law->name);
    put_estimate_cell(&law->top, &plain, &table);
    ch_table_cell(&table, "%.3f", law->top_loss);
    put_estimate_cell(&law->alpha, &plain, &table);
    if (target) put_estimate_cell(&law->target, &plain, &table);
    if (m == basis->baseline) {
      ch_table_cell(&table, "1×");
      ch_table_cell(&table, "1×");
    } else {
      put_estimate_cell(&law->multiplier, &times, &table);
      put_estimate_cell(&law->time_multiplier, &times, &table);
    }
    ch_table_end_row(&table);
  }
  return table;
}

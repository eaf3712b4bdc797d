/* Writes the tables of a coordinate check and the sentences that explain them. */
#include "report/coordinates_text.h"

#include <math.h>

#include "base/table.h"
#include "config/initial_std.h"

static void put_size(double size, ch_table *table) {
  if (isfinite(size))
    ch_table_cell(table, "%.4g", size);
  else
    ch_table_cell(table, "-");
}

/* Writes a slope. The words after it have equal widths, so that the numbers align in a right-aligned column. */
static void put_slope(double slope, bool flat, ch_table *table) {
  const char *words = flat ? "flat    " : "not flat";
  if (isfinite(slope))
    ch_table_cell(table, "%+.2f %s", slope, words);
  else
    ch_table_cell(table, "- %s", words);
}

void ch_coordinates_slope(double slope, bool flat, ch_text *text) {
  if (isfinite(slope))
    ch_text_printf(text, "%+.2f", slope);
  else
    ch_text_puts(text, "-");
  ch_text_puts(text, flat ? ", flat" : ", not flat");
}

void ch_coordinates_model_table(const ch_coordinates *coordinates, int32_t m, ch_text *text) {
  const ch_coordinate_grid *grid = &coordinates->grid;
  const ch_coordinate_model *model = &coordinates->models[m];
  const int last = grid->step_count - 1;
  ch_table table = {.columns = "lr8", .gap = 2};
  ch_table_cell(&table, "%s", model->name);
  for (int w = 0; w < grid->width_count; w++) ch_table_cell(&table, "%lld", (long long)grid->widths[w]);
  ch_table_cell(&table, "slope         ");
  ch_table_cell(&table, "slope of change");
  ch_table_end_row(&table);
  for (int i = 0; i < model->activation_count; i++) {
    const ch_coordinate *a = &model->activations[i];
    ch_table_cell(&table, "%s%s", a->name, a->of_stream ? " *" : "");
    for (int w = 0; w < grid->width_count; w++) put_size(a->sizes[last * grid->width_count + w], &table);
    put_slope(a->slopes[last], a->flat, &table);
    put_slope(a->change_slopes[last], a->change_flat, &table);
    ch_table_end_row(&table);
  }
  ch_table_write(&table, text);
}

void ch_coordinates_explain(const ch_coordinates *coordinates, ch_text *text) {
  const ch_coordinate_grid *grid = &coordinates->grid;
  long long last = (long long)grid->steps[grid->step_count - 1];
  ch_text_printf(
      text,
      "Root mean squares after %lld %s at the rate %.4g, parametrization %s, %lld %s and %lld %s "
      "at every width, %lld %s.\nSlopes are those of log(size), and of log(change since step 0), against "
      "log(width). Flat: from -%.2g to %.2g.\n* relative to the embeddings at step 0.",
      last, ch_plural(last, "step", "steps"), grid->lr, ch_parametrization_names[grid->parametrization],
      (long long)grid->layers, ch_plural(grid->layers, "layer", "layers"), (long long)grid->heads,
      ch_plural(grid->heads, "head", "heads"), (long long)grid->seeds,
      ch_plural(grid->seeds, "seed", "seeds"), CH_COORDINATE_FLAT, CH_COORDINATE_FLAT);
}

static int put_names(const ch_coordinate_model *model, bool changes, ch_text *text) {
  int count = 0;
  for (int i = 0; i < model->activation_count; i++) {
    const ch_coordinate *a = &model->activations[i];
    if (changes ? a->change_flat : a->flat) continue;
    if (text) ch_text_printf(text, "%s%s", count ? ", " : "", a->name);
    count++;
  }
  return count;
}

void ch_coordinates_sentence(const ch_coordinate_model *model, ch_text *text) {
  int sizes = put_names(model, false, NULL), changes = put_names(model, true, NULL);
  ch_text_printf(text, "%s: ", model->name);
  if (sizes == 0 && changes == 0) {
    ch_text_puts(text, "all sizes and changes are flat.");
    return;
  }
  ch_text_puts(text, sizes ? "sizes are not flat for " : "all sizes are flat");
  put_names(model, false, sizes ? text : NULL);
  ch_text_puts(text, changes ? "; changes are not flat for " : "; all changes are flat");
  put_names(model, true, changes ? text : NULL);
  ch_text_puts(text, ".");
}

void ch_coordinates_table_write(const ch_coordinates *coordinates, ch_text *text) {
  for (int32_t m = 0; m < coordinates->grid.model_count; m++) {
    ch_coordinates_model_table(coordinates, m, text);
    ch_text_puts(text, "\n");
  }
  ch_coordinates_explain(coordinates, text);
  ch_text_puts(text, "\n");
  for (int32_t m = 0; m < coordinates->grid.model_count; m++) {
    ch_coordinates_sentence(&coordinates->models[m], text);
    ch_text_puts(text, "\n");
  }
}

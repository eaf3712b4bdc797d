/* Figures of a coordinate check, in the form of report/figure.h. */
#include "report/coordinates_page.h"

#include <math.h>
#include <stdio.h>

#include "report/coordinates_text.h"

/* The least ratio of the ends of an axis of sizes. Flat curves thus look flat. */
enum { LEAST_RATIO = 10 };
static const char change_group[] = "change since step 0";

/* Returns the curve of an activation's sizes or changes against the width, after one of the recorded steps. */
static json_t *step_series(const ch_coordinate_grid *grid, const double *values, int point,
                           const char *group) {
  json_t *points = json_array();
  for (int w = 0; w < grid->width_count; w++) {
    double value = values[point * grid->width_count + w];
    if (isfinite(value))
      json_array_append_new(points, json_pack("[I, f]", (json_int_t)grid->widths[w], value));
  }
  return json_pack("{s:o, s:i, s:s, s:s, s:o}", "name",
                   json_sprintf("step %lld", (long long)grid->steps[point]), "colour", point, "group", group,
                   "style", group == change_group ? "dashed" : "marks", "points", points);
}

/* Returns "slope +0.02, flat; of the change +0.10, flat". */
static json_t *slopes_of(const ch_coordinate_grid *grid, const ch_coordinate *a) {
  ch_text text = {0};
  ch_text_puts(&text, "slope ");
  ch_coordinates_slope(a->slopes[grid->step_count - 1], a->flat, &text);
  ch_text_puts(&text, "; of the change ");
  ch_coordinates_slope(a->change_slopes[grid->step_count - 1], a->change_flat, &text);
  json_t *note = text.failed ? NULL : json_string(text.data);
  ch_text_free(&text);
  return note;
}

static json_t *activation_figure(const ch_coordinate_grid *grid, const ch_coordinate *a, int model,
                                 int number) {
  json_t *series = json_array();
  for (int p = 0; p < grid->step_count; p++)
    json_array_append_new(series, step_series(grid, a->sizes, p, "size"));
  for (int p = 1; p < grid->step_count; p++)
    json_array_append_new(series, step_series(grid, a->changes, p, change_group));
  return json_pack(
      "{s:o, s:s, s:s, s:o, s:{s:s, s:s, s:b, s:i}, s:{s:s, s:s, s:b, s:i, s:i}, s:o, s:[s, s], s:[s]}", "id",
      json_sprintf("sizes-%d-%d", model + 1, number + 1), "kind", "lines", "title", a->name, "note",
      slopes_of(grid, a), "x", "title", "width", "word", "width", "log", true, "base", 2, "y", "title",
      a->of_stream ? "size relative to embeddings" : "size", "word", "size", "log", true, "base", 10, "ratio",
      LEAST_RATIO, "series", series, "on", "log-x", "log-y", "off", change_group);
}

static void put_model(const ch_coordinates *coordinates, int m, ch_text *html) {
  const ch_coordinate_model *model = &coordinates->models[m];
  ch_text table = {0}, sentence = {0};
  ch_text_printf(html, "<section aria-labelledby=\"model-%d\">\n<h2 id=\"model-%d\">", m + 1, m + 1);
  ch_html_escape(model->name, html);
  ch_text_puts(html, "</h2>\n<p>");
  ch_coordinates_sentence(model, &sentence);
  ch_page_escaped(&sentence, html);
  ch_text_puts(html, "</p>\n<div class=\"scroll\" role=\"region\" aria-label=\"Sizes\" tabindex=\"0\"><pre>");
  ch_coordinates_model_table(coordinates, m, &table);
  ch_page_escaped(&table, html);
  ch_text_puts(html,
               "</pre></div>\n</section>\n<section class=\"pair\" aria-label=\"Sizes against width\">\n");
  for (int i = 0; i < model->activation_count; i++)
    ch_page_small_figure(activation_figure(&coordinates->grid, &model->activations[i], m, i), html);
  ch_text_puts(html, "</section>\n");
}

ch_status ch_coordinates_page_write(const ch_coordinates *coordinates, ch_text *html, ch_error *error) {
  char title[200];
  ch_text answer = {0};
  snprintf(title, sizeof title, "Activations over widths on %s",
           ch_page_file_name(coordinates->about.data.file));
  ch_coordinates_explain(coordinates, &answer);
  const ch_page_head head = {.kicker = "Coordinate check",
                             .title = title,
                             .answer = answer.data ? answer.data : "",
                             .version = coordinates->about.version,
                             .created = coordinates->about.created};
  ch_page_begin(&head, html);
  for (int m = 0; m < coordinates->grid.model_count; m++) put_model(coordinates, m, html);
  ch_page_command(coordinates->about.command, html);
  ch_page_end(&head, html);
  html->failed |= answer.failed;
  ch_text_free(&answer);
  return html->failed ? ch_no_memory(error) : CH_OK;
}

/* Writes the tables and the figure of a ladder in the page of a comparison. */
#include "report/ladder_page.h"

#include <math.h>
#include <string.h>

#include "laws/ladder_laws.h"
#include "report/figure.h"
#include "report/ladder_cells.h"

enum { LAW_POINTS = 40 };

/* Writes "3.31 (3.25 to 3.37)" as the value with the interval below it. */
static void put_cell(const char *words, ch_text *html) {
  const char *interval = strstr(words, " (");
  ch_text value = {0};
  ch_text_put(&value, words, interval ? (size_t)(interval - words) : strlen(words));
  ch_text_puts(html, "<td>");
  if (value.data) ch_html_escape(value.data, html);
  html->failed |= value.failed;
  ch_text_free(&value);
  if (interval) ch_text_printf(html, " <small>%.*s</small>", (int)strlen(interval + 2) - 1, interval + 2);
  ch_text_puts(html, "</td>");
}

/* Writes a table and releases its cells. */
static void put_table(ch_table table, ch_text *html) {
  const char *words;
  html->failed |= table.cells.failed;
  ch_text_puts(html, "<table>\n<thead>\n<tr>");
  for (int c = 0; (words = ch_table_at(&table, 0, c)); c++) {
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(words, html);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int r = 1; (words = ch_table_at(&table, r, 0)); r++) {
    ch_text_puts(html, "<tr><th scope=\"row\">");
    ch_html_escape(words, html);
    ch_text_puts(html, "</th>");
    for (int c = 1; (words = ch_table_at(&table, r, c)); c++) put_cell(words, html);
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
  ch_table_free(&table);
}

void ch_ladder_put_tables(const ch_ladder *ladder, ch_text *html) {
  put_table(ch_ladder_losses(ladder), html);
  put_table(ch_ladder_predictions(ladder), html);
}

/* --- the figure -------------------------------------------------------------------------------------------------- */

static json_t *rung_series(const ch_ladder *ladder, int m, int colour) {
  const ch_ladder_mechanism *own = &ladder->mechanisms[m];
  json_t *points = json_array();
  for (int i = 0; i < ladder->rungs; i++)
    json_array_append_new(points, json_pack("[f, f]", own->flops[i], own->losses[i]));
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", own->name, "colour", colour, "group", "trained",
                   "style", "marks", "points", points);
}

static json_t *law_series(const ch_ladder *ladder, int m, int colour) {
  const ch_ladder_mechanism *own = &ladder->mechanisms[m];
  double low = log(own->flops[0]), high = log(fmax(own->flops[ladder->rungs - 1], own->target_flops));
  json_t *points = json_array();
  for (int i = 0; i <= LAW_POINTS; i++) {
    double flops = exp(low + (high - low) * i / LAW_POINTS);
    json_array_append_new(points, json_pack("[f, f]", flops, ch_ladder_loss(ladder->laws, m, flops)));
  }
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", own->name, "colour", colour, "group", "law", "style",
                   "dashed", "points", points);
}

json_t *ch_figure_ladder(const ch_ladder *ladder, const int *colours) {
  json_t *series = json_array();
  for (int m = 0; m < ladder->count; m++) {
    json_array_append_new(series, rung_series(ladder, m, colours[m]));
    json_array_append_new(series, law_series(ladder, m, colours[m]));
  }
  return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:b, s:i}, s:{s:s, s:s, s:b, s:i}, s:o, s:[s, s], s:[s]}",
                   "id", "ladder", "kind", "lines", "title", "Loss against FLOPs of training", "x", "title",
                   "FLOPs of training", "word", "FLOPs", "log", true, "base", 10, "y", "title",
                   "validation loss, nats per token", "word", "loss", "log", false, "base", 10, "series",
                   series, "switches", "log-x", "log-y", "on", "log-x");
}

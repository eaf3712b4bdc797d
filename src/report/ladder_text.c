#include "report/ladder_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"
#include "report/figure.h"

enum { CELL = 96, GAP = 2, MOST_COLUMNS = CH_LADDER_MOST_RUNGS + 1, LAW_POINTS = 40 };

typedef char cell[CELL];

/* A table whose cells are filled row by row; the first column is at the left of its place. */
typedef struct table {
  int columns, rows;
  cell cells[CH_LADDER_MOST_CURVES + 1][MOST_COLUMNS];
} table;

static void put_table(const table *t, ch_text *text) {
  int widths[MOST_COLUMNS] = {0};
  for (int c = 0; c < t->columns; c++)
    for (int r = 0; r < t->rows; r++)
      if (ch_utf8_count(t->cells[r][c]) > widths[c]) widths[c] = ch_utf8_count(t->cells[r][c]);
  for (int r = 0; r < t->rows; r++) {
    for (int c = 0; c < t->columns; c++) {
      int blanks = widths[c] - ch_utf8_count(t->cells[r][c]);
      if (c == 0)
        ch_text_printf(text, "%s%*s", t->cells[r][c], t->columns > 1 ? blanks : 0, "");
      else
        ch_text_printf(text, "%*s%s", blanks + GAP, "", t->cells[r][c]);
    }
    ch_text_puts(text, "\n");
  }
}

/* "3.31 (3.25 to 3.37)" becomes the value with the interval below it. */
static void put_html_cell(const char *words, ch_text *html) {
  const char *interval = strstr(words, " (");
  cell value;
  snprintf(value, sizeof value, "%.*s", interval ? (int)(interval - words) : (int)strlen(words), words);
  ch_text_puts(html, "<td>");
  ch_html_escape(value, html);
  if (interval) ch_text_printf(html, " <small>%.*s</small>", (int)strlen(interval + 2) - 1, interval + 2);
  ch_text_puts(html, "</td>");
}

static void put_html_table(const table *t, ch_text *html) {
  ch_text_puts(html, "<table>\n<thead>\n<tr>");
  for (int c = 0; c < t->columns; c++) {
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(t->cells[0][c], html);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int r = 1; r < t->rows; r++) {
    ch_text_puts(html, "<tr><th scope=\"row\">");
    ch_html_escape(t->cells[r][0], html);
    ch_text_puts(html, "</th>");
    for (int c = 1; c < t->columns; c++) put_html_cell(t->cells[r][c], html);
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
}

static const char *count(double value, cell to) {
  return ch_format_count(value, to, CELL);
}

/* Small numbers keep two digits, down to 0.0001. */
static const char *put_number(double value, int decimals, char *to, size_t size) {
  if (value >= 1e-4 && value < 5 * pow(10, -decimals))
    snprintf(to, size, "%.2g", value);
  else
    snprintf(to, size, "%.*f", decimals, value);
  return to;
}

/* "3.31 (3.25 to 3.37)"; "-" where nothing is known, "more" without a bound. */
static void put_estimate(const ch_estimate *e, int decimals, const char *unit, cell to) {
  char value[24], low[24], high[24];
  put_number(e->value, decimals, value, sizeof value);
  put_number(e->low, decimals, low, sizeof low);
  put_number(e->high, decimals, high, sizeof high);
  bool bounded = isfinite(e->high) && e->high < 1e6;
  if (isnan(e->value))
    strcpy(to, "-");
  else if (isinf(e->value))
    strcpy(to, "no bound");
  else if (isnan(e->low))
    snprintf(to, CELL, "%s%s", value, unit);
  else
    snprintf(to, CELL, "%s%s (%s %s%s)", value, unit, low, bounded ? "to " : "and more", bounded ? high : "");
}

static double largest_of(const ch_ladder *ladder) {
  return (double)ladder->sizes[ladder->rungs - 1];
}

static void fill_losses(const ch_ladder *ladder, table *filled) {
  table t = {.columns = ladder->rungs + 1, .rows = ladder->count + 1};
  strcpy(t.cells[0][0], "loss");
  for (int i = 0; i < ladder->rungs; i++) count((double)ladder->sizes[i], t.cells[0][i + 1]);
  for (int m = 0; m < ladder->count; m++) {
    snprintf(t.cells[m + 1][0], CELL, "%s", ladder->mechanisms[m].name);
    for (int i = 0; i < ladder->rungs; i++)
      snprintf(t.cells[m + 1][i + 1], CELL, "%.4f", ladder->mechanisms[m].losses[i]);
  }
  *filled = t;
}

static void fill_predictions(const ch_ladder *ladder, table *filled) {
  ch_ladder_basis basis;
  ch_ladder_basis_of(ladder->laws, &basis);
  bool target = ladder->target > 0;
  int c = 0;
  cell size;
  table t = {.columns = target ? 7 : 6, .rows = ladder->count + 1};
  cell *head = t.cells[0];
  strcpy(head[c++], "law");
  snprintf(head[c++], CELL, "%.20s from those below", count(largest_of(ladder), size));
  strcpy(head[c++], "true");
  strcpy(head[c++], "alpha");
  if (target) snprintf(head[c++], CELL, "loss at %.20s", count((double)ladder->target, size));
  snprintf(head[c++], CELL, "FLOPs of %.20s for it", ch_ladder_laws_at(ladder->laws, basis.baseline)->name);
  strcpy(head[c++], "its time");
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_law *law = ch_ladder_laws_at(ladder->laws, m);
    cell *row = t.cells[m + 1];
    c = 0;
    snprintf(row[c++], CELL, "%s", law->name);
    put_estimate(&law->top, 3, "", row[c++]);
    snprintf(row[c++], CELL, "%.3f", law->top_loss);
    put_estimate(&law->alpha, 3, "", row[c++]);
    if (target) put_estimate(&law->target, 3, "", row[c++]);
    if (m == basis.baseline) {
      strcpy(row[c++], "1×");
      strcpy(row[c++], "1×");
      continue;
    }
    put_estimate(&law->multiplier, 2, "×", row[c++]);
    put_estimate(&law->time_multiplier, 2, "×", row[c++]);
  }
  *filled = t;
}

static void put_tables(const ch_ladder *ladder, ch_text *text) {
  table t;
  fill_losses(ladder, &t);
  put_table(&t, text);
  ch_text_puts(text, "\n");
  fill_predictions(ladder, &t);
  put_table(&t, text);
}

void ch_ladder_tables_html(const ch_ladder *ladder, ch_text *html) {
  table t;
  fill_losses(ladder, &t);
  put_html_table(&t, html);
  fill_predictions(ladder, &t);
  put_html_table(&t, html);
}

/* "The fit tested on itself: of 3 largest models, 3 lie within the interval that those below predict." */
static void put_test(const ch_ladder *ladder, ch_text *text) {
  int within = 0, known = 0;
  cell size;
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_law *law = ch_ladder_laws_at(ladder->laws, m);
    if (isnan(law->top.low)) continue;
    known++;
    within += law->top.low <= law->top_loss && law->top_loss <= law->top.high;
  }
  if (!known)
    ch_text_printf(
        text,
        "The sizes below %s are as many as a law has parameters: they predict it without an interval.\n",
        count(largest_of(ladder), size));
  else
    ch_text_printf(
        text,
        "Tested on itself: %d of %d losses at %s are in the interval predicted from the smaller sizes.\n",
        within, known, count(largest_of(ladder), size));
}

static void put_crossings(const ch_ladder *ladder, ch_text *text) {
  const ch_ladder_crossing *c;
  for (int i = 0; (c = ch_ladder_crossing_at(ladder->laws, i)) != NULL; i++) {
    cell parameters;
    ch_text_printf(text, "%s overtakes %s at %.2g FLOPs, with models of about %s parameters",
                   ladder->mechanisms[c->above].name, ladder->mechanisms[c->below].name, c->flops.value,
                   count(ch_ladder_parameters(ladder, c->above, c->flops.value), parameters));
    if (c->flops.low > 0 && isfinite(c->flops.high))
      ch_text_printf(text, " (%.2g to %.2g FLOPs)", c->flops.low, c->flops.high);
    else if (c->flops.low > 0)
      ch_text_printf(text, " (%.2g FLOPs and more)", c->flops.low);
    else if (isfinite(c->flops.high))
      ch_text_printf(text, " (up to %.2g FLOPs)", c->flops.high);
    else if (!isnan(c->flops.low))
      ch_text_puts(text, " (these losses leave open where)");
    if (isfinite(c->share)) ch_text_printf(text, ", in %.0f %% of the resampled fits", 100 * c->share);
    ch_text_puts(text, ".\n");
  }
}

void ch_ladder_sentences_write(const ch_ladder *ladder, ch_text *text) {
  ch_ladder_basis basis;
  ch_ladder_basis_of(ladder->laws, &basis);
  cell first, last;
  const ch_estimate *floor = &ch_ladder_laws_at(ladder->laws, 0)->floor;
  ch_text_printf(text,
                 "The law L = E + A C^-alpha of the loss against the FLOPs of training, fitted to %d sizes "
                 "from %s to %s",
                 ladder->rungs, count((double)ladder->sizes[0], first), count(largest_of(ladder), last));
  if (basis.shares) ch_text_printf(text, " and to %d earlier points of each run", (int)basis.shares);
  if (basis.one_floor && !isnan(floor->low))
    ch_text_printf(text, ", with one E of %.2f (%.2f to %.2f)", floor->value, floor->low, floor->high);
  else if (basis.one_floor)
    ch_text_printf(text, ", with one E of %.2f", floor->value);
  else
    ch_text_puts(text, ", each mechanism with its own E");
  if (isfinite(basis.noise)) ch_text_printf(text, ". Losses differ from it by %.4f nats", basis.noise);
  ch_text_puts(text, ".\n");
  put_test(ladder, text);
  put_crossings(ladder, text);
  for (int m = 0; m < ladder->count; m++)
    if (ch_ladder_laws_at(ladder->laws, m)->says_nothing)
      ch_text_printf(text,
                     "Warning: the law of %s says nothing: its losses do not bound alpha. Train longer, on "
                     "more text, or "
                     "add sizes.\n",
                     ladder->mechanisms[m].name);
}

void ch_ladder_write(const ch_ladder *ladder, ch_text *text) {
  ch_text_puts(text, "\n");
  put_tables(ladder, text);
  ch_text_puts(text, "\n");
  ch_ladder_sentences_write(ladder, text);
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

/* The table of a sweep and its sentences. */
#include "report/sweep_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"

enum { COLUMNS = 9, CELL = 80 };
/* If a smaller rate has a loss lower by this share, the text says so. */
static const double worth_a_word = 0.005;

typedef char cell[CELL];

void ch_estimate_text(const ch_estimate *e, ch_text *text) {
  char low[32] = "-", high[32] = "-";
  if (isfinite(e->low)) snprintf(low, sizeof low, "%.3g", e->low);
  if (isfinite(e->high)) snprintf(high, sizeof high, "%.3g", e->high);
  ch_text_printf(text, "%.4g [%s, %s]", e->value, low, high);
}

void ch_sweep_verdict(const ch_sweep_result *run, ch_text *text) {
  long long step = (long long)run->stability.step;
  switch (run->verdict) {
  case CH_STABLE:
    ch_text_puts(text, "stable");
    break;
  case CH_NOT_FINITE:
    ch_text_printf(text, "not finite at step %lld", step);
    break;
  case CH_UNRECOVERED:
    ch_text_printf(text, "spike from step %lld on%s", step, run->stopped ? ", left" : "");
    break;
  case CH_RISING:
    ch_text_puts(text, "rising");
    break;
  case CH_STUCK:
    ch_text_puts(text, "stuck");
    break;
  }
}

/* Moves a text into a cell. */
static void take(ch_text *text, cell to) {
  snprintf(to, CELL, "%s", text->data && !text->failed ? text->data : "");
  ch_text_free(text);
}

static void put_loss(double loss, cell to) {
  if (isfinite(loss))
    snprintf(to, CELL, "%.4f", loss);
  else
    strcpy(to, "-");
}

static void fill_law(const ch_sweep_result *run, cell *row) {
  const ch_estimate *const estimates[] = {&run->law.alpha, &run->law.floor, &run->law.at};
  for (int i = 0; i < 3; i++) {
    ch_text text = {0};
    if (run->has_law)
      ch_estimate_text(estimates[i], &text);
    else
      ch_text_puts(&text, "-");
    take(&text, row[6 + i]);
  }
}

static void fill_row(const ch_sweep *sweep, const ch_sweep_result *run, cell *row) {
  ch_text verdict = {0};
  bool chosen = false;
  for (int m = 0; m < sweep->mechanisms; m++)
    chosen =
        chosen || (strcmp(sweep->choices[m].name, run->name) == 0 && sweep->choices[m].chosen == run->lr);
  snprintf(row[0], CELL, "%s", run->name);
  snprintf(row[1], CELL, "%.4g%s", run->lr, chosen ? "*" : " ");
  snprintf(row[2], CELL, "%lld", (long long)run->seed);
  put_loss(run->validation_loss, row[3]);
  snprintf(row[4], CELL, "%lld", (long long)run->stability.spikes);
  ch_sweep_verdict(run, &verdict);
  take(&verdict, row[5]);
  fill_law(run, row);
}

static void put_cells(const cell *cells, int rows, ch_text *text) {
  static const bool right[COLUMNS] = {false, true, true, true, true, false, false, false, false};
  int widths[COLUMNS] = {0};
  for (int i = 0; i < rows * COLUMNS; i++)
    if ((int)strlen(cells[i]) > widths[i % COLUMNS]) widths[i % COLUMNS] = (int)strlen(cells[i]);
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < COLUMNS; c++)
      ch_text_printf(text, "%s%*s", c ? "  " : "",
                     c + 1 == COLUMNS ? 0
                     : right[c]       ? widths[c]
                                      : -widths[c],
                     cells[r * COLUMNS + c]);
    ch_text_puts(text, "\n");
  }
}

void ch_sweep_sentence(const ch_sweep_choice *c, ch_text *text) {
  if (c->chosen <= 0) {
    ch_text_printf(text, "%s: %s.", c->name,
                   c->whole ? "no rate of the grid is stable; try smaller ones" : "no run is stable so far");
    return;
  }
  ch_text_printf(text, "%s: the largest stable rate is %.4g (validation loss %.4f)", c->name, c->chosen,
                 c->chosen_loss);
  if (c->lowest_loss < c->chosen_loss * (1 - worth_a_word))
    ch_text_printf(text, "; at %.4g the loss came lower, to %.4f", c->lowest, c->lowest_loss);
  ch_text_puts(text, ".");
}

static void put_warnings(const ch_sweep *sweep, ch_text *text) {
  ch_warnings warnings;
  ch_arena arena = {0};
  ch_error error;
  text->failed |= ch_sweep_warnings(sweep, &arena, &warnings, &error) != CH_OK;
  for (int i = 0; !text->failed && i < warnings.count; i++)
    ch_text_printf(text, "Warning: %s\n", warnings.list[i].sentence);
  ch_arena_free(&arena);
}

void ch_sweep_table_write(const ch_sweep *sweep, ch_text *text) {
  static const char *const headings[COLUMNS] = {"mechanism", "rate ", "seed", "loss", "spikes",
                                                "verdict",   "alpha", "L_0",  NULL};
  cell *cells = calloc((size_t)(sweep->count + 1) * COLUMNS, sizeof *cells);
  char budget[32];
  if (!cells) {
    text->failed = true;
    return;
  }
  for (int c = 0; c + 1 < COLUMNS; c++) strcpy(cells[c], headings[c]);
  snprintf(cells[COLUMNS - 1], CELL, "loss at %s", ch_format_count(sweep->budget, budget, sizeof budget));
  for (int i = 0; i < sweep->count; i++) fill_row(sweep, &sweep->runs[i], cells + (i + 1) * COLUMNS);
  put_cells((const cell *)cells, sweep->count + 1, text);
  free(cells);
  ch_text_puts(text,
               "\n* the largest rate whose runs are stable. alpha, L_0 and the loss at the budget: of L(D) = "
               "(D_c/D)^alpha + L_0 fitted to the validation losses, with 95 % intervals.\n");
  for (int m = 0; m < sweep->mechanisms; m++) {
    ch_sweep_sentence(&sweep->choices[m], text);
    ch_text_puts(text, "\n");
  }
  if (sweep->mechanisms > 1 && sweep->about.count > 0) {
    ch_summary summary;
    ch_error error;
    ch_text_puts(text, "At the rate of each one's lowest loss: ");
    text->failed |= ch_summarise(&sweep->about, &summary, &error) != CH_OK;
    if (!text->failed) ch_verdict_sentence(&summary, &sweep->about, text);
    ch_arena_free(&summary.arena);
    ch_text_puts(text, "\n");
  }
  put_warnings(sweep, text);
}

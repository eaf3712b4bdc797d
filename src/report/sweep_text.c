/* Writes the table of a sweep and its sentences. */
#include "report/sweep_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"

/* The text mentions the rate of the lowest loss if its loss is lower by more than this share. */
static const double worth_a_word = 0.005;

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
    ch_text_printf(text, "spike from step %lld on%s", step, run->stopped ? ", stopped" : "");
    break;
  case CH_RISING:
    ch_text_puts(text, "rising");
    break;
  case CH_STUCK:
    ch_text_puts(text, "stuck");
    break;
  }
}

/* Appends a text as a cell and releases it. */
static void put_text_cell(ch_text *words, ch_table *table) {
  ch_table_cell(table, "%s", words->data ? words->data : "");
  table->cells.failed |= words->failed;
  ch_text_free(words);
}

static void put_run(const ch_sweep *sweep, const ch_sweep_result *run, ch_table *table) {
  const ch_estimate *const estimates[] = {&run->law.alpha, &run->law.floor, &run->law.at};
  ch_text verdict = {0};
  bool chosen = false;
  for (int m = 0; m < sweep->mechanisms; m++)
    chosen =
        chosen || (strcmp(sweep->choices[m].name, run->name) == 0 && sweep->choices[m].chosen == run->lr);
  ch_table_cell(table, "%s", run->name);
  ch_table_cell(table, "%.4g%s", run->lr, chosen ? "*" : " ");
  ch_table_cell(table, "%lld", (long long)run->seed);
  if (isfinite(run->validation_loss))
    ch_table_cell(table, "%.4f", run->validation_loss);
  else
    ch_table_cell(table, "-");
  ch_table_cell(table, "%lld", (long long)run->stability.spikes);
  ch_sweep_verdict(run, &verdict);
  put_text_cell(&verdict, table);
  for (int i = 0; i < 3; i++) {
    ch_text estimate = {0};
    ch_text_puts(&estimate, run->has_law ? "" : "-");
    if (run->has_law) ch_estimate_text(estimates[i], &estimate);
    put_text_cell(&estimate, table);
  }
  ch_table_end_row(table);
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
    ch_text_printf(text, "; the loss at %.4g is lower, %.4f", c->lowest, c->lowest_loss);
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
  char budget[32], at_budget[48];
  const char *const headings[] = {"mechanism", "rate ", "seed", "loss",   "spikes",
                                  "verdict",   "alpha", "L_0",  at_budget};
  ch_table table = {.columns = "lrrrrl", .gap = 2};
  snprintf(at_budget, sizeof at_budget, "loss at %s", ch_format_count(sweep->budget, budget, sizeof budget));
  ch_table_row(&table, headings, sizeof headings / sizeof *headings);
  for (int i = 0; i < sweep->count; i++) put_run(sweep, &sweep->runs[i], &table);
  ch_table_write(&table, text);
  ch_text_puts(text, "\n* the largest rate whose runs are stable. ");
  ch_text_puts(
      text, ch_sweep_has_laws(sweep)
                ? "alpha, L_0 and the loss at the budget are those of L(D) = (D_c/D)^alpha + L_0 fitted to "
                  "the validation losses, with 95 % intervals.\n"
                : "No law is fitted, because the learning rate falls during the runs.\n");
  for (int m = 0; m < sweep->mechanisms; m++) {
    ch_sweep_sentence(&sweep->choices[m], text);
    ch_text_puts(text, "\n");
  }
  if (sweep->mechanisms > 1 && sweep->about.count > 0) {
    ch_summary summary;
    ch_error error;
    ch_text_puts(text, "With each mechanism at its best rate: ");
    text->failed |= ch_summarise(&sweep->about, &summary, &error) != CH_OK;
    if (!text->failed) ch_verdict_sentence(&summary, &sweep->about, text);
    ch_arena_free(&summary.arena);
    ch_text_puts(text, "\n");
  }
  put_warnings(sweep, text);
}

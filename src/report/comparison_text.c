/* Writes a comparison for a terminal: the verdict, the table of models, tasks, notes and the ladder. */
#include "report/comparison_text.h"

#include "base/table.h"
#include "base/utf8.h"
#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"
#include "experiment/lineup/presets.h"
#include "report/comparison_columns.h"
#include "report/equal.h"
#include "report/labels.h"
#include "report/ladder_text.h"
#include "report/task_text.h"

#include <string.h>

/* Writes the headings. A group's heading is above the last of its columns. Every cell except the names ends in a mark
 * or, without a mark, in a blank. */
static void put_headings(const ch_columns *columns, ch_table *table) {
  ch_table_cell(table, "%s", "");
  for (int c = 0, first = 0; c < columns->count; c++) {
    const char *group = columns->list[c].group;
    char heading[64];
    if (c + 1 < columns->count && *group && strcmp(group, columns->list[c + 1].group) == 0) continue;
    snprintf(heading, sizeof heading, "%s ", group);
    ch_table_span(table, c + 1 - first, heading);
    first = c + 1;
  }
  ch_table_end_row(table);
  ch_table_cell(table, "mechanism");
  for (int c = 0; c < columns->count; c++) ch_table_cell(table, "%s ", columns->list[c].heading);
  ch_table_end_row(table);
  ch_table_cell(table, "%s", "");
  for (int c = 0; c < columns->count; c++) ch_table_cell(table, "%s ", columns->list[c].unit);
  ch_table_end_row(table);
}

static void put_model_row(const ch_columns *columns, const ch_summary *summary, const ch_group *group,
                          ch_table *table) {
  ch_table_cell(table, "%s", group->name);
  for (int c = 0; c < columns->count; c++) {
    char value[128];
    const char *mark = ch_column_is_unsteady(&columns->list[c], group)        ? "?"
                       : ch_column_is_best(&columns->list[c], summary, group) ? "*"
                                                                              : " ";
    ch_table_cell(table, "%s%s", ch_column_cell(&columns->list[c], group, value, sizeof value), mark);
  }
  ch_table_end_row(table);
}

static bool has_spread(const ch_columns *columns, const ch_summary *summary) {
  for (int c = 0; c < columns->count; c++)
    for (int i = 0; columns->list[c].measured && i < summary->count; i++)
      if (ch_group_spread(&summary->groups[i], columns->list[c].measured).mean > 0) return true;
  return false;
}

static void put_speed_notes(const ch_columns *columns, const ch_summary *summary, ch_text *text) {
  bool seeds = summary->seeds > 1, speeds = has_spread(columns, summary);
  if (seeds)
    ch_text_printf(text, "± is the standard deviation between seeds%s.\n",
                   speeds ? "; about half of the measurements of a speed are within its ±" : "");
  else if (speeds)
    ch_text_puts(text, "± of a speed: about half of its measurements are within it.\n");
  if (ch_columns_have_unsteady(columns, summary))
    ch_text_puts(text, "? not steady: " CH_UNSTEADY_NOTE " The setting remeasure times all models again.\n");
}

/* Writes "Learning rates, tuned: mla 0.0018 (0.0015 to 0.0022 is as good, the usual 0.003 costs 1.9 %); ..." */
static void put_rates(const ch_summary *summary, ch_text *text) {
  int count = 0;
  for (int i = 0; i < summary->count; i++) {
    const ch_model_result *run = summary->groups[i].runs[0];
    if (!run->tried_count) continue;
    ch_text_printf(text, "%s%s %.2g", count++ ? "; " : "Learning rates, tuned: ", summary->groups[i].name,
                   run->lr);
    const char *open = " (";
    if (run->lr_low > 0) {
      ch_text_printf(text, "%s%.2g to %.2g is as good", open, run->lr_low, run->lr_high);
      open = ", ";
    }
    if (run->usual_lr_cost > 0) {
      ch_text_printf(text, "%sthe usual %.2g costs %.1f %%", open, run->tried[0].lr,
                     100 * run->usual_lr_cost);
      open = ", ";
    }
    if (run->lr_at_edge) {
      ch_text_printf(text, "%sat the edge of those tried", open);
      open = ", ";
    }
    if (*open == ',') ch_text_puts(text, ")");
  }
  if (count) ch_text_puts(text, ".\n");
}

static double spikes(const ch_model_result *model) {
  return (double)model->loss_spikes;
}

void ch_spikes_write(const ch_summary *summary, ch_text *text) {
  bool any = false;
  for (int i = 0; i < summary->count; i++)
    for (int r = 0; r < summary->groups[i].count; r++) {
      if (summary->groups[i].runs[r]->loss_spikes < 0) return;
      any = any || summary->groups[i].runs[r]->loss_spikes > 0;
    }
  if (!any) return;
  ch_text_puts(text, "Loss spikes while training");
  for (int i = 0; i < summary->count; i++)
    ch_text_printf(text, "%s %s %.3g", i ? "," : ":", summary->groups[i].name,
                   ch_group_spread(&summary->groups[i], spikes).mean);
  ch_text_puts(text, summary->fewest > 1 ? " (means over seeds)." : ".");
}

/* Ends the line that begins at `from` unless it is empty. Returns the offset at which the next line begins. */
static size_t end_line(size_t from, ch_text *text) {
  if (text->size > from) ch_text_puts(text, "\n");
  return text->size;
}

/* Writes "embedding-gated ...; latent elements: 4; with moe" for "egmla:4+moe". A number replaces the default
 * that the summary gives in parentheses at its end. */
static void put_meaning(const char *name, const ch_preset *preset, ch_table *table) {
  const char *number = name + strcspn(name, ":+"), *added = strchr(name, '+');
  const char *by_default = strstr(preset->summary, " (default: ");
  ch_text words = {0};
  if (*number == ':' && preset->number) {
    ch_text_put(&words, preset->summary,
                by_default ? (size_t)(by_default - preset->summary) : strlen(preset->summary));
    ch_text_printf(&words, "; %s: %.*s", preset->number, (int)strcspn(number + 1, "+"), number + 1);
  } else {
    ch_text_puts(&words, preset->summary);
  }
  if (added) ch_text_printf(&words, "; with %s", added + 1);
  ch_table_cell(table, "%s", words.failed ? "" : words.data);
  ch_text_free(&words);
}

/* Writes a line for each choice with the meaning of its name, if there are several models. */
static void put_meanings(const ch_summary *summary, ch_text *text) {
  const ch_decision *d = &summary->decision;
  ch_table table = {.columns = "ll", .gap = 2};
  bool any = false;
  for (int i = 0; summary->count > 1 && i < d->choice_count; i++) {
    const ch_group *group = &summary->groups[d->choices[i]];
    const ch_preset *preset = ch_preset_of(group->runs[0]->name);
    if (!preset) continue;
    ch_table_cell(&table, "%s", group->name);
    put_meaning(group->runs[0]->name, preset, &table);
    ch_table_end_row(&table);
    any = true;
  }
  if (any) ch_text_puts(text, "\n");
  ch_table_write(&table, text);
}

/* Writes the notes below the table, one per line. */
static void put_notes(const ch_comparison *comparison, const ch_columns *columns, ch_summary *summary,
                      ch_text *text) {
  ch_warnings warnings;
  ch_error error;
  put_meanings(summary, text);
  ch_text_puts(text, "\n* best of its column. ");
  ch_verdict_rule(comparison, text);
  ch_text_puts(text, "\n");
  if (summary->count > 1) {
    ch_equal_write(summary, comparison, text);
    ch_text_puts(text, "\n");
  }
  put_speed_notes(columns, summary, text);
  put_rates(summary, text);
  size_t line = text->size;
  ch_spikes_write(summary, text);
  line = end_line(line, text);
  ch_verdict_standings(summary, text);
  line = end_line(line, text);
  ch_verdict_tokens(summary, comparison, text);
  line = end_line(line, text);
  ch_verdict_noise(summary, comparison, text);
  end_line(line, text);
  if (ch_comparison_warnings(comparison, summary, &summary->arena, &warnings, &error) != CH_OK) {
    text->failed = true;
    return;
  }
  for (int i = 0; i < warnings.count; i++) ch_text_printf(text, "Warning: %s\n", warnings.list[i].sentence);
}

void ch_comparison_write(const ch_comparison *comparison, ch_text *text) {
  ch_summary summary;
  ch_error error;
  const ch_columns columns = ch_columns_of(comparison);
  ch_table table = {.columns = "lr", .gap = 2};
  if (ch_summarise(comparison, &summary, &error) != CH_OK || ch_summary_label(&summary, &error) != CH_OK) {
    text->failed = true;
    ch_arena_free(&summary.arena);
    return;
  }
  ch_verdict_sentence(&summary, comparison, text);
  ch_text_puts(text, "\n\n");
  put_headings(&columns, &table);
  for (int i = 0; i < summary.count; i++) put_model_row(&columns, &summary, &summary.groups[i], &table);
  ch_table_write(&table, text);
  ch_tasks_write(&summary, text);
  put_notes(comparison, &columns, &summary, text);
  if (comparison->ladder) ch_ladder_write(comparison->ladder, text);
  ch_arena_free(&summary.arena);
}

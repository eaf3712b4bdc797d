/* Writes the table of tasks for a terminal. */
#include "report/task_text.h"

#include "base/table.h"
#include "experiment/findings/task_accuracy.h"
#include "report/task_cells.h"

void ch_tasks_write(const ch_summary *summary, ch_text *text) {
  /* The first column is at least as wide as that of the table above, which has the heading "mechanism". */
  ch_table table = {.columns = "l9r", .gap = 2};
  char name[CH_TASK_CELL], value[CH_TASK_CELL], spread[CH_TASK_CELL];
  const char *task;
  if (!ch_task_accuracy_name(summary, 0)) return;
  ch_table_cell(&table, "task");
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++)
    ch_table_cell(&table, "%s", ch_task_short_name(task, name));
  ch_table_end_row(&table);
  ch_table_cell(&table, "%s", "");
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++)
    ch_table_cell(&table, "%s", ch_task_metric(summary, task));
  ch_table_end_row(&table);
  for (int i = 0; i < summary->count; i++) {
    ch_table_cell(&table, "%s", summary->groups[i].name);
    for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
      ch_task_cell(&summary->groups[i], task, value, spread);
      ch_table_cell(&table, "%s%s", value, spread);
    }
    ch_table_end_row(&table);
  }
  ch_text_puts(text, "\n");
  ch_table_write(&table, text);
  ch_text_printf(text, "%s\n", ch_task_note(summary));
}

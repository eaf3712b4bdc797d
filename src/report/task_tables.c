#include "report/task_tables.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "experiment/findings/task_accuracy.h"
#include "report/page_private.h"

/* "0.412 ± 0.049": the deviation between seeds or, for one seed, the standard error over the items. "" if the task was
   not evaluated. */
static bool cell(const ch_group *group, const char *task, char *value, char *spread, size_t size) {
  ch_task_accuracy answer;
  *value = *spread = 0;
  if (!ch_task_accuracy_of(group, task, &answer)) return false;
  double shown = answer.runs > 1 ? answer.deviation : answer.error;
  snprintf(value, size, "%.4g", answer.mean);
  if (shown > 0) snprintf(spread, size, " ± %.2g", shown);
  return true;
}

static const char *metric_of(const ch_summary *summary, const char *task) {
  ch_task_accuracy answer;
  for (int i = 0; i < summary->count; i++)
    if (ch_task_accuracy_of(&summary->groups[i], task, &answer)) return answer.metric;
  return "";
}

/* A task's name, without the file of its items. */
static void put_name(const char *task, char *name, size_t size) {
  snprintf(name, size, "%.*s", (int)strcspn(task, "="), task);
}

static const char *note(const ch_summary *summary) {
  return summary->seeds > 1 ? "± of a task: the standard deviation between seeds."
                            : "± of a task: the standard error over its items.";
}

/* --- for a terminal ---------------------------------------------------------------------------------------------- */

static void put_right(const char *word, int width, ch_text *text) {
  int spaces = width - ch_utf8_count(word);
  ch_text_printf(text, "%*s%s", spaces > 0 ? spaces : 0, "", word);
}

static int width_of(const ch_summary *summary, const char *task) {
  char value[64], spread[64];
  char name[80];
  put_name(task, name, sizeof name);
  int width = ch_utf8_count(name), metric = ch_utf8_count(metric_of(summary, task));
  if (metric > width) width = metric;
  for (int i = 0; i < summary->count; i++) {
    cell(&summary->groups[i], task, value, spread, sizeof value);
    int length = ch_utf8_count(value) + ch_utf8_count(spread);
    if (length > width) width = length;
  }
  return width;
}

static void put_left(const char *word, int width, ch_text *text) {
  int spaces = width - ch_utf8_count(word);
  ch_text_printf(text, "%s%*s", word, spaces > 0 ? spaces : 0, "");
}

void ch_tasks_write(const ch_summary *summary, int names, ch_text *text) {
  enum { GAP = 2 };
  const char *task;
  if (!ch_task_accuracy_name(summary, 0)) return;
  ch_text_puts(text, "\n");
  put_left("task", names, text);
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
    char name[80];
    put_name(task, name, sizeof name);
    put_right(name, width_of(summary, task) + GAP, text);
  }
  ch_text_puts(text, "\n");
  put_left("", names, text);
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++)
    put_right(metric_of(summary, task), width_of(summary, task) + GAP, text);
  for (int i = 0; i < summary->count; i++) {
    ch_text_puts(text, "\n");
    put_left(summary->groups[i].name, names, text);
    for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
      char value[64], spread[64], both[128];
      cell(&summary->groups[i], task, value, spread, sizeof value);
      snprintf(both, sizeof both, "%s%s", value, spread);
      put_right(both, width_of(summary, task) + GAP, text);
    }
  }
  ch_text_printf(text, "\n%s\n", note(summary));
}

/* --- for the page ------------------------------------------------------------------------------------------------ */

void ch_page_put_tasks(const ch_page *p, ch_text *html) {
  const ch_summary *summary = p->summary;
  const char *task;
  if (!ch_task_accuracy_name(summary, 0)) return;
  ch_text_puts(html,
               "<section aria-labelledby=\"tasks-heading\">\n<h2 id=\"tasks-heading\">Tasks</h2>\n"
               "<div class=\"scroll\" role=\"region\" aria-labelledby=\"tasks-heading\" tabindex=\"0\">\n"
               "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
    char name[80];
    put_name(task, name, sizeof name);
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(name, html);
    ch_text_puts(html, "<small>");
    ch_html_escape(metric_of(summary, task), html);
    ch_text_puts(html, "</small></th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 0; i < summary->count; i++) {
    ch_page_name_cell(p, i, false, html);
    for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
      char value[64], spread[64];
      bool asked = cell(&summary->groups[i], task, value, spread, sizeof value);
      ch_text_printf(html, "<td>%s", asked ? value : "–");
      if (*spread) ch_text_printf(html, " <small>%s</small>", spread + 1);
      ch_text_puts(html, "</td>");
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_printf(html,
                 "</tbody>\n</table>\n</div>\n<p class=\"note\">%s The verdict does not follow the "
                 "tasks.</p>\n</section>\n",
                 note(summary));
}

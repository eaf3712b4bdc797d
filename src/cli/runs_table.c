/* Prints the list of runs, one row each. Settings that differ between otherwise equal rows get columns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/runs_cells.h"
#include "cli/runs_text.h"
#include "base/table.h"

enum { FIXED = 11, MOST_MORE = 4, MOST_WIDTH = 32 };

/* Columns of every list. The mechanism is left out if it equals the name in every row. */
enum { ID, FINISHED, KIND, NAME, MECHANISM, SEED, LR, PARAMETERS, TOKENS, LOSS, STATUS };
static const char *const headings[FIXED] = {"id", "finished",   "kind",   "name", "mechanism", "seed",
                                            "lr", "parameters", "tokens", "loss", "status"};
/* Columns with settings of a run. */
static const int settings[] = {KIND, NAME, MECHANISM, SEED, LR, PARAMETERS, TOKENS};

/* The list under construction. */
typedef struct list {
  const ch_run_list *runs;
  int64_t count;
  ch_cell *rows; /* [count][FIXED] */
  json_t **flat; /* [count] flat objects of runs; NULL: not needed yet */
  json_t *more;  /* array of the keys in which runs with equal rows differ; each becomes a column */
  bool with_mechanism;
} list;

static void put_number(ch_cell to, const char *format, double number) {
  if (isfinite(number))
    snprintf(to, CH_CELL, format, number);
  else
    strcpy(to, "-");
}

static void put_count(ch_cell to, int64_t count) {
  if (count >= 0)
    ch_format_count((double)count, to, CH_CELL);
  else
    strcpy(to, "-");
}

static void put_row(const ch_run_record *run, ch_cell *row) {
  snprintf(row[ID], CH_CELL, "%lld", (long long)run->id);
  snprintf(row[FINISHED], CH_CELL, "%.10s %.5s", run->finished,
           strlen(run->finished) > 11 ? run->finished + 11 : "");
  ch_put_cell(row[KIND], run->kind);
  ch_put_cell(row[NAME], run->name);
  ch_put_cell(row[MECHANISM], *run->mechanism ? run->mechanism : "-");
  snprintf(row[SEED], CH_CELL, "%lld", (long long)run->seed);
  if (run->seed < 0) strcpy(row[SEED], "-");
  put_number(row[LR], "%.3g", run->lr);
  put_count(row[PARAMETERS], run->parameters);
  put_count(row[TOKENS], run->tokens);
  put_number(row[LOSS], "%.4f", isfinite(run->validation_loss) ? run->validation_loss : run->loss);
  ch_put_cell(row[STATUS], run->status);
}

/* --- rows with equal settings ------------------------------------------------------------------------------- */

/* Returns the cells with settings of a row as one text; malloc'd. */
static char *look_of(ch_cell *row) {
  ch_text text = {0};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    ch_text_printf(&text, "%s\n", row[settings[i]]);
  if (!text.failed) return text.data;
  ch_text_free(&text);
  return NULL;
}

static bool is_setting(const char *key) {
  static const char *const whole[] = {"dataset", "machine.engine", "machine.device_name", NULL};
  return ch_in_list(key, whole) || strncmp(key, "config.", 7) == 0 || strncmp(key, "options.", 8) == 0;
}

static bool has_key(const json_t *keys, const char *key) {
  size_t i;
  json_t *one;
  json_array_foreach((json_t *)keys, i, one) if (strcmp(json_string_value(one), key) == 0) return true;
  return false;
}

/* Adds the keys of the settings of `a` that `b` lacks or has with another value. `keys` gets at most MOST_MORE. */
static void add_differences(json_t *keys, const json_t *a, const json_t *b) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)a, key, value) {
    if (json_array_size(keys) == MOST_MORE) return;
    if (!is_setting(key) || has_key(keys, key)) continue;
    const json_t *other = json_object_get(b, key);
    if (!other || !json_equal(value, (json_t *)other)) json_array_append_new(keys, json_string(key));
  }
}

static json_t *flat_at(list *l, int64_t run) {
  if (!l->flat[run]) l->flat[run] = ch_flat_run(ch_run_list_at(l->runs, run));
  return l->flat[run];
}

/* Compares every run with the first run whose row has the same settings, and adds the keys in which they differ to
   l->more. Returns false if out of memory. */
static bool tell_apart(list *l) {
  json_t *first = json_object(); /* maps the settings of a row to the index of the first run that has them */
  bool fine = first != NULL;
  for (int64_t i = 0; i < l->count && fine; i++) {
    char *look = look_of(&l->rows[i * FIXED]);
    const json_t *seen = look ? json_object_get(first, look) : NULL;
    fine = look != NULL;
    if (seen) {
      const json_t *a = flat_at(l, json_integer_value(seen)), *b = flat_at(l, i);
      fine = a && b;
      if (fine) add_differences(l->more, a, b);
      if (fine) add_differences(l->more, b, a);
    } else if (look) {
      json_object_set_new(first, look, json_integer(i));
    }
    free(look);
  }
  json_decref(first);
  return fine;
}

/* --- the table ---------------------------------------------------------------------------------------------- */

/* Writes the row of `run`, or the headings if it is negative. */
static void put_line(list *l, int64_t run, ch_table *table) {
  ch_cell cell;
  for (int c = 0; c < FIXED; c++)
    if (c != MECHANISM || l->with_mechanism)
      ch_table_cell(table, "%s", run < 0 ? headings[c] : l->rows[run * FIXED + c]);
  for (size_t i = 0; i < json_array_size(l->more); i++) {
    const char *key = json_string_value(json_array_get(l->more, i));
    if (run < 0)
      ch_put_cell(cell, key);
    else
      ch_put_json_cell(json_object_get(flat_at(l, run), key), cell);
    ch_shorten_cell(cell, MOST_WIDTH);
    ch_table_cell(table, "%s", cell);
  }
  ch_table_end_row(table);
}

void ch_runs_table(const ch_run_list *found, ch_text *text) {
  int64_t count = ch_run_list_count(found);
  list l = {.runs = found,
            .count = count,
            .rows = calloc((size_t)count * FIXED + 1, sizeof *l.rows),
            .flat = calloc((size_t)count + 1, sizeof(json_t *)),
            .more = json_array()};
  bool fine = l.rows && l.flat && l.more;
  for (int64_t i = 0; i < count && fine; i++) {
    const ch_run_record *run = ch_run_list_at(found, i);
    put_row(run, &l.rows[i * FIXED]);
    l.with_mechanism |= strcmp(run->name, run->mechanism) != 0;
  }
  fine = fine && tell_apart(&l);
  ch_table table = {.columns = l.with_mechanism ? "rllllrrrrrl" : "rlllrrrrrl", .gap = 2};
  for (int64_t i = -1; i < count && fine; i++) put_line(&l, i, &table);
  ch_table_write(&table, text);
  text->failed |= !fine;
  for (int64_t i = 0; i < count && l.flat; i++) json_decref(l.flat[i]);
  free(l.flat);
  free(l.rows);
  json_decref(l.more);
}

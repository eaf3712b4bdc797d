/* The public functions that find runs: they convert terms to SQL, and rows to runs. Runs are also converted to JSON
 * here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/runs_private.h"
#include "base/arena.h"
#include "base/json.h"
#include "experiment/findings/comparison_results.h"

struct ch_run_list {
  ch_arena arena;
  ch_run_record *runs; /* [count] runs in the requested order */
  int64_t count;
};

/* --- keys and terms ---------------------------------------------------------------------------------------------- */

typedef struct search {
  ch_arena *arena;
  ch_text sql;
  const char *bound[128]; /* [count] parameters of the statement: paths and values */
  int count;
} search;

static ch_status bind(search *s, const char *value, ch_error *error) {
  if (s->count == 128) return ch_fail(error, CH_ERROR_ARGUMENT, "too many filters; give fewer");
  if (!value) return ch_no_memory(error);
  s->bound[s->count++] = value;
  return CH_OK;
}

static ch_status unknown_key(const char *key, ch_error *error) {
  const char *names[CH_RUNS_COLUMNS + 3] = {"id", "training_loss"};
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) names[c + 2] = ch_runs_columns[c].name;
  const char *near = ch_nearest_name(key, names);
  char hint[64] = "";
  if (near) snprintf(hint, sizeof hint, " (did you mean \"%.40s\"?)", near);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "runs have no \"%.60s\"%s; keys are columns such as seed, lr, loss and name, and settings such as "
      "config.hidden_size or options.batch",
      key, hint);
}

/* SQL for the name of a run's mechanism. compare and sweep name runs after the mechanism ("gqa:4") or a
   configuration file. For files and for other runs, the name is the type in the configuration, with mha and mqa as the
   two extremes of gqa. */
static const char mechanism_sql[] =
    "(CASE WHEN kind IN ('compare', 'sweep') AND instr(name, '/') = 0 AND name NOT LIKE '%.json' THEN name "
    "WHEN mechanism <> 'gqa' THEN mechanism "
    "WHEN json_extract(config, '$.attention.num_key_heads') IS NOT NULL "
    "OR json_extract(config, '$.attention.num_value_heads') IS NOT NULL THEN mechanism "
    "WHEN json_extract(config, '$.num_key_value_heads') = json_extract(config, '$.num_attention_heads') THEN "
    "'mha' "
    "WHEN json_extract(config, '$.num_key_value_heads') = 1 THEN 'mqa' ELSE mechanism END)";

/* Keys that are not a column, or not the column with their name, and the SQL for their values. */
static const struct {
  const char *name, *sql;
} shown[] = {{"id", "id"},
             {"mechanism", mechanism_sql},
             {"loss", "coalesce(validation_loss, loss)"},
             {"training_loss", "\"loss\""}};

static const char *sql_of_shown(const char *key) {
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    if (strcmp(key, shown[i].name) == 0) return shown[i].sql;
  return NULL;
}

/* Writes the SQL of a key: a column, or a member of a JSON column such as "config.hidden_size". */
static ch_status put_key(search *s, const char *key, ch_error *error) {
  if (sql_of_shown(key)) {
    ch_text_puts(&s->sql, sql_of_shown(key));
    return CH_OK;
  }
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) {
    const ch_runs_column *column = &ch_runs_columns[c];
    size_t length = strlen(column->name);
    if (strncmp(key, column->name, length) != 0) continue;
    if (!key[length] && column->type != CH_COLUMN_JSON) {
      ch_text_printf(&s->sql, "\"%s\"", column->name);
      return CH_OK;
    }
    if (key[length] != '.' || !key[length + 1] || column->type != CH_COLUMN_JSON) continue;
    if (strpbrk(key + length, "\"[]"))
      return ch_fail(error, CH_ERROR_ARGUMENT, "\"%.60s\" is not a valid key: it has a quote or a bracket",
                     key);
    ch_text_printf(&s->sql, "json_extract(\"%s\", ?)", column->name);
    return bind(s, ch_arena_printf(s->arena, "$%s", key + length), error);
  }
  return unknown_key(key, error);
}

/* Writes the condition on a mechanism, negated if `other` is set. mechanism=gqa also finds gqa:4 and gqa+masa;
 * mechanism=gqa:4 finds only gqa:4. Case does not matter. */
static ch_status put_mechanism(search *s, const char *value, bool other, ch_error *error) {
  ch_text_printf(&s->sql, "%s(%s = ? COLLATE NOCASE", other ? "NOT " : "", mechanism_sql);
  CH_TRY(bind(s, value, error));
  if (!strpbrk(value, ":+")) {
    ch_text_printf(&s->sql, " OR substr(%s, 1, length(?) + 1) COLLATE NOCASE IN (? || ':', ? || '+')",
                   mechanism_sql);
    for (int i = 0; i < 3; i++) CH_TRY(bind(s, value, error));
  }
  ch_text_puts(&s->sql, ")");
  return CH_OK;
}

static bool is_id(const char *term, int64_t *id) {
  char *end;
  *id = strtoll(term, &end, 10);
  return *term >= '0' && *term <= '9' && !*end;
}

/* Writes the condition of a term such as KEY=VALUE. A value that looks like a number is compared as a number, unless
   the column is text. */
static ch_status put_term(search *s, const char *term, ch_error *error) {
  static const char *const operators[] = {"<=", ">=", "!=", "=", "<", ">", "~"};
  size_t length = strcspn(term, "<>!=~"), op = 0;
  while (op < 7 && strncmp(term + length, operators[op], strlen(operators[op])) != 0) op++;
  if (length == 0 || op == 7)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "\"%.60s\" is not a filter; write the number of a run, or KEY=VALUE with one of = != < <= > >= ~",
        term);
  const char *value = term + length + strlen(operators[op]);
  char *key = ch_arena_printf(s->arena, "%.*s", (int)length, term);
  int64_t whole;
  double number;
  if (!key) return ch_no_memory(error);
  if (*value == 0 && op != 3 && op != 2)
    return ch_fail(error, CH_ERROR_ARGUMENT, "\"%.60s\" has no value after %s", term, operators[op]);
  if (strcmp(key, "mechanism") == 0 && (op == 2 || op == 3)) return put_mechanism(s, value, op == 2, error);
  bool contains = op == 6, counts = ch_parse_count(value, &whole);
  bool numeric = !contains && (counts || ch_parse_number(value, &number));
  if (contains) ch_text_puts(&s->sql, "instr(lower(");
  CH_TRY(put_key(s, key, error));
  if (contains) {
    ch_text_puts(&s->sql, "), lower(?)) > 0");
  } else if (numeric) { /* text columns are compared as text, because a name may look like a number */
    ch_text_printf(&s->sql, " %s CASE typeof(", operators[op]);
    CH_TRY(put_key(s, key, error));
    ch_text_puts(&s->sql, ") WHEN 'text' THEN ? ELSE CAST(? AS REAL) END");
    CH_TRY(bind(s, value, error));
    value = counts ? ch_arena_printf(s->arena, "%lld", (long long)whole) : value;
  } else {
    ch_text_printf(&s->sql, " %s ?", operators[op]);
  }
  return bind(s, value, error);
}

static ch_status put_where(search *s, const ch_runs_query *query, ch_error *error) {
  int64_t id;
  bool any = false;
  for (int i = 0; i < query->count; i++) {
    if (!is_id(query->terms[i], &id)) continue;
    ch_text_printf(&s->sql, "%s%lld", any ? ", " : " WHERE id IN (", (long long)id);
    any = true;
  }
  if (any) ch_text_puts(&s->sql, ")");
  for (int i = 0; i < query->count; i++) {
    if (is_id(query->terms[i], &id)) continue;
    ch_text_puts(&s->sql, any ? " AND " : " WHERE ");
    any = true;
    CH_TRY(put_term(s, query->terms[i], error));
  }
  ch_text_puts(&s->sql, " ORDER BY ");
  if (query->sort) {
    bool down = query->sort[0] == '-';
    CH_TRY(put_key(s, query->sort + down, error));
    ch_text_printf(&s->sql, "%s NULLS LAST, ", down ? " DESC" : "");
  }
  ch_text_puts(&s->sql, "id");
  if (query->limit > 0) ch_text_printf(&s->sql, " LIMIT %lld", (long long)query->limit);
  return s->sql.failed ? ch_no_memory(error) : CH_OK;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static bool read_column(sqlite3_stmt *statement, int c, ch_arena *arena, ch_run_record *run) {
  char *member = (char *)run + ch_runs_columns[c].offset;
  bool null = sqlite3_column_type(statement, c + 1) == SQLITE_NULL;
  const char *text;
  switch (ch_runs_columns[c].type) {
  case CH_COLUMN_WHOLE:
    *(int64_t *)(void *)member = null ? -1 : sqlite3_column_int64(statement, c + 1);
    return true;
  case CH_COLUMN_NUMBER:
    *(double *)(void *)member = null ? NAN : sqlite3_column_double(statement, c + 1);
    return true;
  case CH_COLUMN_TEXT:
  case CH_COLUMN_JSON:
    break;
  }
  text = (const char *)sqlite3_column_text(statement, c + 1);
  text = ch_arena_strdup(arena, text ? text : "");
  *(const char **)(void *)member = text;
  return text != NULL;
}

static ch_status read_curve(ch_runs *runs, int64_t id, const char *kind, ch_arena *arena,
                            const ch_curve_point **points, int64_t *count, ch_error *error) {
  sqlite3_stmt *statement;
  int64_t room = 0, taken = 0;
  int result;
  ch_curve_point *list = NULL;
  CH_TRY(ch_runs_prepare(
      runs, "SELECT tokens, loss, count(*) OVER () FROM curves WHERE run = ? AND kind = ? ORDER BY tokens",
      &statement, error));
  sqlite3_bind_int64(statement, 1, id);
  sqlite3_bind_text(statement, 2, kind, -1, SQLITE_STATIC);
  while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
    if (!list) {
      room = sqlite3_column_int64(statement, 2);
      list = ch_arena_alloc(arena, (size_t)room * sizeof *list);
      if (!list) break;
    }
    bool null = sqlite3_column_type(statement, 1) == SQLITE_NULL;
    if (taken < room)
      list[taken++] = (ch_curve_point){sqlite3_column_int64(statement, 0),
                                       null ? NAN : sqlite3_column_double(statement, 1)};
  }
  sqlite3_finalize(statement);
  *points = list;
  *count = taken;
  if (result == SQLITE_ROW) return ch_no_memory(error);
  return result == SQLITE_DONE ? CH_OK : ch_runs_failed(runs, "read", error);
}

static ch_status read_rows(ch_runs *runs, sqlite3_stmt *statement, ch_arena *arena, ch_run_record **found,
                           int64_t *count, ch_error *error) {
  int64_t room = 0;
  int result;
  while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
    /* arenas cannot grow in place, so doubling wastes at most as much memory as the list has */
    if (*count == room) {
      room = 2 * room + 16;
      ch_run_record *more = ch_arena_alloc(arena, (size_t)room * sizeof *more);
      if (!more) return ch_no_memory(error);
      if (*count) memcpy(more, *found, (size_t)*count * sizeof *more);
      *found = more;
    }
    ch_run_record *run = &(*found)[(*count)++];
    run->id = sqlite3_column_int64(statement, 0);
    for (int c = 0; c < CH_RUNS_COLUMNS; c++)
      if (!read_column(statement, c, arena, run)) return ch_no_memory(error);
  }
  return result == SQLITE_DONE ? CH_OK : ch_runs_failed(runs, "read", error);
}

/* Fails if a term is the id of a run that does not exist. */
static ch_status check_ids(ch_runs *runs, const ch_runs_query *query, ch_error *error) {
  int64_t id;
  for (int i = 0; i < query->count; i++) {
    if (!is_id(query->terms[i], &id)) continue;
    sqlite3_stmt *statement;
    CH_TRY(ch_runs_prepare(runs, "SELECT 1 FROM runs WHERE id = ?", &statement, error));
    sqlite3_bind_int64(statement, 1, id);
    int result = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (result == SQLITE_DONE)
      return ch_fail(error, CH_ERROR_ARGUMENT, "%s has no run %lld; `crosshead runs` lists them", runs->path,
                     (long long)id);
    if (result != SQLITE_ROW) return ch_runs_failed(runs, "read", error);
  }
  return CH_OK;
}

static ch_status read_curves(ch_runs *runs, ch_run_list *found, ch_error *error) {
  for (int64_t i = 0; i < found->count; i++) {
    ch_run_record *run = &found->runs[i];
    CH_TRY(read_curve(runs, run->id, "training", &found->arena, &run->curve, &run->curve_points, error));
    CH_TRY(read_curve(runs, run->id, "validation", &found->arena, &run->validation_curve,
                      &run->validation_points, error));
  }
  return CH_OK;
}

static ch_status find_runs(ch_runs *runs, const ch_runs_query *query, ch_run_list *found, ch_error *error) {
  search s = {.arena = &found->arena};
  sqlite3_stmt *statement = NULL;
  ch_status status;
  ch_text_puts(&s.sql, "SELECT id");
  for (int c = 0; c < CH_RUNS_COLUMNS; c++)
    if (strcmp(ch_runs_columns[c].name, "mechanism") == 0)
      ch_text_printf(&s.sql, ", %s", mechanism_sql);
    else
      ch_text_printf(&s.sql, ", \"%s\"", ch_runs_columns[c].name);
  ch_text_puts(&s.sql, " FROM runs");
  CH_TRY_GOTO(put_where(&s, query, error));
  CH_TRY_GOTO(check_ids(runs, query, error));
  CH_TRY_GOTO(ch_runs_prepare(runs, s.sql.data, &statement, error));
  for (int i = 0; i < s.count; i++) sqlite3_bind_text(statement, i + 1, s.bound[i], -1, SQLITE_STATIC);
  CH_TRY_GOTO(read_rows(runs, statement, &found->arena, &found->runs, &found->count, error));
  if (query->curves) CH_TRY_GOTO(read_curves(runs, found, error));
done:
  sqlite3_finalize(statement);
  ch_text_free(&s.sql);
  return status;
}

ch_status ch_runs_find(ch_runs *runs, const ch_runs_query *query, ch_run_list **result, ch_error *error) {
  static const ch_runs_query all = {0};
  *result = NULL;
  ch_run_list *found = calloc(1, sizeof *found);
  if (!found) return ch_no_memory(error);
  ch_status status = find_runs(runs, query ? query : &all, found, error);
  if (status == CH_OK)
    *result = found;
  else
    ch_run_list_free(found);
  return status;
}

void ch_run_list_free(ch_run_list *found) {
  if (!found) return;
  ch_arena_free(&found->arena);
  free(found);
}

int64_t ch_run_list_count(const ch_run_list *found) {
  return found->count;
}

const ch_run_record *ch_run_list_at(const ch_run_list *found, int64_t index) {
  return index >= 0 && index < found->count ? &found->runs[index] : NULL;
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *column_to_json(const ch_run_record *run, int c) {
  const char *member = (const char *)run + ch_runs_columns[c].offset, *text;
  int64_t whole;
  json_t *object;
  switch (ch_runs_columns[c].type) {
  case CH_COLUMN_WHOLE:
    whole = *(const int64_t *)(const void *)member;
    return whole < 0 ? json_null() : json_integer(whole);
  case CH_COLUMN_NUMBER:
    return ch_json_finite(*(const double *)(const void *)member);
  case CH_COLUMN_JSON:
    text = *(const char *const *)(const void *)member;
    object = text ? json_loads(text, 0, NULL) : NULL;
    return object ? object : json_object();
  case CH_COLUMN_TEXT:
    break;
  }
  text = *(const char *const *)(const void *)member;
  return json_string(text ? text : "");
}

json_t *ch_run_record_to_json(const ch_run_record *run, bool curves) {
  json_t *object = json_object();
  bool fine = object && json_object_set_new(object, "id", json_integer(run->id)) == 0;
  for (int c = 0; fine && c < CH_RUNS_COLUMNS; c++)
    fine = json_object_set_new(object, ch_runs_columns[c].name, column_to_json(run, c)) == 0;
  if (fine && curves)
    fine = json_object_set_new(object, "curve", ch_curve_to_json(run->curve, run->curve_points)) == 0 &&
           json_object_set_new(object, "validation_curve",
                               ch_curve_to_json(run->validation_curve, run->validation_points)) == 0;
  if (fine) return object;
  json_decref(object);
  return NULL;
}

/* The public functions that open a file of runs, write runs to it and delete them. This file defines the tables of the
 * SQLite database. api_runs_query.c searches them. src/runs creates records from the files of training and
 * evaluation. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/runs_private.h"
#include "base/file.h"
#include "base/text.h"

enum { SCHEMA = 1, APPLICATION = 0x43484452 /* "CHDR" */, PATIENCE_MS = 60000, RETRY_MS = 20 };

#define COLUMN(member, type)                                                                                 \
  { #member, type, offsetof(ch_run_record, member) }

const ch_runs_column ch_runs_columns[CH_RUNS_COLUMNS] = {
    COLUMN(kind, CH_COLUMN_TEXT),        COLUMN(name, CH_COLUMN_TEXT),
    COLUMN(directory, CH_COLUMN_TEXT),   COLUMN(status, CH_COLUMN_TEXT),
    COLUMN(mechanism, CH_COLUMN_TEXT),   COLUMN(dataset, CH_COLUMN_TEXT),
    COLUMN(seed, CH_COLUMN_WHOLE),       COLUMN(tokens, CH_COLUMN_WHOLE),
    COLUMN(parameters, CH_COLUMN_WHOLE), COLUMN(lr, CH_COLUMN_NUMBER),
    COLUMN(loss, CH_COLUMN_NUMBER),      COLUMN(validation_loss, CH_COLUMN_NUMBER),
    COLUMN(seconds, CH_COLUMN_NUMBER),   COLUMN(started, CH_COLUMN_TEXT),
    COLUMN(finished, CH_COLUMN_TEXT),    COLUMN(version, CH_COLUMN_TEXT),
    COLUMN(commit, CH_COLUMN_TEXT),      COLUMN(command, CH_COLUMN_TEXT),
    COLUMN(config, CH_COLUMN_JSON),      COLUMN(options, CH_COLUMN_JSON),
    COLUMN(machine, CH_COLUMN_JSON),     COLUMN(results, CH_COLUMN_JSON),
};

/* --- errors ------------------------------------------------------------------------------------------------------ */

ch_status ch_runs_failed(const ch_runs *runs, const char *doing, ch_error *error) {
  int code = sqlite3_extended_errcode(runs->database) & 0xff;
  if (code == SQLITE_NOMEM) return ch_no_memory(error);
  if (code == SQLITE_NOTADB)
    return ch_fail(error, CH_ERROR_FORMAT, "%s is not a file of runs; name another one with {runs}",
                   runs->path);
  if (code == SQLITE_CORRUPT)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is damaged; move it away (`sqlite3 %s .recover` may save what it holds)", runs->path,
                   runs->path);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    return ch_fail(error, CH_ERROR_IO, "%s has been locked by another program for more than %d seconds",
                   runs->path, PATIENCE_MS / 1000);
  return ch_fail(error, CH_ERROR_IO, "cannot %s %s: %s", doing, runs->path, sqlite3_errmsg(runs->database));
}

ch_status ch_runs_prepare(ch_runs *runs, const char *sql, sqlite3_stmt **statement, ch_error *error) {
  if (sqlite3_prepare_v2(runs->database, sql, -1, statement, NULL) == SQLITE_OK) return CH_OK;
  return ch_runs_failed(runs, "read", error);
}

static ch_status execute(ch_runs *runs, const char *sql, const char *doing, ch_error *error) {
  if (sqlite3_exec(runs->database, sql, NULL, NULL, NULL) == SQLITE_OK) return CH_OK;
  return ch_runs_failed(runs, doing, error);
}

/* --- the tables -------------------------------------------------------------------------------------------------- */

static const char curves_sql[] =
    "CREATE TABLE curves (run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, kind TEXT NOT NULL, "
    "tokens INTEGER NOT NULL, loss REAL, PRIMARY KEY (run, kind, tokens)) STRICT, WITHOUT ROWID";

static void put_table(ch_text *sql) {
  static const char *const types[] = {"TEXT NOT NULL", "INTEGER", "REAL", "TEXT NOT NULL"};
  ch_text_puts(sql, "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT");
  for (int c = 0; c < CH_RUNS_COLUMNS; c++)
    ch_text_printf(sql, ", \"%s\" %s", ch_runs_columns[c].name, types[ch_runs_columns[c].type]);
  ch_text_puts(sql, ", UNIQUE (directory, started)) STRICT");
}

static ch_status whole_of(ch_runs *runs, const char *sql, int64_t *value, ch_error *error) {
  sqlite3_stmt *statement;
  CH_TRY(ch_runs_prepare(runs, sql, &statement, error));
  ch_status status = CH_OK;
  if (sqlite3_step(statement) == SQLITE_ROW)
    *value = sqlite3_column_int64(statement, 0);
  else
    status = ch_runs_failed(runs, "read", error);
  sqlite3_finalize(statement);
  return status;
}

/* Checks that the tables are exactly those of this program. */
static ch_status check_tables(ch_runs *runs, ch_error *error) {
  ch_text table = {0};
  sqlite3_stmt *statement = NULL;
  int64_t strange = -1;
  put_table(&table);
  ch_status status = table.failed ? ch_no_memory(error) : CH_OK;
  if (status == CH_OK)
    status =
        ch_runs_prepare(runs,
                        "SELECT count(*) FILTER (WHERE name NOT GLOB 'sqlite_*' AND sql NOT IN (?1, ?2)) "
                        "+ 2 - count(*) FILTER (WHERE sql IN (?1, ?2)) FROM sqlite_schema",
                        &statement, error);
  if (status == CH_OK) {
    sqlite3_bind_text(statement, 1, table.data, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, curves_sql, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW)
      strange = sqlite3_column_int64(statement, 0);
    else
      status = ch_runs_failed(runs, "read", error);
  }
  sqlite3_finalize(statement);
  ch_text_free(&table);
  if (status != CH_OK || strange == 0) return status;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s is not a file of runs: its tables differ; name another one with {runs}", runs->path);
}

static ch_status make_tables(ch_runs *runs, ch_error *error) {
  ch_text sql = {0};
  put_table(&sql);
  ch_text_printf(&sql, "; %s; PRAGMA application_id = %d; PRAGMA user_version = %d", curves_sql, APPLICATION,
                 SCHEMA);
  ch_status status = sql.failed ? ch_no_memory(error) : execute(runs, sql.data, "create", error);
  ch_text_free(&sql);
  return status;
}

/* Creates the tables in a new file, or checks those of an existing one. Several programs may do so at the same
   time. */
static ch_status settle_tables(ch_runs *runs, bool create, ch_error *error) {
  int64_t version = 0, application = 0, tables = 0;
  CH_TRY(whole_of(runs, "PRAGMA application_id", &application, error));
  CH_TRY(whole_of(runs, "PRAGMA user_version", &version, error));
  CH_TRY(whole_of(runs, "SELECT count(*) FROM sqlite_schema", &tables, error));
  if (application == APPLICATION && version > SCHEMA)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s was written by a newer version of crosshead (tables %lld, not %d); update crosshead, "
                   "or name another file with {runs}",
                   runs->path, (long long)version, SCHEMA);
  if (tables > 0) {
    if (application == APPLICATION) return check_tables(runs, error);
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a database of another program; name another file with {runs}", runs->path);
  }
  if (!create) return ch_fail(error, CH_ERROR_FORMAT, "%s is empty: it holds no runs", runs->path);
  return make_tables(runs, error);
}

/* Turns on the write-ahead log, so that readers and a writer can work at the same time. The change needs
 * exclusive access. SQLite does not wait for exclusive access, so the function retries for up to a minute. */
static ch_status use_log(ch_runs *runs, ch_error *error) {
  for (int waited = 0;; waited += RETRY_MS) {
    if (sqlite3_exec(runs->database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) == SQLITE_OK)
      return CH_OK;
    int code = sqlite3_errcode(runs->database);
    if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || waited >= PATIENCE_MS)
      return ch_runs_failed(runs, "open", error);
    nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
  }
}

static ch_status set_up(ch_runs *runs, bool create, ch_error *error) {
  sqlite3_busy_timeout(runs->database, PATIENCE_MS);
  sqlite3_db_config(runs->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(runs->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_db_config(runs->database, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
  if (create) {
    CH_TRY(use_log(runs, error));
    CH_TRY(execute(runs, "BEGIN IMMEDIATE", "write", error));
  }
  ch_status status = settle_tables(runs, create, error);
  if (!create) return status;
  if (status == CH_OK) return execute(runs, "COMMIT", "write", error);
  sqlite3_exec(runs->database, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

/* Fails with the reason if a file cannot be opened. SQLite says only "unable to open" for a directory and for a file
 * without read permission. With `create`, a file that does not exist is created. */
static ch_status check_file(const char *path, bool create, ch_error *error) {
  FILE *file;
  if (ch_is_directory(path))
    return ch_fail(error, CH_ERROR_IO, "%s is a directory; a file of runs is needed", path);
  file = fopen(path, create ? "a+e" : "re");
  if (!file)
    return ch_fail(error, CH_ERROR_IO,
                   errno == ENOENT && !create ? "there are no runs: %s: %s" : "cannot open %s: %s", path,
                   strerror(errno));
  fclose(file);
  return CH_OK;
}

ch_status ch_runs_open(const char *path, unsigned flags, ch_runs **result, ch_error *error) {
  bool create = flags & CH_RUNS_CREATE;
  if (!path || !result) return ch_fail(error, CH_ERROR_ARGUMENT, "the name of the file of runs is NULL");
  *result = NULL;
  CH_TRY(check_file(path, create, error));
  ch_runs *runs = calloc(1, sizeof *runs);
  if (runs) runs->path = strdup(path);
  if (!runs || !runs->path) {
    free(runs);
    return ch_no_memory(error);
  }
  ch_status status = CH_OK;
  if (sqlite3_open_v2(path, &runs->database, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
    status = ch_runs_failed(runs, "open", error);
  if (status == CH_OK) status = set_up(runs, create, error);
  if (status == CH_OK)
    *result = runs;
  else
    ch_runs_close(runs);
  return status;
}

void ch_runs_close(ch_runs *runs) {
  if (!runs) return;
  sqlite3_close(runs->database);
  free(runs->path);
  free(runs);
}

char *ch_runs_beside(const char *output) {
  char *whole = realpath(output, NULL), *path = NULL;
  const char *name = whole ? whole : output;
  size_t whole_length = strlen(name);
  while (whole_length > 1 && name[whole_length - 1] == '/') whole_length--;
  const char *slash = memrchr(name, '/', whole_length);
  int length = slash ? (int)(slash - name) : 0;
  if (asprintf(&path, "%.*s%s" CH_RUNS_FILE, length, name, slash ? "/" : "") < 0) path = NULL;
  free(whole);
  return path;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static void bind_column(sqlite3_stmt *statement, int c, const ch_run_record *run) {
  const char *member = (const char *)run + ch_runs_columns[c].offset;
  const char *text;
  int64_t whole;
  double number;
  switch (ch_runs_columns[c].type) {
  case CH_COLUMN_TEXT:
  case CH_COLUMN_JSON:
    text = *(const char *const *)(const void *)member;
    if (!text) text = ch_runs_columns[c].type == CH_COLUMN_JSON ? "{}" : "";
    sqlite3_bind_text(statement, c + 1, text, -1, SQLITE_STATIC);
    break;
  case CH_COLUMN_WHOLE:
    whole = *(const int64_t *)(const void *)member;
    if (whole >= 0) sqlite3_bind_int64(statement, c + 1, whole);
    break;
  case CH_COLUMN_NUMBER:
    number = *(const double *)(const void *)member;
    if (isfinite(number)) sqlite3_bind_double(statement, c + 1, number);
    break;
  }
}

static bool is_name(const char *column) {
  static const char *const names[] = {"kind", "name", "directory", "status", "started", NULL};
  return ch_in_list(column, names);
}

static ch_status insert_run(ch_runs *runs, const ch_run_record *run, int64_t *id, ch_error *error) {
  ch_text sql = {0};
  sqlite3_stmt *statement = NULL;
  ch_text_puts(&sql, "INSERT INTO runs (id");
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) ch_text_printf(&sql, ", \"%s\"", ch_runs_columns[c].name);
  /* An existing run keeps its id. For a new one SQLite assigns the next id. */
  ch_text_puts(&sql, ") VALUES ((SELECT id FROM runs WHERE ");
  for (int c = 0, n = 0; c < CH_RUNS_COLUMNS; c++)
    if (strcmp(ch_runs_columns[c].name, "directory") == 0 || strcmp(ch_runs_columns[c].name, "started") == 0)
      ch_text_printf(&sql, "%s%s = ?%d", n++ ? " AND " : "", ch_runs_columns[c].name, c + 1);
  ch_text_puts(&sql, ")");
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) ch_text_printf(&sql, ", ?%d", c + 1);
  /* Kind, name and texts that the new record lacks, such as the data of a resumed run, do not change. */
  ch_text_puts(&sql, ") ON CONFLICT DO UPDATE SET status = excluded.status");
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) {
    const char *name = ch_runs_columns[c].name;
    if (is_name(name)) continue;
    ch_text_printf(&sql, ", \"%s\" = CASE excluded.\"%s\" WHEN '' THEN runs.\"%s\" ELSE excluded.\"%s\" END",
                   name, name, name, name);
  }
  ch_text_puts(&sql, " RETURNING id");
  ch_status status = sql.failed ? ch_no_memory(error) : ch_runs_prepare(runs, sql.data, &statement, error);
  ch_text_free(&sql);
  if (status != CH_OK) return status;
  for (int c = 0; c < CH_RUNS_COLUMNS; c++) bind_column(statement, c, run);
  if (sqlite3_step(statement) == SQLITE_ROW)
    *id = sqlite3_column_int64(statement, 0);
  else
    status = ch_runs_failed(runs, "write", error);
  if (status == CH_OK && sqlite3_step(statement) != SQLITE_DONE)
    status = ch_runs_failed(runs, "write", error);
  sqlite3_finalize(statement);
  return status;
}

static ch_status put_curve(ch_runs *runs, int64_t id, const char *kind, const ch_curve_point *points,
                           int64_t count, ch_error *error) {
  sqlite3_stmt *statement;
  ch_status status = CH_OK;
  CH_TRY(ch_runs_prepare(runs, "INSERT OR REPLACE INTO curves (run, kind, tokens, loss) VALUES (?, ?, ?, ?)",
                         &statement, error));
  for (int64_t i = 0; i < count && status == CH_OK; i++) {
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_text(statement, 2, kind, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, points[i].tokens);
    if (isfinite(points[i].loss))
      sqlite3_bind_double(statement, 4, points[i].loss);
    else
      sqlite3_bind_null(statement, 4);
    if (sqlite3_step(statement) != SQLITE_DONE) status = ch_runs_failed(runs, "write", error);
    sqlite3_reset(statement);
  }
  sqlite3_finalize(statement);
  return status;
}

static ch_status delete_by(ch_runs *runs, const char *sql, int64_t id, ch_error *error) {
  sqlite3_stmt *statement;
  CH_TRY(ch_runs_prepare(runs, sql, &statement, error));
  sqlite3_bind_int64(statement, 1, id);
  ch_status status = sqlite3_step(statement) == SQLITE_DONE ? CH_OK : ch_runs_failed(runs, "write", error);
  sqlite3_finalize(statement);
  return status;
}

static ch_status put_all(ch_runs *runs, const ch_run_record *run, int64_t *id, ch_error *error) {
  CH_TRY(insert_run(runs, run, id, error));
  CH_TRY(delete_by(runs, "DELETE FROM curves WHERE run = ?", *id, error));
  CH_TRY(put_curve(runs, *id, "training", run->curve, run->curve_points, error));
  return put_curve(runs, *id, "validation", run->validation_curve, run->validation_points, error);
}

/* Commits the transaction if `status` is CH_OK, otherwise rolls it back. */
static ch_status end_transaction(ch_runs *runs, ch_status status, ch_error *error) {
  if (status == CH_OK) status = execute(runs, "COMMIT", "write", error);
  if (status != CH_OK) sqlite3_exec(runs->database, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

ch_status ch_runs_put(ch_runs *runs, const ch_run_record *run, int64_t *id, ch_error *error) {
  int64_t number = 0;
  CH_TRY(execute(runs, "BEGIN IMMEDIATE", "write", error));
  CH_TRY(end_transaction(runs, put_all(runs, run, &number, error), error));
  if (id) *id = number;
  return CH_OK;
}

ch_status ch_runs_delete(ch_runs *runs, const int64_t *ids, int64_t count, ch_error *error) {
  ch_status status = CH_OK;
  CH_TRY(execute(runs, "BEGIN IMMEDIATE", "write", error));
  for (int64_t i = 0; i < count && status == CH_OK; i++)
    status = delete_by(runs, "DELETE FROM runs WHERE id = ?", ids[i], error);
  return end_transaction(runs, status, error);
}

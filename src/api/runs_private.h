/* Declarations that the public functions of recorded runs share: the open file, and the columns of a run. The database
 * table, its reading and writing, and the keys of queries all follow from these columns. */
#ifndef CH_API_RUNS_PRIVATE_H
#define CH_API_RUNS_PRIVATE_H

#include <crosshead/runs.h>
#include <jansson.h>
#include <sqlite3.h>

#include "base/text.h"

typedef enum ch_column_type {
  CH_COLUMN_TEXT,
  CH_COLUMN_WHOLE,
  CH_COLUMN_NUMBER,
  CH_COLUMN_JSON
} ch_column_type;

typedef struct ch_runs_column {
  const char *name;
  ch_column_type type;
  size_t offset; /* offset of the member in ch_run_record, in bytes */
} ch_runs_column;

enum { CH_RUNS_COLUMNS = 22 };
extern const ch_runs_column ch_runs_columns[CH_RUNS_COLUMNS];

struct ch_runs {
  sqlite3 *database;
  char *path;
};

/* Fails with a sentence about the last call of SQLite, which names the file. `doing`: a verb, such as "open". */
ch_status ch_runs_failed(const ch_runs *runs, const char *doing, ch_error *error);
/* Prepares a statement; release it with sqlite3_finalize. */
ch_status ch_runs_prepare(ch_runs *runs, const char *sql, sqlite3_stmt **statement, ch_error *error);

/* Converts a run to JSON, with null for numbers that are not finite and for negative whole numbers. NULL when out of
   memory. */
json_t *ch_run_record_to_json(const ch_run_record *run, bool curves);

#endif

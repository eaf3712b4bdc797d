/* The names of the files that a run, a prepared text and a comparison have in their directories, and functions that
   recognise directories by the names of their files. */
#ifndef CH_BASE_FILE_NAMES_H
#define CH_BASE_FILE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The checkpoint and the log of a training run. */
#define CH_TRAIN_CHECKPOINT "checkpoint.safetensors"
#define CH_TRAIN_LOG "log.jsonl"
/* The record of a training run's control, and the directory of the control's run. */
#define CH_TRAIN_CONTROL_RECORD "control.json"
#define CH_TRAIN_CONTROL "control"

/* The files that training derives from its text. */
#define CH_DATA_TOKENS "data.tokens"
#define CH_DATA_RECORD "data.json"

/* The settings of a comparison, the settings of a sweep, the results of either, the result in the directory of a
   finished model, and the record of a run that tried a learning rate. */
#define CH_COMPARE_SETTINGS "compare.json"
#define CH_SWEEP_SETTINGS "sweep.json"
#define CH_COMPARE_RESULTS "results.json"
#define CH_COMPARE_RESULT "result.json"
#define CH_COMPARE_TRIED "tried.json"

/* Returns true if an entry is one of `names` (NULL-terminated), or a leftover of one from a killed program:
   "model.safetensors.tmp.4711". */
bool ch_is_one_of(const char *const *names, const char *entry);
/* Removes leftovers of `names` from killed programs. No other program may be writing to the directory. */
void ch_remove_leftovers(const char *directory, const char *const *names);
/* Returns true if the path is a directory without entries. */
bool ch_holds_nothing(const char *directory);
/* Returns true if a directory has tokens or their record, and nothing else but files of a tokenizer. A training run
   there never began. */
bool ch_holds_prepared_text(const char *directory);
/* Finds the first entry of a directory that is not a file of a run before its first checkpoint, and writes its name,
   cut to `size`. Returns false if there is none. */
bool ch_find_foreign_to_run(const char *directory, char *name, size_t size);

#endif

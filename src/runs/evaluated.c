/* From an evaluation's figures to a row of the runs. */
#define _GNU_SOURCE
#include "runs/evaluated.h"

#include <crosshead/version.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "model/accounting.h"
#include "runs/kept_texts.h"
#include "train/options_json.h"

ch_status ch_run_of_evaluation(const ch_evaluated *evaluated, const ch_run_labels *labels, ch_arena *arena,
                               ch_kept_run *run, ch_error *error) {
  char whole[PATH_MAX], started[32], finished[32];
  if (!realpath(evaluated->model->directory, whole))
    return ch_fail(error, CH_ERROR_IO, "%s: %s", evaluated->model->directory, strerror(errno));
  ch_account account;
  ch_account_parameters(&evaluated->model->config, &evaluated->model->params, &account);
  json_t *config = ch_config_to_json(&evaluated->model->config);
  *run = (ch_kept_run){.kind = "eval",
                       .name = ch_arena_strdup(arena, labels->name),
                       .directory = ch_arena_strdup(arena, whole),
                       .status = "done",
                       .mechanism = ch_mechanism_of(&evaluated->model->config)->name,
                       .dataset = ch_arena_strdup(arena, labels->dataset),
                       .seed = -1,
                       .tokens = -1,
                       .parameters = account.parameters_total,
                       .lr = NAN,
                       .loss = NAN,
                       .validation_loss = evaluated->loss,
                       .seconds = evaluated->seconds,
                       .started = ch_arena_strdup(arena, ch_utc_ago(evaluated->seconds, started)),
                       .finished = ch_arena_strdup(arena, ch_utc_ago(0, finished)),
                       .version = CH_VERSION_STRING,
                       .commit = labels->commit,
                       .command = ch_arena_strdup(arena, labels->command),
                       .config = config ? ch_kept_json(arena, config) : NULL,
                       .machine = ch_kept_machine(arena),
                       .results = ch_kept_json(arena, evaluated->results)};
  json_decref(config);
  bool fine = run->name && run->directory && run->dataset && run->started && run->finished && run->command &&
              run->config && run->machine && run->results;
  return fine ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to keep an evaluation");
}

/* Builds a run's record from an evaluation's figures. */
#define _GNU_SOURCE
#include "runs/run_of_evaluation.h"

#include <crosshead/version.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/file.h"
#include "infer/model.h"
#include "model/accounting.h"
#include "runs/stored_texts.h"
#include "train/options_json.h"

static const char *copy_evaluated_text(ch_arena *arena, const char *text) {
  return ch_arena_strdup(arena, text ? text : "");
}

ch_status ch_run_of_evaluation(const ch_model *model, const json_t *results, const ch_run_labels *labels,
                               ch_arena *arena, ch_run_record *run, ch_error *error) {
  char whole[PATH_MAX], name[256], started[32], finished[32];
  if (!realpath(model->directory, whole))
    return ch_fail(error, CH_ERROR_IO, "%s: %s", model->directory, strerror(errno));
  ch_path_stem(whole, name, sizeof name);
  const json_t *loss = json_object_get(results, "loss");
  double seconds = json_number_value(json_object_get(results, "seconds"));
  ch_account account;
  ch_account_parameters(&model->config, &model->params, &account);
  json_t *config = ch_config_to_json(&model->config);
  *run = (ch_run_record){.kind = labels->kind ? labels->kind : "eval",
                         .name = ch_arena_strdup(arena, labels->name ? labels->name : name),
                         .directory = ch_arena_strdup(arena, whole),
                         .status = labels->status ? labels->status : "done",
                         .mechanism = ch_mechanism_of(&model->config)->name,
                         .dataset = copy_evaluated_text(arena, labels->dataset),
                         .seed = -1,
                         .tokens = -1,
                         .parameters = account.parameters_total,
                         .lr = NAN,
                         .loss = NAN,
                         .validation_loss = json_is_number(loss) ? json_number_value(loss) : NAN,
                         .seconds = seconds,
                         .started = ch_arena_strdup(arena, ch_utc_ago(seconds, started)),
                         .finished = ch_arena_strdup(arena, ch_utc_ago(0, finished)),
                         .version = CH_VERSION_STRING,
                         .commit = copy_evaluated_text(arena, labels->commit),
                         .command = copy_evaluated_text(arena, labels->command),
                         .config = config ? ch_stored_json(arena, config) : NULL,
                         .machine = ch_stored_machine(arena, NULL),
                         .results = ch_stored_json(arena, results)};
  json_decref(config);
  bool fine = run->name && run->directory && run->dataset && run->started && run->finished && run->command &&
              run->commit && run->config && run->machine && run->results;
  return fine ? CH_OK : ch_no_memory(error);
}

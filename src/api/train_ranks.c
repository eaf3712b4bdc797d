/* Checks that the ranks of a job run the same program and train the same model on the same data with the same
 * options. */
#include <stdlib.h>

#include "api/train_private.h"
#include "config_file/config_json.h"
#include "ranks/program.h"
#include "tensor/kernels.h"
#include "tensor/team.h"
#include "text/hash.h"
#include "train/options_json.h"

static uint64_t hash_options(const ch_train_job *t) {
  json_t *object = ch_train_options_to_json(&t->options);
  char *text = object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
  const ch_train_settings *s = t->settings;
  const int64_t others[] = {s->model.resume,         s->model.recover,       s->training.tokens,
                            s->training.epochs,      s->training.steps,      t->resumed,
                            t->options.whole_tables, s->report.trace != NULL};
  uint64_t hash = ch_hash_mix(ch_hash_text(text), ch_hash_bytes(others, sizeof others, 3));
  free(text);
  json_decref(object);
  return hash;
}

static uint64_t hash_config(const ch_train_job *t) {
  ch_text text = {0};
  ch_config_write(&t->config, &text);
  uint64_t hash = ch_hash_text(text.failed ? NULL : text.data);
  ch_text_free(&text);
  return hash;
}

/* Returns a hash of the names of the files. Their contents are compared when they are read. */
static uint64_t hash_names(const ch_train_job *t) {
  const ch_train_settings *s = t->settings;
  const char *const names[] = {
      t->out, s->text.data, s->vision.images, s->text.tokenizer, s->model.init_from, s->model.control};
  return ch_hash_texts(names, sizeof names / sizeof *names);
}

ch_status ch_training_compare_start(const ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  if (!s->workers.ranks) return CH_OK;
  const ch_kernels *kernels = ch_kernels_best(ch_train_real(&t->options));
  CH_TRY(ch_ranks_compare_programs(s->workers.ranks, kernels->name, ch_team_of(s->workers.threads).threads,
                                   error));
  const ch_rank_fact facts[] = {{"other options", hash_options(t)},
                                {"other names of files", hash_names(t)},
                                {"another config", hash_config(t)}};
  return ch_ranks_compare(s->workers.ranks, facts, sizeof facts / sizeof *facts, error);
}

ch_status ch_training_compare_data(const ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  if (!s->workers.ranks) return CH_OK;
  const ch_rank_fact facts[] = {
      {"another text, tokenizer or images", ch_hash_text(ch_training_source(t)->fingerprint)},
      {"other options", hash_options(t)}};
  return ch_ranks_compare(s->workers.ranks, facts, sizeof facts / sizeof *facts, error);
}

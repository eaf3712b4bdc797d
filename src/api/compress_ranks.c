/* Compression over the ranks of a job: comparing, agreeing, and work of rank 0 alone. */
#include "api/compress_private.h"
#include "ranks/program.h"
#include "tensor/kernels.h"
#include "tensor/team.h"
#include "text/hash.h"

static uint64_t hash_settings(const ch_compress_settings *s) {
  const double numbers[] = {s->budget, s->ratio, s->cache};
  const int64_t others[] = {
      s->method,    s->component_heads, s->first_layer, s->last_layer,        s->profile,
      s->groups,    s->atoms,           s->group_size,  (int64_t)s->ranks,    s->weighting,
      s->data_free, (int64_t)s->type,   s->report,      s->calibration_tokens};
  return ch_hash_mix(ch_hash_bytes(numbers, sizeof numbers, 3), ch_hash_bytes(others, sizeof others, 4)) ^
         ch_hash_text(s->keep);
}

ch_status ch_compress_job_compare(ch_compress_job *c, bool opened, ch_error *error) {
  const ch_compress_settings *s = c->s;
  if (!s->job) return CH_OK;
  const char *kernels = ch_kernels_best(CH_F32)->name;
  if (!opened) CH_TRY(ch_ranks_compare_programs(s->job, kernels, ch_team_of(s->threads).threads, error));
  const char *const names[] = {c->directory, s->calibration, s->text};
  size_t bytes = c->tokens.size * sizeof *c->tokens.data;
  const ch_rank_fact facts[] = {
      {"other options", hash_settings(s)},
      {"other names of files", ch_hash_texts(names, sizeof names / sizeof *names)},
      {"another model", opened ? ch_model_hash(c->own) : 0},
      {"another calibration text", opened ? ch_hash_bytes(c->tokens.data, bytes, 5) : 0}};
  return ch_ranks_compare(s->job, facts, sizeof facts / sizeof *facts, error);
}

ch_status ch_compress_job_agree(const ch_compress_job *c, ch_status status, ch_error *error) {
  return ch_agree(c->s->job, status, error);
}

static bool cancelled(void *context) {
  ch_compress_job *c = context;
  return ch_compress_job_step(c, c->stage, 0, 1, NULL) != CH_OK;
}

ch_status ch_compress_job_by_first(ch_compress_job *c, ch_compress_job_part *part, ch_error *error) {
  ch_rank_group *job = c->s->job;
  ch_status status = ch_shared_begin(&c->shared, job, 0, error);
  if (status == CH_OK) {
    if (ch_ranks_leads(job)) status = part(c, error);
    if (!ch_shared_await_first(&c->shared, cancelled, c))
      status = ch_fail(error, CH_ERROR_INTERRUPTED, "cancelled; nothing was written");
    status = ch_shared_agree(&c->shared, status, error);
  }
  ch_shared_end(&c->shared);
  return status;
}

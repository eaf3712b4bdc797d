/* Measuring a model before and after, with progress, between signals. */
#include "cli/shrinking.h"

#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "eval/speed.h"
#include "model/accounting.h"

enum { TURNS = 5, DECODED = 16, MOST_DEPTH = 512 };
static const double enough_seconds = 20;
static const int64_t most_raced = CH_LARGE_WEIGHTS;

/* --- progress ---------------------------------------------------------------------------------------------------- */

static ch_status interrupted(ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; nothing was written");
}

ch_status ch_shrinking_step(void *context, const char *what, double done, double total, ch_error *error) {
  ch_shrinking *s = context;
  double share = total > 0 ? done / total : 0;
  if (s->stage != what) {
    s->stage = what;
    s->stage_began = ch_clock();
    s->stage_share = share;
  }
  double gained = share - s->stage_share, seconds = ch_clock() - s->stage_began;
  ch_progress_show_share(&s->progress, what, gained > 0 ? share : 0,
                         gained > 0 ? seconds * share / gained : seconds); /* as if at one pace from 0 on */
  return ch_interrupted() ? interrupted(error) : CH_OK;
}

static bool scoring(void *context, int64_t done, int64_t total) {
  ch_shrinking *s = context;
  return ch_shrinking_step(s, s->stage, (double)done, (double)total, NULL) == CH_OK;
}

/* --- figures ----------------------------------------------------------------------------------------------------- */

ch_status ch_shrinking_perplexity(ch_shrinking *s, const ch_model *model, const char *what,
                                  ch_compression_figures *figures, ch_error *error) {
  enum { MOST_KEPT_BACK = 1 << 16 };
  if (!s->text.count) return CH_OK;
  int64_t window = ch_window_of(&model->config);
  ch_perplexity_options options = {.window = window,
                                   .stride = window > 1 ? window / 2 : 1,
                                   .most = s->report.text_kept_back ? MOST_KEPT_BACK : 0,
                                   .progress = scoring,
                                   .context = s};
  ch_scorer *scorer = NULL;
  ch_token_perplexity found;
  CH_TRY(ch_shrinking_step(s, what, 0, 1, error));
  CH_TRY(ch_scorer_create(model, &scorer, error));
  ch_status status =
      ch_token_perplexity_of(scorer, s->tokenizer, s->text.documents, s->text.count,
                             ch_token_between(s->tokenizer, &model->config), &options, &found, error);
  ch_scorer_free(scorer);
  if (status == CH_ERROR_INTERRUPTED) return interrupted(error);
  CH_TRY(status);
  figures->measured = true;
  figures->loss = found.loss;
  figures->perplexity = found.perplexity;
  s->report.text_tokens = found.tokens;
  return CH_OK;
}

ch_status ch_shrinking_count(const ch_model *model, ch_compression_figures *figures, ch_error *error) {
  ch_account account;
  CH_TRY(ch_account_model(&model->config, &model->params, 0, ch_cache_of(CH_F16), &account, error));
  figures->parameters = account.parameters_total;
  figures->parameters_attention = account.parameters_attention;
  figures->cache_elements_per_token = account.cache_elements_per_token;
  figures->cache_bytes_per_token = account.cache_bytes_per_token;
  figures->weight_bytes = ch_model_file_bytes(model);
  return CH_OK;
}

static int by_value(const void *pa, const void *pb) {
  double a = *(const double *)pa, b = *(const double *)pb;
  return (a > b) - (a < b);
}

ch_status ch_shrinking_race(ch_shrinking *s, const ch_model *after, ch_error *error) {
  const ch_model *runners[] = {s->before, after};
  double rates[2][TURNS];
  int turns = 0;
  double began = ch_clock();
  if (s->report.before.weight_bytes > most_raced) return CH_OK; /* every token reads all of both */
  int64_t depth = s->before->config.max_position_embeddings / 2;
  s->report.decode_depth = depth < MOST_DEPTH ? depth : MOST_DEPTH;
  ch_speed_options options = {.batch = 1,
                              .tokens = DECODED,
                              .depth = s->report.decode_depth,
                              .cache = ch_cache_of(CH_F16),
                              .repeat = 1};
  while (turns < TURNS && (turns == 0 || ch_clock() - began < enough_seconds)) {
    for (int i = 0; i < 2; i++) {
      ch_speed speed;
      CH_TRY(ch_shrinking_step(s, "decoding, in turns", turns, TURNS, error));
      CH_TRY(ch_speed_decode(runners[i], &options, &speed, error));
      rates[i][turns] = speed.tokens_per_second;
    }
    turns++;
  }
  for (int i = 0; i < 2; i++) qsort(rates[i], (size_t)turns, sizeof rates[i][0], by_value);
  s->report.before.decode_tokens_per_second = rates[0][turns / 2];
  s->report.after.decode_tokens_per_second = rates[1][turns / 2];
  return CH_OK;
}

/* Measures perplexity, sizes and decoding speed of a model before and after compression. */
#include "api/compress_private.h"

#include "base/median.h"
#include "bench/speed_limits.h"
#include "model/accounting.h"

enum { TURNS = 5, DECODED = 16, MOST_DEPTH = 512 };
static const double enough_seconds = 20;
static const int64_t most_raced = CH_LARGE_WEIGHTS;

static bool scoring(int64_t done, int64_t total, void *context) {
  ch_compress_job *c = context;
  return ch_compress_job_step(c, c->stage, (double)done, (double)total, NULL) == CH_OK;
}

ch_status ch_compress_job_perplexity(ch_compress_job *c, const ch_model *model, const char *what,
                                     const ch_cache_types *types, ch_compression_figures *figures,
                                     ch_error *error) {
  enum { MOST_KEPT_BACK = 1 << 16 };
  if (!c->text.count) return CH_OK;
  int64_t window = ch_window_of(&model->config);
  ch_evaluate_settings options = {.window = window,
                                  .stride = window > 1 ? window / 2 : 1,
                                  .limit = c->report.text_kept_back ? MOST_KEPT_BACK : 0,
                                  .ranks = c->s->job,
                                  .progress = scoring,
                                  .user = c};
  ch_scorer *scorer = NULL;
  ch_token_perplexity found;
  ch_status status = ch_compress_job_step(c, what, 0, 1, error);
  if (status == CH_OK) status = ch_scorer_create(model, &scorer, error);
  status = ch_compress_job_agree(c, status, error);
  if (status == CH_OK && types) ch_scorer_use_cache(scorer, *types);
  if (status == CH_OK)
    status = ch_token_perplexity_of(scorer, c->tokenizer, c->text.documents, c->text.count,
                                    ch_token_between(c->tokenizer, &model->config), &options, &found, error);
  ch_scorer_free(scorer);
  CH_TRY(status);
  figures->measured = true;
  figures->loss = found.loss;
  figures->perplexity = found.perplexity;
  c->report.text_tokens = found.tokens;
  return CH_OK;
}

ch_status ch_compress_job_count(const ch_model *model, ch_compression_figures *figures, ch_error *error) {
  ch_account account;
  CH_TRY(ch_account_model(&model->config, &model->params, 0, ch_cache_of(CH_F16), &account, error));
  figures->parameters = account.parameters_total;
  figures->parameters_attention = account.parameters_attention;
  figures->cache_elements_per_token = account.cache_elements_per_token;
  figures->cache_bytes_per_token = account.cache_bytes_per_token;
  figures->weight_bytes = ch_model_file_bytes(model);
  return CH_OK;
}

ch_status ch_compress_job_race(ch_compress_job *c, ch_error *error) {
  const ch_model *runners[] = {c->before, c->after};
  double rates[2][TURNS];
  int turns = 0;
  double began = ch_clock();
  if (c->report.before.weight_bytes > most_raced) return CH_OK; /* decoding a large model takes too long */
  bool alike = c->report.after.cache_elements_per_token == c->report.before.cache_elements_per_token;
  if (c->report.cache_types && alike) return CH_OK; /* both models have the same weights */
  int64_t depth = c->before->config.max_position_embeddings / 2;
  c->report.decode_depth = depth < MOST_DEPTH ? depth : MOST_DEPTH;
  ch_speed_settings options = {
      .batch = 1, .tokens = DECODED, .depth = c->report.decode_depth, .cache = CH_PRECISION_F16, .repeat = 1};
  while (turns < TURNS && (turns == 0 || ch_clock() - began < enough_seconds)) {
    for (int i = 0; i < 2; i++) {
      ch_speed speed;
      CH_TRY(ch_compress_job_step(c, "decoding, in turns", turns, TURNS, error));
      CH_TRY(ch_speed_decode(runners[i], &options, &speed, error));
      rates[i][turns] = speed.tokens_per_second;
    }
    turns++;
  }
  c->report.before.decode_tokens_per_second = ch_median(rates[0], turns);
  c->report.after.decode_tokens_per_second = ch_median(rates[1], turns);
  return CH_OK;
}

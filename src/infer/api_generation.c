/* Creates the generation of <crosshead/generation.h> with its own session, and estimates their memory. */
#include "infer/api.h"

#include "base/memory.h"
#include "base/text.h"
#include "infer/generation.h"

enum { USUAL_PLACES = 8, USUAL_CHUNK = 128, LEAST_CHUNK = CH_BATCH_MOST + 1, MOST_CHUNK = 1024 };

void ch_generation_defaults(ch_generation_settings *settings) {
  *settings = (ch_generation_settings){.chunk = USUAL_CHUNK};
  ch_session_defaults(&settings->session);
  settings->session.sequences = USUAL_PLACES;
}

/* Checks the settings (NULL = the defaults) and converts them to the session's options. */
static ch_status resolve(const ch_model *model, const ch_generation_settings *settings,
                         ch_session_options *options, ch_error *error) {
  ch_generation_settings usual;
  ch_generation_defaults(&usual);
  if (!settings) settings = &usual;
  if (settings->chunk < LEAST_CHUNK || settings->chunk > MOST_CHUNK)
    return ch_fail(error, CH_ERROR_ARGUMENT, "chunk is %lld; it must be from %d to %d",
                   (long long)settings->chunk, LEAST_CHUNK, MOST_CHUNK);
  if (settings->session.sequences > CH_BATCH_MOST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "sequences is %d; a generation has 1 to %d",
                   settings->session.sequences, CH_BATCH_MOST);
  CH_TRY(ch_api_session_options(model, &settings->session, options, error));
  options->chunk = settings->chunk < options->context ? settings->chunk : options->context;
  return CH_OK;
}

/* Estimates the memory of weights, cache and workspace. The workspace is that of the larger pass: a chunk of one
   sequence, or one token of every sequence. */
static ch_status estimate(const ch_model *model, const ch_session_options *options, ch_memory *memory,
                          ch_error *error) {
  ch_session_options one = *options;
  size_t chunk = 0, step = 0;
  one.sequences = 1;
  CH_TRY(ch_api_memory_of(model, options, memory, error));
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &one, options->chunk, &chunk, error));
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, options, 1, &step, error));
  memory->workspace = chunk > step ? chunk : step;
  return CH_OK;
}

ch_status ch_generation_estimate(const ch_model *model, const ch_generation_settings *settings,
                                 ch_memory *memory, ch_error *error) {
  if (!model || !memory) return ch_refuse_null(error, "the model or the result pointer");
  ch_session_options options;
  CH_TRY(resolve(model, settings, &options, error));
  return estimate(model, &options, memory, error);
}

/* Fails if cache and workspace exceed the free memory. Without this check, the allocation would succeed, and the
   system would kill the process later. */
static ch_status check_fits(const ch_model *model, const ch_session_options *options, const ch_memory *memory,
                            ch_error *error) {
  const double available = ch_available_memory(), needed = (double)memory->cache + (double)memory->workspace,
               left = available - (double)memory->workspace;
  char cache[32], work[32], have[32];
  if (needed <= available) return CH_OK;
  ch_format_bytes((double)memory->cache, cache, sizeof cache);
  ch_format_bytes((double)memory->workspace, work, sizeof work);
  ch_format_bytes(available, have, sizeof have);
  int64_t fits = 0; /* the largest context known to fit; `more` does not fit */
  for (int64_t more = options->context; more - fits > 1;) {
    ch_session_options shorter = *options;
    shorter.context = fits + (more - fits) / 2;
    if (ch_session_cache_needs(&model->config, &shorter) <= left)
      fits = shorter.context;
    else
      more = shorter.context;
  }
  if (fits < 1)
    return ch_fail(error, CH_ERROR_MEMORY,
                   "the cache needs %s and the workspace %s, but only %s are free; use fewer sequences or a "
                   "smaller {cache_dtype}",
                   cache, work, have);
  return ch_fail(
      error, CH_ERROR_MEMORY,
      "the cache needs %s and the workspace %s, but only %s are free; use fewer sequences, a smaller "
      "{cache_dtype}, or a context of at most %lld tokens",
      cache, work, have, (long long)fits);
}

ch_status ch_generation_create(const ch_model *model, const ch_generation_settings *settings,
                               ch_generation **generation, ch_error *error) {
  if (!model || !generation) return ch_refuse_null(error, "the model or the generation pointer");
  *generation = NULL;
  ch_session_options options;
  ch_session *session = NULL;
  ch_memory memory;
  CH_TRY(resolve(model, settings, &options, error));
  CH_TRY(estimate(model, &options, &memory, error));
  CH_TRY(check_fits(model, &options, &memory, error));
  CH_TRY(ch_api_session_open(model, &options, &session, error));
  const ch_generation_manner manner = {.chunk = options.chunk, .reuses = true};
  ch_status status = ch_generation_over(session, model->tokenizer, &manner, generation, error);
  if (status == CH_OK)
    ch_generation_own(*generation, session);
  else
    ch_session_free(session);
  return status;
}

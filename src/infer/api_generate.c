/* The public functions that choose tokens and write text: one at a time, or many in step. */
#include "infer/api.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void ch_sampler_defaults(ch_sampler *sampler, uint64_t seed) {
  ch_random random;
  ch_random_seed(&random, seed, 0);
  *sampler = (ch_sampler){.temperature = 1, .top_k = 0, .top_p = 1};
  memcpy(sampler->state, random.state, sizeof sampler->state);
}

static ch_sampling sampling_of(const ch_sampler *sampler) {
  return (ch_sampling){.temperature = sampler->temperature, .top_k = sampler->top_k, .top_p = sampler->top_p};
}

ch_status ch_sample(ch_sampler *sampler, const float *logits, int64_t vocab_size, int32_t *token,
                    ch_error *error) {
  if (!sampler || !logits || !token)
    return ch_api_missing(error, "the sampler, the logits or where the token goes");
  if (vocab_size < 1 || vocab_size > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a vocabulary of %lld tokens is not possible",
                   (long long)vocab_size);
  ch_sampling settings = sampling_of(sampler);
  CH_TRY(ch_sampling_check(&settings, error));
  void *scratch = malloc(ch_sampling_scratch(vocab_size));
  if (!scratch)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory to choose among %lld tokens", (long long)vocab_size);
  ch_random random;
  memcpy(random.state, sampler->state, sizeof random.state);
  ch_status status = ch_sample_token(&settings, &random, logits, vocab_size, scratch, token, error);
  memcpy(sampler->state, random.state, sizeof random.state);
  free(scratch);
  return status;
}

/* What the generation loop calls back with, narrowed to the pieces of text. */
typedef struct text_sink {
  ch_text_sink sink;
  void *user;
} text_sink;

static bool pass_text(void *context, int32_t id, const char *text, size_t size) {
  (void)id;
  const text_sink *to = context;
  return size == 0 || to->sink(text, size, to->user);
}

static ch_generation_options options_of(const ch_session *session, const ch_sampler *sampler,
                                        int64_t max_tokens, text_sink *to) {
  ch_generation_options options = {.sampling = sampling_of(sampler),
                                   .max_tokens = max_tokens,
                                   .end_tokens = session->model->end_tokens,
                                   .end_token_count = session->model->end_token_count,
                                   .sink = to->sink ? pass_text : NULL,
                                   .context = to};
  memcpy(options.random.state, sampler->state, sizeof sampler->state);
  return options;
}

static ch_generated generated_of(const ch_generation_result *done) {
  return (ch_generated){.prompt_tokens = done->prompt_tokens,
                        .tokens = done->tokens,
                        .prefill_seconds = done->prefill_seconds,
                        .decode_seconds = done->decode_seconds};
}

static ch_status generate(ch_session *session, const ch_ids *prompt, int64_t max_tokens, ch_sampler *sampler,
                          text_sink *to, ch_generated *result, ch_error *error) {
  ch_generation_options options = options_of(session, sampler, max_tokens, to);
  ch_generation_result done;
  int threads = ch_api_enter_threads(session);
  ch_status status = ch_generate_tokens(session->timeline, session->model->tokenizer, prompt->data,
                                        (int64_t)prompt->size, &options, &done, error);
  ch_api_leave_threads(threads);
  memcpy(sampler->state, options.random.state, sizeof sampler->state);
  *result = generated_of(&done);
  return status;
}

/* --- many texts ---------------------------------------------------------------------------------------------- */

/* The tokens of every prompt; neighbours with the same text have the same. */
static ch_status encode_prompts(const ch_session *session, const ch_batch_text *texts, size_t count,
                                ch_ids *ids, ch_generation_text *writing, ch_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (!texts[i].prompt) return ch_fail(error, CH_ERROR_ARGUMENT, "the prompt of texts[%zu] is NULL", i);
    if (texts[i].max_tokens < 0)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "max_tokens of texts[%zu] is %lld; it must be at least 1, or 0 for as many as fit", i,
                     (long long)texts[i].max_tokens);
    bool shared = i > 0 && texts[i].prompt == texts[i - 1].prompt;
    if (!shared)
      CH_TRY(ch_api_encode(session->model, texts[i].prompt, strlen(texts[i].prompt), true, &ids[i], error));
    writing[i].prompt = shared ? writing[i - 1].prompt : ids[i].data;
    writing[i].count = shared ? writing[i - 1].count : (int64_t)ids[i].size;
  }
  return CH_OK;
}

static ch_generation_options options_of_text(const ch_session *session, const ch_batch_text *text,
                                             text_sink *to) {
  ch_sampler own;
  ch_sampler_defaults(&own, 0);
  *to = (text_sink){text->sink, text->user};
  return options_of(session, text->sampler ? text->sampler : &own, text->max_tokens, to);
}

static void report_text(const ch_generation_text *written, ch_batch_text *text) {
  text->generated = generated_of(&written->result);
  text->status = written->status;
  if (text->sampler) memcpy(text->sampler->state, written->options.random.state, sizeof text->sampler->state);
}

ch_status ch_generate_batch(ch_session *session, ch_batch_text *texts, size_t count, ch_error *error) {
  if (!session || (!texts && count > 0))
    return ch_api_missing(error, session ? "the array of texts" : "the session");
  CH_TRY(ch_api_need_tokenizer(session->model, error));
  ch_generation_text *writing = calloc(count + 1, sizeof *writing);
  text_sink *sinks = calloc(count + 1, sizeof *sinks);
  ch_ids *ids = calloc(count + 1, sizeof *ids);
  ch_status status =
      writing && sinks && ids ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory for %zu texts", count);
  if (status == CH_OK) status = encode_prompts(session, texts, count, ids, writing, error);
  for (size_t i = 0; status == CH_OK && i < count; i++)
    writing[i].options = options_of_text(session, &texts[i], &sinks[i]);
  if (status == CH_OK) {
    int threads = ch_api_enter_threads(session);
    status = ch_generate_texts(session->timeline, session->model->tokenizer, writing, (int64_t)count, error);
    ch_api_leave_threads(threads);
    ch_timeline_rewind(session->timeline, 0);
    for (size_t i = 0; i < count; i++) report_text(&writing[i], &texts[i]);
  }
  for (size_t i = 0; ids && i < count; i++) ch_ids_free(&ids[i]);
  free(ids);
  free(sinks);
  free(writing);
  return status;
}

ch_status ch_generate(ch_session *session, const char *prompt, int64_t max_tokens, ch_sampler *sampler,
                      ch_text_sink sink, void *user, ch_generated *result, ch_error *error) {
  if (!session || !prompt) return ch_api_missing(error, session ? "the prompt" : "the session");
  CH_TRY(ch_api_need_tokenizer(session->model, error));
  if (session->sequences != 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "text is generated in a session of one sequence; this one has %d", session->sequences);
  if (max_tokens < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "max_tokens is %lld; it must be at least 1, or 0 for as many as fit",
                   (long long)max_tokens);
  ch_sampler own;
  ch_sampler_defaults(&own, 0);
  ch_generated unwanted;
  ch_ids ids = {0};
  ch_status status =
      ch_api_encode(session->model, prompt, strlen(prompt), ch_session_length(session) == 0, &ids, error);
  if (status == CH_OK)
    status = generate(session, &ids, max_tokens, sampler ? sampler : &own, &(text_sink){sink, user},
                      result ? result : &unwanted, error);
  ch_ids_free(&ids);
  return status;
}

/* The public functions that choose tokens and generate text: one text, or many texts in a batch. */
#include "infer/api.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ch_status ch_sample(ch_sampler *sampler, const float *logits, int64_t vocab_size, int32_t *token,
                    ch_error *error) {
  if (!sampler || !logits || !token)
    return ch_refuse_null(error, "the sampler, the logits or the token pointer");
  if (vocab_size < 1 || vocab_size > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a vocabulary of %lld tokens is not possible",
                   (long long)vocab_size);
  CH_TRY(ch_sampling_check(sampler, error));
  void *scratch = malloc(ch_sampling_scratch(vocab_size));
  if (!scratch) return ch_no_memory(error);
  ch_status status = ch_sample_token(sampler, logits, vocab_size, scratch, token, error);
  free(scratch);
  return status;
}

const char *ch_end_name(ch_end end) {
  static const char *const names[] = {"end", "length", "context", "stopped", "failed", "stop string"};
  return (unsigned)end < sizeof names / sizeof *names ? names[end] : "unknown";
}

/* --- prompts -------------------------------------------------------------------------------------------- */

static ch_status check_text(const ch_session *session, const ch_batch_text *text, ch_error *error) {
  if (text->prompt && text->prompt_tokens)
    return ch_fail(error, CH_ERROR_ARGUMENT, "prompt and prompt_tokens are both given; give one");
  if (!text->prompt && !text->prompt_tokens) return ch_refuse_null(error, "the prompt");
  if (text->prompt) CH_TRY(ch_api_need_tokenizer(ch_session_model(session), error));
  if (text->max_tokens < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "max_tokens is %lld; it must be at least 1, or 0 for as many as fit",
                   (long long)text->max_tokens);
  return CH_OK;
}

/* Checks a text and fills in *to for its generation. A prompt of text is encoded into `ids`, unless `before`, the
   previous text or NULL, has the same `prompt` and `prompt_special`. Then both texts share its tokens. */
static ch_status prepare(const ch_session *session, ch_batch_text *text, const ch_batch_text *before,
                         bool begins, ch_ids *ids, ch_generation_text *to, ch_error *error) {
  CH_TRY(check_text(session, text, error));
  to->asked = text;
  to->end_token_count = (int)ch_session_end_tokens(session, &to->end_tokens);
  if (text->sampler)
    to->sampler = *text->sampler;
  else
    ch_sampler_defaults(&to->sampler, 0);
  if (text->prompt_tokens) {
    to->prompt = text->prompt_tokens;
    to->count = (int64_t)text->prompt_token_count;
  } else if (before && text->prompt == before->prompt && text->prompt_special == before->prompt_special) {
    to->prompt = to[-1].prompt;
    to->count = to[-1].count;
  } else {
    unsigned flags = (begins ? CH_TEXT_BEGINS : 0) | (text->prompt_special ? CH_TEXT_SPECIAL : 0);
    CH_TRY(ch_tokenizer_encode(ch_session_model(session)->tokenizer, text->prompt, strlen(text->prompt),
                               flags, ids, error));
    to->prompt = ids->data;
    to->count = (int64_t)ids->size;
  }
  return CH_OK;
}

/* Saves the random state, so that the next text continues from it. */
static void advance_sampler(const ch_generation_text *to) {
  ch_sampler *sampler = to->asked->sampler;
  if (sampler) memcpy(sampler->state, to->sampler.state, sizeof sampler->state);
}

/* --- one text ------------------------------------------------------------------------------------------- */

ch_status ch_generate_text(ch_session *session, ch_batch_text *text, ch_error *error) {
  if (!session || !text) return ch_refuse_null(error, session ? "the text" : "the session");
  int64_t sequences = ch_session_cache(session)->sequences;
  if (sequences != 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "text is generated in a session of one sequence; this one has %lld", (long long)sequences);
  ch_ids ids = {0};
  ch_generation_text to = {0};
  ch_status status = prepare(session, text, NULL, ch_session_length(session) == 0, &ids, &to, error);
  if (status == CH_OK) {
    status = ch_generate_tokens(session, ch_session_model(session)->tokenizer, &to, error);
    advance_sampler(&to);
  }
  ch_ids_free(&ids);
  return status;
}

ch_status ch_generate(ch_session *session, const char *prompt, int64_t max_tokens, ch_sampler *sampler,
                      ch_text_sink sink, void *user, ch_generation_result *result, ch_error *error) {
  ch_batch_text text = {
      .prompt = prompt, .max_tokens = max_tokens, .sampler = sampler, .sink = sink, .user = user};
  ch_status status = ch_generate_text(session, &text, error);
  if (result) *result = text.generated;
  return status;
}

/* --- many texts ----------------------------------------------------------------------------------------- */

static ch_status prepare_all(const ch_session *session, ch_batch_text *texts, size_t count, ch_ids *ids,
                             ch_generation_text *to, ch_error *error) {
  for (size_t i = 0; i < count; i++) {
    ch_status status = prepare(session, &texts[i], i ? &texts[i - 1] : NULL, true, &ids[i], &to[i], error);
    if (status == CH_OK) continue;
    char name[40];
    snprintf(name, sizeof name, "texts[%zu]", i);
    if (error) ch_fail_in(error, name);
    return status;
  }
  return CH_OK;
}

ch_status ch_generate_batch(ch_session *session, ch_batch_text *texts, size_t count, ch_error *error) {
  if (!session || (!texts && count > 0))
    return ch_refuse_null(error, session ? "the array of texts" : "the session");
  ch_generation_text *to = calloc(count + 1, sizeof *to);
  ch_ids *ids = calloc(count + 1, sizeof *ids);
  ch_status status = to && ids ? CH_OK : ch_no_memory(error);
  if (status == CH_OK) status = prepare_all(session, texts, count, ids, to, error);
  if (status == CH_OK) {
    status = ch_generate_texts(session, ch_session_model(session)->tokenizer, to, (int64_t)count, error);
    ch_session_reset(session);
    for (size_t i = 0; i < count; i++) advance_sampler(&to[i]);
  }
  for (size_t i = 0; ids && i < count; i++) ch_ids_free(&ids[i]);
  free(ids);
  free(to);
  return status;
}

/* Checks, copies and queues the requests of a generation, and adjusts logits by their settings. */
#include "infer/generation_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ch_generation_request_defaults(ch_generation_request *request) {
  *request = (ch_generation_request){.choices = 1, .max_tokens = -1, .reuse = true};
  ch_sampler_defaults(&request->sampler, 0);
}

/* --- checks --------------------------------------------------------------------------------------------- */

static ch_status check_id(const ch_generation *g, int32_t id, const char *what, ch_error *error) {
  if (id >= 0 && id < g->vocabulary) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s %d is outside the vocabulary of 0 to %lld", what, id,
                 (long long)g->vocabulary - 1);
}

static ch_status check_lists(const ch_generation *g, const ch_generation_request *asked, ch_error *error) {
  if ((!asked->biases && asked->bias_count) || (!asked->banned && asked->banned_count))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the list of %s is NULL",
                   asked->biases || !asked->bias_count ? "banned tokens" : "biases");
  if (asked->bias_count > CH_MOST_BIASES || asked->banned_count > CH_MOST_BIASES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "more than %d biases or banned tokens are not possible",
                   CH_MOST_BIASES);
  for (size_t i = 0; i < asked->bias_count; i++) {
    CH_TRY(check_id(g, asked->biases[i].token, "the bias's token", error));
    if (isnan(asked->biases[i].bias) || asked->biases[i].bias == INFINITY)
      return ch_fail(error, CH_ERROR_ARGUMENT, "the bias of token %d is not a number",
                     asked->biases[i].token);
  }
  for (size_t i = 0; i < asked->banned_count; i++)
    CH_TRY(check_id(g, asked->banned[i], "the banned token", error));
  return CH_OK;
}

static ch_status check_numbers(const ch_generation *g, const ch_generation_request *asked, ch_error *error) {
  const int32_t most = g->vocabulary < CH_MOST_TOP ? (int32_t)g->vocabulary : CH_MOST_TOP;
  if (asked->choices < 1 || asked->choices > CH_MOST_CHOICES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "choices is %d; it must be from 1 to %d", asked->choices,
                   CH_MOST_CHOICES);
  if (asked->max_tokens < -1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "max_tokens is %lld; it must be 0 or more, or -1 for as many as fit",
                   (long long)asked->max_tokens);
  if (asked->min_tokens < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "min_tokens is %lld; it must be 0 or more",
                   (long long)asked->min_tokens);
  if (asked->top_count < 0 || asked->top_count > most)
    return ch_fail(error, CH_ERROR_ARGUMENT, "top_count is %d; it must be from 0 to %d", asked->top_count,
                   most);
  if (!isfinite(asked->frequency_penalty) || !isfinite(asked->presence_penalty))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the %s penalty is not a finite number",
                   isfinite(asked->frequency_penalty) ? "presence" : "frequency");
  return CH_OK;
}

static ch_status check_prompt(const ch_generation *g, const ch_generation_request *asked, ch_error *error) {
  const int64_t before = g->manner.continues ? ch_session_length(g->session) : 0, room = g->capacity - before,
                count = (int64_t)asked->prompt_count;
  if (!asked->prompt || count < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the prompt is empty and the tokenizer has no beginning-of-text token to start from; give at "
        "least one token");
  if (count > room)
    return ch_fail(error, CH_ERROR_FULL,
                   "the prompt has %lld tokens%s, but the context only has room for %lld", (long long)count,
                   before ? " more" : "", (long long)room);
  for (int64_t i = 0; i < count; i++) CH_TRY(check_id(g, asked->prompt[i], "the prompt's token", error));
  return CH_OK;
}

ch_status ch_generation_check(const ch_generation *g, const ch_generation_request *asked, ch_error *error) {
  CH_TRY(ch_sampling_check(&asked->sampler, error));
  if (asked->stop_count > 0 && !g->tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT, "stop strings need a tokenizer, and the model has none");
  CH_TRY(ch_stops_check(asked->stops, asked->stop_count, error));
  CH_TRY(check_numbers(g, asked, error));
  CH_TRY(check_lists(g, asked, error));
  return check_prompt(g, asked, error);
}

/* --- the queue ------------------------------------------------------------------------------------------ */

/* Returns a copy of a list. Sets *failed if out of memory. */
static void *copy_of(const void *list, size_t bytes, bool *failed) {
  if (bytes == 0) return NULL;
  void *copy = malloc(bytes);
  if (copy) memcpy(copy, list, bytes);
  *failed |= !copy;
  return copy;
}

static bool copy_lists(ch_queued_request *r) {
  ch_generation_request *asked = &r->asked;
  bool failed = false;
  const char *const *stops = asked->stops;
  asked->biases = copy_of(asked->biases, asked->bias_count * sizeof *asked->biases, &failed);
  asked->banned = copy_of(asked->banned, asked->banned_count * sizeof *asked->banned, &failed);
  char **own = calloc((size_t)asked->stop_count + 1, sizeof *own);
  for (int32_t i = 0; own && i < asked->stop_count; i++) failed |= !(own[i] = strdup(stops[i]));
  asked->stops = (const char *const *)own;
  r->left = calloc((size_t)asked->choices, 1);
  return own && r->left && !failed;
}

void ch_prompt_release(ch_read_prompt *prompt) {
  if (!prompt || --prompt->references > 0) return;
  free(prompt->own);
  free(prompt->logits);
  free(prompt);
}

static void release(ch_queued_request *r) {
  ch_generation_request *asked = &r->asked;
  for (int32_t i = 0; asked->stops && i < asked->stop_count; i++) free((void *)(uintptr_t)asked->stops[i]);
  free((void *)(uintptr_t)asked->stops);
  free((void *)(uintptr_t)asked->biases);
  free((void *)(uintptr_t)asked->banned);
  free(r->left);
  ch_prompt_release(r->prompt);
  free(r);
}

void ch_request_remove(ch_generation *g, ch_queued_request *request) {
  ch_queued_request *before = NULL;
  for (ch_queued_request *r = g->first; r != request; r = r->next) before = r;
  if (before)
    before->next = request->next;
  else
    g->first = request->next;
  if (g->last == request) g->last = before;
  release(request);
}

/* Sets the request's prompt. A request with an extra shares the prompt of the previous request with an extra if both
   prompts are the same memory. */
static bool take_prompt(ch_generation *g, ch_queued_request *r) {
  const ch_generation_request *asked = &r->asked;
  const int64_t count = (int64_t)asked->prompt_count;
  bool failed = false;
  ch_read_prompt *prompt = g->shared;
  if (!r->has_extra || !prompt || prompt->ids != asked->prompt || prompt->count != count) {
    prompt = calloc(1, sizeof *prompt);
    if (!prompt) return false;
    prompt->serial = ++g->last_serial;
    prompt->count = count;
    if (!r->has_extra)
      prompt->own = copy_of(asked->prompt, asked->prompt_count * sizeof *asked->prompt, &failed);
    prompt->ids = r->has_extra ? asked->prompt : prompt->own;
    if (r->has_extra) {
      ch_prompt_release(g->shared);
      g->shared = prompt;
      prompt->references++;
    }
  }
  prompt->references++;
  prompt->waiting += asked->choices;
  r->prompt = prompt;
  return !failed;
}

ch_status ch_generation_put(ch_generation *g, const ch_generation_request *asked,
                            const ch_generation_extra *extra, int64_t *id, ch_error *error) {
  CH_TRY(ch_generation_check(g, asked, error));
  ch_queued_request *r = calloc(1, sizeof *r);
  if (r) {
    r->asked = *asked;
    r->has_extra = extra;
    if (extra) r->extra = *extra;
  }
  if (!r || !copy_lists(r) || !take_prompt(g, r)) {
    if (r && r->prompt) r->prompt->waiting -= asked->choices;
    if (r) release(r);
    return ch_no_memory(error);
  }
  r->id = ++g->last_id;
  if (g->last)
    g->last->next = r;
  else
    g->first = r;
  g->last = r;
  if (id) *id = r->id;
  return CH_OK;
}

ch_status ch_generation_add(ch_generation *g, const ch_generation_request *request, int64_t *id,
                            ch_error *error) {
  if (!g || !request)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", g ? "the request" : "the generation");
  if (request->max_tokens != 0 && (int64_t)request->prompt_count >= g->capacity)
    return ch_fail(error, CH_ERROR_FULL,
                   "the prompt has %zu tokens, so the context of %lld has no room for one more",
                   request->prompt_count, (long long)g->capacity);
  return ch_generation_put(g, request, NULL, id, error);
}

/* --- logits --------------------------------------------------------------------------------------------- */

static size_t ends_of(const ch_queued_request *r, const ch_session *session, const int32_t **ends) {
  if (!r->has_extra) return ch_session_end_tokens(session, ends);
  *ends = r->extra.ends;
  return (size_t)r->extra.end_count;
}

bool ch_request_ends(const ch_queued_request *r, const ch_session *session, int32_t token) {
  const int32_t *ends;
  const size_t count = ends_of(r, session, &ends);
  for (size_t i = 0; i < count; i++)
    if (ends[i] == token) return true;
  return false;
}

static bool bans_ends(const ch_generation_request *asked, int64_t written) {
  return asked->ban_end_tokens || written < asked->min_tokens;
}

bool ch_request_adjusts(const ch_queued_request *r, int64_t written) {
  const ch_generation_request *asked = &r->asked;
  const bool penalties = asked->frequency_penalty != 0 || asked->presence_penalty != 0;
  return asked->bias_count > 0 || asked->banned_count > 0 || bans_ends(asked, written) ||
         (penalties && written > 0);
}

void ch_request_adjust(const ch_generation *g, const ch_text_place *place, const float *logits,
                       float *adjusted) {
  const ch_queued_request *r = place->request;
  const ch_generation_request *asked = &r->asked;
  const int32_t *ends;
  memcpy(adjusted, logits, (size_t)g->vocabulary * sizeof *adjusted);
  for (int32_t i = 0; i < place->count_size; i++) {
    const ch_token_count *c = &place->counts[i];
    adjusted[c->token] -= (float)(c->count * asked->frequency_penalty + asked->presence_penalty);
  }
  for (size_t i = 0; i < asked->bias_count; i++) {
    const ch_logit_bias *b = &asked->biases[i];
    adjusted[b->token] = b->bias <= -100 ? -INFINITY : adjusted[b->token] + (float)b->bias;
  }
  for (size_t i = 0; i < asked->banned_count; i++) adjusted[asked->banned[i]] = -INFINITY;
  const size_t count = bans_ends(asked, place->generated.tokens) ? ends_of(r, g->session, &ends) : 0;
  for (size_t i = 0; i < count; i++) adjusted[ends[i]] = -INFINITY;
}

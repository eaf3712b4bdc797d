/* Generates texts in one batch and prints them when all are done. */
#include "cli/generate_many.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

#include "base/progress.h"
#include "cli/generate_figures.h"
#include "cli/interrupt.h"
#include "cli/output.h"

/* One text: the part that has been generated so far. */
typedef struct generated_text {
  const ch_batch_text *asked;
  const ch_prompt *echoed; /* prompt whose unfinished end is not written yet, or NULL */
  ch_text text;
  ch_ids ids;
  ch_sampler sampler;
} generated_text;

typedef struct batch {
  const ch_many_texts *many;
  ch_batch_text *texts;
  generated_text *said;
  int64_t count;
  double seconds;
} batch;

static void put_rest_of_prompt(generated_text *s) {
  if (s->echoed) ch_prompt_echo_rest(s->echoed, s->asked->prompt_bytes > 0, &s->text);
  s->echoed = NULL;
}

static bool take(const char *text, size_t size, void *user) {
  generated_text *s = user;
  put_rest_of_prompt(s);
  ch_text_put(&s->text, text, size);
  return !s->text.failed && ch_text_is_wanted();
}

static ch_status prepare(const ch_many_texts *many, batch *b, ch_error *error) {
  b->many = many;
  b->count = many->prompts->count * many->samples;
  b->texts = calloc((size_t)b->count, sizeof *b->texts);
  b->said = calloc((size_t)b->count, sizeof *b->said);
  if (!b->texts || !b->said) return ch_no_memory(error);
  for (int64_t i = 0; i < b->count; i++) {
    const ch_prompt *prompt = &many->prompts->list[i / many->samples];
    generated_text *s = &b->said[i];
    ch_sampler_defaults(&s->sampler, many->seed + (uint64_t)(i % many->samples));
    s->sampler.temperature = many->sampler->temperature;
    s->sampler.top_k = many->sampler->top_k;
    s->sampler.top_p = many->sampler->top_p;
    b->texts[i] = (ch_batch_text){.prompt_tokens = prompt->ids.data,
                                  .prompt_token_count = prompt->ids.size,
                                  .max_tokens = many->max_tokens,
                                  .sampler = &s->sampler,
                                  .sink = take,
                                  .user = s,
                                  .ids = &s->ids};
    s->asked = &b->texts[i];
    s->echoed = many->echo ? prompt : NULL;
    if (many->echo) ch_prompt_echo(prompt, &s->text);
  }
  ch_session_set_progress(many->session, ch_prompt_is_wanted, NULL);
  return CH_OK;
}

static void release(batch *b) {
  for (int64_t i = 0; b->said && i < b->count; i++) {
    ch_text_free(&b->said[i].text);
    ch_ids_free(&b->said[i].ids);
  }
  free(b->said);
  free(b->texts);
}

/* --- printing ----------------------------------------------------------------------------------------------- */

static void print_texts(const batch *b) {
  int64_t samples = b->many->samples;
  for (int64_t i = 0; i < b->count; i++) {
    const ch_text *text = &b->said[i].text;
    if (samples > 1)
      printf("%s==> prompt %lld, sample %lld <==\n", i ? "\n" : "", (long long)(i / samples + 1),
             (long long)(i % samples + 1));
    else
      printf("%s==> prompt %lld <==\n", i ? "\n" : "", (long long)(i + 1));
    fwrite(text->data ? text->data : "", 1, text->size, stdout);
    if (text->size == 0 || text->data[text->size - 1] != '\n') putchar('\n');
  }
  fflush(stdout);
}

typedef struct totals {
  int64_t prompt_tokens, tokens, stopped;
  double prefill_seconds, decode_seconds;
} totals;

static totals sum_up(const batch *b) {
  totals t = {0};
  for (int64_t i = 0; i < b->count; i++) {
    const ch_generation_result *result = &b->texts[i].generated;
    t.prompt_tokens += result->prompt_tokens;
    t.tokens += result->tokens;
    t.prefill_seconds += result->prefill_seconds;
    t.stopped += result->end == CH_END_STOPPED;
  }
  t.decode_seconds = b->seconds - t.prefill_seconds;
  return t;
}

static void print_figures(const batch *b) {
  const ch_session *session = b->many->session;
  totals t = sum_up(b);
  fprintf(stderr, "prefill: %lld %s in %.1f ms, %.1f tokens/s\n", (long long)t.prompt_tokens,
          ch_plural(t.prompt_tokens, "token", "tokens"), 1e3 * t.prefill_seconds,
          ch_token_rate(t.prompt_tokens, t.prefill_seconds));
  fprintf(stderr, "decode:  %lld %s of %lld %s in %.1f ms, %.1f tokens/s\n", (long long)t.tokens,
          ch_plural(t.tokens, "token", "tokens"), (long long)b->count, ch_plural(b->count, "text", "texts"),
          1e3 * t.decode_seconds, ch_token_rate(t.tokens, t.decode_seconds));
  fprintf(stderr, "cache:   %lld %s of %lld tokens (%s), %llu bytes allocated\n",
          (long long)b->many->sequences, ch_plural(b->many->sequences, "sequence", "sequences"),
          (long long)ch_session_capacity(session), b->many->cache_dtype,
          (unsigned long long)ch_session_cache_bytes(session));
}

static json_t *json_text(const batch *b, int64_t i) {
  const ch_batch_text *text = &b->texts[i];
  const generated_text *s = &b->said[i];
  int64_t sample = i % b->many->samples;
  return json_pack("{s:I, s:I, s:I, s:s%, s:o, s:o, s:s}", "prompt", (json_int_t)(i / b->many->samples),
                   "sample", (json_int_t)sample, "seed", (json_int_t)(b->many->seed + (uint64_t)sample),
                   "text", s->text.data ? s->text.data : "", s->text.size, "ids",
                   ch_json_ids(s->ids.data, s->ids.size), "prompt_ids",
                   ch_json_ids(text->prompt_tokens, text->prompt_token_count), "end",
                   ch_end_name(text->generated.end));
}

static ch_status print_json(const batch *b, ch_error *error) {
  const ch_session *session = b->many->session;
  totals t = sum_up(b);
  json_t *texts = json_array();
  for (int64_t i = 0; i < b->count; i++) json_array_append_new(texts, json_text(b, i));
  return ch_print_json(json_pack("{s:o, s:o, s:o, s:{s:s, s:I, s:I, s:I}}", "texts", texts, "prefill",
                                 ch_json_rate(t.prompt_tokens, t.prefill_seconds), "decode",
                                 ch_json_rate(t.tokens, t.decode_seconds), "cache", "dtype",
                                 b->many->cache_dtype, "sequences", (json_int_t)b->many->sequences,
                                 "capacity", (json_int_t)ch_session_capacity(session), "bytes_allocated",
                                 (json_int_t)ch_session_cache_bytes(session)),
                       JSON_REAL_PRECISION(6), error);
}

/* Returns the error of one text without the name that ch_generate_batch gives it. */
static const char *sentence_of(int64_t i, const ch_error *why) {
  char name[40];
  int length = snprintf(name, sizeof name, "texts[%lld]: ", (long long)i);
  return strncmp(why->message, name, (size_t)length) == 0 ? why->message + length : why->message;
}

/* Returns the error that made texts incomplete: of the first text that failed (`why` has the message), or a
   signal. */
static ch_status judge(const batch *b, const ch_error *why, ch_error *error) {
  int64_t samples = b->many->samples, stopped = sum_up(b).stopped;
  for (int64_t i = 0; i < b->count; i++)
    if (b->texts[i].status != CH_OK)
      return ch_fail(error, b->texts[i].status, "prompt %lld, sample %lld: %s", (long long)(i / samples + 1),
                     (long long)(i % samples + 1), sentence_of(i, why));
  if (stopped == 0 || !ch_interrupted()) return CH_OK;
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; %lld of %lld texts are unfinished",
                 (long long)stopped, (long long)b->count);
}

/* Prints all texts even if one failed. */
static ch_status print(const batch *b, ch_error *error) {
  for (int64_t i = 0; i < b->count; i++)
    if (b->said[i].text.failed) return ch_no_memory(error);
  if (b->many->json) return print_json(b, error);
  print_texts(b);
  print_figures(b);
  return CH_OK;
}

ch_status ch_generate_many(const ch_many_texts *many, ch_error *error) {
  batch b = {0};
  ch_error why = {0};
  ch_status status = prepare(many, &b, error);
  if (status == CH_OK) {
    double start = ch_clock();
    ch_interrupt_watch(CH_NOTHING_SAVED);
    status = ch_generate_batch(many->session, b.texts, (size_t)b.count, &why);
    ch_interrupt_release();
    b.seconds = ch_clock() - start;
    for (int64_t i = 0; i < b.count; i++) put_rest_of_prompt(&b.said[i]);
    if (status != CH_OK) *error = why;
  }
  if (status == CH_OK || status == CH_ERROR_NUMERIC) status = print(&b, error);
  if (status == CH_OK) status = judge(&b, &why, error);
  release(&b);
  return status;
}

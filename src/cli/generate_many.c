/* Texts that are written in step, kept until all are. */
#include "cli/generate_many.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"
#include "cli/command.h"
#include "cli/generate_figures.h"
#include "cli/interrupt.h"
#include "cli/output.h"

/* A text and what it said so far. */
typedef struct said {
  const struct batch *batch;
  ch_text text;
  ch_ids ids;
} said;

typedef struct batch {
  const ch_many_texts *many;
  ch_generation_text *texts;
  said *said;
  int64_t count;
  double seconds;
} batch;

static bool take(void *context, int32_t id, const char *text, size_t size) {
  said *s = context;
  ch_text_put(&s->text, text, size);
  if (id >= 0) {
    if (!ch_ids_reserve(&s->ids, 1)) {
      s->text.failed = true;
      return false;
    }
    s->ids.data[s->ids.size++] = id;
  }
  return !ch_interrupted() && ch_output_alive();
}

static ch_status prepare(const ch_many_texts *many, batch *b, ch_error *error) {
  b->many = many;
  b->count = many->prompts->count * many->samples;
  b->texts = calloc((size_t)b->count, sizeof *b->texts);
  b->said = calloc((size_t)b->count, sizeof *b->said);
  if (!b->texts || !b->said)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for %lld texts", (long long)b->count);
  for (int64_t i = 0; i < b->count; i++) {
    const ch_prompt *prompt = &many->prompts->list[i / many->samples];
    b->said[i].batch = b;
    b->texts[i] = (ch_generation_text){
        .prompt = prompt->ids.data, .count = (int64_t)prompt->ids.size, .options = *many->common};
    ch_random_seed(&b->texts[i].options.random, many->seed + (uint64_t)(i % many->samples), 0);
    b->texts[i].options.sink = take;
    b->texts[i].options.context = &b->said[i];
    if (many->echo) ch_prompt_echo(prompt, &b->said[i].text);
  }
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

/* --- what is printed ----------------------------------------------------------------------------------------- */

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
    const ch_generation_result *result = &b->texts[i].result;
    t.prompt_tokens += result->prompt_tokens;
    t.tokens += result->tokens;
    t.prefill_seconds += result->prefill_seconds;
    t.stopped += result->end == CH_GENERATION_STOPPED;
  }
  t.decode_seconds = b->seconds - t.prefill_seconds;
  return t;
}

static void print_figures(const batch *b) {
  const ch_cache *cache = ch_timeline_cache(b->many->timeline);
  totals t = sum_up(b);
  fprintf(stderr, "prefill: %lld tokens in %.1f ms, %.1f tokens/s\n", (long long)t.prompt_tokens,
          1e3 * t.prefill_seconds, ch_token_rate(t.prompt_tokens, t.prefill_seconds));
  fprintf(stderr, "decode:  %lld tokens of %lld texts in %.1f ms, %.1f tokens/s\n", (long long)t.tokens,
          (long long)b->count, 1e3 * t.decode_seconds, ch_token_rate(t.tokens, t.decode_seconds));
  fprintf(stderr, "cache:   %lld sequences of %lld tokens (%s), %zu bytes allocated\n",
          (long long)cache->sequences, (long long)cache->capacity, b->many->cache_dtype, cache->bytes);
}

static json_t *json_text(const batch *b, int64_t i) {
  const ch_generation_text *text = &b->texts[i];
  const said *s = &b->said[i];
  int64_t sample = i % b->many->samples;
  return json_pack("{s:I, s:I, s:I, s:s%, s:o, s:o, s:s}", "prompt", (json_int_t)(i / b->many->samples),
                   "sample", (json_int_t)sample, "seed", (json_int_t)(b->many->seed + (uint64_t)sample),
                   "text", s->text.data ? s->text.data : "", s->text.size, "ids",
                   ch_json_ids(s->ids.data, s->ids.size), "prompt_ids",
                   ch_json_ids(text->prompt, (size_t)text->count), "end",
                   ch_generation_end_name(text->result.end));
}

static ch_status print_json(const batch *b, ch_error *error) {
  const ch_cache *cache = ch_timeline_cache(b->many->timeline);
  totals t = sum_up(b);
  json_t *texts = json_array();
  for (int64_t i = 0; i < b->count; i++) json_array_append_new(texts, json_text(b, i));
  return ch_print_json(json_pack("{s:o, s:o, s:o, s:{s:s, s:I, s:I, s:I}}", "texts", texts, "prefill",
                                 ch_json_rate(t.prompt_tokens, t.prefill_seconds), "decode",
                                 ch_json_rate(t.tokens, t.decode_seconds), "cache", "dtype",
                                 b->many->cache_dtype, "sequences", (json_int_t)cache->sequences, "capacity",
                                 (json_int_t)cache->capacity, "bytes_allocated", (json_int_t)cache->bytes),
                       JSON_REAL_PRECISION(6), error);
}

/* Why not all texts are whole, where they are not: the first whose logits are broken, or the signal. */
static ch_status judge(const batch *b, ch_error *error) {
  int64_t samples = b->many->samples, stopped = sum_up(b).stopped;
  for (int64_t i = 0; i < b->count; i++)
    if (b->texts[i].status != CH_OK)
      return ch_fail(error, b->texts[i].status, "prompt %lld, sample %lld: %s", (long long)(i / samples + 1),
                     (long long)(i % samples + 1), b->texts[i].error.message);
  if (stopped == 0 || !ch_interrupted()) return CH_OK;
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; %lld of %lld texts are not whole",
                 (long long)stopped, (long long)b->count);
}

/* What was written is printed also where some text failed. */
static ch_status print(const batch *b, ch_error *error) {
  for (int64_t i = 0; i < b->count; i++)
    if (b->said[i].text.failed) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the texts");
  if (b->many->json) return print_json(b, error);
  print_texts(b);
  print_figures(b);
  return CH_OK;
}

ch_status ch_generate_many(const ch_many_texts *many, ch_error *error) {
  batch b = {0};
  ch_status status = prepare(many, &b, error);
  if (status == CH_OK) {
    double start = ch_clock();
    ch_interrupt_watch();
    status = ch_generate_texts(many->timeline, many->tokenizer, b.texts, b.count, error);
    ch_interrupt_release();
    b.seconds = ch_clock() - start;
  }
  if (status == CH_OK || status == CH_ERROR_NUMERIC) status = print(&b, error);
  if (status == CH_OK) status = judge(&b, error);
  release(&b);
  return status;
}

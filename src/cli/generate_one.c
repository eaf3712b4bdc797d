/* One text, streamed. */
#include "cli/generate_one.h"

#include <stdio.h>

#include "cli/command.h"
#include "cli/generate_figures.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "eval/dictionary_cost.h"
#include "eval/trace.h"

/* The text and what it said so far. */
typedef struct writer {
  const ch_one_text *one;
  ch_ids ids;
  ch_text text;
  ch_dictionary_cost dictionary; /* with --keep-dictionary */
} writer;

static void show(writer *w, const char *text, size_t size) {
  if (size == 0) return;
  ch_text_put(&w->text, text, size);
  if (w->one->json) return;
  fwrite(text, 1, size, stdout);
  fflush(stdout);
}

static bool take(void *context, int32_t id, const char *text, size_t size) {
  writer *w = context;
  show(w, text, size);
  if (id >= 0) {
    if (!ch_ids_reserve(&w->ids, 1)) return false;
    w->ids.data[w->ids.size++] = id;
  }
  return !ch_interrupted() && ch_output_alive();
}

static ch_status write_text(writer *w, ch_generation_result *result, ch_error *error) {
  const ch_one_text *one = w->one;
  ch_generation_options options = *one->common;
  options.sink = take;
  options.context = w;
  ch_random_seed(&options.random, one->seed, 0);
  if (one->echo) {
    ch_text echo = {0};
    ch_prompt_echo(one->prompt, &echo);
    show(w, echo.data, echo.size);
    ch_text_free(&echo);
  }
  ch_profile profile = {.keep_events = true};
  if (one->trace) ch_timeline_profile(w->one->timeline, &profile);
  ch_status status = ch_generate_tokens(w->one->timeline, w->one->tokenizer, one->prompt->ids.data,
                                        (int64_t)one->prompt->ids.size, &options, result, error);
  if (one->trace && status == CH_OK)
    status = ch_trace_write(one->trace, 1, &(ch_traced){"generate", &profile}, NULL, error);
  ch_timeline_profile(w->one->timeline, NULL);
  ch_profile_free(&profile);
  if (w->text.failed && status == CH_OK) status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the text");
  return status;
}

/* --- figures ------------------------------------------------------------------------------------------------- */

/* Why the text is over, where that is not what was asked for. */
static void print_end(const writer *w, const ch_generation_result *result) {
  if (result->end == CH_GENERATION_FULL)
    fprintf(stderr, "stopped: the context of %lld tokens is full\n",
            (long long)ch_timeline_cache(w->one->timeline)->capacity);
  if (result->end == CH_GENERATION_STOPPED)
    fprintf(stderr, "stopped: %s\n", ch_interrupted() ? "interrupted" : "nobody reads the text");
  if (result->end == CH_GENERATION_ENDED) fprintf(stderr, "the model ended its text\n");
}

static void print_figures(const writer *w, const ch_generation_result *result) {
  const ch_cache *cache = ch_timeline_cache(w->one->timeline);
  if (w->text.size == 0 || w->text.data[w->text.size - 1] != '\n') putchar('\n');
  fflush(stdout);
  print_end(w, result);
  fprintf(stderr, "prefill: %lld tokens in %.1f ms, %.1f tokens/s\n", (long long)result->prompt_tokens,
          1e3 * result->prefill_seconds, ch_token_rate(result->prompt_tokens, result->prefill_seconds));
  fprintf(stderr, "decode:  %lld tokens in %.1f ms, %.1f tokens/s\n", (long long)result->tokens,
          1e3 * result->decode_seconds, ch_token_rate(result->tokens, result->decode_seconds));
  fprintf(stderr, "cache:   %lld bytes a token (%s), %lld of %lld tokens, %zu bytes allocated\n",
          (long long)cache->token_bytes, w->one->cache_dtype, (long long)ch_timeline_length(w->one->timeline),
          (long long)cache->capacity, cache->bytes);
  if (w->one->keep_dictionary)
    fprintf(stderr,
            "dictionary: attention's weights take %.1f MiB instead of %.1f; a token takes %.2f times as long "
            "as with matrices written out\n",
            w->dictionary.bytes / (1 << 20), w->dictionary.written_bytes / (1 << 20), w->dictionary.slowdown);
}

static ch_status print_json(const writer *w, const ch_generation_result *result, ch_error *error) {
  const ch_cache *cache = ch_timeline_cache(w->one->timeline);
  json_t *figures =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "dtype", w->one->cache_dtype, "elements_per_token",
                (json_int_t)cache->token_elements, "bytes_per_token", (json_int_t)cache->token_bytes,
                "bytes_allocated", (json_int_t)cache->bytes, "tokens",
                (json_int_t)ch_timeline_length(w->one->timeline), "capacity", (json_int_t)cache->capacity);
  json_t *object = json_pack(
      "{s:s%, s:o, s:o, s:s, s:I, s:f, s:o, s:o, s:o}", "text", w->text.data ? w->text.data : "",
      w->text.size, "ids", ch_json_ids(w->ids.data, w->ids.size), "prompt_ids",
      ch_json_ids(w->one->prompt->ids.data, w->one->prompt->ids.size), "end",
      ch_generation_end_name(result->end), "seed", (json_int_t)w->one->seed, "open_milliseconds",
      1e3 * w->one->open_seconds, "prefill", ch_json_rate(result->prompt_tokens, result->prefill_seconds),
      "decode", ch_json_rate(result->tokens, result->decode_seconds), "cache", figures);
  if (w->one->keep_dictionary)
    json_object_set_new(object, "dictionary",
                        json_pack("{s:f, s:f, s:f}", "attention_bytes", w->dictionary.bytes,
                                  "attention_bytes_written_out", w->dictionary.written_bytes, "slowdown",
                                  w->dictionary.slowdown));
  return ch_print_json(object, JSON_REAL_PRECISION(6), error);
}

ch_status ch_generate_one(const ch_one_text *one, ch_error *error) {
  writer w = {.one = one};
  ch_generation_result result = {0};
  ch_interrupt_watch();
  ch_status status = write_text(&w, &result, error);
  ch_interrupt_release();
  if (status == CH_OK && one->keep_dictionary)
    status = ch_dictionary_cost_measure(one->model, &w.dictionary, error);
  if (status == CH_OK && one->json)
    status = print_json(&w, &result, error);
  else if (status == CH_OK)
    print_figures(&w, &result);
  else if (!one->json && w.text.size > 0)
    putchar('\n');
  ch_ids_free(&w.ids);
  ch_text_free(&w.text);
  return status;
}

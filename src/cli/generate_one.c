/* Generates one text and prints it token by token. */
#include "cli/generate_one.h"

#include <stdio.h>
#include <string.h>

#include <crosshead/bench.h>

#include "cli/generate_figures.h"
#include "cli/interrupt.h"
#include "cli/output.h"

/* One text: the part that has been generated so far. */
typedef struct writer {
  const ch_one_text *one;
  ch_batch_text said;
  bool echoes; /* true if the unfinished end of the prompt is not printed yet */
  ch_ids ids;
  ch_text text;
  ch_dictionary_cost dictionary; /* set with --keep-dictionary */
} writer;

static void show(writer *w, const char *text, size_t size) {
  if (size == 0) return;
  ch_text_put(&w->text, text, size);
  if (w->one->json) return;
  ch_output_put(text, size, true);
}

static void show_rest_of_prompt(writer *w) {
  ch_text rest = {0};
  if (w->echoes) ch_prompt_echo_rest(w->one->prompt, w->said.prompt_bytes > 0, &rest);
  w->echoes = false;
  show(w, rest.data, rest.size);
  ch_text_free(&rest);
}

static bool take(const char *text, size_t size, void *user) {
  show_rest_of_prompt(user);
  show(user, text, size);
  return ch_text_is_wanted();
}

static ch_status generate(writer *w, ch_generation_result *result, ch_error *error) {
  const ch_one_text *one = w->one;
  w->said = (ch_batch_text){.prompt_tokens = one->prompt->ids.data,
                            .prompt_token_count = one->prompt->ids.size,
                            .max_tokens = one->max_tokens,
                            .sampler = one->sampler,
                            .sink = take,
                            .user = w,
                            .ids = &w->ids};
  w->echoes = one->echo;
  ch_session_set_progress(one->session, ch_prompt_is_wanted, NULL);
  ch_status status = ch_generate_text(one->session, &w->said, error);
  show_rest_of_prompt(w);
  *result = w->said.generated;
  return status;
}

static ch_status generate_traced(writer *w, ch_generation_result *result, ch_error *error) {
  ch_profile *profile;
  CH_TRY(ch_profile_new(true, &profile, error));
  ch_session_profile(w->one->session, profile);
  ch_status status = generate(w, result, error);
  ch_session_profile(w->one->session, NULL);
  if (status == CH_OK)
    status = ch_trace_write(w->one->trace, 1, &(ch_trace_part){.title = "generate", .profile = profile}, NULL,
                            error);
  ch_profile_free(profile);
  return status;
}

static ch_status write_text(writer *w, ch_generation_result *result, ch_error *error) {
  const ch_one_text *one = w->one;
  if (one->echo) {
    ch_text echo = {0};
    ch_prompt_echo(one->prompt, &echo);
    show(w, echo.data, echo.size);
    ch_text_free(&echo);
  }
  ch_status status = one->trace ? generate_traced(w, result, error) : generate(w, result, error);
  if (w->text.failed && status == CH_OK) status = ch_no_memory(error);
  return status;
}

/* --- figures ------------------------------------------------------------------------------------------------ */

/* Prints the reason if the text ended before --max-tokens. */
static void print_end(const writer *w, const ch_generation_result *result) {
  if (result->end == CH_END_FULL)
    fprintf(stderr, "stopped: the context of %lld tokens is full\n",
            (long long)ch_session_capacity(w->one->session));
  if (result->end == CH_END_STOPPED && !ch_interrupted())
    fprintf(stderr, "stopped: the program that reads the text has ended\n");
  if (result->end == CH_END_TOKEN) fprintf(stderr, "the model ended its text\n");
}

/* The default cache type of `info`. */
static const char info_type[] = "bf16";

static void print_figures(const writer *w, const ch_generation_result *result) {
  const ch_session *session = w->one->session;
  if (w->text.size == 0 || w->text.data[w->text.size - 1] != '\n') putchar('\n');
  fflush(stdout);
  print_end(w, result);
  fprintf(stderr, "prefill: %lld %s in %.1f ms, %.1f tokens/s\n", (long long)result->prompt_tokens,
          ch_plural(result->prompt_tokens, "token", "tokens"), 1e3 * result->prefill_seconds,
          ch_token_rate(result->prompt_tokens, result->prefill_seconds));
  fprintf(stderr, "decode:  %lld %s in %.1f ms, %.1f tokens/s\n", (long long)result->tokens,
          ch_plural(result->tokens, "token", "tokens"), 1e3 * result->decode_seconds,
          ch_token_rate(result->tokens, result->decode_seconds));
  char as_info[64] = "";
  if (strcmp(w->one->cache_dtype, info_type) != 0)
    snprintf(as_info, sizeof as_info, "; %lld in %s, as info counts",
             2 * (long long)ch_session_cache_token_elements(session), info_type);
  fprintf(stderr, "cache:   %lld bytes per token (%s%s), %lld of %lld tokens, %llu bytes allocated\n",
          (long long)ch_session_cache_token_bytes(session), w->one->cache_dtype, as_info,
          (long long)ch_session_length(session), (long long)ch_session_capacity(session),
          (unsigned long long)ch_session_cache_bytes(session));
  if (w->one->keep_dictionary)
    fprintf(
        stderr,
        "dictionary: attention's weights need %.1f MiB instead of %.1f; decoding takes %.2f times as long "
        "as with a matrix for every layer\n",
        w->dictionary.bytes / (1 << 20), w->dictionary.written_bytes / (1 << 20), w->dictionary.slowdown);
}

static ch_status print_json(const writer *w, const ch_generation_result *result, ch_error *error) {
  const ch_session *session = w->one->session;
  json_t *figures =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "dtype", w->one->cache_dtype, "elements_per_token",
                (json_int_t)ch_session_cache_token_elements(session), "bytes_per_token",
                (json_int_t)ch_session_cache_token_bytes(session), "bytes_allocated",
                (json_int_t)ch_session_cache_bytes(session), "tokens", (json_int_t)ch_session_length(session),
                "capacity", (json_int_t)ch_session_capacity(session));
  json_t *object = json_pack(
      "{s:s%, s:o, s:o, s:s, s:I, s:f, s:o, s:o, s:o}", "text", w->text.data ? w->text.data : "",
      w->text.size, "ids", ch_json_ids(w->ids.data, w->ids.size), "prompt_ids",
      ch_json_ids(w->one->prompt->ids.data, w->one->prompt->ids.size), "end", ch_end_name(result->end),
      "seed", (json_int_t)w->one->seed, "open_milliseconds", 1e3 * w->one->open_seconds, "prefill",
      ch_json_rate(result->prompt_tokens, result->prefill_seconds), "decode",
      ch_json_rate(result->tokens, result->decode_seconds), "cache", figures);
  if (w->one->keep_dictionary)
    json_object_set_new(object, "dictionary",
                        json_pack("{s:f, s:f, s:f}", "attention_bytes", w->dictionary.bytes,
                                  "attention_bytes_written_out", w->dictionary.written_bytes, "slowdown",
                                  w->dictionary.slowdown));
  return ch_print_json(object, JSON_REAL_PRECISION(6), error);
}

/* Returns CH_ERROR_INTERRUPTED if a signal stopped the text. */
static ch_status judge(const ch_generation_result *result, ch_error *error) {
  if (result->end != CH_END_STOPPED || !ch_interrupted()) return CH_OK;
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after %lld %s", (long long)result->tokens,
                 ch_plural(result->tokens, "token", "tokens"));
}

ch_status ch_generate_one(const ch_one_text *one, ch_error *error) {
  writer w = {.one = one};
  ch_generation_result result = {0};
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_status status = write_text(&w, &result, error);
  ch_interrupt_release();
  if (status == CH_OK) status = ch_output_check(error);
  if (status == CH_OK && one->keep_dictionary)
    status = ch_dictionary_cost_measure(one->model, &w.dictionary, error);
  if (status == CH_OK && one->json)
    status = print_json(&w, &result, error);
  else if (status == CH_OK)
    print_figures(&w, &result);
  else if (!one->json && w.text.size > 0)
    putchar('\n');
  if (status == CH_OK) status = judge(&result, error);
  ch_ids_free(&w.ids);
  ch_text_free(&w.text);
  return status;
}

/* Writes the answers of /v1/completions. Log-probabilities are four parallel lists, as in OpenAI's legacy
   API. */
#include <math.h>

#include "serve/answer.h"

/* --- log-probabilities: four lists ---------------------------------------------------------------------- */

/* Consecutive tokens with their likeliest alternatives. */
typedef struct part {
  const ch_token_record *records;
  const ch_token_probability *top; /* [count, width] */
  size_t count;
  int64_t width;
  int64_t shift; /* characters of the answer's text before the part */
} part;

/* Returns the number of characters in the echoed prompt. */
static size_t echo_characters(const ch_prompt *prompt) {
  size_t characters = 0;
  for (size_t i = 0; i < prompt->text_size; i++)
    characters += ((unsigned char)prompt->text[i] & 0xc0) != 0x80;
  return characters;
}

/* Writes one of the likeliest tokens, unless a likelier token has the same text. Returns true if it was
   written. */
static bool put_likely(ch_text *json, const ch_tokenizer *tokenizer, const ch_token_probability *top,
                       int64_t index, bool first) {
  for (int64_t i = 0; i < index; i++)
    if (ch_same_name(tokenizer, top[i].token, top[index].token)) return false;
  if (!first) ch_text_puts(json, ",");
  ch_put_name(json, tokenizer, top[index].token);
  ch_text_puts(json, ":");
  ch_put_log_probability(json, top[index].log_probability);
  return true;
}

/* Writes the likeliest tokens of one position, and the chosen token if it is not among them. */
static void put_top(ch_text *json, const ch_tokenizer *tokenizer, const ch_token_record *record,
                    const ch_token_probability *top, int64_t width) {
  bool first = true, has_chosen = false;
  ch_text_puts(json, "{");
  for (int64_t i = 0; i < width; i++) {
    first = !put_likely(json, tokenizer, top, i, first) && first;
    has_chosen |= ch_same_name(tokenizer, top[i].token, record->token);
  }
  if (!has_chosen) {
    const ch_token_probability chosen = {record->token, record->log_probability};
    put_likely(json, tokenizer, &chosen, 0, first);
  }
  ch_text_puts(json, "}");
}

/* Writes one of the four lists over all parts. */
enum list { TOKENS, NUMBERS, TOPS, OFFSETS };
static void put_list(ch_text *json, const ch_tokenizer *tokenizer, enum list list, const part *parts,
                     int count) {
  bool first = true;
  for (int p = 0; p < count; p++) {
    for (size_t i = 0; i < parts[p].count; i++) {
      const ch_token_record *record = &parts[p].records[i];
      if (!first) ch_text_puts(json, ",");
      first = false;
      if (list == TOKENS) {
        ch_put_name(json, tokenizer, record->token);
      } else if (list == OFFSETS) {
        ch_text_printf(json, "%lld", (long long)(record->character + parts[p].shift));
      } else if (isnan(record->log_probability)) {
        ch_text_puts(json, "null");
      } else if (list == NUMBERS) {
        ch_put_log_probability(json, record->log_probability);
      } else {
        const int64_t width = parts[p].width; /* 0: `top` is NULL */
        put_top(json, tokenizer, record, width ? parts[p].top + (int64_t)i * width : NULL, width);
      }
    }
  }
}

static void put_lists(ch_text *json, const ch_tokenizer *tokenizer, const part *parts, int count) {
  static const char *const titles[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                       "],\"text_offset\":["};
  for (int list = TOKENS; list <= OFFSETS; list++) {
    ch_text_puts(json, titles[list]);
    put_list(json, tokenizer, (enum list)list, parts, count);
  }
  ch_text_puts(json, "]}");
}

static int64_t width_of(const ch_view *view) {
  return view->job->fields.top > 0 ? view->job->fields.top : 0;
}

static part echo_part(const ch_view *view) {
  const ch_token_list *echo = &view->prompt->echo;
  return (part){.records = echo->records, .top = echo->top, .count = echo->count, .width = width_of(view)};
}

/* Returns the number of characters before the text of a choice. */
static int64_t shift_of(const ch_view *view) {
  return view->job->fields.echo ? (int64_t)echo_characters(view->prompt) : 0;
}

/* --- events --------------------------------------------------------------------------------------------- */

/* Writes an event up to its log-probabilities. */
static void open_event(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                       size_t size, const char *finish) {
  ch_text_puts(out, "data: {");
  ch_put_head(out, exchange, "text_completion");
  ch_text_printf(out, ",\"choices\":[{\"index\":%lld", (long long)view->index);
  ch_put_member(out, "text", piece, size);
  ch_text_printf(out, finish ? ",\"finish_reason\":\"%s\"" : ",\"finish_reason\":null", finish);
  ch_text_puts(out, ",\"logprobs\":");
}

/* With `echo`, writes the prompt as the first event. */
static void begin(ch_text *out, const ch_exchange *exchange, const ch_view *view) {
  if (!view->job->fields.echo) return;
  open_event(out, exchange, view, view->prompt->text, view->prompt->text_size, NULL);
  part echo = echo_part(view);
  if (view->job->fields.top >= 0)
    put_lists(out, view->server->tokenizer, &echo, 1);
  else
    ch_text_puts(out, "null");
  ch_close_event(out, view);
}

static void token(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                  size_t size, const ch_token_record *record, const ch_token_probability *top) {
  bool probable = view->job->fields.top >= 0;
  if (size == 0 && !probable) return;
  open_event(out, exchange, view, piece, size, NULL);
  part one = {.records = record, .top = top, .count = 1, .width = width_of(view), .shift = shift_of(view)};
  if (probable)
    put_lists(out, view->server->tokenizer, &one, 1);
  else
    ch_text_puts(out, "null");
  ch_close_event(out, view);
}

static void finish(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                   size_t size) {
  if (size > 0) {
    open_event(out, exchange, view, piece, size, NULL);
    ch_text_puts(out, "null");
    ch_close_event(out, view);
  }
  open_event(out, exchange, view, "", 0, ch_finish_reason(view->choice));
  ch_text_puts(out, "null");
  ch_close_event(out, view);
}

static void end(ch_text *out, const ch_exchange *exchange) {
  ch_put_end(out, exchange, "text_completion");
}

/* --- the whole answer ----------------------------------------------------------------------------------- */

static void put_choice(ch_text *out, const ch_view *view) {
  const ch_request_fields *fields = &view->job->fields;
  const ch_token_list *written = &view->choice->written;
  ch_text text = {0};
  if (fields->echo) ch_text_put(&text, view->prompt->text, view->prompt->text_size);
  ch_text_put(&text, written->text.data ? written->text.data : "", written->text.size);
  out->failed |= text.failed;
  ch_text_printf(out, "{\"index\":%lld", (long long)view->index);
  ch_put_member(out, "text", text.data, text.size);
  ch_text_free(&text);
  ch_text_printf(out, ",\"finish_reason\":\"%s\",\"logprobs\":", ch_finish_reason(view->choice));
  const part parts[] = {echo_part(view),
                        {.records = written->records,
                         .top = written->top,
                         .count = written->count,
                         .width = width_of(view),
                         .shift = shift_of(view)}};
  if (fields->top >= 0)
    put_lists(out, view->server->tokenizer, fields->echo ? parts : parts + 1, fields->echo ? 2 : 1);
  else
    ch_text_puts(out, "null");
  ch_text_puts(out, "}");
}

static void whole(ch_text *out, const ch_exchange *exchange) {
  const ch_text_job *job = exchange->job;
  ch_text_puts(out, "{");
  ch_put_head(out, exchange, "text_completion");
  ch_text_puts(out, ",\"choices\":[");
  for (int64_t i = 0; i < job->prompt_count * job->fields.n; i++) {
    ch_view view = ch_view_of(exchange, i);
    if (i) ch_text_puts(out, ",");
    put_choice(out, &view);
  }
  ch_text_puts(out, "],\"usage\":");
  ch_put_usage(out, job);
  ch_text_puts(out, "}");
}

const ch_answer_format ch_completion_format = {
    .begin = begin, .token = token, .finish = finish, .end = end, .whole = whole, .waits_for_prompt = true};

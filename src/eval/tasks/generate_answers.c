/* Writes answers, many texts at a time through one session, each until a stop string, an end token or the limit of
 * tokens. */
#define _GNU_SOURCE
#include "eval/tasks/generate_answers.h"

#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/utf8.h"
#include "infer/generate.h"
#include "ranks/shared.h"

static const int64_t most_cache_bytes = (int64_t)1 << 29;

/* An answer that is being written. */
typedef struct answer {
  struct answer_writer *all;
  ch_ids ids;
  size_t seen;             /* ids already decoded into `text` */
  ch_decode_stream stream; /* decoder of the answer alone, without the question, as in the harness */
  ch_text text;            /* decoded text, with special tokens */
} answer;

/* All answers. */
typedef struct answer_writer {
  ch_task_evaluation *e;
  const ch_tokenizer *tokenizer;
  const ch_evaluate_settings *settings;
  const char **stops; /* [stop_count]: the task's stop strings, then the end token's text */
  int stop_count;
  size_t longest_stop; /* bytes of the longest stop string */
  int32_t ends[CH_MAX_END_TOKENS];
  int end_count;
  answer *answers; /* [items] */
  ch_batch_text *asked;
  ch_generation_text *texts;
  int64_t done, total, reading; /* tokens done; tokens in total; tokens read of the current prompt */
  bool stopped;                 /* true if progress returned false or another rank failed */
  ch_status failed;             /* status of `failure`, or CH_OK */
  ch_error failure;             /* first error while an answer was decoded */
  ch_shared_work shared;        /* division of items over ranks */
  int64_t own;                  /* items of this rank: the length of `texts` */
} answer_writer;

/* --- while it runs ------------------------------------------------------------------------------------------- */

static bool goes_on(answer_writer *w) {
  const ch_evaluate_settings *s = w->settings;
  if (!w->stopped && s->progress) w->stopped = !s->progress(w->done + w->reading, w->total, s->user);
  w->stopped = w->stopped || ch_shared_stops(&w->shared);
  return !w->stopped;
}

/* Records the progress of a prompt. It is also called within passes. */
static bool note_prompt(int64_t done, int64_t total, void *user) {
  answer_writer *w = user;
  w->reading = done < total ? done : 0;
  if (done == total) w->done += total;
  return goes_on(w);
}

/* Decodes new ids and appends their text. */
static ch_status read_answer_ids(answer *a, ch_error *error) {
  const ch_tokenizer *tokenizer = a->all->tokenizer;
  for (; a->seen < a->ids.size; a->seen++) {
    size_t size;
    int32_t id = a->ids.data[a->seen];
    a->all->done++;
    if (!ch_tokenizer_piece(tokenizer, id, &size)) continue; /* an id of a padded vocabulary */
    CH_TRY(ch_decode_next(tokenizer, &a->stream, id, false, &a->text, error));
  }
  return CH_OK;
}

static bool has_stop(const answer_writer *w, const ch_text *text, size_t from) {
  for (int i = 0; i < w->stop_count; i++)
    if (text->size > from && memmem(text->data + from, text->size - from, w->stops[i], strlen(w->stops[i])))
      return true;
  return false;
}

/* Looks for stop strings in every piece of the answer. Returns false to end the answer. */
static bool look_for_stops(const char *piece, size_t size, void *user) {
  answer *a = user;
  answer_writer *w = a->all;
  size_t before = a->text.size, reach = w->longest_stop;
  (void)piece, (void)size;
  if (w->failed == CH_OK) w->failed = read_answer_ids(a, &w->failure);
  return w->failed == CH_OK && goes_on(w) && !has_stop(w, &a->text, before > reach ? before - reach : 0);
}

/* --- results ------------------------------------------------------------------------------------------------- */

/* Decodes the ids that the tokenizer knows, without special tokens. */
static ch_status decode(const answer_writer *w, const answer *a, ch_text *text, ch_error *error) {
  size_t kept = 0, size;
  ch_text raw = {0};
  for (size_t i = 0; i < a->ids.size; i++)
    if (ch_tokenizer_piece(w->tokenizer, a->ids.data[i], &size)) a->ids.data[kept++] = a->ids.data[i];
  ch_status status = ch_tokenizer_put_text(w->tokenizer, a->ids.data, kept, true, &raw, error);
  for (size_t i = 0; i < raw.size; i++)
    if (raw.data[i] == 0) raw.data[i] = '\n'; /* texts are NUL-terminated */
  if (status == CH_OK) ch_put_valid_utf8(text, raw.data ? raw.data : "", raw.size);
  ch_text_put(text, "", 1);
  if (status == CH_OK && (raw.failed || text->failed)) status = ch_no_memory(error);
  ch_text_free(&raw);
  return status;
}

/* Cuts the answer at the first occurrence of each stop string in turn, as the harness does. */
static ch_status finish_answer(const answer_writer *w, int64_t index, ch_error *error) {
  ch_text text = {0};
  ch_status status = decode(w, &w->answers[index], &text, error);
  for (int i = 0; status == CH_OK && i < w->stop_count; i++) {
    char *stop = strstr(text.data, w->stops[i]);
    if (stop) *stop = 0;
  }
  if (status == CH_OK) {
    w->e->outcomes[index].answer = strdup(text.data);
    if (!w->e->outcomes[index].answer) status = ch_no_memory(error);
  }
  w->e->written += (int64_t)w->answers[index].ids.size;
  ch_text_free(&text);
  return status;
}

static ch_status judge_answer(ch_task_evaluation *e, int64_t index, ch_template_scope *scope,
                              ch_error *error) {
  const ch_answer_rules *rules = &e->task->answers;
  const ch_question *q = &e->questions[index];
  for (int f = 0; f < rules->filter_count; f++) {
    json_t **filtered = &e->filtered[index * rules->filter_count + f];
    ch_status status = ch_answer_filter(rules, f, scope, e->items.data[index].fields,
                                        e->outcomes[index].answer, filtered, error);
    if (status == CH_OK)
      status = ch_answer_judge(rules, scope, *filtered, q->targets, q->target_count,
                               &e->scored[index * rules->filter_count + f], error);
    if (status == CH_ERROR_FORMAT) {
      char place[4096];
      ch_fail_in(error, ch_item_place(&e->items, index, place, sizeof place));
    }
    CH_TRY(status);
  }
  return CH_OK;
}

static ch_status judge_all(ch_task_evaluation *e, ch_error *error) {
  size_t count = (size_t)(e->items.count * e->task->answers.filter_count);
  ch_template_scope scope = {0};
  e->filtered = calloc(count + 1, sizeof(json_t *));
  e->scored = calloc(count + 1, sizeof *e->scored);
  if (!e->filtered || !e->scored) return ch_no_memory(error);
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < e->items.count; i++) status = judge_answer(e, i, &scope, error);
  ch_template_scope_free(&scope);
  return status;
}

/* --- asking -------------------------------------------------------------------------------------------------- */

/* Finds stop strings and the tokens that end an answer, from the task, the model's files and the tokenizer. */
static ch_status find_ends(answer_writer *w, const ch_model *model, ch_error *error) {
  const ch_answer_rules *rules = &w->e->task->answers;
  int32_t eos = ch_tokenizer_eos(w->tokenizer), ids[CH_MAX_END_TOKENS];
  int count = 0;
  size_t size = 0;
  if (model->directory) CH_TRY(ch_end_tokens(model->directory, &model->config, NULL, ids, &count, error));
  if (eos >= 0 && count < CH_MAX_END_TOKENS) ids[count++] = eos;
  for (int i = 0; i < count; i++)
    if (ids[i] < model->config.vocab_size) w->ends[w->end_count++] = ids[i];
  w->stops = calloc((size_t)rules->stop_count + 1, sizeof *w->stops);
  if (!w->stops) return ch_no_memory(error);
  for (int i = 0; i < rules->stop_count; i++) w->stops[w->stop_count++] = rules->stops[i];
  const char *piece = eos >= 0 ? ch_tokenizer_piece(w->tokenizer, eos, &size) : NULL;
  if (piece && size > 0) {
    w->stops[w->stop_count] = ch_arena_printf(&w->e->arena, "%.*s", (int)size, piece);
    if (!w->stops[w->stop_count++]) return ch_no_memory(error);
  }
  for (int i = 0; i < w->stop_count; i++)
    if (strlen(w->stops[i]) > w->longest_stop) w->longest_stop = strlen(w->stops[i]);
  return CH_OK;
}

static void ask(answer_writer *w, int64_t index) {
  const ch_score_window *window = &w->e->windows[w->e->starts[index]];
  answer *a = &w->answers[index];
  a->all = w;
  w->asked[index] = (ch_batch_text){
      .max_tokens = w->e->task->answers.most_tokens, .sink = look_for_stops, .user = a, .ids = &a->ids};
  if (!ch_shared_is_own(&w->shared, index)) return;
  ch_generation_text *text = &w->texts[w->own++];
  *text = (ch_generation_text){.asked = &w->asked[index],
                               .prompt = window->tokens,
                               .count = window->length,
                               .end_tokens = w->ends,
                               .end_token_count = w->end_count};
  ch_sampler_defaults(&text->sampler, 0);
  text->sampler.temperature = 0;
  w->total += window->length + w->asked[index].max_tokens;
}

/* Returns session options with as many sequences of the longest length as the cache may hold. */
static ch_session_options room_of(const answer_writer *w, const ch_model *model) {
  ch_session_options options;
  ch_session_options_default(&model->config, &options);
  int64_t longest = 0;
  for (int64_t i = 0; i < w->own; i++)
    if (w->texts[i].count > longest) longest = w->texts[i].count;
  options.context = longest + w->e->task->answers.most_tokens;
  options.compute = model->compute;
  int64_t bytes = ch_state_bytes_at(&model->config, &options.cache, options.context) + 1;
  options.sequences = most_cache_bytes / bytes;
  if (options.sequences > CH_BATCH_MOST) options.sequences = CH_BATCH_MOST;
  if (options.sequences > w->own) options.sequences = w->own;
  if (options.sequences < 1) options.sequences = 1;
  return options;
}

/* Writes the answers to the items of this rank. */
static ch_status write_own(answer_writer *w, const ch_model *model, ch_error *error) {
  ch_session *session = NULL;
  if (w->own == 0) return CH_OK;
  ch_session_options options = room_of(w, model);
  CH_TRY(ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &session, error));
  ch_session_set_progress(session, note_prompt, w);
  ch_status status = ch_generate_texts(session, w->tokenizer, w->texts, w->own, error);
  ch_session_free(session);
  if (status != CH_OK) return status;
  if (w->failed != CH_OK) return ch_fail_as(error, w->failed, &w->failure);
  w->done = w->total;
  w->reading = 0;
  return goes_on(w)
             ? CH_OK
             : ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while the model was reading or writing");
}

/* Broadcasts the tokens of an answer to all ranks. */
static ch_status spread_answer(answer_writer *w, int64_t index, ch_error *error) {
  ch_rank_group *ranks = w->shared.ranks;
  ch_ids *ids = &w->answers[index].ids;
  int owner = ch_shared_owner(&w->shared, index);
  int64_t size = (int64_t)ids->size;
  ch_ranks_broadcast(ranks, owner, &size, sizeof size);
  bool enough = ch_shared_is_own(&w->shared, index) || ch_ids_reserve(ids, (size_t)size);
  CH_TRY(ch_agree(ranks, enough ? CH_OK : ch_no_memory(error), error));
  ids->size = (size_t)size;
  if (size > 0) ch_ranks_broadcast(ranks, owner, ids->data, (size_t)size * sizeof *ids->data);
  return CH_OK;
}

static ch_status ask_all(answer_writer *w, const ch_model *model, ch_error *error) {
  ch_task_evaluation *e = w->e;
  size_t count = (size_t)e->items.count + 1;
  w->answers = calloc(count, sizeof *w->answers);
  w->asked = calloc(count, sizeof *w->asked);
  w->texts = calloc(count, sizeof *w->texts);
  if (!w->answers || !w->asked || !w->texts) return ch_no_memory(error);
  CH_TRY(find_ends(w, model, error));
  for (int64_t i = 0; i < e->items.count; i++) ask(w, i);
  return CH_OK;
}

static ch_status write_answers(answer_writer *w, const ch_model *model, ch_error *error) {
  ch_task_evaluation *e = w->e;
  ch_rank_group *ranks = w->settings->ranks;
  CH_TRY(ch_shared_begin(&w->shared, ranks,
                         ranks ? ch_windows_hash(e->windows, e->starts[e->items.count]) : 0, error));
  CH_TRY(ch_agree(ranks, ask_all(w, model, error), error));
  CH_TRY(ch_shared_agree(&w->shared, write_own(w, model, error), error));
  for (int64_t i = 0; w->shared.ranks && i < w->e->items.count; i++) CH_TRY(spread_answer(w, i, error));
  for (int64_t i = 0; i < e->items.count; i++) CH_TRY(finish_answer(w, i, error));
  e->computed = e->tokens + e->written;
  return CH_OK;
}

ch_status ch_task_generate(ch_task_evaluation *e, const ch_model *model, const ch_tokenizer *tokenizer,
                           const ch_evaluate_settings *settings, ch_error *error) {
  answer_writer w = {.e = e, .tokenizer = tokenizer, .settings = settings};
  ch_status status = write_answers(&w, model, error);
  for (int64_t i = 0; w.answers && i < e->items.count; i++) {
    ch_ids_free(&w.answers[i].ids);
    ch_text_free(&w.answers[i].text);
  }
  ch_shared_end(&w.shared);
  free(w.answers);
  free(w.asked);
  free(w.texts);
  free(w.stops);
  return status == CH_OK ? judge_all(e, error) : status;
}

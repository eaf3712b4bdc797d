/* Evaluates a model on the items of a task: items, questions, tokens, scores, figures. score_groups.c scores
 * continuations; generate_answers.c writes answers. */
#include "eval/tasks/ask_task.h"

#include <stdlib.h>

#include "eval/document_set.h"
#include "eval/ruler/ruler.h"
#include "eval/tasks/figures.h"
#include "eval/tasks/generate_answers.h"
#include "eval/tasks/requests.h"

/* --- tokens -------------------------------------------------------------------------------------------------- */

/* Items being encoded by many threads. */
typedef struct encode_job {
  ch_task_evaluation *evaluation;
  ch_request_rules rules;
  ch_token_windows *windows; /* [items]: windows of each item */
  int64_t failed;            /* first item that could not be encoded; the number of items if there is none */
  ch_status status;
  ch_error *error;
} encode_job;

static ch_status encode_item(encode_job *e, ch_encoder *encoder, int64_t index, ch_error *error) {
  const ch_question *q = &e->evaluation->questions[index];
  ch_ids *ids = &e->evaluation->ids[index];
  if (e->evaluation->task->output == CH_TASK_ROLLING)
    return ch_request_encode_rolling(&e->rules, encoder, q->requests->continuation, ids, &e->windows[index],
                                     error);
  if (e->evaluation->task->output == CH_TASK_GENERATE)
    return ch_request_encode_prompt(&e->rules, encoder, q->requests->context,
                                    e->evaluation->task->answers.most_tokens, ids, &e->windows[index], error);
  for (int i = 0; i < q->count; i++)
    CH_TRY(ch_request_encode(&e->rules, encoder, &q->requests[i], ids, &e->windows[index], error));
  return CH_OK;
}

static void note_failure(encode_job *e, int64_t index, ch_status status, const ch_error *why) {
#pragma omp critical(task_encoding)
  if (index < e->failed) {
    e->failed = index;
    e->status = status;
    if (e->error) *e->error = *why;
  }
}

static void encode_items(encode_job *e) {
  int64_t count = e->evaluation->items.count;
#pragma omp parallel
  {
    ch_encoder *encoder = NULL;
    ch_error why = {0};
    ch_status status = ch_encoder_new(e->rules.tokenizer, &encoder, &why);
    if (status != CH_OK) note_failure(e, 0, status, &why);
#pragma omp for schedule(dynamic, 64)
    for (int64_t i = 0; i < count; i++) {
      if (!encoder) continue;
      status = encode_item(e, encoder, i, &why);
      if (status != CH_OK) note_failure(e, i, status, &why);
    }
    ch_encoder_free(encoder);
  }
}

/* Lists the windows of all items. The windows point to the items' tokens. */
static ch_status list_windows(ch_task_evaluation *e, const ch_token_windows *windows, ch_error *error) {
  int64_t total = 0;
  for (int64_t i = 0; i < e->items.count; i++) {
    e->starts[i] = total;
    total += windows[i].count;
  }
  e->starts[e->items.count] = total;
  e->windows = malloc((size_t)total * sizeof *e->windows + 1);
  e->scores = calloc((size_t)total + 1, sizeof *e->scores);
  e->empty = calloc((size_t)total + 1, sizeof *e->empty);
  if (!e->windows || !e->scores || !e->empty) return ch_no_memory(error);
  for (int64_t i = 0; i < e->items.count; i++)
    for (int64_t w = 0; w < windows[i].count; w++) {
      const ch_token_window *window = &windows[i].data[w];
      e->windows[e->starts[i] + w] = (ch_score_window){
          .tokens = e->ids[i].data + window->at, .length = window->length, .first = window->first};
      e->tokens += window->length - (window->first < window->length); /* the last token is only predicted */
      e->empty[e->starts[i] + w] = window->empty;
      e->empty_count += window->empty;
    }
  return CH_OK;
}

static ch_status encode_all(ch_task_evaluation *e, const ch_request_rules *rules, ch_error *error) {
  size_t count = (size_t)e->items.count + 1;
  encode_job all = {.evaluation = e, .rules = *rules, .failed = e->items.count, .error = error};
  all.windows = calloc(count, sizeof *all.windows);
  e->ids = calloc(count, sizeof *e->ids);
  e->starts = calloc(count, sizeof *e->starts);
  e->outcomes = calloc(count, sizeof *e->outcomes);
  if (!all.windows || !e->ids || !e->starts || !e->outcomes) all.status = ch_no_memory(error);
  if (all.status == CH_OK) encode_items(&all);
  if (all.status == CH_ERROR_FORMAT) {
    char place[4096];
    ch_fail_in(error, ch_item_place(&e->items, all.failed, place, sizeof place));
  }
  if (all.status == CH_OK) all.status = list_windows(e, all.windows, error);
  for (size_t i = 0; all.windows && i < count; i++) free(all.windows[i].data);
  free(all.windows);
  return all.status;
}

/* --- scores -------------------------------------------------------------------------------------------------- */

static ch_status score_texts(ch_task_evaluation *e, const ch_model *model,
                             const ch_evaluate_settings *settings, ch_error *error) {
  int64_t count = e->starts[e->items.count];
  ch_scorer *scorer = NULL;
  double *nll = malloc((size_t)count * sizeof *nll + 1);
  ch_status status = nll ? ch_scorer_create(model, &scorer, error) : ch_no_memory(error);
  status = ch_agree(settings->ranks, status, error);
  if (status == CH_OK) ch_scorer_share(scorer, settings->ranks);
  if (status == CH_OK)
    status = ch_scorer_run(scorer, e->windows, count, nll, settings->progress, settings->user, error);
  for (int64_t i = 0; status == CH_OK && i < count; i++) e->scores[i].nll = nll[i];
  e->computed = e->tokens;
  ch_scorer_free(scorer);
  free(nll);
  return status;
}

static ch_status score_task(ch_task_evaluation *e, const ch_model *model, const ch_tokenizer *tokenizer,
                            const ch_evaluate_settings *settings, ch_error *error) {
  if (e->task->output == CH_TASK_ROLLING) return score_texts(e, model, settings, error);
  if (e->task->output == CH_TASK_GENERATE) return ch_task_generate(e, model, tokenizer, settings, error);
  CH_TRY(ch_score_groups(model, settings->ranks, e->windows, e->starts, e->items.count, e->scores,
                         &e->computed, settings->progress, settings->user, error));
  for (int64_t i = 0; i < e->starts[e->items.count]; i++)
    if (e->empty[i]) e->scores[i] = (ch_continuation_score){.greedy = true};
  return CH_OK;
}

/* Finds the source of solved examples: a file, the description, or the items themselves. `own` receives
 * examples that have to be read. */
static ch_status find_examples(ch_task_evaluation *e, const ch_evaluate_settings *settings,
                               ch_fewshot *fewshot, ch_items *own, ch_error *error) {
  const ch_task *task = e->task;
  if (fewshot->count == 0) return CH_OK;
  if (task->output == CH_TASK_ROLLING || task->no_fewshot)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{examples} is not for %s, %s", task->name,
                   task->no_fewshot ? "whose prompt has its own examples" : "which scores whole texts");
  fewshot->pool = own;
  if (settings->example_file) return ch_items_read(settings->example_file, &task->files, 0, own, error);
  if (task->samples) return ch_items_of_list(task->samples, "samples", own, error);
  fewshot->own = true;
  if (settings->limit > 0) return ch_items_read(settings->items, &task->files, 0, own, error);
  fewshot->pool = &e->items;
  return CH_OK;
}

static ch_status make_questions(ch_task_evaluation *e, const ch_evaluate_settings *settings,
                                ch_error *error) {
  ch_items own = {0};
  ch_fewshot fewshot = {.count = settings->examples < 0 ? e->task->examples : settings->examples};
  ch_status status = find_examples(e, settings, &fewshot, &own, error);
  e->examples = fewshot.count;
  if (status == CH_OK)
    status = ch_questions_make(e->task, &e->items, &fewshot, &e->arena, &e->questions, error);
  ch_items_free(&own);
  return status;
}

/* Checks that the context has room for a question and the answer that the model writes. */
static ch_status check_room(const ch_task *task, const ch_request_rules *rules, ch_error *error) {
  if (task->output != CH_TASK_GENERATE || task->answers.most_tokens < rules->max_length) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s allows answers of %lld tokens (\"max_gen_toks\"), but the model sees only %lld at once, "
                 "question included; shorten the answer or use a model with a longer context",
                 task->name, (long long)task->answers.most_tokens, (long long)rules->max_length);
}

static void tell_stage(const ch_evaluate_settings *settings, const char *name) {
  if (settings->stage) settings->stage(name, settings->user);
}

static ch_status make_items(ch_task_evaluation *e, const ch_request_rules *rules,
                            const ch_evaluate_settings *settings, ch_error *error) {
  const ch_ruler_request request = {.name = e->task->name,
                                    .ruler = &e->task->ruler,
                                    .tokenizer = rules->tokenizer,
                                    .written = e->task->answers.most_tokens,
                                    .window = rules->max_length,
                                    .text = settings->items,
                                    .lengths = settings->lengths,
                                    .seed = settings->seed,
                                    .limit = settings->limit,
                                    .progress = settings->progress,
                                    .user = settings->user};
  json_t *list;
  tell_stage(settings, "making the items");
  CH_TRY(ch_ruler_make(&request, &list, error));
  tell_stage(settings, e->task->name);
  ch_status status = ch_items_of_list(list, e->task->name, &e->items, error);
  json_decref(list);
  e->made = true;
  return status;
}

static ch_status get_items(ch_task_evaluation *e, const ch_request_rules *rules,
                           const ch_evaluate_settings *settings, ch_error *error) {
  bool makes = e->task->ruler.kind != CH_RULER_NONE, holds = false;
  if (makes) CH_TRY(ch_ruler_holds_items(settings->items, &holds, error));
  if (makes && !holds) return make_items(e, rules, settings, error);
  if (settings->lengths)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{lengths} is for tasks whose items are generated, like ruler:vt%s%s",
                   holds ? "; these are in " : "", holds ? settings->items : "");
  if (!settings->items)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{items} is missing: the file or directory of the task's items");
  return ch_items_read(settings->items, &e->task->files, settings->limit, &e->items, error);
}

/* Checks that every item has the fields that the filters of answers read. */
static ch_status check_items(const ch_task_evaluation *e, ch_error *error) {
  for (int64_t i = 0; e->task->output == CH_TASK_GENERATE && i < e->items.count; i++) {
    char place[4096];
    if (ch_answer_check_item(&e->task->answers, e->items.data[i].fields, error) != CH_OK)
      return ch_fail_in(error, ch_item_place(&e->items, i, place, sizeof place));
  }
  return CH_OK;
}

static ch_status prepare_task(ch_task_evaluation *e, const ch_config *config, const ch_tokenizer *tokenizer,
                              const ch_evaluate_settings *settings, ch_error *error) {
  ch_request_rules rules;
  CH_TRY(ch_request_rules_of(config, tokenizer, settings->window, &rules, error));
  CH_TRY(check_room(e->task, &rules, error));
  CH_TRY(get_items(e, &rules, settings, error));
  CH_TRY(check_items(e, error));
  CH_TRY(make_questions(e, settings, error));
  return encode_all(e, &rules, error);
}

ch_status ch_task_evaluate(const ch_task *task, const ch_model *model, const ch_tokenizer *tokenizer,
                           const ch_evaluate_settings *settings, ch_task_evaluation *e, ch_error *error) {
  *e = (ch_task_evaluation){.task = task};
  CH_TRY(ch_agree(settings->ranks, prepare_task(e, &model->config, tokenizer, settings, error), error));
  CH_TRY(score_task(e, model, tokenizer, settings, error));
  return ch_task_figures(e, error);
}

ch_status ch_task_try(const ch_task *task, const ch_config *config, const ch_tokenizer *tokenizer,
                      const ch_evaluate_settings *settings, ch_error *error) {
  ch_task_evaluation e = {.task = task};
  ch_status status = prepare_task(&e, config, tokenizer, settings, error);
  ch_task_evaluation_free(&e);
  return status;
}

void ch_task_evaluation_free(ch_task_evaluation *e) {
  for (int64_t i = 0; e->ids && i < e->items.count; i++) ch_ids_free(&e->ids[i]);
  free(e->ids);
  free(e->windows);
  free(e->starts);
  free(e->scores);
  free(e->empty);
  for (int64_t i = 0; e->outcomes && i < e->items.count; i++) free(e->outcomes[i].answer);
  for (int64_t i = 0; e->filtered && i < e->items.count * e->task->answers.filter_count; i++)
    json_decref(e->filtered[i]);
  free(e->filtered);
  free(e->scored);
  free(e->by_filter);
  free(e->outcomes);
  free(e->groups);
  ch_items_free(&e->items);
  ch_arena_free(&e->arena);
  *e = (ch_task_evaluation){0};
}

/* --- samples ------------------------------------------------------------------------------------------------- */

static json_t *target_of(const ch_question *q) {
  if (q->gold >= 0) return json_integer(q->gold);
  if (!q->truths) return json_string(q->requests->continuation);
  json_t *list = json_array();
  for (int i = 0; i < q->count; i++) json_array_append_new(list, json_integer(q->truths[i]));
  return list;
}

/* Returns one logged sample: the text that the model wrote, the result of each filter, and the scores. */
static json_t *written_sample(const ch_task_evaluation *e, int64_t index) {
  const ch_question *q = &e->questions[index];
  const ch_answer_rules *rules = &e->task->answers;
  json_t *targets = json_array(), *filtered = json_object(), *scores = json_object();
  for (int i = 0; i < q->target_count; i++) json_array_append_new(targets, json_string(q->targets[i]));
  for (int f = 0; f < rules->filter_count; f++) {
    int64_t place = index * rules->filter_count + f;
    json_object_set(filtered, rules->filters[f].name, e->filtered[place]);
    json_object_set_new(scores, rules->filters[f].name, json_real(e->scored[place]));
  }
  json_t *sample =
      json_pack("{s:I, s:O, s:o, s:[[s]], s:[s], s:o}", "doc_id", (json_int_t)index, "doc",
                e->items.data[index].fields, "target", targets, "arguments", q->requests->context, "resps",
                e->outcomes[index].answer, "filtered_resps", filtered);
  if (!sample) {
    json_decref(scores);
    return NULL;
  }
  json_object_set_new(sample, ch_answer_metric(rules), scores);
  return sample;
}

json_t *ch_task_sample(const ch_task_evaluation *e, int64_t index) {
  const ch_question *q = &e->questions[index];
  const ch_task_outcome *outcome = &e->outcomes[index];
  if (e->task->output == CH_TASK_GENERATE) return written_sample(e, index);
  bool rolling = e->task->output == CH_TASK_ROLLING, choices = e->task->output < CH_TASK_TARGET;
  json_t *arguments = json_array(), *answers = json_array();
  for (int i = 0; i < q->count; i++) {
    const ch_question_request *r = &q->requests[i];
    const ch_continuation_score *score = &e->scores[e->starts[index] + i];
    json_array_append_new(arguments, rolling ? json_pack("[s]", r->continuation)
                                             : json_pack("[s, s]", r->context, r->continuation));
    json_array_append_new(answers, rolling ? json_pack("[f]", -outcome->nll)
                                           : json_pack("[f, b]", -score->nll, score->greedy));
  }
  json_t *sample =
      json_pack("{s:I, s:O, s:o, s:o, s:o}", "doc_id", (json_int_t)index, "doc", e->items.data[index].fields,
                "target", target_of(q), "arguments", arguments, "resps", answers);
  if (!sample) return NULL;
  if (choices) json_object_set_new(sample, "choice", json_integer(outcome->choice));
  if (!rolling) json_object_set_new(sample, "acc", json_real(outcome->acc));
  if (e->task->acc_norm) json_object_set_new(sample, "acc_norm", json_real(outcome->acc_norm));
  if (!choices) json_object_set_new(sample, "loglikelihood", json_real(-outcome->nll));
  if (rolling) {
    json_object_set_new(sample, "words", json_integer(q->words));
    json_object_set_new(sample, "bytes", json_integer(q->bytes));
  }
  return sample;
}

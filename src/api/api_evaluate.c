/* The public functions that evaluate a model on a text, on images and on continuations, the list of built-in tasks, and
 * the parts that all evaluations share. api_evaluate_ruler.c and evaluate_task.c evaluate tasks. */
#include <crosshead/evaluate.h>

#include <stdlib.h>
#include <string.h>

#include "api/evaluate_private.h"
#include "attention/registry.h"
#include "base/embedded_text.h"
#include "base/progress.h"
#include "eval/accuracy.h"
#include "eval/document_set.h"
#include "eval/score_groups.h"
#include "eval/tasks/requests.h"
#include "infer/api.h"
#include "ranks/program.h"
#include "tensor/kernels.h"
#include "text/hash.h"

void ch_evaluate_defaults(ch_evaluate_settings *settings) {
  *settings = (ch_evaluate_settings){.examples = CH_EXAMPLES_OF_TASK, .seed = 1};
}

/* --- common parts ---------------------------------------------------------------------------------------------- */

static ch_status check_evaluate_settings(const ch_evaluate_settings *s, ch_error *error) {
  if (s->compute != CH_PRECISION_DEFAULT && s->compute != CH_PRECISION_F32 && s->compute != CH_PRECISION_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "compute is %d; CH_PRECISION_F32 and CH_PRECISION_BF16 are possible", (int)s->compute);
  if ((unsigned)s->documents > CH_DOCUMENTS_NONE)
    return ch_fail(error, CH_ERROR_ARGUMENT, "documents is %d, which is not a ch_document_separator",
                   (int)s->documents);
  if (s->stride < 0 || s->limit < 0 || s->examples < CH_EXAMPLES_OF_TASK)
    return ch_fail(error, CH_ERROR_ARGUMENT, "stride, limit and examples cannot be negative");
  if (s->threads < 0 || s->threads > 4096)
    return ch_fail(error, CH_ERROR_ARGUMENT, "threads is %d; it must be from 1 to 4096, or 0 for the default",
                   s->threads);
  return CH_OK;
}

static ch_status check_model(const ch_model *model, const ch_evaluate_settings *s, ch_evaluated_kind kind,
                             ch_error *error) {
  const ch_config *config = &model->config;
  if (kind.images && s->ranks)
    return ch_fail(error, CH_ERROR_ARGUMENT, "images are evaluated by one process; start it without mpirun");
  if (kind.images)
    return ch_config_is_vision(config)
               ? CH_OK
               : ch_fail(error, CH_ERROR_ARGUMENT, "this model, a \"%s\", is for text, not images",
                         config->model_type);
  CH_TRY(ch_config_needs_text(config, kind.name, error));
  if (!model->tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s has no tokenizer.json, so texts cannot be measured with it",
                   model->directory);
  if (model->weights.tensors[0].dtype == CH_F64)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the model was opened in F64, for ch_forward; evaluation computes in F32");
  return ch_window_check(config, s->window, error);
}

/* Checks that all ranks measure the same model with the same settings. Texts are compared later, when they are
   read. */
static ch_status compare_ranks(const ch_evaluation *e, ch_error *error) {
  const ch_evaluate_settings *s = &e->settings;
  if (!s->ranks) return CH_OK;
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  CH_TRY(ch_ranks_compare_programs(s->ranks, kernels->name, ch_team_of(s->threads).threads, error));
  const int64_t options[] = {
      s->window,   s->stride,         (int64_t)s->documents,    (int64_t)s->compute,
      s->limit,    (int64_t)s->cache, (int64_t)s->cache_keys,   (int64_t)s->cache_values,
      s->examples, (int64_t)s->seed,  (int64_t)s->cache_latents};
  const ch_rank_fact facts[] = {{"other options", ch_hash_bytes(options, sizeof options, 3)},
                                {"another model", ch_model_hash(&e->model)}};
  return ch_ranks_compare(s->ranks, facts, sizeof facts / sizeof *facts, error);
}

ch_status ch_evaluation_open(const ch_model *model, const ch_evaluate_settings *settings,
                             ch_evaluated_kind kind, ch_evaluation *e, ch_error *error) {
  *e = (ch_evaluation){.began = ch_clock()};
  if (!model) return ch_refuse_null(error, "the model");
  if (settings)
    e->settings = *settings;
  else
    ch_evaluate_defaults(&e->settings);
  ch_status status = check_evaluate_settings(&e->settings, error);
  if (status == CH_OK) status = check_model(model, &e->settings, kind, error);
  CH_TRY(ch_agree(e->settings.ranks, status, error));
  ch_team team = ch_team_of(e->settings.threads);
  e->before = ch_team_enter(&team);
  e->model = *model;
  e->model.compute = e->settings.compute == CH_PRECISION_BF16 ? CH_BF16 : CH_F32;
  status = compare_ranks(e, error);
  return status == CH_OK ? CH_OK : ch_evaluation_close(e, status);
}

ch_status ch_evaluation_close(const ch_evaluation *e, ch_status status) {
  ch_team_leave(e->before);
  return status;
}

void ch_evaluation_begins(const ch_evaluation *e, const char *name) {
  if (e->settings.stage) e->settings.stage(name, e->settings.user);
}

json_t *ch_evaluation_number(bool known, double value) {
  return known && value < 1e300 && value > -1e300 ? json_real(value) : json_null();
}

/* --- a text ---------------------------------------------------------------------------------------------------- */

/* The results on a text. */
typedef struct text_figures {
  int64_t window, stride;
  int64_t cache_bytes; /* bytes of the cache per token; 0: no cache */
  ch_token_perplexity tokens;
  ch_document_perplexity documents;
  bool has_documents; /* false with a limit, or if no token can precede a document */
} text_figures;

static ch_status use_cache(const ch_evaluation *e, ch_scorer *scorer, text_figures *f, ch_error *error) {
  const ch_evaluate_settings *s = &e->settings;
  const ch_precision asked[] = {s->cache, s->cache_keys, s->cache_values, s->cache_latents};
  ch_cache_types types;
  if (!s->cache && !s->cache_keys && !s->cache_values && !s->cache_latents) return CH_OK;
  CH_TRY(ch_api_cache_types(asked, &types, error));
  ch_scorer_use_cache(scorer, types);
  f->cache_bytes = ch_state_bytes(&e->model.config, &types);
  return CH_OK;
}

static ch_status measure_text(const ch_evaluation *e, ch_scorer *scorer, const ch_document_set *text,
                              text_figures *f, ch_error *error) {
  const ch_config *config = &e->model.config;
  const ch_tokenizer *tokenizer = e->model.tokenizer;
  ch_request_rules rules;
  ch_evaluate_settings s = e->settings;
  if (!s.window) s.window = ch_window_of(config);
  if (!s.stride) s.stride = s.window > 1 ? s.window / 2 : 1;
  f->window = s.window;
  f->stride = s.stride;
  ch_evaluation_begins(e, "whole text");
  CH_TRY(ch_token_perplexity_of(scorer, tokenizer, text->documents, text->count,
                                ch_token_between(tokenizer, config), &s, &f->tokens, error));
  f->has_documents = !s.limit && ch_request_rules_of(config, tokenizer, s.window, &rules, NULL) == CH_OK;
  if (!f->has_documents) return CH_OK;
  ch_evaluation_begins(e, "documents");
  return ch_document_perplexity_of(scorer, tokenizer, text->documents, text->count, rules.prefix, &s,
                                   &f->documents, error);
}

static json_t *text_json(const text_figures *f, double seconds) {
  const ch_token_perplexity *t = &f->tokens;
  const ch_document_perplexity *d = &f->documents;
  bool known = f->has_documents;
  json_t *object = json_pack(
      "{s:o, s:f, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "token_perplexity",
      ch_evaluation_number(true, t->perplexity), "loss", t->loss, "tokens", (json_int_t)t->tokens,
      "word_perplexity", ch_evaluation_number(known, d->word_perplexity), "byte_perplexity",
      ch_evaluation_number(known, d->byte_perplexity), "bits_per_byte",
      ch_evaluation_number(known, d->bits_per_byte), "documents", (json_int_t)d->documents, "document_tokens",
      (json_int_t)d->tokens, "words", (json_int_t)d->words, "bytes", (json_int_t)d->bytes, "window",
      (json_int_t)f->window, "stride", (json_int_t)f->stride, "seconds", seconds);
  if (object && f->cache_bytes)
    json_object_set_new(object, "cache_bytes_per_token", json_integer((json_int_t)f->cache_bytes));
  return object;
}

static ch_status evaluate_text(const ch_evaluation *e, const char *path, text_figures *figures,
                               ch_error *error) {
  ch_document_set text;
  ch_scorer *scorer = NULL;
  ch_rank_group *ranks = e->settings.ranks;
  CH_TRY(ch_agree(ranks, ch_document_set_open(path, e->settings.documents, &text, error), error));
  ch_status status = ch_scorer_create(&e->model, &scorer, error);
  if (status == CH_OK) status = use_cache(e, scorer, figures, error);
  status = ch_agree(ranks, status, error);
  if (status == CH_OK) status = measure_text(e, scorer, &text, figures, error);
  ch_scorer_free(scorer);
  ch_document_set_close(&text);
  return status;
}

ch_status ch_evaluate_text(const ch_model *model, const char *path, const ch_evaluate_settings *settings,
                           char **json, ch_error *error) {
  if (!path) return ch_refuse_null(error, "the text's name");
  ch_evaluation e;
  text_figures figures = {0};
  CH_TRY(ch_evaluation_open(model, settings, (ch_evaluated_kind){.name = "evaluating a text"}, &e, error));
  ch_status status = evaluate_text(&e, path, &figures, error);
  if (status == CH_OK) status = ch_api_json(text_json(&figures, ch_clock() - e.began), json, error);
  return ch_evaluation_close(&e, status);
}

/* --- images ---------------------------------------------------------------------------------------------------- */

ch_status ch_evaluate_images(const ch_model *model, const char *path, const ch_evaluate_settings *settings,
                             char **json, ch_error *error) {
  if (!path) return ch_refuse_null(error, "the images' name");
  ch_evaluation e;
  ch_image_set *set;
  ch_accuracy got;
  CH_TRY(ch_evaluation_open(model, settings, (ch_evaluated_kind){.images = true}, &e, error));
  ch_status status = ch_image_set_open(path, 1, &set, error);
  if (status == CH_OK) {
    ch_evaluation_begins(&e, "images");
    status = ch_accuracy_of(&e.model, set, CH_IMAGES_VALIDATION, e.settings.limit, e.settings.progress,
                            e.settings.user, &got, error);
    ch_image_set_close(set);
  }
  if (status == CH_OK)
    status = ch_api_json(json_pack("{sf sf sf sI sf}", "top1", got.top1, "top5", got.top5, "loss", got.loss,
                                   "images", (json_int_t)got.images, "seconds", ch_clock() - e.began),
                         json, error);
  return ch_evaluation_close(&e, status);
}

/* --- continuations --------------------------------------------------------------------------------------------- */

/* The requests of all continuations, for the scorer. */
typedef struct requests {
  ch_request_rules rules;
  ch_ids *ids;              /* [count] tokens of each request */
  ch_score_window *windows; /* [count] window of each request */
  /* [groups + 1] index of the first request of each group; the requests of a group have one context */
  int64_t *starts;
  int64_t groups;
  ch_continuation_score *scores; /* [count] score of each request */
} requests;

static ch_status encode_one(requests *r, ch_encoder *encoder, size_t index, ch_continuation *c,
                            ch_error *error) {
  if (!c->context || !c->continuation || !*c->continuation)
    return ch_fail(error, CH_ERROR_ARGUMENT, "continuations[%zu]: %s", index,
                   c->context && c->continuation ? "the continuation is empty" : "a text is NULL");
  const ch_question_request request = {.context = c->context, .continuation = c->continuation};
  ch_token_windows windows = {0};
  ch_status status = ch_request_encode(&r->rules, encoder, &request, &r->ids[index], &windows, error);
  if (status == CH_OK) {
    const ch_token_window *w = windows.data;
    r->windows[index] =
        (ch_score_window){.tokens = r->ids[index].data + w->at, .length = w->length, .first = w->first};
    c->tokens = w->empty ? 0 : w->length - w->first;
  }
  free(windows.data);
  return status;
}

static ch_status encode_all(requests *r, ch_continuation *list, size_t count, ch_error *error) {
  ch_encoder *encoder;
  CH_TRY(ch_encoder_new(r->rules.tokenizer, &encoder, error));
  ch_status status = CH_OK;
  for (size_t i = 0; status == CH_OK && i < count; i++) {
    status = encode_one(r, encoder, i, &list[i], error);
    if (status == CH_OK && (i == 0 || strcmp(list[i].context, list[i - 1].context) != 0))
      r->starts[r->groups++] = (int64_t)i;
  }
  r->starts[r->groups] = (int64_t)count;
  ch_encoder_free(encoder);
  return status;
}

static ch_status score_requests(const ch_evaluation *e, requests *r, ch_continuation *list, size_t count,
                                ch_error *error) {
  ch_rank_group *ranks = e->settings.ranks;
  ch_status status =
      ch_request_rules_of(&e->model.config, e->model.tokenizer, e->settings.window, &r->rules, error);
  if (status == CH_OK) status = encode_all(r, list, count, error);
  CH_TRY(ch_agree(ranks, status, error));
  CH_TRY(ch_score_groups(&e->model, ranks, r->windows, r->starts, r->groups, r->scores, NULL,
                         e->settings.progress, e->settings.user, error));
  for (size_t i = 0; i < count; i++) {
    bool certain = list[i].tokens == 0;
    list[i].log_likelihood = certain ? 0 : -r->scores[i].nll;
    list[i].greedy = certain || r->scores[i].greedy;
  }
  return CH_OK;
}

static ch_status score_all(const ch_evaluation *e, ch_continuation *continuations, size_t count,
                           ch_error *error) {
  requests r = {.ids = calloc(count, sizeof *r.ids),
                .windows = calloc(count, sizeof *r.windows),
                .starts = calloc(count + 1, sizeof *r.starts),
                .scores = calloc(count, sizeof *r.scores)};
  ch_status status = r.ids && r.windows && r.starts && r.scores
                         ? score_requests(e, &r, continuations, count, error)
                         : ch_no_memory(error);
  for (size_t i = 0; r.ids && i < count; i++) ch_ids_free(&r.ids[i]);
  free(r.ids);
  free(r.windows);
  free(r.starts);
  free(r.scores);
  return status;
}

ch_status ch_score_continuations(const ch_model *model, ch_continuation *continuations, size_t count,
                                 const ch_evaluate_settings *settings, ch_error *error) {
  ch_evaluation e;
  CH_TRY(ch_evaluation_open(model, settings, (ch_evaluated_kind){.name = "scoring"}, &e, error));
  ch_status status = CH_OK;
  if (count && !continuations)
    status = ch_refuse_null(error, "the array of continuations");
  else if (count)
    status = score_all(&e, continuations, count, error);
  return ch_evaluation_close(&e, status);
}

bool ch_task_builtin(int index, const char **name, const char **text) {
  for (int i = 0; i <= index; i++)
    if (!ch_embedded_tasks[i].name) return false;
  if (index < 0) return false;
  *name = ch_embedded_tasks[index].name;
  *text = (const char *)ch_embedded_tasks[index].text;
  return true;
}

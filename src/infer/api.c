/* The public functions for models, tokens and sessions: checks of what callers pass, and the internal calls behind them. */
#include "infer/api.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "model/accounting.h"

const char *ch_version(void) {
  return CH_VERSION_STRING;
}

void ch_free(void *memory) {
  free(memory);
}

/* --- models -------------------------------------------------------------------------------------------------- */

ch_status ch_api_missing(ch_error *error, const char *what) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", what);
}

static bool holds(const char *directory, const char *name) {
  char *path = ch_path_join(directory, name);
  bool there = path && ch_is_file(path);
  free(path);
  return there;
}

ch_status ch_model_open(const char *directory, ch_model **model, ch_error *error) {
  if (!directory || !model)
    return ch_api_missing(error, directory ? "where the model goes" : "the directory's name");
  *model = NULL;
  ch_model *opened = NULL;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_MAPPED, &opened, error));
  ch_status status = ch_config_needs_text(&opened->config, "generating", error);
  if (status == CH_OK) status = ch_model_restate(opened, CH_FORM_SERVING, error);
  if (status == CH_OK && (holds(directory, "tokenizer.json") || holds(directory, "tokenizer.bin")))
    status = ch_tokenizer_open(directory, &opened->tokenizer, error);
  if (status == CH_OK)
    status = ch_end_tokens(directory, &opened->config, opened->tokenizer, opened->end_tokens,
                           &opened->end_token_count, error);
  if (status == CH_OK)
    *model = opened;
  else
    ch_model_close(opened);
  return status;
}

void ch_model_close(ch_model *model) {
  if (!model) return;
  ch_tokenizer_free(model->tokenizer);
  ch_model_unload(model);
}

int64_t ch_model_vocab_size(const ch_model *model) {
  return model->config.vocab_size;
}

int64_t ch_model_context_length(const ch_model *model) {
  return model->config.max_position_embeddings;
}

ch_status ch_model_info(const ch_model *model, char **json, ch_error *error) {
  if (!model || !json) return ch_api_missing(error, "the model or where the figures go");
  /* Of the files: the model may run in another form. */
  ch_account account = {0};
  ch_config config;
  ch_params params = {0};
  CH_TRY(ch_config_read(model->directory, &config, error));
  ch_status status = ch_model_declare_stored(model->directory, &config, &params, error);
  if (status == CH_OK) status = ch_account_model(&config, &params, 0, ch_cache_of(CH_BF16), &account, error);
  ch_params_free(&params);
  CH_TRY(status);
  ch_text text = {0};
  ch_account_json(NULL, &config, &account, 0, "bf16", &text);
  ch_text_puts(&text, "\n");
  if (text.failed) {
    ch_text_free(&text);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for a model's figures");
  }
  *json = text.data;
  return CH_OK;
}

/* --- text and tokens ----------------------------------------------------------------------------------------- */

bool ch_model_has_tokenizer(const ch_model *model) {
  return model && model->tokenizer;
}

ch_status ch_api_need_tokenizer(const ch_model *model, ch_error *error) {
  if (!model) return ch_api_missing(error, "the model");
  if (!model->tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has no tokenizer.json, so its text cannot be read or written", model->directory);
  return CH_OK;
}

ch_status ch_api_encode(const ch_model *model, const char *text, size_t size, bool begin, ch_ids *ids,
                        ch_error *error) {
  const ch_tokenizer *tokenizer = model->tokenizer;
  if (begin && ch_tokenizer_adds_bos(tokenizer) && ch_tokenizer_bos(tokenizer) >= 0) {
    if (!ch_ids_reserve(ids, 1)) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the tokens of a text");
    ids->data[ids->size++] = ch_tokenizer_bos(tokenizer);
  }
  return ch_tokenizer_encode(tokenizer, text, size, begin ? 0 : CH_ENCODE_CONTINUED, ids, error);
}

ch_status ch_encode(const ch_model *model, const char *text, size_t size, bool begin, int32_t *tokens,
                    size_t capacity, size_t *count, ch_error *error) {
  CH_TRY(ch_api_need_tokenizer(model, error));
  if ((!text && size) || (!tokens && capacity) || !count)
    return ch_api_missing(error, "the text, the tokens or the count");
  ch_ids ids = {0};
  ch_status status = ch_api_encode(model, text ? text : "", size, begin, &ids, error);
  if (status == CH_OK) {
    *count = ids.size;
    size_t kept = ids.size < capacity ? ids.size : capacity;
    if (kept) memcpy(tokens, ids.data, kept * sizeof *tokens);
    if (kept < ids.size)
      status = ch_fail(error, CH_ERROR_FULL, "the text has %zu tokens and there is room for %zu", ids.size,
                       capacity);
  }
  ch_ids_free(&ids);
  return status;
}

static ch_status check_tokens(const ch_model *model, const int32_t *tokens, size_t count, ch_error *error) {
  for (size_t i = 0; i < count; i++)
    if (tokens[i] < 0 || tokens[i] >= model->config.vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "token %d at place %zu is outside the vocabulary of 0 to %lld",
                     tokens[i], i, (long long)model->config.vocab_size - 1);
  return CH_OK;
}

ch_status ch_decode(const ch_model *model, const int32_t *tokens, size_t count, char **text, size_t *size,
                    ch_error *error) {
  CH_TRY(ch_api_need_tokenizer(model, error));
  if ((!tokens && count) || !text || !size) return ch_api_missing(error, "the tokens or where the text goes");
  CH_TRY(check_tokens(model, tokens, count, error));
  ch_text out = {0};
  ch_status status = ch_tokenizer_decode(model->tokenizer, tokens, count, false, &out, error);
  if (status == CH_OK) ch_text_put(&out, "", 0); /* an empty text is "" and not NULL */
  if (status == CH_OK && out.failed)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the text of %zu tokens", count);
  if (status != CH_OK) {
    ch_text_free(&out);
    return status;
  }
  *text = out.data;
  *size = out.size;
  return CH_OK;
}

/* --- sessions ------------------------------------------------------------------------------------------------ */

void ch_session_defaults(ch_session_settings *settings) {
  *settings = (ch_session_settings){.sequences = 1};
}

/* What the cache stores by the settings. */
static ch_status cache_types(const ch_session_settings *settings, ch_cache_types *types, ch_error *error) {
  static const ch_dtype known[] = {CH_F32, CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0};
  static const char *const names[] = {"cache", "cache_keys", "cache_values", "cache_latents"};
  const ch_precision asked[] = {settings->cache, settings->cache_keys, settings->cache_values,
                                settings->cache_latents};
  for (int i = 0; i < 4; i++)
    if ((unsigned)asked[i] >= sizeof known / sizeof *known)
      return ch_fail(error, CH_ERROR_ARGUMENT, "%s is %d, which is no ch_precision", names[i], (int)asked[i]);
  for (int role = 0; role < CH_STATE_ROLES; role++)
    types->of[role] = known[asked[1 + role] ? asked[1 + role] : asked[0]];
  return CH_OK;
}

/* The internal options behind the settings (NULL = the defaults), checked. */
static ch_status timeline_options(const ch_model *model, const ch_session_settings *settings,
                                  ch_timeline_options *options, ch_error *error) {
  ch_timeline_options_default(&model->config, options);
  if (!settings) return CH_OK;
  if (settings->max_tokens < 0 || settings->max_tokens > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "max_tokens is %lld; it must be from 1 to %d, or 0 for the default",
                   (long long)settings->max_tokens, INT32_MAX);
  if (settings->sequences < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "sequences is %d; a session has at least 1",
                   settings->sequences);
  if (settings->threads < 0 || settings->threads > 4096)
    return ch_fail(error, CH_ERROR_ARGUMENT, "threads is %d; it must be from 1 to 4096, or 0 for the default",
                   settings->threads);
  if (settings->max_tokens) options->context = settings->max_tokens;
  options->sequences = settings->sequences;
  return cache_types(settings, &options->cache, error);
}

/* Work memory of one pass over `length` tokens: its plan, made and thrown away. */
static ch_status pass_bytes(const ch_model *model, const ch_timeline_options *options, int64_t length,
                            size_t *bytes, ch_error *error) {
  ch_model_graph shape = {.sequences = options->sequences,
                          .length = length,
                          .dtype = CH_F32,
                          .head = CH_HEAD_LAST_LOGITS,
                          .remember = true,
                          .cache = options->cache};
  ch_plan_options none = {0};
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_plan *plan = NULL;
  ch_model_build(&model->config, &model->params, &shape, &graph, &root);
  CH_TRY(ch_plan_create(graph, root, ch_kernels_best(CH_F32), &none, &plan, error));
  *bytes = ch_plan_bytes(plan);
  ch_plan_free(plan);
  return CH_OK;
}

ch_status ch_memory_estimate(const ch_model *model, const ch_session_settings *settings, ch_memory *memory,
                             ch_error *error) {
  if (!model || !memory) return ch_api_missing(error, "the model or where the estimate goes");
  ch_timeline_options options;
  CH_TRY(timeline_options(model, settings, &options, error));
  size_t prefill = 0, step = 0;
  int64_t chunk = options.chunk < options.context ? options.chunk : options.context;
  CH_TRY(pass_bytes(model, &options, chunk, &prefill, error));
  CH_TRY(pass_bytes(model, &options, 1, &step, error));
  double cache = (double)ch_state_bytes(&model->config, &options.cache) * (double)options.sequences *
                 (double)options.context;
  if (cache > 9e18)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a cache of %d sequences of %lld tokens is larger than any memory", (int)options.sequences,
                   (long long)options.context);
  *memory = (ch_memory){.cache = (uint64_t)ch_state_bytes(&model->config, &options.cache) *
                                 (uint64_t)options.sequences * (uint64_t)options.context,
                        .workspace = prefill > step ? prefill : step};
  for (int i = 0; i < model->params.count; i++)
    memory->weights += ch_tensor_bytes(&model->weights.tensors[i]);
  return CH_OK;
}

ch_status ch_session_create(const ch_model *model, const ch_session_settings *settings, ch_session **session,
                            ch_error *error) {
  if (!model || !session) return ch_api_missing(error, "the model or where the session goes");
  *session = NULL;
  ch_timeline_options options;
  CH_TRY(timeline_options(model, settings, &options, error));
  ch_session *created = calloc(1, sizeof *created);
  if (!created) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a session");
  *created = (ch_session){
      .model = model, .sequences = (int32_t)options.sequences, .threads = settings ? settings->threads : 0};
  ch_status status = ch_timeline_create(&model->config, &model->params, model->weights.tensors, &options,
                                        &created->timeline, error);
  if (status == CH_OK)
    *session = created;
  else
    free(created);
  return status;
}

void ch_session_free(ch_session *session) {
  if (!session) return;
  ch_timeline_free(session->timeline);
  free(session);
}

int ch_api_enter_threads(const ch_session *session) {
  int before = omp_get_max_threads();
  if (session->threads) omp_set_num_threads(session->threads);
  return before;
}

void ch_api_leave_threads(int before) {
  omp_set_num_threads(before);
}

static int64_t room(const ch_session *session) {
  return ch_timeline_cache(session->timeline)->capacity - ch_timeline_length(session->timeline);
}

ch_status ch_session_feed(ch_session *session, const int32_t *tokens, size_t count, const float **logits,
                          ch_error *error) {
  if (!session || !tokens || !logits)
    return ch_api_missing(error, "the session, the tokens or where the logits go");
  if (count < 1) return ch_fail(error, CH_ERROR_ARGUMENT, "no tokens to feed; at least one is needed");
  if (count > (size_t)room(session))
    return ch_fail(error, CH_ERROR_FULL, "the session holds %lld of %lld tokens and has no room for %zu more",
                   (long long)ch_session_length(session),
                   (long long)(ch_session_length(session) + room(session)), count);
  CH_TRY(check_tokens(session->model, tokens, count * (size_t)session->sequences, error));
  int64_t before = ch_session_length(session);
  int threads = ch_api_enter_threads(session);
  ch_status status = ch_timeline_feed(session->timeline, tokens, (int64_t)count, logits, error);
  ch_api_leave_threads(threads);
  if (status != CH_OK) ch_timeline_rewind(session->timeline, before);
  return status;
}

int64_t ch_session_length(const ch_session *session) {
  return ch_timeline_length(session->timeline);
}

uint64_t ch_session_cache_bytes(const ch_session *session) {
  return ch_timeline_cache(session->timeline)->bytes;
}

void ch_session_reset(ch_session *session) {
  ch_timeline_rewind(session->timeline, 0);
}

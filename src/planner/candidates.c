/* Candidates of a plan, by name and from files, each with the reason if it is excluded. Every name gets a
 * configuration of the requested size; model_sizes.c computes its bytes and times. */
#include "planner/candidates.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/file.h"
#include "base/text.h"
#include "planner/model_sizes.h"
#include "config_file/config_json.h"
#include "io/model_files.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/comparison_plan.h"
#include "experiment/findings/comparison_results.h"
#include "infer/api.h"
#include "train/trainer.h"

enum { SIZE = 32 };
static const double most_bytes = 9e18;

/* A request, which all steps share. */
typedef struct plan_request {
  const ch_capacity_settings *settings;
  ch_capacity_question question;
  ch_compare_plan named; /* plan of the mechanisms named in the settings */
  ch_config like;        /* shape of candidates that are not files */
  bool from_file;        /* true if `like` is a file's shape */
  int64_t parameters;    /* number of parameters, all or active, of a model with the shape `like` */
} plan_request;

/* --- settings ---------------------------------------------------------------------------------------------------- */

static ch_status check_numbers(const ch_capacity_settings *s, ch_error *error) {
  if (s->context < 1 || s->context > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{context} is %lld; it must be from 1 to %d tokens",
                   (long long)s->context, INT32_MAX);
  if (s->users < 1 || s->users > 1000000)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{users} is %lld; it must be from 1 to 1000000",
                   (long long)s->users);
  if (s->memory < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{memory} is %lld; it is a number of bytes, or 0 for a device's own",
                   (long long)s->memory);
  if (!(s->least_speed >= 0 && s->least_speed < 1e15))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{least_speed} is %g; it must be at least 0 tokens per second",
                   s->least_speed);
  if (s->ranks < 0 || s->ranks > 65536)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{ranks} is %d; it must be from 1 to 65536", (int)s->ranks);
  if (s->parameters < 0 || s->layers < 0 || s->hidden < 0 || s->heads < 0 || s->vocab < 0 ||
      s->layers > 100000 || s->hidden > 1 << 24 || s->match > CH_MATCH_ACTIVE)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{parameters}, {layers}, {hidden}, {heads} and {vocab} are counts, and {match} is "
                   "parameters or active");
  return CH_OK;
}

static ch_count_kind counted_by(const ch_capacity_settings *s) {
  return s->match == CH_MATCH_ACTIVE ? CH_COUNT_ACTIVE : CH_COUNT_ALL;
}

static ch_status check_lists(const ch_capacity_settings *s, ch_error *error) {
  if (s->model_count && !s->models) return ch_refuse_null(error, "the list of models");
  if (!s->devices || s->device_count < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "there is no device; give at least one");
  for (size_t i = 0; i < s->device_count; i++) {
    const ch_device *d = &s->devices[i];
    if (!(d->read_bandwidth > 0) || !(d->flops > 0) || !(d->reading > 0) || !(d->computing > 0) ||
        !(d->computing_step > 0) || (d->flops_quantised > 0 && !(d->computing_quantised > 0)) ||
        d->rate_count < 0 || d->rate_count > CH_DEVICE_RATES)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "device %zu has no bandwidth, no FLOP/s or no share of them; all must be above 0", i);
  }
  if (s->model_count || s->mechanisms) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "there are no candidates; name models, or mechanisms as in {mechanisms} mha,gqa:4,mla");
}

static ch_status resolve_types(const ch_capacity_settings *s, ch_capacity_question *q, ch_error *error) {
  static const ch_dtype types[] = {CH_BF16, CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0, CH_Q6_K, CH_Q4_K};
  const ch_precision cache = s->cache ? s->cache : CH_PRECISION_BF16;
  const ch_precision of[] = {cache, s->cache_keys, s->cache_values, s->cache_latents};
  if ((unsigned)s->weights >= sizeof types / sizeof *types)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{weights} is %d; weights are F32, F16, BF16, Q8_0, Q6_K, Q4_K or Q4_0", (int)s->weights);
  q->typed = s->weights != CH_PRECISION_DEFAULT;
  q->weights = types[s->weights];
  return ch_api_cache_types(of, &q->cache, error);
}

/* --- the shape of named mechanisms ------------------------------------------------------------------------------- */

static ch_status shape_from_file(const char *path, plan_request *a, ch_error *error) {
  ch_config config;
  CH_TRY(ch_config_read_stored(path, &config, error));
  CH_TRY(ch_config_needs_text(&config, "plan", error));
  CH_TRY(ch_count_parameters(&config, counted_by(a->settings), &a->parameters, error));
  ch_shape_of(&config, &a->like);
  a->from_file = true;
  return CH_OK;
}

static ch_status shape_from_sizes(plan_request *a, ch_error *error) {
  const ch_capacity_settings *s = a->settings;
  ch_shape_wishes wishes = {.params = s->parameters,
                            .match = s->match,
                            .vocab = s->vocab,
                            .layers = s->layers,
                            .hidden = s->hidden,
                            .heads = s->heads,
                            .context = s->context};
  if (!s->parameters && !(s->layers && s->hidden))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{mechanisms} needs a shape; give {like} CONFIG, or {parameters}, or {layers} and {hidden}");
  if (!wishes.vocab)
    wishes.vocab =
        ch_base_vocabulary(s->parameters ? s->parameters : 12 * s->layers * s->hidden * s->hidden, INT64_MAX);
  CH_TRY(ch_compare_plan_size(&a->named, &wishes, 0, &a->parameters, error));
  wishes.params = a->parameters;
  return ch_base_shape(&wishes, &a->like, error);
}

static ch_status find_shape(plan_request *a, ch_error *error) {
  const ch_capacity_settings *s = a->settings;
  bool sizes = s->parameters || s->layers || s->hidden || s->heads || s->vocab, needed = false;
  const char *file = s->model_count ? s->models[0] : NULL;
  for (int i = 0; i < a->named.count; i++) {
    needed = needed || !a->named.models[i].from_file;
    if (!file && a->named.models[i].from_file) file = a->named.models[i].name;
  }
  if (s->like && sizes)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{like} gives the shape; leave out {parameters}, {layers}, {hidden}, {heads} and {vocab}");
  if ((s->like || sizes) && !needed)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is for mechanisms, and none is named; leave it out",
                   s->like         ? "like"
                   : s->parameters ? "parameters"
                   : s->layers     ? "layers"
                   : s->hidden     ? "hidden"
                   : s->heads      ? "heads"
                                   : "vocab");
  if (!needed) return CH_OK;
  if (s->like) return shape_from_file(s->like, a, error);
  if (!sizes && file) return shape_from_file(file, a, error);
  return shape_from_sizes(a, error);
}

/* Rounds a matched width to a multiple of 256, 128, 64 or 32, so that rows remain whole blocks of quantised types.
 * It takes the largest of these steps that changes the width by at most a fortieth and, if the shape is a file's,
 * divides the file's own width. */
static int64_t round_width(const plan_request *a, int64_t width) {
  int64_t own = ch_matched_width(&a->like);
  for (int64_t step = 256; step >= 32; step /= 2)
    if ((!a->from_file || own % step == 0) && 20 * step <= width) return (width + step / 2) / step * step;
  return width;
}

/* Configures the mechanism `name` in the shape, with about as many parameters as the shape has. */
static ch_status apply_name(const plan_request *a, const char *name, ch_config *config, ch_error *error) {
  int64_t parameters;
  *config = a->like;
  if (config->max_position_embeddings < a->settings->context) /* nothing is trained yet */
    config->max_position_embeddings = a->settings->context;
  CH_TRY(ch_preset_apply(name, config, error));
  CH_TRY(ch_match_parameters(config, &name, 1, counted_by(a->settings), a->parameters, &parameters, error));
  ch_set_matched_width(config, round_width(a, ch_matched_width(config)));
  return CH_OK;
}

/* --- one candidate ----------------------------------------------------------------------------------------------- */

static int64_t whole_bytes(double bytes) {
  return bytes < most_bytes ? (int64_t)bytes : INT64_MAX;
}

static const char *type_name(ch_arena *arena, ch_dtype dtype) {
  char *name = ch_arena_strdup(arena, ch_dtype_name(dtype));
  for (char *c = name; c && *c; c++) *c = (char)tolower((unsigned char)*c);
  return name;
}

/* Returns why the model is excluded if its positions end before `context`. Returns "" if they do not. */
static const char *end_of_context(const ch_config *config, int64_t context, ch_arena *arena) {
  if (context > config->max_position_embeddings)
    return ch_arena_printf(
        arena, "its positions end at %lld tokens (max_position_embeddings), before the context of %lld",
        (long long)config->max_position_embeddings, (long long)context);
  return "";
}

static void copy_sizes(const ch_capacity_sizes *sizes, const ch_capacity_question *q,
                       ch_capacity_candidate *candidate) {
  double users = (double)q->users, context = (double)q->context;
  candidate->parameters = sizes->account.parameters_total;
  candidate->weight_bytes = whole_bytes(sizes->weights);
  candidate->step_weight_bytes = whole_bytes(sizes->step_weights);
  candidate->cache_elements_per_token = sizes->account.cache_elements_per_token;
  candidate->cache_bytes_per_token = sizes->account.cache_bytes_per_token;
  candidate->cache_bytes_per_user = whole_bytes(ch_capacity_cache(sizes, 1, context));
  candidate->cache_bytes = whole_bytes(ch_capacity_cache(sizes, users, context));
  candidate->gate_bytes = whole_bytes(ch_capacity_gates(sizes, users, context));
  candidate->work_bytes = whole_bytes(ch_capacity_work(sizes, users));
  candidate->needed_bytes = whole_bytes(ch_capacity_needed(sizes, users, context));
  candidate->prefill_flops = sizes->prompt_flops;
  candidate->decode_flops = sizes->account.decode.total;
}

/* Returns why the memory does not suffice; "" if it does. */
static const char *lack_of_memory(const ch_capacity_sizes *sizes, const ch_capacity_question *q,
                                  const ch_capacity_estimate *e, ch_arena *arena) {
  char a[SIZE], b[SIZE], c[SIZE];
  double memory = (double)e->memory, needed = ch_capacity_needed(sizes, (double)q->users, (double)q->context);
  if (needed <= memory) return "";
  if (sizes->weights > memory)
    return ch_arena_printf(arena, "its weights alone need %s, more than the available %s",
                           ch_format_bytes(sizes->weights, a, SIZE), ch_format_bytes(memory, b, SIZE));
  ch_format_bytes(needed, a, SIZE);
  ch_format_bytes(needed - memory, b, SIZE);
  ch_format_bytes(memory, c, SIZE);
  if (e->context < 1)
    return ch_arena_printf(
        arena, "it needs %s, %s more than the available %s; even empty contexts do not fit", a, b, c);
  if (q->users == 1)
    return ch_arena_printf(arena,
                           "it needs %s, %s more than the available %s; %lld tokens of context would fit", a,
                           b, c, (long long)e->context);
  return ch_arena_printf(arena,
                         "it needs %s, %s more than the available %s; %lld of %lld users fit, or %lld tokens "
                         "of context for every user",
                         a, b, c, (long long)e->users, (long long)q->users, (long long)e->context);
}

/* Estimates a candidate on a device. */
static void expect(const plan_request *a, const ch_capacity_sizes *sizes,
                   const ch_capacity_candidate *candidate, const ch_device *device, ch_arena *arena,
                   ch_capacity_estimate *e) {
  const ch_capacity_question *q = &a->question;
  e->memory = a->settings->memory ? a->settings->memory : device->memory;
  e->users = ch_capacity_users(sizes, q->context, (double)e->memory);
  e->context = ch_capacity_context(sizes, q->users, (double)e->memory);
  ch_capacity_speed(sizes, q, device, e);
  e->excluded = *candidate->excluded ? candidate->excluded : lack_of_memory(sizes, q, e, arena);
  if (e->excluded && !*e->excluded && e->user_tokens_per_second < a->settings->least_speed)
    e->excluded =
        ch_arena_printf(arena, "it gives every user %.3g tokens per second, below the required %.3g",
                        e->user_tokens_per_second, a->settings->least_speed);
}

/* Computes the memory of each rank in training, if the settings have ranks and the model has positions for the
 * context. */
static ch_status measure_training(const plan_request *a, const ch_config *config, const char *path,
                                  ch_train_memory *memory, ch_error *error) {
  const ch_capacity_settings *s = a->settings;
  ch_train_options options;
  if (!s->ranks || s->context > config->max_position_embeddings) return CH_OK;
  ch_train_options_default(config, &options);
  options.sequence = s->context;
  options.micro_batch = 1;
  options.batch = 2; /* two micro-batches, whose gradients are added */
  options.steps = 1;
  options.dtype = s->training == CH_PRECISION_BF16 ? CH_BF16 : CH_F32;
  CH_TRY(ch_train_options_check(&options, config, error));
  return ch_trainer_memory(path && ch_is_directory(path) ? path : NULL, config, &options, s->ranks, memory,
                           error);
}

static ch_status measure_candidate(const plan_request *a, const ch_config *config, const char *path,
                                   ch_capacity *capacity, ch_error *error) {
  ch_capacity_candidate *candidate = &capacity->candidates[capacity->count];
  ch_capacity_sizes sizes;
  CH_TRY(ch_capacity_sizes_of(config, path, &a->question, &sizes, error));
  copy_sizes(&sizes, &a->question, candidate);
  CH_TRY(measure_training(a, config, path, &candidate->training, error));
  candidate->layers = config->num_hidden_layers;
  candidate->hidden_size = config->hidden_size;
  candidate->intermediate_size = ch_matched_width(config);
  candidate->mechanism = ch_arena_strdup(&capacity->arena, config->attention.type);
  candidate->weights = type_name(&capacity->arena, sizes.type);
  candidate->excluded = end_of_context(config, a->question.context, &capacity->arena);
  if (!candidate->mechanism || !candidate->weights || !candidate->excluded) return ch_no_memory(error);
  for (int32_t d = 0; d < capacity->device_count; d++) {
    ch_capacity_estimate *e = &capacity->expected[d * CH_CAPACITY_MOST + capacity->count];
    expect(a, &sizes, candidate, &capacity->devices[d], &capacity->arena, e);
    if (!e->excluded) return ch_no_memory(error);
  }
  return CH_OK;
}

/* Excludes the candidate on all devices and clears its figures. */
static ch_status exclude(const char *reason, ch_capacity *capacity, ch_error *error) {
  ch_capacity_candidate *candidate = &capacity->candidates[capacity->count];
  *candidate = (ch_capacity_candidate){.name = candidate->name, .mechanism = "", .weights = ""};
  candidate->excluded = ch_arena_strdup(&capacity->arena, reason);
  if (!candidate->excluded) return ch_no_memory(error);
  for (int32_t d = 0; d < capacity->device_count; d++)
    capacity->expected[d * CH_CAPACITY_MOST + capacity->count] =
        (ch_capacity_estimate){.excluded = candidate->excluded, .bound = ""};
  return CH_OK;
}

static ch_status begin_candidate(const char *name, ch_capacity *capacity, ch_error *error) {
  if (capacity->count == CH_CAPACITY_MOST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "more than %d candidates are named; leave some out",
                   CH_CAPACITY_MOST);
  ch_capacity_candidate *candidate = &capacity->candidates[capacity->count];
  *candidate = (ch_capacity_candidate){.name = ch_valid_text(&capacity->arena, name)};
  return candidate->name ? CH_OK : ch_no_memory(error);
}

static ch_status add_file(const plan_request *a, const char *path, ch_capacity *capacity, ch_error *error) {
  ch_config config;
  CH_TRY(begin_candidate(path, capacity, error));
  CH_TRY(ch_config_read_stored(path, &config, error));
  if (ch_config_is_vision(&config))
    CH_TRY(exclude("it is a model of images and has no context", capacity, error));
  else
    CH_TRY(measure_candidate(a, &config, path, capacity, error));
  capacity->count++;
  return CH_OK;
}

static ch_status add_named(const plan_request *a, const char *name, ch_capacity *capacity, ch_error *error) {
  ch_config config;
  ch_error reason = {0};
  CH_TRY(begin_candidate(name, capacity, error));
  ch_status status = apply_name(a, name, &config, &reason);
  if (status == CH_ERROR_MEMORY) return ch_fail_as(error, status, &reason);
  if (status != CH_OK)
    CH_TRY(exclude(reason.message, capacity, error));
  else
    CH_TRY(measure_candidate(a, &config, NULL, capacity, error));
  capacity->count++;
  return CH_OK;
}

/* --- all candidates ---------------------------------------------------------------------------------------------- */

static void name_types(const plan_request *a, ch_capacity *capacity) {
  static const char *const letters[] = {"k=", ",v=", ",latent="};
  const ch_dtype *of = a->question.cache.of;
  size_t used = 0;
  bool alike = of[0] == of[1] && of[0] == of[2];
  for (int r = 0; r < (alike ? 1 : CH_STATE_ROLES); r++) {
    used += (size_t)snprintf(capacity->cache + used, sizeof capacity->cache - used, "%s%s",
                             alike ? "" : letters[r], ch_dtype_name(of[r]));
  }
  for (char *c = capacity->cache; *c; c++) *c = (char)tolower((unsigned char)*c);
  if (a->settings->cache_name)
    snprintf(capacity->cache, sizeof capacity->cache, "%s", a->settings->cache_name);
}

/* Names the element type of all candidates' weights, or "as stored" if they differ. */
static void name_weights(const plan_request *a, ch_capacity *capacity) {
  capacity->weights = a->question.typed ? type_name(&capacity->arena, a->question.weights) : NULL;
  for (int32_t i = 0; i < capacity->count && !a->question.typed; i++) {
    const char *type = capacity->candidates[i].weights;
    if (!*type) continue;
    if (capacity->weights && strcmp(capacity->weights, type) != 0) {
      capacity->weights = "as stored";
      return;
    }
    capacity->weights = type;
  }
  if (!capacity->weights) capacity->weights = "as stored";
}

static ch_status allocate_capacity(const ch_capacity_settings *s, ch_capacity *capacity, ch_error *error) {
  size_t devices = s->device_count;
  ch_device *copies = ch_arena_alloc(&capacity->arena, devices * sizeof *copies);
  capacity->candidates = ch_arena_alloc(&capacity->arena, CH_CAPACITY_MOST * sizeof *capacity->candidates);
  capacity->expected =
      ch_arena_alloc(&capacity->arena, devices * CH_CAPACITY_MOST * sizeof *capacity->expected);
  if (!copies || !capacity->candidates || !capacity->expected) return ch_no_memory(error);
  memcpy(copies, s->devices, devices * sizeof *copies);
  capacity->devices = copies;
  capacity->device_count = (int32_t)devices;
  capacity->context = s->context;
  capacity->users = s->users;
  capacity->memory = s->memory;
  capacity->least_speed = s->least_speed;
  capacity->ranks = s->ranks;
  capacity->training = s->training;
  return CH_OK;
}

static ch_status answer(plan_request *a, ch_capacity *capacity, ch_error *error) {
  const ch_capacity_settings *s = a->settings;
  if (s->mechanisms) CH_TRY(ch_compare_plan_names(s->mechanisms, &a->named, error));
  CH_TRY(find_shape(a, error));
  name_types(a, capacity);
  for (size_t i = 0; i < s->model_count; i++) CH_TRY(add_file(a, s->models[i], capacity, error));
  for (int i = 0; i < a->named.count; i++) {
    const ch_planned_model *model = &a->named.models[i];
    CH_TRY(model->from_file ? add_file(a, model->name, capacity, error)
                            : add_named(a, model->name, capacity, error));
  }
  name_weights(a, capacity);
  return CH_OK;
}

ch_status ch_capacity_answer(const ch_capacity_settings *settings, ch_capacity *capacity, ch_error *error) {
  plan_request a = {.settings = settings,
                    .question = {.context = settings->context, .users = settings->users}};
  CH_TRY(check_numbers(settings, error));
  CH_TRY(check_lists(settings, error));
  CH_TRY(resolve_types(settings, &a.question, error));
  CH_TRY(allocate_capacity(settings, capacity, error));
  ch_status status = answer(&a, capacity, error);
  ch_compare_plan_free(&a.named);
  return status;
}

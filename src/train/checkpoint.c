/* Checkpoints: the whole state of a trainer in one safetensors file.
 *
 * Tensors: `weight.NAME`, `m.NAME` and `v.NAME` for every parameter NAME, `losses` [step], and `validation`
 * [points, 2] (step, loss) or, with images, [points, 4] (the accuracies too). Metadata: the step, tokens,
 * seconds, options, config and source. The state of random numbers is not stored, because the seed and the step
 * determine it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <crosshead/version.h>

#include "base/json.h"
#include "io/safetensors.h"
#include "config_file/config_json.h"
#include "train/gather.h"
#include "train/options_json.h"
#include "train/trainer_private.h"

static const char format_key[] = "crosshead_checkpoint", format_version[] = "1";
static const char *const groups[3] = {"weight", "m", "v"};
enum { GROUPS = 3 };

/* --- writing -------------------------------------------------------------------------------------------- */

static json_t *describe(const ch_trainer *trainer) {
  ch_text config = {0};
  char step[24], tokens[24], seconds[40];
  snprintf(step, sizeof step, "%lld", (long long)trainer->step);
  snprintf(tokens, sizeof tokens, "%lld", (long long)trainer->tokens);
  snprintf(seconds, sizeof seconds, "%.17g", trainer->seconds);
  json_t *options = ch_train_options_to_json(&trainer->options);
  char *options_text = options ? ch_json_dump(options, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  ch_config_write(&trainer->config, &config);
  json_t *metadata = NULL;
  if (options_text && config.data && !config.failed)
    metadata = json_pack("{ss ss ss ss ss ss ss ss}", format_key, format_version, "version",
                         CH_VERSION_STRING, "step", step, "tokens", tokens, "seconds", seconds, "source",
                         trainer->source.fingerprint, "options", options_text, "config", config.data);
  json_decref(options);
  free(options_text);
  ch_text_free(&config);
  return metadata;
}

/* Returns how many numbers a stored validation point has. */
static int64_t point_numbers(const ch_trainer *trainer) {
  return ch_config_is_vision(&trainer->config) ? 4 : 2;
}

/* Lists every tensor of the file. Names are allocated in `names`; `points` receives the validation points. */
static int64_t list_tensors(const ch_trainer *trainer, const ch_host_tensors host[GROUPS],
                            ch_stored_tensor *list, ch_arena *names, double *points) {
  int64_t count = 0, numbers = point_numbers(trainer);
  for (int g = 0; g < GROUPS; g++)
    for (int p = 0; p < trainer->params.count; p++)
      list[count++] =
          (ch_stored_tensor){.name = ch_arena_printf(names, "%s.%s", groups[g], trainer->params.rows[p].name),
                             .tensor = ch_parameter_whole(&trainer->set, p, host[g].tensors[p].data)};
  if (trainer->step > 0)
    list[count++] = (ch_stored_tensor){.name = ch_arena_strdup(names, "losses"),
                                       .tensor = {CH_F64, 1, {trainer->step}, trainer->losses}};
  for (int64_t i = 0; i < trainer->validation_points; i++) {
    const ch_validation_point *point = &trainer->validation[i];
    const double values[] = {(double)point->step, point->loss, point->top1, point->top5};
    memcpy(points + numbers * i, values, (size_t)numbers * sizeof *points);
  }
  if (trainer->validation_points > 0)
    list[count++] = (ch_stored_tensor){.name = ch_arena_strdup(names, "validation"),
                                       .tensor = {CH_F64, 2, {trainer->validation_points, numbers}, points}};
  return count;
}

/* Fails if a number is not finite. Such a checkpoint must not replace a good one. */
static ch_status check_finite(const ch_trainer *trainer, ch_error *error) {
  for (int g = 0; g < GROUPS; g++) {
    const char *name = ch_first_not_finite(&trainer->set, ch_parameter_pieces(&trainer->set, g),
                                           trainer->engine.kernels, &trainer->engine.team);
    if (name)
      return ch_fail(
          error, CH_ERROR_NUMERIC,
          "step %lld: the %s %s is no longer finite, so no checkpoint was written; a lower {lr} may help",
          (long long)trainer->step, g == 0 ? "weight" : "optimizer moment of", name);
  }
  return CH_OK;
}

/* A checkpoint that is being written. */
typedef struct checkpoint_output {
  const ch_trainer *trainer;
  ch_stored_tensor *list;
  int64_t count;
  char *metadata;
  double *points;
  ch_arena names;
  ch_host_tensors host[GROUPS];
  char *whole, *room; /* whole: memory for one tensor; room: memory for one rank's piece of a tensor */
  int64_t *order;     /* [count]: indices of `list` in the order of the file */
  int64_t made;       /* tensors written so far */
} checkpoint_output;

static void forget_saving(checkpoint_output *s) {
  free(s->list);
  free(s->metadata);
  free(s->points);
  free(s->whole);
  free(s->room);
  free(s->order);
  ch_arena_free(&s->names);
  for (int g = 0; g < GROUPS; g++) ch_host_tensors_free(&s->host[g]);
}

/* Prepares the contents of the file. */
static ch_status prepare_saving(const ch_trainer *trainer, checkpoint_output *s, ch_error *error) {
  size_t most = (size_t)GROUPS * (size_t)trainer->params.count + 2;
  ch_text header = {0};
  *s = (checkpoint_output){.trainer = trainer};
  CH_TRY(check_finite(trainer, error));
  s->list = calloc(most, sizeof *s->list);
  s->points = malloc((size_t)(trainer->validation_points * point_numbers(trainer) + 1) * sizeof *s->points);
  s->order = malloc(most * sizeof *s->order);
  if (trainer->ranks) {
    s->whole = malloc(ch_trainer_largest(trainer));
    s->room = malloc(ch_trainer_largest(trainer));
  }
  json_t *metadata = describe(trainer);
  if (metadata) s->metadata = ch_json_dump(metadata, JSON_COMPACT);
  json_decref(metadata);
  bool enough = s->list && s->points && s->order && s->metadata && ((s->whole && s->room) || !trainer->ranks);
  if (!enough) return ch_no_memory(error);
  for (int g = 0; g < GROUPS; g++)
    CH_TRY(ch_host_tensors_read(
        trainer->set.memory, trainer->params.count,
        g == CH_WEIGHTS ? trainer->set.weights : ch_parameter_pieces(&trainer->set, g), &s->host[g], error));
  s->count = list_tensors(trainer, s->host, s->list, &s->names, s->points);
  for (int64_t i = 0; i < s->count; i++) enough = enough && s->list[i].name;
  if (!enough) return ch_no_memory(error);
  ch_status status = ch_safetensors_layout(s->list, s->count, s->metadata, &header, s->order, error);
  ch_text_free(&header);
  return status;
}

/* Returns true if rank 0 has to gather the tensor at `index` of the list. */
static bool is_divided(const checkpoint_output *s, int64_t index) {
  int64_t params = s->trainer->params.count;
  return index < GROUPS * params &&
         ch_is_divided(s->trainer, (ch_parameter_group)(index / params), (int)(index % params));
}

static void gather(const checkpoint_output *s, int64_t index) {
  int64_t params = s->trainer->params.count;
  ch_gather_tensor(s->trainer, (ch_parameter_group)(index / params), (int)(index % params), s->whole,
                   s->room);
}

static ch_status give_tensor(void *context, int64_t index, const void **data, ch_error *error) {
  checkpoint_output *s = context;
  (void)error;
  if (is_divided(s, index)) gather(s, index);
  *data = is_divided(s, index) ? s->whole : s->list[index].tensor.data;
  s->made++;
  return CH_OK;
}

ch_status ch_trainer_save(const ch_trainer *trainer, const char *path, ch_error *error) {
  checkpoint_output s;
  ch_status status = ch_agree(trainer->ranks, prepare_saving(trainer, &s, error), error);
  if (status == CH_OK) {
    if (ch_ranks_leads(trainer->ranks))
      status = ch_safetensors_write_made(path, s.list, s.count, s.metadata, give_tensor, &s, error);
    /* The other ranks send what rank 0 writes. If writing failed, rank 0 still receives what they send. */
    for (; s.made < s.count; s.made++)
      if (is_divided(&s, s.order[s.made])) gather(&s, s.order[s.made]);
    status = ch_agree(trainer->ranks, status, error);
  }
  forget_saving(&s);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* The metadata of a checkpoint. */
typedef struct checkpoint {
  ch_train_options options;
  ch_config config;
  char *source;
  int64_t step, tokens;
  double seconds;
} checkpoint;

static void forget(checkpoint *facts) {
  free(facts->source);
}

static ch_status damaged(ch_error *error, const char *path, const char *what) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s: its %s cannot be read; it is damaged or of another version",
                 path, what);
}

static ch_status understand(const json_t *metadata, const char *path, checkpoint *facts, ch_error *error) {
  if (strcmp(ch_json_text_at(metadata, format_key), format_version) != 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s is not a training checkpoint of this version of crosshead",
                   path);
  json_t *options = NULL;
  CH_TRY(ch_json_parse(ch_json_text_at(metadata, "options"), strlen(ch_json_text_at(metadata, "options")),
                       path, &options, error));
  ch_status status = ch_train_options_from_json(options, path, &facts->options, error);
  json_decref(options);
  CH_TRY(status);
  double step, tokens;
  if (!ch_parse_number(ch_json_text_at(metadata, "step"), &step) || step < 0 || step > 1e15 ||
      step != floor(step))
    return damaged(error, path, "step");
  if (!ch_parse_number(ch_json_text_at(metadata, "seconds"), &facts->seconds))
    return damaged(error, path, "seconds");
  facts->step = (int64_t)step;
  /* Earlier versions did not store the tokens. */
  facts->tokens = facts->step * ch_train_step_tokens(&facts->options);
  if (ch_parse_number(ch_json_text_at(metadata, "tokens"), &tokens) && tokens >= 0 && tokens <= 1e18)
    facts->tokens = (int64_t)tokens;
  facts->source = strdup(ch_json_text_at(metadata, "source"));
  if (!facts->source) return ch_no_memory(error);
  return ch_config_parse(ch_json_text_at(metadata, "config"), path, &facts->config, error);
}

/* Opens a checkpoint and reads its metadata; on failure nothing stays open. */
static ch_status open_checkpoint(const char *path, ch_safetensors *file, checkpoint *facts, ch_error *error) {
  *facts = (struct checkpoint){0};
  CH_TRY(ch_safetensors_open(path, file, error));
  json_t *metadata = NULL;
  ch_status status = CH_OK;
  if (!file->metadata)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s is not a training checkpoint: it has no metadata", path);
  else
    status = ch_json_parse(file->metadata, strlen(file->metadata), path, &metadata, error);
  if (status == CH_OK) status = understand(metadata, path, facts, error);
  json_decref(metadata);
  if (status != CH_OK) {
    forget(facts);
    ch_safetensors_close(file);
  }
  return status;
}

ch_status ch_checkpoint_read_options(const char *path, ch_train_options *options, ch_config *config,
                                     int64_t *step, ch_error *error) {
  ch_safetensors file;
  checkpoint facts;
  CH_TRY(open_checkpoint(path, &file, &facts, error));
  if (options) *options = facts.options;
  if (config) *config = facts.config;
  if (step) *step = facts.step;
  forget(&facts);
  ch_safetensors_close(&file);
  return CH_OK;
}

ch_status ch_checkpoint_read_source(const char *path, char *source, size_t size, ch_error *error) {
  ch_safetensors file;
  checkpoint facts;
  CH_TRY(open_checkpoint(path, &file, &facts, error));
  snprintf(source, size, "%s", facts.source);
  forget(&facts);
  ch_safetensors_close(&file);
  return CH_OK;
}

/* Finds a tensor of the file, which must have the type and shape of *into. */
static ch_status find_tensor(const ch_safetensors *file, const char *path, const char *name,
                             const ch_tensor *into, const char **data, ch_error *error) {
  const ch_stored_tensor *stored = ch_safetensors_find(file, name);
  if (!stored) return ch_fail(error, CH_ERROR_FORMAT, "%s has no tensor %s", path, name);
  const ch_tensor *from = &stored->tensor;
  bool fits = !stored->foreign && from->dtype == into->dtype && from->rank == into->rank &&
              memcmp(from->shape, into->shape, (size_t)into->rank * sizeof *into->shape) == 0;
  if (!fits) {
    char left[96], right[96];
    return ch_fail(error, CH_ERROR_FORMAT, "%s: %s is %s %s; it must be %s %s", path, name,
                   stored->foreign ? stored->foreign : ch_dtype_name(from->dtype),
                   ch_shape_text(from->rank, from->shape, left, sizeof left), ch_dtype_name(into->dtype),
                   ch_shape_text(into->rank, into->shape, right, sizeof right));
  }
  *data = from->data;
  return CH_OK;
}

/* Copies a tensor of the file into `memory`. */
static ch_status copy_tensor(const ch_safetensors *file, const char *path, const char *name,
                             const ch_value_memory *memory, const ch_tensor *into, ch_error *error) {
  const char *data;
  CH_TRY(find_tensor(file, path, name, into, &data, error));
  memory->write(into->data, data, ch_tensor_bytes(into));
  return CH_OK;
}

static ch_status copy_parameters(ch_trainer *trainer, const ch_safetensors *file, const char *path,
                                 ch_error *error) {
  char name[256];
  const char *data;
  for (int g = 0; g < GROUPS; g++)
    for (int p = 0; p < trainer->params.count; p++) {
      snprintf(name, sizeof name, "%s.%s", groups[g], trainer->params.rows[p].name);
      const ch_tensor whole = ch_parameter_whole(&trainer->set, p, NULL);
      CH_TRY(find_tensor(file, path, name, &whole, &data, error));
      ch_parameter_set_put(&trainer->set, trainer->engine.kernels, &trainer->engine.team, g, p, data);
    }
  return CH_OK;
}

static ch_status copy_curves(ch_trainer *trainer, const ch_safetensors *file, const char *path, int64_t step,
                             ch_error *error) {
  const ch_stored_tensor *stored = ch_safetensors_find(file, "validation");
  int64_t points = stored && stored->tensor.rank == 2 ? stored->tensor.shape[0] : 0;
  int64_t numbers = point_numbers(trainer);
  CH_TRY(ch_trainer_reserve(trainer, step, points + trainer->validation_capacity, error));
  ch_tensor losses = {CH_F64, 1, {step}, trainer->losses};
  if (step > 0) CH_TRY(copy_tensor(file, path, "losses", &ch_host_memory, &losses, error));
  trainer->validation_points = 0;
  if (points == 0) return CH_OK;
  double *values = malloc((size_t)(points * numbers) * sizeof *values);
  if (!values) return ch_no_memory(error);
  ch_tensor validation = {CH_F64, 2, {points, numbers}, values};
  ch_status status = copy_tensor(file, path, "validation", &ch_host_memory, &validation, error);
  for (int64_t i = 0; i < points && status == CH_OK; i++) {
    const double *v = values + numbers * i;
    bool sound = v[0] >= 0 && v[0] <= (double)step, ranked = numbers > 2;
    if (!sound) status = damaged(error, path, "validation curve");
    if (sound)
      trainer->validation[i] =
          (ch_validation_point){(int64_t)v[0], v[1], ranked ? v[2] : -1, ranked ? v[3] : -1};
  }
  if (status == CH_OK) trainer->validation_points = points;
  free(values);
  return status;
}

/* Finds the first key whose values differ, "attention.qk_norm" for a nested one. Returns false if all are
 * equal. */
static bool find_difference(const json_t *now, const json_t *before, char *key, size_t size) {
  const char *name;
  const json_t *value;
  json_object_foreach((json_t *)(uintptr_t)now, name, value) {
    const json_t *other = json_object_get(before, name);
    if (json_equal(value, other)) continue;
    size_t used = (size_t)snprintf(key, size, "%s", name);
    if (json_is_object(value) && json_is_object(other) && used + 1 < size) {
      snprintf(key + used, size - used, ".");
      if (!find_difference(value, other, key + used + 1, size - used - 1)) key[used] = 0;
    }
    return true;
  }
  return false;
}

static ch_status match_config(const ch_trainer *trainer, const checkpoint *facts, const char *path,
                              ch_error *error) {
  ch_status status = CH_OK;
  json_t *now = ch_config_to_json(&trainer->config), *before = ch_config_to_json(&facts->config);
  char key[128] = "";
  if (!now || !before)
    status = ch_no_memory(error);
  else if (find_difference(now, before, key, sizeof key) || find_difference(before, now, key, sizeof key))
    status = ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s belongs to a config with another %s; resume with its own config or train into another directory",
        path, key);
  json_decref(now);
  json_decref(before);
  return status;
}

/* Sets options that the caller left open to the checkpoint's values. */
static ch_status adopt(ch_trainer *trainer, const ch_train_options *stored, ch_error *error) {
  if (trainer->chosen_warmup) trainer->options.warmup = stored->warmup;
  bool other = trainer->options.micro_batch != stored->micro_batch;
  bool possible = stored->micro_batch > 0 && trainer->options.batch % stored->micro_batch == 0;
  if (!trainer->chosen_micro_batch || !other || !possible) return CH_OK;
  trainer->options.micro_batch = stored->micro_batch;
  return ch_trainer_plan_again(trainer, error);
}

static ch_status restore(ch_trainer *trainer, const ch_safetensors *file, const checkpoint *facts,
                         const char *path, ch_error *error) {
  CH_TRY(match_config(trainer, facts, path, error));
  if (strcmp(facts->source, trainer->source.fingerprint) != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s comes from another text or tokenizer, or other images; resume with its own {data} or "
                   "train into another directory",
                   path);
  CH_TRY(adopt(trainer, &facts->options, error));
  CH_TRY(ch_train_options_match(&facts->options, &trainer->options, path, error));
  if (facts->step > trainer->options.steps)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is at step %lld, past the %lld steps of {steps}", path,
                   (long long)facts->step, (long long)trainer->options.steps);
  CH_TRY(copy_parameters(trainer, file, path, error));
  CH_TRY(copy_curves(trainer, file, path, facts->step, error));
  trainer->step = facts->step;
  trainer->tokens = facts->tokens;
  trainer->seconds = facts->seconds;
  return CH_OK;
}

static ch_status resume(ch_trainer *trainer, const char *path, ch_error *error) {
  ch_safetensors file;
  checkpoint facts;
  CH_TRY(open_checkpoint(path, &file, &facts, error));
  ch_status status = restore(trainer, &file, &facts, path, error);
  forget(&facts);
  ch_safetensors_close(&file);
  return status;
}

ch_status ch_trainer_resume(ch_trainer *trainer, const char *path, ch_error *error) {
  return ch_agree(trainer->ranks, resume(trainer, path, error), error);
}

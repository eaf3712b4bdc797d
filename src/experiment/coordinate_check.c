/* Runs a coordinate check: trains models of several widths for a few steps, one after another, and fits slopes of their
 * activations' sizes against the width. activation_sizes.c measures the activations; this file chooses the steps,
 * averages over seeds and judges the slopes. */
#include "experiment/coordinate_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/file.h"
#include "base/file_names.h"
#include "base/text.h"
#include "config/initial_std.h"
#include "experiment/activation_sizes.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/trial/settings.h"
#include "experiment/trial/setup.h"

enum { MOST_MEASURED_TOKENS = 1024, NARROWEST = 8, WIDEST = 65536, MOST_POINTS = 16 };

/* --- settings --------------------------------------------------------------------------------------------------- */

typedef struct width_list {
  int64_t widths[CH_COORDINATE_MOST_WIDTHS];
  int count;
} width_list;

static ch_status read_widths(const char *text, width_list *list, ch_error *error) {
  list->count = 0;
  for (const char *at = text;; at++) {
    char part[16];
    int64_t width = 0;
    size_t length = strcspn(at, ",");
    snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part), at);
    if (length >= sizeof part || !ch_parse_count(part, &width) || width < NARROWEST || width > WIDEST)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "{widths}: \"%.80s\" is not a list of widths from %d to %d; write 64,128,256", text,
                     NARROWEST, WIDEST);
    if (list->count == CH_COORDINATE_MOST_WIDTHS)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{widths} has more than %d widths", CH_COORDINATE_MOST_WIDTHS);
    if (list->count > 0 && list->widths[list->count - 1] >= width)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{widths} has %lld after %lld; widths must increase",
                     (long long)width, (long long)list->widths[list->count - 1]);
    list->widths[list->count++] = width;
    at += length;
    if (!*at) break;
  }
  if (list->count > 1) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "{widths} has one width; give two or more");
}

/* Returns the settings of the check's runs in the form of a comparison's. */
static ch_compare_settings runs_of(const ch_coordinate_settings *given) {
  ch_compare_settings runs = ch_compare_usual;
  runs.lineup = (ch_compare_lineup){.mechanisms = given->mechanisms,
                                    .layers = given->layers,
                                    .heads = given->heads,
                                    .tokenizer = given->tokenizer,
                                    .vocab = given->vocab,
                                    .sequence = given->sequence,
                                    .init = given->init,
                                    .parametrization = given->parametrization};
  runs.text = given->text;
  runs.training = (ch_compare_training){.tokens = 1,
                                        .batch = given->batch,
                                        .schedule = CH_TRAIN_CONSTANT,
                                        .type = given->type,
                                        .seed = given->seed,
                                        .seeds = given->seeds};
  runs.rates.lr = given->lr;
  runs.verdict.tolerance = 0;
  runs.workers.threads = given->threads;
  runs.report = given->report;
  return runs;
}

static ch_shape_wishes wishes_of(const ch_coordinate_settings *s, int64_t width, int64_t heads,
                                 int64_t vocab) {
  return (ch_shape_wishes){.vocab = vocab,
                           .layers = s->layers,
                           .hidden = width,
                           .heads = heads,
                           .context = s->sequence,
                           .init = s->init,
                           .parametrization = s->parametrization};
}

/* Chooses the number of heads of all models: the requested one or, if it is 0, the one that a comparison gives the
 * narrowest model. Fails if a width does not divide into that many heads of an even size. */
static ch_status choose_heads(const ch_coordinate_settings *s, const width_list *list, int64_t *heads,
                              ch_error *error) {
  ch_config config;
  *heads = s->heads;
  if (!*heads) {
    const ch_shape_wishes wishes = wishes_of(s, list->widths[0], 0, 512);
    CH_TRY(ch_base_shape(&wishes, &config, error));
    *heads = config.num_attention_heads;
  }
  for (int i = 0; i < list->count; i++)
    if (list->widths[i] % (2 * *heads) != 0)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "{widths}: %lld does not divide into %lld heads of an even size; give multiples of %lld, "
          "or other {heads}",
          (long long)list->widths[i], (long long)*heads, (long long)(2 * *heads));
  return CH_OK;
}

static ch_status check_names(const char *mechanisms, ch_error *error) {
  ch_compare_plan plan;
  ch_status status = ch_compare_plan_names(mechanisms, &plan, error);
  for (int i = 0; status == CH_OK && i < plan.count; i++)
    if (plan.models[i].from_file)
      status =
          ch_fail(error, CH_ERROR_ARGUMENT,
                  "{mechanisms}: %.80s has a width of its own; a coordinate check needs names of mechanisms",
                  plan.models[i].name);
  ch_compare_plan_free(&plan);
  return status;
}

ch_status ch_coordinates_settings_check(const ch_coordinate_settings *settings, ch_error *error) {
  width_list list;
  int64_t heads;
  if (!settings->widths) return ch_fail(error, CH_ERROR_ARGUMENT, "{widths} is missing");
  if (settings->steps < 1 || settings->steps > CH_COORDINATE_MOST_STEPS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the steps are %lld; they must be from 1 to %d",
                   (long long)settings->steps, CH_COORDINATE_MOST_STEPS);
  ch_compare_settings runs = runs_of(settings);
  CH_TRY(ch_compare_settings_complete(&runs, CH_EXPERIMENT_COMPARISON, &runs, error));
  if (settings->layers < 1) return ch_fail(error, CH_ERROR_ARGUMENT, "{layers} is 0; give 1 or more");
  CH_TRY(read_widths(settings->widths, &list, error));
  CH_TRY(check_names(settings->mechanisms, error));
  return choose_heads(settings, &list, &heads, error);
}

/* --- measurements ----------------------------------------------------------------------------------------------- */

/* The tables of an activation while they are filled: sizes and changes [points, widths], slopes [points]. */
typedef struct tables {
  double *sizes, *changes, *slopes, *change_slopes;
} tables;

/* A check in progress. */
typedef struct check {
  const ch_coordinate_settings *settings;
  ch_coordinates *made;
  ch_compare_setup setup;
  width_list list;
  int64_t points[MOST_POINTS]; /* steps after which sizes are measured */
  int point_count;
  int64_t sequences;                  /* number of measured sequences */
  int32_t *tokens, *targets;          /* [sequences, sequence length] first sequences of the training text */
  ch_coordinate *activations;         /* activations of the mechanism that is being trained */
  tables tables[CH_MOST_ACTIVATIONS]; /* [activations] tables of `activations` */
} check;

/* A model in training, with one of the seeds. */
typedef struct subject {
  int mechanism, width; /* indices in the plan and in the list of widths */
  ch_trainer *trainer;
  ch_activations *activations;
  double unit; /* size of the embeddings at step 0, by which sizes of the residual stream are divided */
} subject;

/* Chooses the steps after which sizes are measured: 0, then 1, 2 and 5 times powers of ten, and the last. */
static void choose_points(check *c) {
  static const int64_t factors[] = {1, 2, 5};
  int64_t last = c->settings->steps;
  c->points[c->point_count++] = 0;
  for (int64_t power = 1; power < last; power *= 10)
    for (int i = 0; i < 3 && factors[i] * power < last; i++) c->points[c->point_count++] = factors[i] * power;
  c->points[c->point_count++] = last;
}

static double *table(ch_arena *arena, int count) {
  return ch_arena_alloc(arena, (size_t)count * sizeof(double));
}

/* Lists a mechanism's activations, with tables of zeros. The list is known after the first pass of its first model. */
static ch_status list_activations(check *c, ch_coordinate_model *model, const ch_activation *list, int count,
                                  ch_error *error) {
  ch_arena *arena = &c->made->about.arena;
  int points = c->point_count, values = points * c->list.count;
  ch_coordinate *all = ch_arena_alloc(arena, (size_t)count * sizeof *all);
  if (!all) return ch_no_memory(error);
  for (int i = 0; i < count; i++) {
    tables *t = &c->tables[i];
    *t = (tables){table(arena, values), table(arena, values), table(arena, points), table(arena, points)};
    all[i] = (ch_coordinate){.name = ch_arena_strdup(arena, list[i].name),
                             .of_stream = list[i].of_stream,
                             .sizes = t->sizes,
                             .changes = t->changes,
                             .slopes = t->slopes,
                             .change_slopes = t->change_slopes};
    if (!all[i].name || !t->sizes || !t->changes || !t->slopes || !t->change_slopes)
      return ch_no_memory(error);
  }
  model->activations = c->activations = all;
  model->activation_count = count;
  return CH_OK;
}

static int activation_index(const ch_coordinate_model *model, const char *name) {
  for (int i = 0; i < model->activation_count; i++)
    if (strcmp(model->activations[i].name, name) == 0) return i;
  return -1;
}

/* Returns the size of the embeddings, or 1 if it was not measured. */
static double unit_of(const ch_activation *list, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].name, "embedding") == 0 && list[i].size > 0) return list[i].size;
  return 1;
}

/* Measures a model's activations and adds them to the means over seeds. */
static ch_status measure_activations(check *c, subject *s, int point, ch_error *error) {
  ch_coordinate_model *model = &c->made->models[s->mechanism];
  ch_host_tensors weights;
  int count, at = point * c->list.count + s->width;
  CH_TRY(ch_trainer_read_weights(s->trainer, &weights, error));
  ch_status status = ch_activations_measure(s->activations, weights.tensors, error);
  ch_host_tensors_free(&weights);
  CH_TRY(status);
  const ch_activation *list = ch_activations_list(s->activations, &count);
  if (!model->activations) CH_TRY(list_activations(c, model, list, count, error));
  if (point == 0) s->unit = unit_of(list, count);
  for (int i = 0; i < count; i++) {
    int place = activation_index(model, list[i].name);
    double share = (list[i].of_stream ? 1 / s->unit : 1) / (double)c->setup.settings.training.seeds;
    if (place < 0) continue;
    c->tables[place].sizes[at] += list[i].size * share;
    c->tables[place].changes[at] += list[i].change * share;
  }
  return CH_OK;
}

static ch_status take_steps(check *c, subject *s, ch_error *error) {
  int64_t step = 0;
  ch_step_report report;
  for (int point = 0; point < c->point_count; point++) {
    for (; step < c->points[point]; step++) {
      ch_status status = ch_trainer_step(s->trainer, ch_compare_stopped, &c->setup, &report, error);
      if (status == CH_ERROR_NUMERIC) {
        /* The loss is not finite, so the remaining measurements become NaN. */
        for (int i = 0; i < c->made->models[s->mechanism].activation_count; i++)
          for (int p = point; p < c->point_count; p++)
            c->tables[i].sizes[p * c->list.count + s->width] =
                c->tables[i].changes[p * c->list.count + s->width] = NAN;
        return CH_OK;
      }
      CH_TRY(status);
    }
    CH_TRY(measure_activations(c, s, point, error));
  }
  return CH_OK;
}

/* Returns how many sequences of the first batch are measured. Part of a large batch is enough. */
static int64_t measured_sequences(const ch_compare_settings *s) {
  int64_t most = MOST_MEASURED_TOKENS / s->lineup.sequence;
  return s->training.batch < most ? s->training.batch : most > 1 ? most : 1;
}

static ch_status shape_model(const check *c, const subject *s, ch_config *config, ch_error *error) {
  const ch_shape_wishes wishes =
      wishes_of(c->settings, c->list.widths[s->width], c->made->grid.heads, c->setup.data.vocab_size);
  CH_TRY(ch_base_shape(&wishes, config, error));
  return ch_preset_apply(c->setup.plan.models[s->mechanism].name, config, error);
}

static ch_status train_model(check *c, subject *s, ch_error *error) {
  ch_config config;
  const ch_batch_source *source = &c->setup.data.source;
  ch_batch batch = {.sequences = c->sequences,
                    .length = c->setup.settings.lineup.sequence,
                    .tokens = c->tokens,
                    .targets = c->targets};
  CH_TRY(source->train(source->context, 0, &batch, error));
  CH_TRY(shape_model(c, s, &config, error));
  CH_TRY(ch_trainer_create(&config, &c->setup.training, &c->setup.data.source, &s->trainer, error));
  CH_TRY(ch_activations_create(&config, ch_trainer_params(s->trainer), c->tokens, c->sequences,
                               c->setup.settings.lineup.sequence, &s->activations, error));
  return take_steps(c, s, error);
}

static ch_status check_seed(check *c, int mechanism, int width, ch_error *error) {
  subject s = {.mechanism = mechanism, .width = width};
  if (ch_compare_stopped(&c->setup)) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  ch_status status = train_model(c, &s, error);
  ch_activations_free(s.activations);
  ch_trainer_free(s.trainer);
  return status;
}

static ch_status check_width(check *c, int mechanism, int width, ch_error *error) {
  const ch_coordinate_settings *settings = c->settings;
  const char *name = c->setup.plan.models[mechanism].name;
  ch_status status = CH_OK;
  const ch_coordinate_event event = {.kind = CH_COORDINATE_EVENT_MODEL,
                                     .as.model = {name, c->list.widths[width],
                                                  mechanism * c->list.count + width,
                                                  c->setup.plan.count * c->list.count}};
  if (settings->event && !settings->event(&event, settings->user)) c->setup.stopped = true;
  for (int64_t i = 0; status == CH_OK && i < c->setup.settings.training.seeds; i++) {
    ch_compare_take_seed(&c->setup, c->setup.settings.training.seed + (uint64_t)i);
    status = check_seed(c, mechanism, width, error);
  }
  if (status == CH_ERROR_INTERRUPTED)
    return ch_fail(error, status, "interrupted at %s of width %lld; the same command starts again", name,
                   (long long)c->list.widths[width]);
  if (status != CH_OK) ch_fail_in(error, name);
  return status;
}

/* --- slopes ----------------------------------------------------------------------------------------------------- */

double ch_coordinate_slope(const int64_t *widths, const double *sizes, int count) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (int i = 0; i < count; i++) {
    if (!isfinite(sizes[i]) || sizes[i] <= 0) continue;
    double a = log((double)widths[i]), b = log(sizes[i]);
    n++;
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  return n < 2 ? NAN : (n * xy - x * y) / (n * xx - x * x);
}

static bool all_finite(const double *values, int count) {
  for (int i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

static bool is_flat(const check *c, const double *sizes, double slope) {
  int widths = c->list.count, last = (c->point_count - 1) * widths;
  return all_finite(sizes + last, widths) && fabs(slope) <= CH_COORDINATE_FLAT;
}

/* Computes the slopes of a mechanism after all its models were trained. */
static void judge_slopes(check *c, ch_coordinate_model *model) {
  int widths = c->list.count, last = c->point_count - 1;
  ch_coordinate *all = c->activations;
  for (int i = 0; i < model->activation_count; i++) {
    tables *t = &c->tables[i];
    for (int p = 0; p <= last; p++) {
      t->slopes[p] = ch_coordinate_slope(c->list.widths, t->sizes + p * widths, widths);
      t->change_slopes[p] = ch_coordinate_slope(c->list.widths, t->changes + p * widths, widths);
    }
    all[i].flat = is_flat(c, t->sizes, t->slopes[last]);
    all[i].change_flat = is_flat(c, t->changes, t->change_slopes[last]);
  }
}

/* --- the whole check -------------------------------------------------------------------------------------------- */

static void settle_training(check *c, const ch_config *config) {
  const ch_compare_settings *s = &c->setup.settings;
  ch_train_options *training = &c->setup.training;
  ch_train_options_default(config, training);
  training->batch = s->training.batch;
  training->sequence = s->lineup.sequence;
  training->accumulate = 1;
  training->steps = c->settings->steps;
  training->lr = s->rates.lr;
  training->schedule = CH_TRAIN_CONSTANT;
  training->warmup = 0;
  training->seed = s->training.seed;
  training->dtype = s->training.type == CH_PRECISION_BF16 ? CH_BF16 : CH_F32;
}

/* Copies the grid into the results. */
static ch_status fill_grid(check *c, ch_error *error) {
  const ch_compare_settings *s = &c->setup.settings;
  ch_coordinates *made = c->made;
  size_t widths = (size_t)c->list.count, points = (size_t)c->point_count,
         models = (size_t)c->setup.plan.count;
  int64_t *numbers = ch_arena_alloc(&made->about.arena, (widths + points) * sizeof *numbers);
  made->models = ch_arena_alloc(&made->about.arena, models * sizeof *made->models);
  if (!numbers || !made->models) return ch_no_memory(error);
  memcpy(numbers, c->list.widths, widths * sizeof *numbers);
  memcpy(numbers + widths, c->points, points * sizeof *numbers);
  made->grid = (ch_coordinate_grid){.widths = numbers,
                                    .steps = numbers + widths,
                                    .width_count = c->list.count,
                                    .step_count = c->point_count,
                                    .model_count = c->setup.plan.count,
                                    .layers = s->lineup.layers,
                                    .heads = made->grid.heads,
                                    .seeds = s->training.seeds,
                                    .parametrization = s->lineup.parametrization,
                                    .lr = s->rates.lr};
  for (int m = 0; m < c->setup.plan.count; m++) {
    made->models[m].name = ch_arena_strdup(&made->about.arena, c->setup.plan.models[m].name);
    if (!made->models[m].name) return ch_no_memory(error);
  }
  return CH_OK;
}

/* Forwards the preparation events of a setup and drops its other events. */
static bool pass_on(const ch_compare_event *event, void *context) {
  const check *c = context;
  const ch_coordinate_event own = {.kind = CH_COORDINATE_EVENT_PREPARATION,
                                   .as.preparation = event->as.preparation};
  bool passes = c->settings->event && event->kind == CH_COMPARE_EVENT_PREPARATION;
  return !passes || c->settings->event(&own, c->settings->user);
}

static bool is_stopped(void *context) {
  const check *c = context;
  return c->settings->stop && c->settings->stop(c->settings->user);
}

static ch_status prepare_check(check *c, ch_error *error) {
  ch_compare_settings runs = runs_of(c->settings);
  runs.event = pass_on;
  runs.stop = is_stopped;
  runs.user = c;
  subject first = {0};
  ch_config config;
  CH_TRY(ch_compare_setup_text(&runs, &c->made->about, &c->setup, error));
  CH_TRY(choose_heads(c->settings, &c->list, &c->made->grid.heads, error));
  choose_points(c);
  CH_TRY(fill_grid(c, error));
  CH_TRY(shape_model(c, &first, &config, error));
  settle_training(c, &config);
  CH_TRY(ch_train_options_check(&c->setup.training, &config, error));
  CH_TRY(ch_compare_setup_describe(&c->setup, error));
  c->sequences = measured_sequences(&c->setup.settings);
  size_t bytes = (size_t)(c->sequences * c->setup.settings.lineup.sequence) * sizeof *c->tokens;
  c->tokens = malloc(bytes);
  c->targets = malloc(bytes);
  return c->tokens && c->targets ? CH_OK : ch_no_memory(error);
}

static ch_status run_check(check *c, ch_error *error) {
  CH_TRY(prepare_check(c, error));
  for (int m = 0; m < c->setup.plan.count; m++) {
    for (int w = 0; w < c->list.count; w++) CH_TRY(check_width(c, m, w, error));
    judge_slopes(c, &c->made->models[m]);
  }
  char *path = ch_path_join(c->setup.settings.report.out, CH_COMPARE_RESULTS);
  if (!path) return ch_no_memory(error);
  ch_status status = ch_write_json(path, ch_coordinates_to_json(c->made), CH_DIGITS_SHOWN, error);
  free(path);
  return status;
}

ch_status ch_coordinates_make(const ch_coordinate_settings *settings, ch_coordinates *coordinates,
                              ch_error *error) {
  *coordinates = (ch_coordinates){0};
  CH_TRY(ch_coordinates_settings_check(settings, error));
  check c = {.settings = settings, .made = coordinates};
  CH_TRY(read_widths(settings->widths, &c.list, error));
  ch_status status = run_check(&c, error);
  ch_compare_setup_close(&c.setup, status);
  free(c.tokens);
  free(c.targets);
  return status;
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *row_to_json(const double *values, int count) {
  json_t *row = json_array();
  for (int i = 0; i < count; i++) json_array_append_new(row, ch_json_finite(values[i]));
  return row;
}

static json_t *table_to_json(const double *values, const ch_coordinate_grid *grid) {
  json_t *rows = json_array();
  for (int p = 0; p < grid->step_count; p++)
    json_array_append_new(rows, row_to_json(values + p * grid->width_count, grid->width_count));
  return rows;
}

static json_t *counts_to_json(const int64_t *values, int count) {
  json_t *row = json_array();
  for (int i = 0; i < count; i++) json_array_append_new(row, json_integer(values[i]));
  return row;
}

static json_t *activation_to_json(const ch_coordinate *a, const ch_coordinate_grid *grid) {
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:b}", "name", a->name, "unit",
                   a->of_stream ? "embedding" : "one", "sizes", table_to_json(a->sizes, grid), "changes",
                   table_to_json(a->changes, grid), "slopes", row_to_json(a->slopes, grid->step_count),
                   "change_slopes", row_to_json(a->change_slopes, grid->step_count), "slope",
                   ch_json_finite(a->slopes[grid->step_count - 1]), "flat", a->flat, "change_slope",
                   ch_json_finite(a->change_slopes[grid->step_count - 1]), "change_flat", a->change_flat);
}

static json_t *model_to_json(const ch_coordinate_model *model, const ch_coordinate_grid *grid) {
  json_t *list = json_array();
  for (int i = 0; i < model->activation_count; i++)
    json_array_append_new(list, activation_to_json(&model->activations[i], grid));
  return json_pack("{s:s, s:o}", "name", model->name, "activations", list);
}

json_t *ch_coordinates_to_json(const ch_coordinates *coordinates) {
  const ch_coordinate_grid *grid = &coordinates->grid;
  json_t *object = ch_experiment_to_json(&coordinates->about), *models = json_array();
  for (int m = 0; m < grid->model_count; m++)
    json_array_append_new(models, model_to_json(&coordinates->models[m], grid));
  json_t *found =
      json_pack("{s:s, s:o, s:o, s:I, s:I, s:f, s:o}", "parametrization",
                ch_parametrization_names[grid->parametrization], "widths",
                counts_to_json(grid->widths, grid->width_count), "steps",
                counts_to_json(grid->steps, grid->step_count), "layers", (json_int_t)grid->layers, "heads",
                (json_int_t)grid->heads, "flat_slope", CH_COORDINATE_FLAT, "mechanisms", models);
  bool fine = object && found && json_object_update(object, found) == 0;
  json_decref(found);
  if (fine) return object;
  json_decref(object);
  return NULL;
}

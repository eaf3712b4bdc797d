/* Reads curves and models from logs, results and tables. */
#define _GNU_SOURCE
#include "experiment/findings/curve_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "experiment/findings/number_table.h"

enum { MOST_BYTES = 1 << 30 };

static ch_status reserve_points(ch_arena *arena, size_t count, ch_loss_curve *curve, ch_error *error) {
  curve->tokens = ch_arena_alloc(arena, (count + 1) * sizeof *curve->tokens);
  curve->losses = ch_arena_alloc(arena, (count + 1) * sizeof *curve->losses);
  return curve->tokens && curve->losses ? CH_OK : ch_no_memory(error);
}

static void add_point(ch_loss_curve *curve, double tokens, double loss) {
  curve->tokens[curve->count] = tokens;
  curve->losses[curve->count++] = loss;
}

static size_t count_lines(const char *text) {
  size_t n = 1;
  for (; *text; text++) n += *text == '\n';
  return n;
}

/* --- logs -------------------------------------------------------------------------------------------------------- */

static double amount_of(const json_t *line) {
  const json_t *value = json_object_get(line, "tokens");
  return json_number_value(value ? value : json_object_get(line, "images"));
}

/* Reads the curve of a log. Lines whose loss is not a number in JSON, because it is not finite, are left
 * out. */
static ch_status read_log(char *text, bool validation, ch_arena *arena, ch_loss_curve *curve,
                          ch_error *error) {
  char *rest = text;
  CH_TRY(reserve_points(arena, count_lines(text), curve, error));
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    json_t *object = json_loads(line, 0, NULL);
    const char *event = json_string_value(json_object_get(object, "event"));
    const json_t *loss = json_object_get(object, validation ? "validation_loss" : "loss");
    bool wanted = event && strcmp(event, validation ? "evaluation" : "step") == 0 && json_is_number(loss);
    if (wanted) add_point(curve, amount_of(object), json_number_value(loss));
    json_decref(object);
  }
  return CH_OK;
}

/* --- results ----------------------------------------------------------------------------------------------------- */

static ch_status read_points(const json_t *list, ch_arena *arena, ch_loss_curve *curve, ch_error *error) {
  size_t i;
  json_t *point;
  CH_TRY(reserve_points(arena, json_array_size(list), curve, error));
  json_array_foreach(list, i, point) {
    const json_t *tokens = json_array_get(point, 0), *loss = json_array_get(point, 1);
    if (json_is_number(tokens) && json_is_number(loss))
      add_point(curve, json_number_value(tokens), json_number_value(loss));
  }
  return CH_OK;
}

static const char *curve_name(const json_t *run, ch_arena *arena) {
  const char *name = json_string_value(json_object_get(run, "name"));
  const json_t *lr = json_object_get(run, "lr"), *seed = json_object_get(run, "seed");
  char rate[32] = "", number[40] = "";
  if (json_is_number(lr)) snprintf(rate, sizeof rate, " at %.4g", json_number_value(lr));
  if (json_is_integer(seed))
    snprintf(number, sizeof number, ", seed %lld", (long long)json_integer_value(seed));
  return ch_arena_printf(arena, "%s%s%s", name ? name : "curve", rate, number);
}

static ch_status read_results(const char *path, const json_t *root, bool validation, ch_arena *arena,
                              ch_loss_curve **curves, int *count, ch_error *error) {
  const json_t *list = json_object_get(root, "models");
  size_t i;
  json_t *run;
  if (!json_is_array(list)) list = json_object_get(root, "runs");
  if (!json_is_array(list))
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no curves: neither \"models\" nor \"runs\"", path);
  *curves = ch_arena_alloc(arena, (json_array_size(list) + 1) * sizeof **curves);
  if (!*curves) return ch_no_memory(error);
  json_array_foreach(list, i, run) {
    ch_loss_curve *curve = &(*curves)[(*count)++];
    const json_t *points = json_object_get(run, validation ? "validation_curve" : "curve");
    curve->name = curve_name(run, arena);
    if (!curve->name) return ch_no_memory(error);
    if (!json_is_array(points))
      return ch_fail(error, CH_ERROR_FORMAT, "%s: run %zu has no \"%s\"%s", path, i + 1,
                     validation ? "validation_curve" : "curve",
                     json_object_get(root, "runs") ? "; list the runs with their curves" : "");
    CH_TRY(read_points(points, arena, curve, error));
  }
  return CH_OK;
}

/* --- tables ------------------------------------------------------------------------------------------------------ */

static const char *const of_tokens[] = {"tokens", "images", "d", "step", "steps", NULL};
static const char *const of_losses[] = {"loss", "validation_loss", "l", NULL};
static const char *const of_sizes[] = {"parameters", "params", "n", NULL};
static const ch_wanted_columns curve_columns = {
    2, {{"\"tokens\" (or step, images)", of_tokens}, {"\"loss\" (or validation_loss)", of_losses}}};
static const ch_wanted_columns model_columns = {3,
                                                {{"\"parameters\" (or n)", of_sizes},
                                                 {"\"tokens\" (or d)", of_tokens},
                                                 {"\"loss\" (or validation_loss)", of_losses}}};

/* --- formats ----------------------------------------------------------------------------------------------------- */

static ch_status read(const char *path, char *text, size_t size, bool validation, ch_arena *arena,
                      ch_loss_curve **curves, int *count, bool *table, ch_error *error) {
  const char *begin = text + strspn(text, " \t\r\n");
  bool log = *begin == '{' && strstr(begin, "\"event\"") &&
             strstr(begin, "\"event\"") < begin + strcspn(begin, "\n");
  *table = *begin != '{';
  if (*begin == '{' && !log) {
    json_t *root;
    CH_TRY(ch_json_parse(text, size, path, &root, error));
    ch_status status = read_results(path, root, validation, arena, curves, count, error);
    json_decref(root);
    return status;
  }
  char stem[128];
  ch_path_stem(path, stem, sizeof stem);
  *curves = ch_arena_alloc(arena, sizeof **curves);
  if (!*curves || !((*curves)->name = ch_arena_strdup(arena, stem))) return ch_no_memory(error);
  *count = 1;
  if (log) return read_log(text, validation, arena, *curves, error);
  CH_TRY(reserve_points(arena, count_lines(text), *curves, error));
  return ch_read_number_table(path, text, &curve_columns, (double *[]){(*curves)->tokens, (*curves)->losses},
                              &(*curves)->count, error);
}

ch_status ch_read_curves(const char *path, bool validation, ch_arena *arena, ch_loss_curve **curves,
                         int *count, bool *table, ch_error *error) {
  char *text;
  size_t size;
  bool is_table = false;
  *curves = NULL;
  *count = 0;
  CH_TRY(ch_read_file(path, MOST_BYTES, &text, &size, error));
  ch_status status = read(path, text, size, validation, arena, curves, count, &is_table, error);
  free(text);
  if (table) *table = is_table;
  return status;
}

/* --- models of several sizes ------------------------------------------------------------------------------------- */

/* Returns the number of parameters of a run's embeddings: the number that `compare` counted or, without it, the one
   that follows from the configuration; NaN if both are missing. */
static double embeddings_of(const json_t *run) {
  const json_t *config = json_object_get(run, "config");
  double counted = ch_json_number_at(run, "parameters_embedding", NAN);
  if (isnan(counted))
    counted = ch_json_number_at(json_object_get(run, "results"), "parameters_embedding", NAN);
  if (!isnan(counted)) return counted;
  bool tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
  return ch_json_number_at(config, "vocab_size", NAN) * ch_json_number_at(config, "hidden_size", NAN) *
         (tied ? 1 : 2);
}

/* Reads one run. A run that has not ended or lacks the loss is left out. */
static ch_status read_model(const char *path, const json_t *run, size_t number, bool validation,
                            ch_sized_models *models, ch_error *error) {
  const char *status = json_string_value(json_object_get(run, "status"));
  double tokens = ch_json_number_at(run, "tokens_trained", NAN), embeddings = embeddings_of(run);
  double size = ch_json_number_at(run, "parameters", NAN),
         loss = ch_json_number_at(run, validation ? "validation_loss" : "loss", NAN);
  if (isnan(tokens)) tokens = ch_json_number_at(run, "tokens", NAN);
  if ((status && strcmp(status, "done") != 0) || isnan(loss)) return CH_OK;
  if (isnan(size) || isnan(tokens) || isnan(embeddings))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s: run %zu lacks its parameters, those of its embeddings, or its tokens; the list of "
                   "recorded runs as JSON has all of them",
                   path, number);
  models->sizes[models->count] = size - embeddings;
  models->tokens[models->count] = tokens;
  models->losses[models->count++] = loss;
  return CH_OK;
}

static ch_status read_runs(const char *path, const json_t *root, bool validation, ch_sized_models *models,
                           ch_error *error) {
  const json_t *list = json_object_get(root, "models");
  size_t i;
  json_t *run;
  if (!json_is_array(list)) list = json_object_get(root, "runs");
  if (!json_is_array(list))
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no \"models\" and no \"runs\"", path);
  json_array_foreach(list, i, run) CH_TRY(read_model(path, run, i + 1, validation, models, error));
  return CH_OK;
}

static ch_status reserve_models(ch_arena *arena, size_t count, ch_sized_models *models, ch_error *error) {
  double **arrays[] = {&models->sizes, &models->tokens, &models->losses};
  for (int i = 0; i < 3; i++) {
    *arrays[i] = ch_arena_alloc(arena, (count + 1) * sizeof(double));
    if (!*arrays[i]) return ch_no_memory(error);
  }
  return CH_OK;
}

ch_status ch_read_sized_models(const char *path, bool validation, ch_arena *arena, ch_sized_models *models,
                               ch_error *error) {
  char *text;
  size_t size;
  json_t *root = NULL;
  *models = (ch_sized_models){0};
  CH_TRY(ch_read_file(path, MOST_BYTES, &text, &size, error));
  bool json = text[strspn(text, " \t\r\n")] == '{';
  ch_status status = json ? ch_json_parse(text, size, path, &root, error) : CH_OK;
  size_t most =
      json ? json_array_size(json_object_get(root, "models")) + json_array_size(json_object_get(root, "runs"))
           : count_lines(text);
  if (status == CH_OK) status = reserve_models(arena, most, models, error);
  double *const values[] = {models->sizes, models->tokens, models->losses};
  if (status == CH_OK)
    status = json ? read_runs(path, root, validation, models, error)
                  : ch_read_number_table(path, text, &model_columns, values, &models->count, error);
  json_decref(root);
  free(text);
  return status;
}

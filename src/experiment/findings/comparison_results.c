/* Writes results as JSON and reads them back. Each scalar of a model is a row of one table, so that writing and
 * reading cannot differ. */
#include "experiment/findings/comparison_results.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

double ch_model_result_flops(const ch_model_result *run) {
  return run->flops_projections + run->flops_context + run->flops_feed_forward + run->flops_head;
}

double ch_model_result_seconds(const ch_model_result *run) {
  if (run->train_seconds > 0) return run->train_seconds;
  return run->train_tokens_per_second > 0 ? (double)run->tokens_trained / run->train_tokens_per_second : 0;
}

double ch_model_result_cache(const ch_model_result *model) {
  if (!model->cache_depth) return (double)model->cache_elements_per_token;
  return (double)(model->cache_elements_at_depth + model->state_elements_per_sequence) /
         (double)model->cache_depth;
}

double ch_model_result_cache_bytes(const ch_model_result *model) {
  const double states =
      model->cache_depth ? (double)model->state_elements_per_sequence / (double)model->cache_depth : 0;
  return CH_CACHE_ELEMENT_BYTES * (ch_model_result_cache(model) - states) + (double)sizeof(float) * states;
}

bool ch_model_result_depends_on_depth(const ch_model_result *model) {
  return ch_model_result_cache(model) != (double)model->cache_elements_per_token;
}

typedef enum row_type { ROW_TEXT, ROW_WHOLE, ROW_NUMBER, ROW_SEED, ROW_FLAG } row_type;

/* Kinds of rows: for models of text, of images, or both. ROW_LATER: files of earlier versions lack the key; its value
   is then 0, or -1 for loss_spikes. */
enum { ROW_BOTH = 0, ROW_OF_TEXT = 1, ROW_OF_IMAGES = 2, ROW_LATER = 4 };

static const struct {
  const char *key;
  row_type type;
  size_t offset;
  int kind;
} rows[] = {
    {"name", ROW_TEXT, offsetof(ch_model_result, name), ROW_BOTH},
    {"directory", ROW_TEXT, offsetof(ch_model_result, directory), ROW_BOTH},
    {"mechanism", ROW_TEXT, offsetof(ch_model_result, mechanism), ROW_BOTH},
    {"layers", ROW_WHOLE, offsetof(ch_model_result, layers), ROW_BOTH},
    {"hidden_size", ROW_WHOLE, offsetof(ch_model_result, hidden_size), ROW_BOTH},
    {"heads", ROW_WHOLE, offsetof(ch_model_result, heads), ROW_BOTH},
    {"key_value_heads", ROW_WHOLE, offsetof(ch_model_result, key_value_heads), ROW_BOTH},
    {"head_dim", ROW_WHOLE, offsetof(ch_model_result, head_dim), ROW_BOTH},
    {"intermediate_size", ROW_WHOLE, offsetof(ch_model_result, intermediate_size), ROW_BOTH},
    {"parameters", ROW_WHOLE, offsetof(ch_model_result, parameters), ROW_BOTH},
    {"validation_loss", ROW_NUMBER, offsetof(ch_model_result, validation_loss), ROW_BOTH},
    {"cache_elements_per_token", ROW_WHOLE, offsetof(ch_model_result, cache_elements_per_token), ROW_OF_TEXT},
    {"cache_bytes_per_token", ROW_WHOLE, offsetof(ch_model_result, cache_bytes_per_token), ROW_OF_TEXT},
    {"cache_depth", ROW_WHOLE, offsetof(ch_model_result, cache_depth), ROW_OF_TEXT | ROW_LATER},
    {"cache_elements_at_depth", ROW_WHOLE, offsetof(ch_model_result, cache_elements_at_depth),
     ROW_OF_TEXT | ROW_LATER},
    {"state_elements_per_sequence", ROW_WHOLE, offsetof(ch_model_result, state_elements_per_sequence),
     ROW_OF_TEXT | ROW_LATER},
    {"train_tokens_per_second", ROW_NUMBER, offsetof(ch_model_result, train_tokens_per_second), ROW_OF_TEXT},
    {"decode_tokens_per_second", ROW_NUMBER, offsetof(ch_model_result, decode_tokens_per_second),
     ROW_OF_TEXT},
    {"train_tokens_per_second_spread", ROW_NUMBER, offsetof(ch_model_result, train_spread),
     ROW_OF_TEXT | ROW_LATER},
    {"train_unsteady", ROW_FLAG, offsetof(ch_model_result, train_unsteady), ROW_BOTH | ROW_LATER},
    {"decode_tokens_per_second_spread", ROW_NUMBER, offsetof(ch_model_result, decode_spread),
     ROW_OF_TEXT | ROW_LATER},
    {"decode_unsteady", ROW_FLAG, offsetof(ch_model_result, decode_unsteady), ROW_OF_TEXT | ROW_LATER},
    {"train_seconds", ROW_NUMBER, offsetof(ch_model_result, train_seconds), ROW_BOTH | ROW_LATER},
    {"timing_turns", ROW_WHOLE, offsetof(ch_model_result, timing_turns), ROW_BOTH | ROW_LATER},
    {"tokens_trained", ROW_WHOLE, offsetof(ch_model_result, tokens_trained), ROW_OF_TEXT},
    {"seed", ROW_SEED, offsetof(ch_model_result, seed), ROW_BOTH},
    {"lr", ROW_NUMBER, offsetof(ch_model_result, lr), ROW_BOTH | ROW_LATER},
    {"lr_low", ROW_NUMBER, offsetof(ch_model_result, lr_low), ROW_BOTH | ROW_LATER},
    {"lr_high", ROW_NUMBER, offsetof(ch_model_result, lr_high), ROW_BOTH | ROW_LATER},
    {"lr_at_edge", ROW_FLAG, offsetof(ch_model_result, lr_at_edge), ROW_BOTH | ROW_LATER},
    {"usual_lr_cost", ROW_NUMBER, offsetof(ch_model_result, usual_lr_cost), ROW_BOTH | ROW_LATER},
    {"parameters_attention", ROW_WHOLE, offsetof(ch_model_result, parameters_attention),
     ROW_BOTH | ROW_LATER},
    {"parameters_active", ROW_WHOLE, offsetof(ch_model_result, parameters_active), ROW_BOTH | ROW_LATER},
    {"top1", ROW_NUMBER, offsetof(ch_model_result, top1), ROW_OF_IMAGES},
    {"top5", ROW_NUMBER, offsetof(ch_model_result, top5), ROW_OF_IMAGES},
    {"train_images_per_second", ROW_NUMBER, offsetof(ch_model_result, train_tokens_per_second),
     ROW_OF_IMAGES},
    {"predict_images_per_second", ROW_NUMBER, offsetof(ch_model_result, decode_tokens_per_second),
     ROW_OF_IMAGES},
    {"train_images_per_second_spread", ROW_NUMBER, offsetof(ch_model_result, train_spread),
     ROW_OF_IMAGES | ROW_LATER},
    {"predict_images_per_second_spread", ROW_NUMBER, offsetof(ch_model_result, decode_spread),
     ROW_OF_IMAGES | ROW_LATER},
    {"predict_unsteady", ROW_FLAG, offsetof(ch_model_result, decode_unsteady), ROW_OF_IMAGES | ROW_LATER},
    {"images_trained", ROW_WHOLE, offsetof(ch_model_result, tokens_trained), ROW_OF_IMAGES},
    {"parameters_embedding", ROW_WHOLE, offsetof(ch_model_result, parameters_embedding),
     ROW_BOTH | ROW_LATER},
    {"parameters_feed_forward", ROW_WHOLE, offsetof(ch_model_result, parameters_feed_forward),
     ROW_BOTH | ROW_LATER},
    {"parameters_gate_embedding", ROW_WHOLE, offsetof(ch_model_result, parameters_gate_embedding),
     ROW_BOTH | ROW_LATER},
    {"flops_per_token_forward", ROW_NUMBER, offsetof(ch_model_result, flops), ROW_OF_TEXT | ROW_LATER},
    {"flops_per_image_forward", ROW_NUMBER, offsetof(ch_model_result, flops), ROW_OF_IMAGES | ROW_LATER},
    {"flops_depth", ROW_WHOLE, offsetof(ch_model_result, flops_depth), ROW_BOTH | ROW_LATER},
    {"flops_attention_projections", ROW_NUMBER, offsetof(ch_model_result, flops_projections),
     ROW_BOTH | ROW_LATER},
    {"flops_attention_context", ROW_NUMBER, offsetof(ch_model_result, flops_context), ROW_BOTH | ROW_LATER},
    {"flops_feed_forward", ROW_NUMBER, offsetof(ch_model_result, flops_feed_forward), ROW_BOTH | ROW_LATER},
    {"flops_head", ROW_NUMBER, offsetof(ch_model_result, flops_head), ROW_BOTH | ROW_LATER},
    {"loss_spikes", ROW_WHOLE, offsetof(ch_model_result, loss_spikes), ROW_BOTH | ROW_LATER},
};

enum { ROWS = sizeof rows / sizeof *rows };

static bool of_kind(int row, bool images) {
  return !(rows[row].kind & (images ? ROW_OF_TEXT : ROW_OF_IMAGES));
}

static json_t *row_to_json(const ch_model_result *model, int row) {
  const char *member = (const char *)model + rows[row].offset;
  switch (rows[row].type) {
  case ROW_TEXT:
    return json_string(*(const char *const *)(const void *)member);
  case ROW_WHOLE:
    return json_integer(*(const int64_t *)(const void *)member);
  case ROW_SEED:
    return json_integer((json_int_t) * (const uint64_t *)(const void *)member);
  case ROW_FLAG:
    return json_boolean(*(const bool *)(const void *)member);
  case ROW_NUMBER:
    break;
  }
  return ch_json_finite(*(const double *)(const void *)member);
}

json_t *ch_curve_to_json(const ch_curve_point *points, int64_t count) {
  json_t *list = json_array();
  for (int64_t i = 0; list && i < count; i++)
    ch_json_append(&list, json_pack("[I, o]", (json_int_t)points[i].tokens, ch_json_finite(points[i].loss)));
  return list;
}

static json_t *tried_to_json(const ch_model_result *model) {
  json_t *list = json_array();
  for (int i = 0; list && i < model->tried_count; i++) {
    const ch_tried_rate *rate = &model->tried[i];
    ch_json_append(
        &list, json_pack("{s:f, s:f, s:b}", "lr", rate->lr, "loss", rate->loss, "stopped", rate->stopped));
  }
  return list;
}

static json_t *tasks_to_json(const ch_model_result *model) {
  json_t *list = json_array();
  for (int i = 0; list && i < model->task_count; i++) {
    const ch_task_result *t = &model->tasks[i];
    ch_json_append(&list, json_pack("{s:s, s:s, s:f, s:f, s:I, s:I}", "task", t->task, "metric", t->metric,
                                    "value", t->value, "stderr", t->error, "items", (json_int_t)t->items,
                                    "limit", (json_int_t)t->limit));
  }
  return list;
}

bool ch_trained_on_copy(const ch_trained_on *from, ch_arena *arena, ch_trained_on *to) {
  *to = (ch_trained_on){from->device_name ? ch_arena_strdup(arena, from->device_name) : NULL,
                        from->torch ? ch_arena_strdup(arena, from->torch) : NULL,
                        from->python ? ch_arena_strdup(arena, from->python) : NULL};
  return !from->device_name == !to->device_name && !from->torch == !to->torch && !from->python == !to->python;
}

bool ch_trained_on_put(const ch_trained_on *on, json_t *object) {
  json_t *members =
      json_pack("{ss* ss* ss*}", "device_name", on->device_name, "torch", on->torch, "python", on->python);
  return members && json_object_update_new(object, members) == 0;
}

bool ch_trained_on_take(const json_t *object, ch_arena *arena, ch_trained_on *on) {
  const ch_trained_on found = {json_string_value(json_object_get(object, "device_name")),
                               json_string_value(json_object_get(object, "torch")),
                               json_string_value(json_object_get(object, "python"))};
  return ch_trained_on_copy(&found, arena, on);
}

json_t *ch_model_result_to_json(const ch_model_result *model) {
  json_t *object = json_object();
  bool fine = object != NULL;
  for (int i = 0; fine && i < ROWS; i++) {
    if (!of_kind(i, model->images)) continue;
    fine = json_object_set_new(object, rows[i].key, row_to_json(model, i)) == 0;
    if (fine && !model->images && strcmp(rows[i].key, "validation_loss") == 0)
      fine = json_object_set_new(object, "perplexity",
                                 isinf(model->validation_loss)
                                     ? json_null()
                                     : json_real(fmin(exp(model->validation_loss), 1e300))) == 0;
  }
  fine = fine && ch_trained_on_put(&model->trained_on, object);
  if (model->decode_points)
    fine = fine && json_object_set_new(object, "decode_curve",
                                       ch_curve_to_json(model->decode_curve, model->decode_points)) == 0;
  if (model->task_count) fine = fine && json_object_set_new(object, "tasks", tasks_to_json(model)) == 0;
  if (model->tried_count)
    fine = fine && json_object_set_new(object, "tried_rates", tried_to_json(model)) == 0;
  fine = fine &&
         json_object_set_new(object, "curve", ch_curve_to_json(model->curve, model->curve_points)) == 0 &&
         json_object_set_new(object, "validation_curve",
                             ch_curve_to_json(model->validation_curve, model->validation_points)) == 0;
  if (fine) return object;
  json_decref(object);
  return NULL;
}

/* --- reading --------------------------------------------------------------------------------------------------- */

static ch_status wrong_results_key(const char *where, const char *key, ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: \"%s\" is missing or not what `compare` writes; delete the file to measure "
                 "this model again",
                 where, key);
}

static ch_status row_from_json(const json_t *value, int row, const char *where, ch_arena *arena,
                               ch_model_result *model, ch_error *error) {
  char *member = (char *)model + rows[row].offset;
  row_type type = rows[row].type;
  if (!value && (rows[row].kind & ROW_LATER)) return CH_OK;
  if (json_is_null(value) && rows[row].offset == offsetof(ch_model_result, validation_loss)) {
    model->validation_loss = INFINITY;
    return CH_OK;
  }
  if (type == ROW_TEXT     ? !json_is_string(value)
      : type == ROW_NUMBER ? !json_is_number(value)
      : type == ROW_FLAG   ? !json_is_boolean(value)
                           : !json_is_integer(value))
    return wrong_results_key(where, rows[row].key, error);
  if (type == ROW_TEXT) {
    char *copy = ch_arena_strdup(arena, json_string_value(value));
    if (!copy) return ch_no_memory(error);
    *(const char **)(void *)member = copy;
  } else if (type == ROW_NUMBER) {
    *(double *)(void *)member = json_number_value(value);
  } else if (type == ROW_FLAG) {
    *(bool *)(void *)member = json_is_true(value);
  } else {
    *(int64_t *)(void *)member = json_integer_value(value); /* ROW_SEED: unsigned, with the same bits */
  }
  return CH_OK;
}

static ch_status curve_from_json(const json_t *list, const char *key, const char *where, ch_arena *arena,
                                 const ch_curve_point **points, int *count, ch_error *error) {
  if (!json_is_array(list)) return wrong_results_key(where, key, error);
  size_t size = json_array_size(list);
  ch_curve_point *copies = ch_arena_alloc(arena, (size + 1) * sizeof *copies);
  if (!copies) return ch_no_memory(error);
  for (size_t i = 0; i < size; i++) {
    const json_t *point = json_array_get(list, i);
    const json_t *tokens = json_array_get(point, 0), *loss = json_array_get(point, 1);
    if (!json_is_integer(tokens) || !json_is_number(loss)) return wrong_results_key(where, key, error);
    copies[i] = (ch_curve_point){json_integer_value(tokens), json_number_value(loss)};
  }
  *points = copies;
  *count = (int)size;
  return CH_OK;
}

static ch_status tried_from_json(const json_t *list, const char *where, ch_arena *arena,
                                 ch_model_result *model, ch_error *error) {
  size_t size = json_array_size(list);
  ch_tried_rate *tried = ch_arena_alloc(arena, (size + 1) * sizeof *tried);
  if (!tried) return ch_no_memory(error);
  for (size_t i = 0; i < size; i++) {
    const json_t *row = json_array_get(list, i), *lr = json_object_get(row, "lr"),
                 *loss = json_object_get(row, "loss"), *stopped = json_object_get(row, "stopped");
    if (!json_is_number(lr) || !json_is_number(loss) || !json_is_boolean(stopped))
      return wrong_results_key(where, "tried_rates", error);
    tried[i] = (ch_tried_rate){json_number_value(lr), json_number_value(loss), json_is_true(stopped)};
  }
  model->tried = tried;
  model->tried_count = (int32_t)size;
  return CH_OK;
}

static ch_status tasks_from_json(const json_t *list, const char *where, ch_arena *arena,
                                 ch_model_result *model, ch_error *error) {
  size_t size = json_array_size(list);
  ch_task_result *tasks = ch_arena_alloc(arena, (size + 1) * sizeof *tasks);
  if (!tasks) return ch_no_memory(error);
  for (size_t i = 0; i < size; i++) {
    const char *task, *metric;
    json_int_t items, limit;
    if (json_unpack(json_array_get(list, i), "{s:s, s:s, s:F, s:F, s:I, s:I}", "task", &task, "metric",
                    &metric, "value", &tasks[i].value, "stderr", &tasks[i].error, "items", &items, "limit",
                    &limit) != 0)
      return wrong_results_key(where, "tasks", error);
    tasks[i].task = ch_arena_strdup(arena, task);
    tasks[i].metric = ch_arena_strdup(arena, metric);
    tasks[i].items = items;
    tasks[i].limit = limit;
    if (!tasks[i].task || !tasks[i].metric) return ch_no_memory(error);
  }
  model->tasks = tasks;
  model->task_count = (int32_t)size;
  return CH_OK;
}

ch_status ch_model_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_model_result *model, ch_error *error) {
  *model = (ch_model_result){.images = json_object_get(object, "images_trained") != NULL, .loss_spikes = -1};
  for (int i = 0; i < ROWS; i++)
    if (of_kind(i, model->images))
      CH_TRY(row_from_json(json_object_get(object, rows[i].key), i, where, arena, model, error));
  if (!ch_trained_on_take(object, arena, &model->trained_on)) return ch_no_memory(error);
  const json_t *depths = json_object_get(object, "decode_curve");
  if (depths)
    CH_TRY(curve_from_json(depths, "decode_curve", where, arena, &model->decode_curve, &model->decode_points,
                           error));
  CH_TRY(tasks_from_json(json_object_get(object, "tasks"), where, arena, model, error));
  CH_TRY(tried_from_json(json_object_get(object, "tried_rates"), where, arena, model, error));
  CH_TRY(curve_from_json(json_object_get(object, "curve"), "curve", where, arena, &model->curve,
                         &model->curve_points, error));
  return curve_from_json(json_object_get(object, "validation_curve"), "validation_curve", where, arena,
                         &model->validation_curve, &model->validation_points, error);
}

/* --- files --- */

/* Puts every list of numbers on one line. In jansson's text a line break is never inside a string. Returns the new
   length. */
static size_t join_number_lists(char *text) {
  char *to = text;
  bool joining = false;
  for (const char *from = text; *from; from++) {
    if (*from == '[' && from[1] == '\n') {
      const char *first = from + 1 + strspn(from + 1, "\n ");
      joining = *first == '-' || (*first >= '0' && *first <= '9');
    }
    if (joining && *from == '\n') {
      const char *next = from + strspn(from, "\n ");
      if (to[-1] == ',') *to++ = ' ';
      from = next - 1;
      continue;
    }
    if (*from == ']') joining = false;
    *to++ = *from;
  }
  *to = 0;
  return (size_t)(to - text);
}

ch_status ch_write_json(const char *path, json_t *object, int digits, ch_error *error) {
  char *text = object ? ch_json_dump(object, JSON_INDENT(1) | JSON_REAL_PRECISION(digits)) : NULL;
  json_decref(object);
  if (!text) return ch_no_memory(error);
  size_t length = join_number_lists(text);
  text[length] = '\n'; /* replaces the NUL, so the text is written by its length */
  ch_status status = ch_write_file(path, text, length + 1, error);
  free(text);
  return status;
}

json_t *ch_estimate_to_json(const ch_estimate *e) {
  return json_pack("{s:o, s:o, s:o}", "value", ch_json_finite(e->value), "low", ch_json_finite(e->low),
                   "high", ch_json_finite(e->high));
}

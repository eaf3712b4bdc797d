/* From names to configurations of equal size. */
#include "train/compare_plan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "train/compare_results.h"
#include "train/match.h"

/* --- names --------------------------------------------------------------------------------------------------------- */

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory for the list of mechanisms");
}

/* Characters that file systems and shells take without quoting; everything else becomes '-'. */
static void make_plain(char *name) {
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') *c = '-';
  if (*name == '-') *name = '_';
}

static bool directory_taken(const ch_compare_plan *plan, const char *directory) {
  for (int i = 0; i < plan->count; i++)
    if (strcmp(plan->models[i].directory, directory) == 0) return true;
  return false;
}

static const char *choose_directory(ch_compare_plan *plan, const char *name, bool from_file) {
  char base[96];
  if (from_file)
    ch_path_stem(name, base, sizeof base);
  else
    snprintf(base, sizeof base, "%s", name);
  make_plain(base);
  if (!*base) snprintf(base, sizeof base, "model");
  const char *directory = ch_arena_strdup(&plan->arena, base);
  for (int n = 2; directory && directory_taken(plan, directory); n++)
    directory = ch_arena_printf(&plan->arena, "%s-%d", base, n);
  return directory;
}

static ch_status add(ch_compare_plan *plan, const char *name, ch_error *error) {
  if (!*name)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--mechanisms has an empty name; write names with one comma between, as in mha,gqa:4,mqa");
  if (plan->count == CH_COMPARE_MOST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--mechanisms names more than %d mechanisms", CH_COMPARE_MOST);
  for (int i = 0; i < plan->count; i++)
    if (strcmp(plan->models[i].name, name) == 0)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--mechanisms names %.64s twice", name);
  ch_planned_model *model = &plan->models[plan->count];
  model->from_file = ch_preset_is_path(name);
  if (model->from_file)
    CH_TRY(ch_config_read(name, &model->given, error));
  else
    CH_TRY(ch_preset_check(name, error));
  model->config = model->given;
  model->name = ch_valid_text(&plan->arena, name);
  model->directory = choose_directory(plan, name, model->from_file);
  if (!model->name || !model->directory) return no_memory(error);
  plan->count++;
  return CH_OK;
}

ch_status ch_compare_plan_names(const char *mechanisms, ch_compare_plan *plan, ch_error *error) {
  *plan = (ch_compare_plan){0};
  for (const char *p = mechanisms;; p++) {
    while (*p == ' ') p++;
    size_t length = strcspn(p, ","), kept = length;
    while (kept > 0 && p[kept - 1] == ' ') kept--;
    const char *name = ch_arena_printf(&plan->arena, "%.*s", (int)kept, p);
    if (!name) return no_memory(error);
    CH_TRY(add(plan, name, error));
    p += length;
    if (!*p) return CH_OK;
  }
}

void ch_compare_plan_free(ch_compare_plan *plan) {
  ch_arena_free(&plan->arena);
  plan->count = 0;
}

/* --- shapes -------------------------------------------------------------------------------------------------------- */

static const ch_planned_model *first_file(const ch_compare_plan *plan) {
  for (int i = 0; i < plan->count; i++)
    if (plan->models[i].from_file) return &plan->models[i];
  return NULL;
}

ch_status ch_compare_plan_size(const ch_compare_plan *plan, const ch_shape_wishes *wishes,
                               int64_t usual_params, int64_t *params, ch_error *error) {
  const ch_planned_model *file = first_file(plan);
  *params = wishes->params ? wishes->params : usual_params;
  if (wishes->params) return CH_OK;
  if (file) {
    ch_config config = file->config;
    if (wishes->vocab) config.vocab_size = wishes->vocab;
    return ch_count_parameters(&config, wishes->counted, params, error);
  }
  if (!wishes->layers || !wishes->hidden) return CH_OK;
  ch_shape_wishes whole = *wishes;
  ch_config config;
  if (!whole.vocab) whole.vocab = ch_base_vocabulary(usual_params, INT64_MAX);
  CH_TRY(ch_base_shape(&whole, &config, error));
  return ch_count_parameters(&config, wishes->counted, params, error);
}

/* A config file keeps its shape; its vocabulary is the tokenizer's and its FFN is adjusted. */
static ch_status complete_file(ch_planned_model *model, const ch_shape_wishes *wishes, ch_error *error) {
  ch_config *config = &model->config;
  bool images = wishes->image.size > 0;
  if (ch_config_is_vision(config) != images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s takes %s, where the comparison is on %s", model->name,
                   images ? "text" : "images", images ? "images" : "text");
  if (images) return CH_OK; /* whether the images fit shows when they are prepared for it */
  config->vocab_size = wishes->vocab;
  config->bos_token_id = config->eos_token_id = -1;
  if (config->max_position_embeddings < wishes->context) config->max_position_embeddings = wishes->context;
  return ch_config_validate(config, model->name, error);
}

ch_status ch_compare_plan_shapes(ch_compare_plan *plan, const ch_shape_wishes *wishes, int64_t usual_params,
                                 ch_error *error) {
  ch_shape_wishes shape = *wishes;
  ch_config base, configs[CH_COMPARE_MOST];
  const char *names[CH_COMPARE_MOST];
  int64_t parameters[CH_COMPARE_MOST];
  CH_TRY(ch_compare_plan_size(plan, wishes, usual_params, &shape.params, error));
  plan->target = shape.params;
  bool derived = false;
  for (int i = 0; i < plan->count; i++) {
    ch_planned_model *model = &plan->models[i];
    if (model->from_file) {
      CH_TRY(complete_file(model, &shape, error));
    } else {
      if (!derived) CH_TRY(ch_base_shape(&shape, &base, error));
      derived = true;
      model->config = base;
      CH_TRY(ch_preset_apply(model->name, &model->config, error));
    }
    configs[i] = model->config;
    names[i] = model->name;
  }
  CH_TRY(ch_match_parameters(configs, names, plan->count, shape.counted, plan->target, parameters, error));
  for (int i = 0; i < plan->count; i++) {
    plan->models[i].config = configs[i];
    CH_TRY(ch_count_parameters(&configs[i], CH_COUNT_ALL, &plan->models[i].parameters, error));
  }
  return CH_OK;
}

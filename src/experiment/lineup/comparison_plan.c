/* Plans models of equal size from names and configuration files: their directories, shapes and widths. trial/ decides
 * rates, data and steps. */
#include "experiment/lineup/comparison_plan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/file.h"
#include "attention/registry.h"
#include "config_file/config_json.h"
#include "experiment/lineup/match_size.h"

/* --- names ------------------------------------------------------------------------------------------------------ */

/* Replaces all characters except letters, digits and '_' by '-', so that shells need no quoting. A '-' at the start
 * becomes '_'. */
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

/* Adds the model of one name. Names of mechanisms are converted to lower case. */
static ch_status add_mechanism(ch_compare_plan *plan, char *name, ch_error *error) {
  bool from_file = ch_preset_is_path(name);
  for (char *c = name; *c && !from_file; c++) *c = (char)tolower((unsigned char)*c);
  if (!*name)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{mechanisms} has an empty name; separate names with one comma, as in mha,gqa:4,mqa");
  if (plan->count == CH_COMPARE_MOST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{mechanisms} names more than %d mechanisms", CH_COMPARE_MOST);
  for (int i = 0; i < plan->count; i++)
    if (strcmp(plan->models[i].name, name) == 0)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{mechanisms} names %.64s twice", name);
  ch_planned_model *model = &plan->models[plan->count];
  model->from_file = from_file;
  if (from_file)
    CH_TRY(ch_config_read(name, &model->given, error));
  else
    CH_TRY(ch_preset_check(name, error));
  model->config = model->given;
  model->name = ch_valid_text(&plan->arena, name);
  model->directory = choose_directory(plan, name, from_file);
  if (!model->name || !model->directory) return ch_no_memory(error);
  plan->count++;
  return CH_OK;
}

ch_status ch_compare_plan_names(const char *mechanisms, ch_compare_plan *plan, ch_error *error) {
  *plan = (ch_compare_plan){0};
  for (const char *p = mechanisms;; p++) {
    while (*p == ' ') p++;
    size_t length = strcspn(p, ","), kept = length;
    while (kept > 0 && p[kept - 1] == ' ') kept--;
    char *name = ch_arena_printf(&plan->arena, "%.*s", (int)kept, p);
    if (!name) return ch_no_memory(error);
    CH_TRY(add_mechanism(plan, name, error));
    p += length;
    if (!*p) return CH_OK;
  }
}

void ch_compare_plan_free(ch_compare_plan *plan) {
  ch_arena_free(&plan->arena);
  plan->count = 0;
}

/* --- shapes ----------------------------------------------------------------------------------------------------- */

static const ch_planned_model *first_file(const ch_compare_plan *plan) {
  for (int i = 0; i < plan->count; i++)
    if (plan->models[i].from_file) return &plan->models[i];
  return NULL;
}

ch_shape_wishes ch_compare_wishes(const ch_compare_lineup *s) {
  return (ch_shape_wishes){.params = s->parameters,
                           .match = s->match,
                           .cache = s->cache_per_token,
                           .vocab = s->vocab,
                           .context = s->sequence,
                           .layers = s->layers,
                           .hidden = s->hidden,
                           .heads = s->heads,
                           .init = s->init,
                           .parametrization = s->parametrization};
}

ch_count_kind ch_counted_by(const ch_shape_wishes *wishes) {
  return wishes->match == CH_MATCH_ACTIVE ? CH_COUNT_ACTIVE : CH_COUNT_ALL;
}

ch_status ch_compare_plan_size(const ch_compare_plan *plan, const ch_shape_wishes *wishes,
                               int64_t usual_params, int64_t *params, ch_error *error) {
  const ch_planned_model *file = first_file(plan);
  *params = wishes->params ? wishes->params : usual_params;
  if (wishes->params) return CH_OK;
  if (file) {
    ch_config config = file->config;
    if (wishes->vocab) config.vocab_size = wishes->vocab;
    return ch_count_parameters(&config, ch_counted_by(wishes), params, error);
  }
  if (!wishes->layers || !wishes->hidden) return CH_OK;
  ch_shape_wishes whole = *wishes;
  ch_config config;
  if (!whole.vocab) whole.vocab = ch_base_vocabulary(usual_params, INT64_MAX);
  CH_TRY(ch_base_shape(&whole, &config, error));
  return ch_count_parameters(&config, ch_counted_by(wishes), params, error);
}

/* Completes the model of a config file: it gets the tokenizer's vocabulary and at least the requested context. */
static ch_status complete_file(ch_planned_model *model, const ch_shape_wishes *wishes, ch_error *error) {
  ch_config *config = &model->config;
  bool images = wishes->image.size > 0;
  if (ch_config_is_vision(config) != images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is for %s, but the comparison is on %s", model->name,
                   images ? "text" : "images", images ? "images" : "text");
  if (images) return CH_OK; /* the size of images is checked when they are prepared */
  config->vocab_size = wishes->vocab;
  config->bos_token_id = config->eos_token_id = -1;
  if (config->max_position_embeddings < wishes->context) config->max_position_embeddings = wishes->context;
  return ch_config_validate(config, model->name, error);
}

/* Returns the number of networks that process a token: the active experts, or one FFN. */
static int64_t networks_of(const ch_config *config) {
  return config->moe.experts > 0 ? config->moe.active : 1;
}

/* Sets a model's FFN width to another's. Active experts together have the width of an FFN. */
static void take_width(const ch_config *from, ch_config *to) {
  int64_t width = ch_matched_width(from) * networks_of(from) / networks_of(to);
  ch_set_matched_width(to, width > 0 ? width : 1);
}

/* Chooses FFN widths. The first model gives the target of CH_MATCH_FLOPS, and the width of CH_MATCH_NONE. */
static ch_status match_plan(ch_config *configs, const char *const *names, const ch_compare_plan *plan,
                            const ch_shape_wishes *shape, ch_error *error) {
  int64_t parameters[CH_COMPARE_MOST], flops;
  bool first_alone = shape->match == CH_MATCH_FLOPS || shape->match == CH_MATCH_NONE;
  if (!first_alone)
    return ch_match_parameters(configs, names, plan->count, ch_counted_by(shape), plan->target, parameters,
                               error);
  CH_TRY(ch_match_parameters(configs, names, 1, ch_counted_by(shape), plan->target, parameters, error));
  if (shape->match == CH_MATCH_FLOPS) {
    int64_t depth = shape->image.size > 0 ? 0 : shape->context;
    CH_TRY(ch_count_flops(&configs[0], depth, &flops, error));
    return plan->count > 1 ? ch_match_flops(configs + 1, names + 1, plan->count - 1, depth, flops, error)
                           : CH_OK;
  }
  for (int i = 1; i < plan->count; i++)
    if (!plan->models[i].from_file && !plan->models[0].from_file) take_width(&configs[0], &configs[i]);
  return CH_OK;
}

ch_status ch_compare_plan_shapes(ch_compare_plan *plan, const ch_shape_wishes *wishes, int64_t usual_params,
                                 ch_error *error) {
  ch_shape_wishes shape = *wishes;
  ch_config base, configs[CH_COMPARE_MOST];
  const char *names[CH_COMPARE_MOST];
  CH_TRY(ch_compare_plan_size(plan, wishes, usual_params, &shape.params, error));
  plan->target = shape.params;
  bool derived = false;
  for (int i = 0; i < plan->count; i++) {
    ch_planned_model *model = &plan->models[i];
    if (model->from_file) {
      CH_TRY(complete_file(model, &shape, error));
      if (shape.match == CH_MATCH_CACHE)
        CH_TRY(ch_check_cache(model->name, ch_state_elements(&model->config), shape.cache, NULL, error));
    } else {
      if (!derived) CH_TRY(ch_base_shape(&shape, &base, error));
      derived = true;
      model->config = base;
      CH_TRY(shape.match == CH_MATCH_CACHE
                 ? ch_preset_apply_cache(model->name, shape.cache, &model->config, error)
                 : ch_preset_apply(model->name, &model->config, error));
    }
    configs[i] = model->config;
    names[i] = model->name;
  }
  CH_TRY(match_plan(configs, names, plan, &shape, error));
  for (int i = 0; i < plan->count; i++) {
    plan->models[i].config = configs[i];
    CH_TRY(ch_count_parameters(&configs[i], CH_COUNT_ALL, &plan->models[i].parameters, error));
  }
  return CH_OK;
}

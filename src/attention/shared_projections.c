/* Checks that every layer has the projections of "sharing.projections", in one shape unless the sharing is low-rank.
 * For the check, layers declare only the shapes of their projections. */
#include <stdio.h>

#include "attention/registry.h"

static ch_status no_such_projection(const ch_config *config, const ch_projection_shapes *shapes,
                                    const char *name, const char *where, ch_error *error) {
  char names[CH_MAX_PROJECTIONS * (CH_PROJECTION_NAME_SIZE + 4)] = "";
  size_t used = 0;
  for (int i = 0; i < shapes->count; i++)
    used +=
        (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"", i ? ", " : "", shapes->rows[i].name);
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"sharing.projections\" names \"%s\", which \"attention.type\" \"%s\" does not have "
                 "here; its projections are %s",
                 where, name, config->attention.type, names);
}

static ch_status check_one(const ch_config *config, ch_projection_shapes *shapes, const char *name,
                           const char *where, ch_error *error) {
  const ch_projection_shape *row = ch_noted_projection(shapes, name);
  if (!row) return no_such_projection(config, shapes, name, where, error);
  if (row->layers < config->num_hidden_layers)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.projections\" names \"%s\", which the layers of a group share already: "
                   "\"attention.layer_group_size\" is %lld; leave it out, or use groups of 1 layer",
                   where, name, (long long)config->attention.layer_group_size);
  if (!row->other_out || config->sharing.type == CH_SHARING_LOW_RANK) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"sharing.projections\" names \"%s\", which \"attention.head_mix\" makes [%lld, %lld] in one "
      "layer and [%lld, %lld] in another; only matrices of one shape can be shared, so leave it out",
      where, name, (long long)row->out, (long long)row->in, (long long)row->other_out,
      (long long)row->other_in);
}

ch_status ch_list_projections(const ch_config *config, ch_projection_shapes *shapes, ch_error *error) {
  ch_params params = {0}; /* gets the norms and modules, which are not needed here */
  *shapes = (ch_projection_shapes){0};
  ch_declaration declaration = {.config = config, .params = &params, .shapes = shapes};
  for (; declaration.layer < config->num_hidden_layers; declaration.layer++)
    ch_attention_declare(&declaration);
  ch_status status = ch_params_status(&params, error);
  ch_params_free(&params);
  return status;
}

ch_status ch_check_shared_projections(const ch_config *config, const char *where, ch_error *error) {
  if (config->sharing.type == CH_SHARING_NONE) return CH_OK;
  ch_projection_shapes shapes;
  CH_TRY(ch_list_projections(config, &shapes, error));
  for (int i = 0; i < config->sharing.projection_count; i++)
    CH_TRY(check_one(config, &shapes, config->sharing.projections[i], where, error));
  return CH_OK;
}

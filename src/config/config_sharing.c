/* The rules of the `sharing` object: which of its keys go with which type. */
#include <string.h>

#include "config/config_modules.h"

static const char *const type_names[] = {"", "masa", "sequential", "repeat", "low_rank"};

/* A key that the type does not read. */
static ch_status not_of_type(const ch_sharing *s, const char *key, const char *value, const char *owner,
                             const char *where, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"sharing.%s\" is %s, but it belongs to \"sharing.type\" %s and not to \"%s\"; leave it out",
      where, key, value, owner, type_names[s->type]);
}

static ch_status check_atoms(const ch_config *c, const char *where, ch_error *error) {
  const ch_sharing *s = &c->sharing;
  if (!s->atoms)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.atoms\" is missing; \"sharing.type\" \"%s\" needs a whole number from 1 to "
                   "\"num_hidden_layers\", %lld",
                   where, type_names[s->type], (long long)c->num_hidden_layers);
  if (s->atoms > c->num_hidden_layers)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"sharing.atoms\" is %lld, more than \"num_hidden_layers\", %lld; as many save nothing, "
        "so ask for fewer",
        where, (long long)s->atoms, (long long)c->num_hidden_layers);
  if (s->rank) return not_of_type(s, "rank", "a number", "\"low_rank\"", where, error);
  return CH_OK;
}

static ch_status check_named_once(const ch_sharing *s, const char *where, ch_error *error) {
  for (int i = 0; i < s->projection_count; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(s->projections[i], s->projections[k]) == 0)
        return ch_fail(error, CH_ERROR_CONFIG, "%s: \"sharing.projections\" names \"%s\" twice; name it once",
                       where, s->projections[i]);
  return CH_OK;
}

ch_status ch_config_check_sharing(const ch_config *config, const char *where, ch_error *error) {
  const ch_sharing *s = &config->sharing;
  bool any = s->projection_count || s->atoms || s->rank || s->coefficients || s->common_dictionary;
  if (s->type == CH_SHARING_NONE)
    return !any ? CH_OK
                : ch_fail(error, CH_ERROR_CONFIG,
                          "%s: \"sharing.type\" is missing; it must be one of \"masa\", \"sequential\", "
                          "\"repeat\", \"low_rank\"",
                          where);
  if (!s->projection_count)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.projections\" is missing; it must name some, as in [\"q\", \"k\", \"v\"]",
                   where);
  CH_TRY(check_named_once(s, where, error));
  if (s->type != CH_SHARING_MASA && s->coefficients)
    return not_of_type(s, "coefficients", "\"mlp\"", "\"masa\"", where, error);
  if (s->type != CH_SHARING_MASA && s->common_dictionary)
    return not_of_type(s, "common_dictionary", "true", "\"masa\"", where, error);
  if (s->type != CH_SHARING_LOW_RANK) return check_atoms(config, where, error);
  if (s->atoms)
    return not_of_type(s, "atoms", "a number", "\"masa\", \"sequential\" or \"repeat\"", where, error);
  return CH_OK;
}

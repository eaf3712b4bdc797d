/* The rules of the `sharing` object: the keys of each type. */
#include <string.h>

#include "config_file/modules.h"

static const char *const type_names[] = {"", "masa", "sequential", "repeat", "low_rank"};

/* Fails for a key that the type of sharing does not read. */
static ch_status not_of_type(const ch_sharing *s, const char *key, const char *value, const char *owner,
                             const char *where, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"sharing.%s\" is %s, but it belongs to \"sharing.type\" %s and not to \"%s\"; leave it out",
      where, key, value, owner, type_names[s->type]);
}

/* Checks that groups follow each other and cover every layer. Fails for keys that cannot be combined with groups. */
static ch_status check_groups(const ch_config *c, const char *where, ch_error *error) {
  const ch_sharing *s = &c->sharing;
  int64_t next = 0;
  for (int i = 0; i < s->group_count; i++) {
    long long first = s->groups[i][0], last = s->groups[i][1];
    if (first != next || last < first || last >= c->num_hidden_layers)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"sharing.groups\" has [%lld, %lld]; this group must be from layer %lld to at most "
                     "%lld: groups follow each other and cover all %lld layers",
                     where, first, last, (long long)next, (long long)c->num_hidden_layers - 1,
                     (long long)c->num_hidden_layers);
    next = last + 1;
  }
  if (next < c->num_hidden_layers)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"sharing.groups\" ends with layer %lld, but the last of \"num_hidden_layers\" is %lld; "
        "groups must cover all of them",
        where, (long long)next - 1, (long long)c->num_hidden_layers - 1);
  if (s->coefficients)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"sharing.coefficients\" is \"mlp\", but groups of layers have \"direct\" ones; leave it "
        "or \"sharing.groups\" out",
        where);
  if (s->common_dictionary)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"sharing.common_dictionary\" is true, but groups of layers have a dictionary for each "
        "projection; leave it or \"sharing.groups\" out",
        where);
  return CH_OK;
}

/* Returns the largest number of layers that share one dictionary. */
static int64_t most_layers(const ch_config *c) {
  int64_t most = 0, layers = c->num_hidden_layers;
  if (!c->sharing.group_count) return layers;
  for (int i = 0; i < c->sharing.group_count; i++) {
    ch_group_of_layer(c, c->sharing.groups[i][0], &layers);
    if (layers > most) most = layers;
  }
  return most;
}

/* Checks the number of atoms of a common dictionary, which matrices of several projections and all layers share. */
static ch_status check_common_atoms(const ch_config *c, const char *where, ch_error *error) {
  int64_t most = c->num_hidden_layers * c->sharing.projection_count;
  if (c->sharing.atoms <= most) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"sharing.atoms\" is %lld, more than the %lld matrices of %lld layers and %d "
                 "projections, which saves nothing; use fewer",
                 where, (long long)c->sharing.atoms, (long long)most, (long long)c->num_hidden_layers,
                 c->sharing.projection_count);
}

static ch_status check_atoms(const ch_config *c, const char *where, ch_error *error) {
  const ch_sharing *s = &c->sharing;
  if (s->group_count) CH_TRY(check_groups(c, where, error));
  if (!s->atoms && !s->group_count)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.atoms\" is missing; \"sharing.type\" \"%s\" needs a whole number from 1 to "
                   "\"num_hidden_layers\", %lld",
                   where, type_names[s->type], (long long)c->num_hidden_layers);
  if (s->common_dictionary) CH_TRY(check_common_atoms(c, where, error));
  if (s->atoms > c->num_hidden_layers && !s->common_dictionary)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.atoms\" is %lld, more than \"num_hidden_layers\", %lld, which saves "
                   "nothing; use fewer",
                   where, (long long)s->atoms, (long long)c->num_hidden_layers);
  if (s->atoms > most_layers(c) && !s->common_dictionary)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sharing.atoms\" is %lld, but the largest of \"sharing.groups\" has %lld layers, "
                   "which saves nothing; use fewer",
                   where, (long long)s->atoms, (long long)most_layers(c));
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
  bool any =
      s->projection_count || s->atoms || s->rank || s->coefficients || s->common_dictionary || s->group_count;
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
  if (s->type != CH_SHARING_MASA && s->type != CH_SHARING_LOW_RANK && s->group_count)
    return not_of_type(s, "groups", "a list", "\"masa\" or \"low_rank\"", where, error);
  if (s->type != CH_SHARING_LOW_RANK) return check_atoms(config, where, error);
  if (s->group_count) CH_TRY(check_groups(config, where, error));
  if (s->atoms)
    return not_of_type(s, "atoms", "a number", "\"masa\", \"sequential\" or \"repeat\"", where, error);
  return CH_OK;
}

/* Presets of weight sharing between layers, for any mechanism, with the papers' savings by default.
 *
 * A third as many atoms as layers (rounded up), or low-rank factors with a third of the parameters, save 66.7 % of the
 * shared projections. These are all projections, or all but the output projection (50 % of multi-head attention). */
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "attention/preset.h"

/* One parameter in SHARE remains. */
enum { SHARE = 3 };

/* Sets "sharing.projections" to all projections that every layer has, or to all except the output projection. `shapes`
   receives them. */
static ch_status name_projections(ch_config *config, bool with_output, ch_projection_shapes *shapes,
                                  ch_error *error) {
  int kept = 0;
  CH_TRY(ch_list_projections(config, shapes, error));
  for (int i = 0; i < shapes->count; i++)
    if (shapes->rows[i].layers == config->num_hidden_layers &&
        (with_output || strcmp(shapes->rows[i].name, "o_proj") != 0))
      shapes->rows[kept++] = shapes->rows[i];
  for (int i = 0; i < kept; i++)
    snprintf(config->sharing.projections[i], CH_PROJECTION_NAME_SIZE, "%s", shapes->rows[i].name);
  config->sharing.projection_count = shapes->count = kept;
  return CH_OK;
}

/* --- presets -------------------------------------------------------------------------------------------- */

static int64_t third_of_layers(const ch_config *config) {
  return (config->num_hidden_layers + SHARE - 1) / SHARE;
}

static ch_status atoms(ch_config *config, ch_sharing_type type, bool with_output, int64_t number,
                       ch_error *error) {
  ch_projection_shapes shapes;
  config->sharing = (ch_sharing){.type = type, .atoms = number ? number : third_of_layers(config)};
  return name_projections(config, with_output, &shapes, error);
}

static ch_status masa_qkv(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  CH_TRY(atoms(config, CH_SHARING_MASA, false, number, error));
  config->sharing.coefficients = CH_COEFFICIENTS_MLP;
  return CH_OK;
}

static ch_status masa_qkvo(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  CH_TRY(atoms(config, CH_SHARING_MASA, true, number, error));
  config->sharing.coefficients = CH_COEFFICIENTS_MLP;
  return CH_OK;
}

/* Returns the number of atoms per common dictionary with which the common dictionaries have about as many parameters
   as the separate dictionaries of masa-qkvo. */
static int64_t atoms_in_common(const ch_config *config, const ch_projection_shapes *shapes) {
  int64_t numbers = 0, of_an_atom = 0;
  for (int i = 0; i < shapes->count; i++) {
    const ch_projection_shape *row = &shapes->rows[i];
    bool first = true;
    for (int k = 0; k < i; k++)
      if (shapes->rows[k].out == row->out && shapes->rows[k].in == row->in) first = false;
    numbers += row->out * row->in;
    if (first) of_an_atom += row->out * row->in;
  }
  return of_an_atom ? (third_of_layers(config) * numbers + of_an_atom / 2) / of_an_atom : 1;
}

static ch_status masa_common(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  ch_projection_shapes shapes;
  config->sharing =
      (ch_sharing){.type = CH_SHARING_MASA, .common_dictionary = true, .coefficients = CH_COEFFICIENTS_MLP};
  CH_TRY(name_projections(config, true, &shapes, error));
  config->sharing.atoms = number ? number : atoms_in_common(config, &shapes);
  return CH_OK;
}

static ch_status sequential(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  return atoms(config, CH_SHARING_SEQUENTIAL, true, number, error);
}

static ch_status repeat(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  return atoms(config, CH_SHARING_REPEAT, true, number, error);
}

/* Presets one rank for all matrices. The factors together have as many parameters as atoms for a third of the
   layers. */
static ch_status low_rank(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  ch_projection_shapes shapes;
  config->sharing = (ch_sharing){.type = CH_SHARING_LOW_RANK};
  CH_TRY(name_projections(config, true, &shapes, error));
  int64_t numbers = 0, of_rank_one = 0;
  for (int i = 0; i < shapes.count; i++) {
    numbers += shapes.rows[i].out * shapes.rows[i].in;
    of_rank_one += shapes.rows[i].out + shapes.rows[i].in;
  }
  double share = (double)third_of_layers(config) / (double)config->num_hidden_layers;
  int64_t rank = (int64_t)(share * (double)numbers / (double)of_rank_one + 0.5);
  config->sharing.rank = number ? number : rank > 0 ? rank : 1;
  return CH_OK;
}

static const char atoms_counted[] = "atoms";

const ch_preset ch_sharing_presets[] = {
    {"masa-qkv", atoms_counted,
     "query, key and value matrices are sums of shared atoms, one atom for every three "
     "layers",
     masa_qkv},
    {"masa-qkvo", atoms_counted,
     "all matrices of attention are sums of shared atoms, one atom for every three layers", masa_qkvo},
    {"masa-common", atoms_counted,
     "masa-qkvo with one dictionary for all projections of the same shape, and the same number of "
     "parameters",
     masa_common},
    {"sequential", atoms_counted, "three neighbouring layers share their matrices", sequential},
    {"repeat", atoms_counted, "the matrices of the first third of the layers repeat in the others", repeat},
    {"low-rank", "ranks", "every matrix is a product of two, with as many parameters in all as masa-qkvo",
     low_rank},
    {0},
};

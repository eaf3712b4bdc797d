/* Presets that share the projections of whichever mechanism they stand behind: the papers' savings by default.
 *
 * A third as many atoms as layers, or factors with a third of a matrix's numbers, save 66.7 % of the projections named:
 * of all of them, or of all but the output's (50 % of multi-head attention). */
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "attention/preset.h"

enum { SHARE = 3 /* one number of so many stays */ };

/* --- the projections that a mechanism has ---------------------------------------------------------------------------- */

typedef struct projection {
  char name[CH_PROJECTION_NAME_SIZE];
  int64_t out, in;
} projection;

/* The matrices of layer 0's attention as the mechanism declares them without sharing, or -1. */
static int projections_of(const ch_config *config, projection list[CH_MAX_SHARED_PROJECTIONS]) {
  ch_config plain = *config;
  plain.sharing = (ch_sharing){0};
  ch_params params = {0};
  ch_declaration declaration = {.config = &plain, .params = &params};
  ch_mechanism_of(&plain)->declare(&declaration);
  int count = 0;
  for (int i = 0; i < declaration.projection_count && count < CH_MAX_SHARED_PROJECTIONS; i++) {
    char full[96];
    snprintf(full, sizeof full, "model.layers.0.self_attn.%s.weight", declaration.projections[i]);
    int row = ch_params_find(&params, full);
    if (row < 0) continue;
    projection *p = &list[count++];
    snprintf(p->name, sizeof p->name, "%s", declaration.projections[i]);
    p->out = params.rows[row].shape[0];
    p->in = params.rows[row].shape[1];
  }
  if (params.failed) count = -1;
  ch_params_free(&params);
  return count;
}

static ch_status name_projections(ch_config *config, bool with_output, projection *list, int *count,
                                  const char *where, ch_error *error) {
  int all = projections_of(config, list), kept = 0;
  if (all < 0) return ch_fail(error, CH_ERROR_MEMORY, "%s: no memory for a parameter table", where);
  for (int i = 0; i < all; i++)
    if (with_output || strcmp(list[i].name, "o_proj") != 0) list[kept++] = list[i];
  for (int i = 0; i < kept; i++)
    memcpy(config->sharing.projections[i], list[i].name, CH_PROJECTION_NAME_SIZE);
  config->sharing.projection_count = *count = kept;
  return CH_OK;
}

/* --- presets ----------------------------------------------------------------------------------------------------------- */

static int64_t third_of_layers(const ch_config *config) {
  int64_t atoms = (config->num_hidden_layers + SHARE / 2) / SHARE;
  return atoms > 0 ? atoms : 1;
}

static ch_status atoms(ch_config *config, ch_sharing_type type, bool with_output, int64_t number,
                       const char *where, ch_error *error) {
  projection list[CH_MAX_SHARED_PROJECTIONS];
  int count;
  config->sharing = (ch_sharing){.type = type, .atoms = number ? number : third_of_layers(config)};
  return name_projections(config, with_output, list, &count, where, error);
}

static ch_status masa_qkv(ch_config *config, int64_t number, const char *where, ch_error *error) {
  CH_TRY(atoms(config, CH_SHARING_MASA, false, number, where, error));
  config->sharing.coefficients = CH_COEFFICIENTS_MLP;
  return CH_OK;
}

static ch_status masa_qkvo(ch_config *config, int64_t number, const char *where, ch_error *error) {
  CH_TRY(atoms(config, CH_SHARING_MASA, true, number, where, error));
  config->sharing.coefficients = CH_COEFFICIENTS_MLP;
  return CH_OK;
}

static ch_status sequential(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return atoms(config, CH_SHARING_SEQUENTIAL, true, number, where, error);
}

static ch_status repeat(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return atoms(config, CH_SHARING_REPEAT, true, number, where, error);
}

/* One rank for all matrices, whose factors together have a third of the numbers. */
static ch_status low_rank(ch_config *config, int64_t number, const char *where, ch_error *error) {
  projection list[CH_MAX_SHARED_PROJECTIONS];
  int count;
  config->sharing = (ch_sharing){.type = CH_SHARING_LOW_RANK};
  CH_TRY(name_projections(config, true, list, &count, where, error));
  int64_t numbers = 0, of_rank_one = 0;
  for (int i = 0; i < count; i++) {
    numbers += list[i].out * list[i].in;
    of_rank_one += list[i].out + list[i].in;
  }
  int64_t third = (2 * numbers / SHARE + of_rank_one) / (2 * of_rank_one); /* rounded */
  config->sharing.rank = number ? number : third > 0 ? third : 1;
  return CH_OK;
}

static const char atoms_counted[] = "atoms";

const ch_preset ch_sharing_presets[] = {
    {"masa-qkv", atoms_counted, "all matrices but the output's are sums of a third as many atoms as layers",
     masa_qkv},
    {"masa-qkvo", atoms_counted, "all matrices of attention are sums of a third as many atoms as layers",
     masa_qkvo},
    {"sequential", atoms_counted, "every three layers in a row have the same matrices", sequential},
    {"repeat", atoms_counted, "the first third of the layers' matrices come again and again", repeat},
    {"low-rank", "ranks", "every matrix is a product of two with a third of its numbers", low_rank},
    {0},
};

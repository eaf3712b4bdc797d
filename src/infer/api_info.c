/* The public functions for the figures of a model. */
#include "infer/info.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/file.h"
#include "io/model_files.h"
#include "infer/api.h"

enum { NAME_SIZE = 48, TYPES_SIZE = 64 };

struct ch_info {
  char name[NAME_SIZE];
  ch_config config;
  ch_params params;
};

void ch_info_defaults(ch_info_settings *settings) {
  *settings = (ch_info_settings){.cache = CH_PRECISION_BF16};
}

ch_status ch_info_open(const char *path, ch_info **info, ch_error *error) {
  if (!path || !info) return ch_refuse_null(error, path ? "the result pointer" : "the path");
  *info = NULL;
  ch_info *opened = calloc(1, sizeof *opened);
  if (!opened) return ch_no_memory(error);
  ch_path_stem(path, opened->name, sizeof opened->name);
  ch_status status = ch_config_read_stored(path, &opened->config, error);
  if (status == CH_OK) status = ch_model_declare_stored(path, &opened->config, &opened->params, error);
  if (status == CH_OK)
    *info = opened;
  else
    ch_info_free(opened);
  return status;
}

void ch_info_free(ch_info *info) {
  if (!info) return;
  ch_params_free(&info->params);
  free(info);
}

ch_status ch_info_cache_roles(const ch_info *info, unsigned *roles, ch_error *error) {
  if (!info || !roles) return ch_refuse_null(error, "the configuration or the result pointer");
  return ch_api_cache_roles(&info->config, roles, error);
}

/* --- figures -------------------------------------------------------------------------------------------- */

/* Checked settings, and the cache types that they select. */
typedef struct checked_settings {
  ch_info_settings settings;
  ch_cache_types types;
} checked_settings;

static ch_status choose(const ch_info_settings *settings, checked_settings *c, ch_error *error) {
  ch_info_defaults(&c->settings);
  if (settings) c->settings = *settings;
  if (c->settings.depth < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "depth is %lld; it must be at least 0",
                   (long long)c->settings.depth);
  if (c->settings.cache == CH_PRECISION_DEFAULT) c->settings.cache = CH_PRECISION_BF16;
  const ch_precision asked[] = {c->settings.cache, c->settings.cache_keys, c->settings.cache_values,
                                c->settings.cache_latents};
  return ch_api_cache_types(asked, &c->types, error);
}

static ch_status make_row(const ch_info *info, const checked_settings *c, ch_info_row *row, ch_error *error) {
  if (!info) return ch_refuse_null(error, "the configuration");
  row->name = info->name;
  row->config = &info->config;
  return ch_account_model(&info->config, &info->params, c->settings.depth, c->types, &row->account, error);
}

ch_status ch_info_account(const ch_info *info, const ch_info_settings *settings, ch_account *account,
                          ch_error *error) {
  checked_settings c;
  ch_info_row row;
  if (!account) return ch_refuse_null(error, "the result pointer");
  CH_TRY(choose(settings, &c, error));
  CH_TRY(make_row(info, &c, &row, error));
  *account = row.account;
  return CH_OK;
}

/* --- texts ---------------------------------------------------------------------------------------------- */

/* Appends the name of a type in lower case: "q8_0". */
static void put_type(char name[TYPES_SIZE], ch_dtype dtype) {
  size_t used = strlen(name);
  for (const char *p = ch_dtype_name(dtype); *p && used + 1 < TYPES_SIZE; p++) {
    name[used++] = (char)tolower((unsigned char)*p);
    name[used] = 0;
  }
}

/* Writes "bf16" if all roles have one type, else the types of the roles that the cache holds: "k=q8_0,v=q4_0". */
static ch_status name_types(const ch_config *config, const ch_cache_types *types, char name[TYPES_SIZE],
                            ch_error *error) {
  static const char *const letters[] = {"k=", "v=", "latent="};
  unsigned held = 0;
  const ch_dtype *of = types->of;
  bool alike = of[0] == of[1] && of[0] == of[2];
  name[0] = 0;
  CH_TRY(ch_api_cache_roles(config, &held, error));
  for (int r = 0; r < CH_STATE_ROLES && !alike; r++) {
    if (!(held >> r & 1)) continue;
    snprintf(name + strlen(name), TYPES_SIZE - strlen(name), "%s%s", name[0] ? "," : "", letters[r]);
    put_type(name, of[r]);
  }
  if (alike) put_type(name, of[0]);
  return CH_OK;
}

/* Passes a text to the caller, or fails if it ran out of memory. */
static ch_status give(ch_text *text, char **out, ch_error *error) {
  if (text->failed) {
    ch_text_free(text);
    return ch_no_memory(error);
  }
  *out = text->data;
  return CH_OK;
}

static ch_status put_json(const ch_info_row *row, bool named, const checked_settings *c, ch_text *text,
                          ch_error *error) {
  char types[TYPES_SIZE];
  CH_TRY(name_types(row->config, &c->types, types, error));
  ch_account_json(named ? row->name : NULL, row->config, &row->account, c->settings.depth,
                  c->settings.cache_name ? c->settings.cache_name : types, text);
  return CH_OK;
}

ch_status ch_info_json(const ch_info *info, const ch_info_settings *settings, char **json, ch_error *error) {
  checked_settings c;
  ch_info_row row;
  ch_text text = {0};
  if (!json) return ch_refuse_null(error, "the result pointer");
  CH_TRY(choose(settings, &c, error));
  CH_TRY(make_row(info, &c, &row, error));
  CH_TRY(put_json(&row, false, &c, &text, error));
  ch_text_puts(&text, "\n");
  return give(&text, json, error);
}

ch_status ch_info_page(const ch_info *info, const ch_info_settings *settings, char **text, ch_error *error) {
  checked_settings c;
  ch_info_row row;
  ch_text page = {0};
  char types[TYPES_SIZE];
  if (!text) return ch_refuse_null(error, "the page pointer");
  CH_TRY(choose(settings, &c, error));
  CH_TRY(make_row(info, &c, &row, error));
  CH_TRY(name_types(row.config, &c.types, types, error));
  ch_info_put_page(&row, c.settings.depth, c.settings.cache_name ? c.settings.cache_name : types, &page);
  return give(&page, text, error);
}

/* Creates the rows of several models; the caller frees them. */
static ch_status make_rows(const ch_info *const *infos, size_t count, const ch_info_settings *settings,
                           checked_settings *c, ch_info_row **rows, ch_error *error) {
  if (!infos || count < 1) return ch_refuse_null(error, "the list of configurations");
  CH_TRY(choose(settings, c, error));
  ch_info_row *made = calloc(count, sizeof *made);
  if (!made) return ch_no_memory(error);
  ch_status status = CH_OK;
  for (size_t i = 0; i < count && status == CH_OK; i++) status = make_row(infos[i], c, &made[i], error);
  if (status == CH_OK)
    *rows = made;
  else
    free(made);
  return status;
}

ch_status ch_info_table(const ch_info *const *infos, size_t count, const ch_info_settings *settings,
                        char **text, ch_error *error) {
  checked_settings c;
  ch_info_row *rows = NULL;
  ch_text table = {0};
  if (!text) return ch_refuse_null(error, "the table pointer");
  CH_TRY(make_rows(infos, count, settings, &c, &rows, error));
  ch_info_put_table(rows, count, c.settings.depth, &table);
  free(rows);
  return give(&table, text, error);
}

ch_status ch_info_table_json(const ch_info *const *infos, size_t count, const ch_info_settings *settings,
                             char **json, ch_error *error) {
  checked_settings c;
  ch_info_row *rows = NULL;
  ch_text text = {0};
  if (!json) return ch_refuse_null(error, "the result pointer");
  CH_TRY(make_rows(infos, count, settings, &c, &rows, error));
  ch_status status = CH_OK;
  ch_text_puts(&text, "{\"models\": [");
  for (size_t i = 0; i < count && status == CH_OK; i++) {
    if (i) ch_text_puts(&text, ", ");
    status = put_json(&rows[i], true, &c, &text, error);
  }
  ch_text_puts(&text, "]}\n");
  free(rows);
  if (status == CH_OK) return give(&text, json, error);
  ch_text_free(&text);
  return status;
}

/* --- an open model -------------------------------------------------------------------------------------- */

ch_status ch_model_info(const ch_model *model, char **json, ch_error *error) {
  if (!model || !json) return ch_refuse_null(error, "the model or the result pointer");
  ch_info *info; /* description of the files; the open model may have other tensors */
  CH_TRY(ch_info_open(model->directory, &info, error));
  ch_status status = ch_info_json(info, NULL, json, error);
  ch_info_free(info);
  return status;
}

ch_status ch_model_cache_roles(const ch_model *model, unsigned *roles, ch_error *error) {
  if (!model || !roles) return ch_refuse_null(error, "the model or the result pointer");
  return ch_api_cache_roles(&model->config, roles, error);
}

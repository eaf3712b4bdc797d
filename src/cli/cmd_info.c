/* crosshead info MODEL_OR_CONFIG: what a model is and what it costs. */
#include <string.h>

#include <crosshead/info.h>

#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  bool json, table;
  const char *cache_dtype;
  int64_t depth;
} arguments;

/* The types of --cache-dtype, of which each model's cache must hold those that are named. */
static ch_status choose_cache(const arguments *a, const ch_info *info, ch_info_settings *settings,
                              ch_error *error) {
  unsigned held = 0;
  ch_cache_choice choice;
  CH_TRY(ch_info_cache_roles(info, &held, error));
  CH_TRY(ch_cache_choice_read(a->cache_dtype, CH_PRECISION_BF16, held, &choice, error));
  settings->cache_keys = choice.keys;
  settings->cache_values = choice.values;
  settings->cache_latents = choice.latents;
  settings->cache_name = a->cache_dtype;
  return CH_OK;
}

static ch_status make_text(const arguments *a, const ch_info *const *infos, size_t count,
                           const ch_info_settings *settings, char **text, ch_error *error) {
  if (a->table && a->json) return ch_info_table_json(infos, count, settings, text, error);
  if (a->table) return ch_info_table(infos, count, settings, text, error);
  return a->json ? ch_info_json(infos[0], settings, text, error)
                 : ch_info_page(infos[0], settings, text, error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_info *infos[CH_POSITIONAL_MAX] = {NULL};
  size_t count = 0;
  while (a->positional[count]) count++;
  if (count > 1 && !a->table)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%zu configurations are given; --table shows several side by side", count);
  ch_info_settings settings;
  ch_info_defaults(&settings);
  settings.depth = a->depth;
  char *text = NULL;
  ch_status status = CH_OK;
  for (size_t i = 0; i < count && status == CH_OK; i++) {
    status = ch_info_open(a->positional[i], &infos[i], error);
    if (status == CH_OK) status = choose_cache(a, infos[i], &settings, error);
  }
  if (status == CH_OK) status = make_text(a, (const ch_info *const *)infos, count, &settings, &text, error);
  if (status == CH_OK) ch_output_put(text, strlen(text), false);
  ch_free(text);
  for (size_t i = 0; i < count; i++) ch_info_free(infos[i]);
  return status;
}

static const ch_option options[] = {
    CH_JSON_OPTION(offsetof(arguments, json)),
    {.name = "table",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, table),
     .help = "Print one line per configuration, side by side."},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     .offset = offsetof(arguments, cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .default_value = "bf16",
     .help = CH_CACHE_TYPES_HELP},
    {.name = "depth",
     .type = CH_OPTION_COUNT,
     .offset = offsetof(arguments, depth),
     .metavar = "N",
     .default_value = "0",
     .max = 1e12,
     .help = "Context length, in tokens, at which FLOPs and the cache of a sequence are counted."},
    {.name = NULL}};

const ch_command ch_cmd_info = {
    .name = "info",
    .positional = "MODEL_OR_CONFIG...",
    .summary = "Show a model's parameters, cache size and arithmetic.",
    .description = "Reads the configuration of a model directory, or a config.json, and computes sizes and "
                   "FLOPs from it. Weights are not read.",
    .examples = "crosshead info runs/gqa\ncrosshead info config.json --json --depth 4k",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

/* crosshead info MODEL_OR_CONFIG: what a model is and what it costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/info_text.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "io/model_files.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  bool json, table;
  const char *cache_dtype;
  int64_t depth;
} arguments;

static ch_status examine(const arguments *a, const char *path, ch_info *info, ch_error *error) {
  ch_params params = {0};
  ch_path_stem(path, info->name, sizeof info->name);
  CH_TRY(ch_config_read(path, &info->config, error));
  ch_cache_types cache;
  CH_TRY(ch_cache_types_read(a->cache_dtype, CH_BF16, &info->config, &cache, error));
  ch_status status = ch_model_declare_stored(path, &info->config, &params, error);
  if (status == CH_OK)
    status = ch_account_model(&info->config, &params, a->depth, cache, &info->account, error);
  ch_params_free(&params);
  return status;
}

static void put_json(const arguments *a, const ch_info *infos, int count, ch_text *text) {
  if (a->table) ch_text_puts(text, "{\"models\": [");
  for (int i = 0; i < count; i++) {
    if (i) ch_text_puts(text, ", ");
    ch_account_json(a->table ? infos[i].name : NULL, &infos[i].config, &infos[i].account, a->depth,
                    a->cache_dtype, text);
  }
  ch_text_puts(text, a->table ? "]}\n" : "\n");
}

static ch_status print(const arguments *a, const ch_info *infos, int count, ch_error *error) {
  ch_text text = {0};
  if (a->json)
    put_json(a, infos, count, &text);
  else if (a->table)
    ch_info_table(infos, count, a->depth, &text);
  else
    ch_info_page(infos, a->depth, a->cache_dtype, &text);
  return ch_print_text(&text, error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  int count = 0;
  while (a->positional[count]) count++;
  if (count > 1 && !a->table)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%d configurations are given; --table lists several side by side", count);
  ch_info *infos = calloc((size_t)count, sizeof *infos);
  if (!infos) return ch_fail(error, CH_ERROR_MEMORY, "no memory for %d configurations", count);
  ch_status status = CH_OK;
  for (int i = 0; i < count && status == CH_OK; i++) status = examine(a, a->positional[i], &infos[i], error);
  if (status == CH_OK) status = print(a, infos, count, error);
  free(infos);
  return status;
}

static const ch_option options[] = {{.name = "json",
                                     .type = CH_OPTION_FLAG,
                                     .offset = offsetof(arguments, json),
                                     .help = "Print one JSON object."},
                                    {.name = "table",
                                     .type = CH_OPTION_FLAG,
                                     .offset = offsetof(arguments, table),
                                     .help = "List one or more configurations side by side."},
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
                                     .help = "Tokens that attention looks back at, for the FLOPs."},
                                    {.name = NULL}};

const ch_command ch_cmd_info = {
    .name = "info",
    .positional = "MODEL_OR_CONFIG...",
    .summary = "Show a model's parameters, cache size and arithmetic.",
    .description =
        "Reads the configuration of a model directory, or a configuration file alone, and counts what the "
        "model would hold and do: the weights are not read.",
    .examples = "crosshead info runs/gqa\ncrosshead info config.json --json --depth 4k",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

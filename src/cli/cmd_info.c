/* crosshead info: prints the shape of models, their parameters, cache and FLOPs. */
#include <string.h>

#include <crosshead/info.h>
#include <crosshead/train.h>

#include "base/json.h"
#include "base/table.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  bool json, table;
  const char *cache_dtype;
  int64_t depth, ranks;
} arguments;

/* Reads --cache-dtype. The cache of every model must hold the states that the option names. */
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

/* --- training ----------------------------------------------------------------------------------------------- */

enum { IN_F32, IN_BF16, TYPES };

static ch_status measure_training(const arguments *a, ch_train_memory memory[TYPES], ch_error *error) {
  ch_train_settings settings;
  ch_train_defaults(&settings);
  settings.model.config = a->positional[0];
  settings.training.type = CH_PRECISION_F32;
  CH_TRY(ch_train_memory_of(&settings.model, &settings.training, (int32_t)a->ranks, &memory[IN_F32], error));
  settings.training.type = CH_PRECISION_BF16;
  return ch_train_memory_of(&settings.model, &settings.training, (int32_t)a->ranks, &memory[IN_BF16], error);
}

static void put_training_page(const arguments *a, const ch_train_memory m[TYPES]) {
  const struct {
    const char *name;
    int64_t f32, bf16;
  } rows[] = {{"weights", m[0].weights, m[1].weights},
              {"gradients", m[0].gradients, m[1].gradients},
              {"master weights", m[0].masters, m[1].masters},
              {"moments", m[0].moments, m[1].moments},
              {"rows of gate tables", m[0].exchange, m[1].exchange},
              {"activations", m[0].activations, m[1].activations},
              {"total", m[0].total, m[1].total}};
  ch_text text = {0};
  ch_table table = {.columns = "l26r16r18", .gap = 1};
  ch_text_printf(&text, "\ntraining over %lld %s, bytes of each, micro-batches of one sequence\n",
                 (long long)a->ranks, ch_plural(a->ranks, "rank", "ranks"));
  ch_table_row(&table, (const char *const[]){"", "f32", "bf16"}, 3);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].f32 && !rows[i].bf16) continue;
    ch_table_cell(&table, "  %s", rows[i].name);
    ch_table_cell(&table, "%lld", (long long)rows[i].f32);
    ch_table_cell(&table, "%lld", (long long)rows[i].bf16);
    ch_table_end_row(&table);
  }
  ch_table_write(&table, &text);
  if (!text.failed) ch_output_put(text.data, text.size, false);
  ch_text_free(&text);
}

static ch_status put_training(json_t *object, const char *name, const ch_train_memory *memory,
                              ch_error *error) {
  char *text = NULL;
  json_t *figures;
  CH_TRY(ch_train_memory_json(memory, &text, error));
  CH_TRY(ch_report_read(text, &figures, error));
  json_object_set_new(object, name, figures);
  return CH_OK;
}

/* Adds the figures of training to those of info. Replaces *json. */
static ch_status add_training(const arguments *a, const ch_train_memory m[TYPES], char **json,
                              ch_error *error) {
  json_t *report;
  char *given = *json;
  *json = NULL;
  CH_TRY(ch_report_read(given, &report, error));
  json_t *training = json_pack("{s:I}", "ranks", (json_int_t)a->ranks);
  ch_status status = put_training(training, "f32", &m[IN_F32], error);
  if (status == CH_OK) status = put_training(training, "bf16", &m[IN_BF16], error);
  json_object_set_new(report, "training_bytes_per_rank", training);
  ch_text line = {0};
  char *text = status == CH_OK ? ch_json_dump(report, 0) : NULL;
  json_decref(report);
  if (text) ch_text_printf(&line, "%s\n", text);
  ch_free(text);
  *json = line.failed ? NULL : line.data;
  if (status != CH_OK) return status;
  return *json ? CH_OK : ch_no_memory(error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_info *infos[CH_POSITIONAL_MAX] = {NULL};
  size_t count = 0;
  while (a->positional[count]) count++;
  if (count > 1 && !a->table)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%zu configurations are given; --table shows several side by side", count);
  if (a->ranks && a->table)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--ranks is for one configuration; leave --table out, or see crosshead plan --ranks");
  ch_info_settings settings;
  ch_train_memory training[TYPES] = {{0}};
  ch_info_defaults(&settings);
  settings.depth = a->depth;
  char *text = NULL;
  ch_status status = CH_OK;
  for (size_t i = 0; i < count && status == CH_OK; i++) {
    status = ch_info_open(a->positional[i], &infos[i], error);
    if (status == CH_OK) status = choose_cache(a, infos[i], &settings, error);
  }
  if (status == CH_OK) status = make_text(a, (const ch_info *const *)infos, count, &settings, &text, error);
  if (status == CH_OK && a->ranks) status = measure_training(a, training, error);
  if (status == CH_OK && a->ranks && a->json) status = add_training(a, training, &text, error);
  if (status == CH_OK) ch_output_put(text, strlen(text), false);
  if (status == CH_OK && a->ranks && !a->json) put_training_page(a, training);
  ch_free(text);
  for (size_t i = 0; i < count; i++) ch_info_free(infos[i]);
  return status;
}

static const ch_option options[] = {
    CH_JSON_OPTION(offsetof(arguments, json)),
    CH_FLAG_OPTION("table", offsetof(arguments, table), "Print one line per configuration, side by side."),
    CH_TEXT_OPTION("cache-dtype", offsetof(arguments, cache_dtype), CH_CACHE_TYPES_METAVAR,
                   CH_CACHE_TYPES_HELP, .default_value = "bf16"),
    CH_COUNT_OPTION("depth", offsetof(arguments, depth), "N", 0, 1e12,
                    "Context length, in tokens, at which FLOPs and the cache of a sequence are counted.",
                    .default_value = "0"),
    CH_COUNT_OPTION(
        "ranks", offsetof(arguments, ranks), "N", 1, 65536,
        "Also show the memory of each of N processes that train the model together (docs/cluster.md)."),
    {0}};

const ch_command ch_cmd_info = {
    .name = "info",
    .positional = "MODEL_OR_CONFIG...",
    .summary = "Show a model's parameters, cache size and arithmetic.",
    .description = "Reads the configuration and the tensors' shapes of a model directory, or a config.json, "
                   "and computes sizes and "
                   "FLOPs from it. Weights are not read.",
    .examples = "crosshead info runs/gqa\ncrosshead info config.json --json --depth 4k",
    CH_RUNS(options, arguments, run),
};

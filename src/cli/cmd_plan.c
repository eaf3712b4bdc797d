/* crosshead plan: predicts which models fit into a memory, and how fast they run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crosshead/info.h>
#include <crosshead/plan.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/comparison_options.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/results.h"

enum { MOST_DEVICES = 16 };

static const char *const weight_types[] = {"f32", "f16", "bf16", "q8_0", "q6_k", "q4_k", "q4_0", NULL};
/* --cache-dtype may name any states, because the models differ. */
static const unsigned all_roles = CH_CACHE_KEYS | CH_CACHE_VALUES | CH_CACHE_LATENTS;

static const char *const matches[] = {
    [CH_MATCH_PARAMETERS] = "parameters", [CH_MATCH_ACTIVE] = "active", NULL};

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *mechanisms, *like, *match, *memory, *device, *dtype, *cache_dtype, *compute;
  int64_t context, users, params, layers, hidden, heads, vocab, ranks, threads;
  double least_speed;
  bool json;
} arguments;

typedef struct plan {
  const arguments *arguments;
  ch_capacity_settings settings;
  const char *models[CH_POSITIONAL_MAX];
  ch_text mechanisms; /* names in --mechanisms and among the arguments */
  ch_device devices[MOST_DEVICES];
} plan;

/* Sorts the arguments into models and mechanisms. Directories, and names that have a slash or end in .json, are
   models. */
static void sort_candidates(plan *p) {
  const arguments *a = p->arguments;
  if (a->mechanisms) ch_text_puts(&p->mechanisms, a->mechanisms);
  for (int i = 0; i < CH_POSITIONAL_MAX && a->positional[i]; i++) {
    const char *name = a->positional[i];
    size_t length = strlen(name);
    bool file =
        strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0) || ch_is_directory(name);
    if (file)
      p->models[p->settings.model_count++] = name;
    else
      ch_text_printf(&p->mechanisms, "%s%s", p->mechanisms.size ? "," : "", name);
  }
  p->settings.models = p->models;
  p->settings.mechanisms = p->mechanisms.data;
}

static ch_status measure_here(const arguments *a, ch_device *device, ch_error *error) {
  ch_progress_line progress;
  ch_progress_begin(&progress, isatty(STDERR_FILENO) ? stderr : NULL);
  ch_progress_show(&progress, false, "measuring the machine's limits");
  ch_status status = ch_device_measure(ch_precision_of(a->compute), device, error);
  ch_progress_end(&progress);
  return status;
}

static ch_status add_device(plan *p, const char *text, ch_error *error) {
  if (p->settings.device_count == MOST_DEVICES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--device names more than %d devices", MOST_DEVICES);
  ch_device *device = &p->devices[p->settings.device_count++];
  if (strcmp(text, "here") == 0) return measure_here(p->arguments, device, error);
  return ch_device_read(text, device, error);
}

/* Reads --device: names separated by commas, or descriptions of machines separated by semicolons. */
static ch_status read_devices(plan *p, ch_error *error) {
  char *list = strdup(p->arguments->device), *rest = list, *part, *name;
  ch_status status = list ? CH_OK : ch_no_memory(error);
  while (status == CH_OK && rest && (part = strsep(&rest, ";"))) {
    if (strchr(part, '=')) {
      status = add_device(p, part, error);
      continue;
    }
    while (status == CH_OK && part && (name = strsep(&part, ","))) status = add_device(p, name, error);
  }
  free(list);
  p->settings.devices = p->devices;
  return status;
}

static ch_status read_sizes(plan *p, ch_error *error) {
  const arguments *a = p->arguments;
  ch_capacity_settings *s = &p->settings;
  ch_cache_choice cache;
  if (a->memory && (!ch_parse_bytes(a->memory, &s->memory) || s->memory < 1))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--memory: '%.60s' is not a size; write one like 24GB (10^9 bytes), 24GiB (2^30) or 512MiB",
        a->memory);
  CH_TRY(ch_cache_choice_read(a->cache_dtype, CH_PRECISION_BF16, all_roles, &cache, error));
  s->cache_keys = cache.keys;
  s->cache_values = cache.values;
  s->cache_latents = cache.latents;
  s->cache_name = a->cache_dtype;
  s->weights = ch_precision_of(a->dtype);
  s->like = a->like;
  s->parameters = a->params;
  s->layers = a->layers;
  s->hidden = a->hidden;
  s->heads = a->heads;
  s->vocab = a->vocab;
  s->match = strcmp(a->match, matches[CH_MATCH_ACTIVE]) == 0 ? CH_MATCH_ACTIVE : CH_MATCH_PARAMETERS;
  s->context = a->context;
  s->users = a->users;
  s->least_speed = a->least_speed;
  s->ranks = (int32_t)a->ranks;
  s->training = ch_precision_of(a->compute);
  return CH_OK;
}

static ch_status print(const arguments *a, const ch_capacity *capacity, ch_error *error) {
  char *text;
  if (a->json) {
    CH_TRY(ch_capacity_json(capacity, &text, error));
    return ch_results_print_json(text, error);
  }
  CH_TRY(ch_capacity_text(capacity, &text, error));
  return ch_results_print_table(text, NULL, error);
}

static ch_status run(const void *given, ch_error *error) {
  plan p = {.arguments = given};
  ch_capacity *capacity = NULL;
  ch_capacity_defaults(&p.settings);
  sort_candidates(&p);
  ch_status status = CH_OK;
  CH_TRY_GOTO(p.mechanisms.failed ? ch_no_memory(error) : CH_OK);
  CH_TRY_GOTO(read_sizes(&p, error));
  CH_TRY_GOTO(read_devices(&p, error));
  CH_TRY_GOTO(ch_capacity_plan(&p.settings, &capacity, error));
  status = print(p.arguments, capacity, error);
done:
  ch_capacity_free(capacity);
  ch_text_free(&p.mechanisms);
  return status;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_COUNT_OPTION("context", AT(context), "N", 1, 2147483647, "Tokens of context that each user has.",
                    .required = true),
    CH_COUNT_OPTION("users", AT(users), "N", 1, 1e6, "Sequences that are decoded together.",
                    .default_value = "1"),
    CH_TEXT_OPTION(
        "memory", AT(memory), "SIZE",
        "Memory for weights, cache and work, as in 24GB or 24GiB (default: all that the device has)."),
    CH_NUMBER_OPTION("least-speed", AT(least_speed), "RATE", 0, 1e12,
                     "Exclude candidates that give each user fewer than RATE tokens per second.",
                     .default_value = "0"),
    CH_TEXT_OPTION("device", AT(device), "LIST",
                   "Machines, separated by commas: here, which is measured, or names from docs/plan.md. Your "
                   "own machine is name=X,gb/s=N,flop/s=N,memory=SIZE; several are separated by semicolons.",
                   .setting = "devices", .default_value = "here"),
    CH_COUNT_OPTION(
        "ranks", AT(ranks), "N", 1, 65536,
        "Also show the memory of each of N ranks that train a candidate together (docs/cluster.md), with the "
        "arithmetic of --compute and micro-batches of one sequence of --context tokens."),
    CH_JSON_OPTION(AT(json)),
    CH_THREADS_OPTION(AT(threads)),
    CH_HEADING("Types"),
    CH_CHOICE_OPTION(
        "dtype", AT(dtype), "TYPE", weight_types,
        "Type of the matrices (default: that of the files; bf16 for a configuration without files).",
        .setting = "weights"),
    CH_TEXT_OPTION("cache-dtype", AT(cache_dtype), CH_CACHE_TYPES_METAVAR, CH_CACHE_TYPES_HELP,
                   .default_value = "bf16"),
    CH_COMPUTE_OPTION(arguments, compute, NULL),
    CH_HEADING("Mechanisms by name"),
    CH_TEXT_OPTION("mechanisms", AT(mechanisms), "LIST",
                   "Names from the list below, separated by commas, as for `crosshead compare`.",
                   .lists = CH_LISTS_SEVERAL),
    CH_PATH_OPTION("like", AT(like), "CONFIG",
                   "Put the mechanisms into the shape of this model or config.json (default: of the first "
                   "CANDIDATE that is a file). The FFN is adjusted so that they have as many parameters."),
    CH_COUNT_OPTION(
        "params", AT(params), "N", 1, 0,
        "Instead of --like: the shape that `crosshead compare` chooses for models with N parameters.",
        .setting = "parameters"),
    CH_COUNT_OPTION("layers", AT(layers), "N", 1, 1000, "Number of layers (default: chosen from --params)."),
    CH_COUNT_OPTION("hidden", AT(hidden), "N", 1, 65536, "Hidden size (default: chosen from --params)."),
    CH_COUNT_OPTION(
        "heads", AT(heads), "N", 1, 4096,
        "Number of query heads (default: 8; above a hidden size of 512, one for every 64 elements)."),
    CH_COUNT_OPTION("vocab", AT(vocab), "N", 1, 4000000, "Vocabulary size (default: chosen from --params)."),
    CH_CHOICE_OPTION("match", AT(match), "WHAT", matches,
                     "The parameter count held equal: all parameters, or the active ones.",
                     .default_value = "parameters"),
    {0}};

const ch_command ch_cmd_plan = {
    .name = "plan",
    .positional = "[CANDIDATE]...",
    .summary = "Predict which models fit into memory, and how fast they run.",
    .description =
        "CANDIDATE is a model directory, a config.json, or the name of a mechanism. For a "
        "context, a number of users and a memory, prints the bytes of weights, cache and work "
        "memory, how many users fit, how long a context fits, the tokens per second to "
        "expect, and which candidates are excluded, and why. Weights are not read.\n\nSpeeds "
        "follow from the bytes that are read and the products that are computed. The limits "
        "are measured on this machine; those of other machines are published figures. docs/plan.md "
        "has the formulas and the machines.",
    .examples =
        "crosshead plan models/stories --context 512 --users 100 --memory 1GB\n"
        "crosshead plan mha gqa:8 mla mfa --like config.json --context 128k --users 8 --device h100-sxm,l4\n"
        "crosshead plan config.json --context 32k --dtype q4_k --cache-dtype q8_0 --memory 16GiB",
    CH_LISTS_MECHANISMS,
    CH_RUNS(options, arguments, run),
};

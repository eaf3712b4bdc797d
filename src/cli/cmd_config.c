/* crosshead config MECHANISM --params N: prints the configuration of a mechanism at a size. */
#include <string.h>

#include <crosshead/compare.h>

#include "cli/command.h"
#include "cli/comparison_options.h"
#include "cli/output.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  ch_lineup lineup;
  const char *like;
} arguments;

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_compare_settings settings = ch_lineup_settings(&a->lineup);
  char *json = NULL;
  settings.lineup.mechanisms = a->positional[0];
  if (settings.lineup.match == CH_MATCH_TIME)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--match time needs training runs to time; use it with `crosshead compare`");
  if (a->like && !ch_option_given(a, "seq")) settings.lineup.sequence = 0;
  CH_TRY(ch_compare_config(&settings.lineup, a->like, &json, error));
  ch_output_put(json, strlen(json), false);
  ch_free(json);
  return CH_OK;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_PATH_OPTION(
        "like", AT(like), "DIR_OR_CONFIG",
        "Copy vocabulary, context, activation, normalisation, experts and RoPE base from this model or "
        "config.json, and its size too unless --params, --layers, --hidden or --heads is given."),
    CH_LINEUP_SIZE(AT(lineup)),
    CH_LINEUP_TOKENIZER(AT(lineup)),
    CH_LINEUP_SEQ(AT(lineup)),
    {0}};

static void set_defaults(void *given) {
  arguments *a = given;
  ch_compare_defaults(&a->lineup.settings);
  a->lineup.schedule = "cosine";
  a->lineup.dtype = "f32";
  a->lineup.engine = "native";
}

const ch_command ch_cmd_config = {
    .name = "config",
    .positional = "MECHANISM",
    .summary = "Print the configuration of a mechanism at a size.",
    .description =
        "Prints the config.json of the model that `crosshead compare --params N --mechanisms MECHANISM` "
        "trains: "
        "layers, width and heads are chosen from the number of parameters, and the FFN is adjusted so "
        "that the model has N. `crosshead train`, `info`, `plan` and `export --untrained` read the "
        "file.\n\nA comparison trains its tokenizer on the text. Without --vocab or --tokenizer the "
        "vocabulary has the size that `crosshead compare` chooses for a long text.",
    .examples = "crosshead config mla --params 300M > large.json\n"
                "crosshead config gqa:4 --params 300M --like runs/first/gqa-4 > large.json\n"
                "crosshead config mfa+moe --layers 24 --hidden 2048 --tokenizer tokenizer.json --seq 4096\n"
                "crosshead config mla --like model > mla.json",
    CH_LISTS_MECHANISMS,
    .defaults = set_defaults,
    CH_RUNS(options, arguments, run),
};

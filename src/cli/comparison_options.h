/* Options that compare, sweep and config share: mechanisms, sizes, text, training. */
#ifndef CH_CLI_COMPARISON_OPTIONS_H
#define CH_CLI_COMPARISON_OPTIONS_H

#include <crosshead/compare.h>

#include "cli/command.h"
#include "cli/precision.h"

/* The values of the shared options. Each command's argument struct has one. */
typedef struct ch_lineup {
  ch_compare_settings settings; /* settings that are numbers or texts */
  /* names of settings that ch_lineup_settings converts */
  const char *match, *init, *parametrization, *schedule, *dtype, *engine;
} ch_lineup;

extern const char *const ch_lineup_matches[], *const ch_lineup_inits[], *const ch_lineup_parametrizations[],
                                                                            *const ch_lineup_engines[];

/* Rows of an option table; `at` is the offset of the ch_lineup. */
#define CH_LINEUP(member) offsetof(ch_lineup, member)
#define CH_LINEUP_MECHANISMS(at)                                                                             \
  CH_TEXT_OPTION("mechanisms", (at) + CH_LINEUP(settings.lineup.mechanisms), "LIST",                         \
                 "Names from the list below, or paths of config files, separated by commas. A sharing "      \
                 "scheme, experts or a module follow a mechanism after a plus (mfa+masa-qkvo, kha-mlp+moe, " \
                 "gated+xsa). A scheme, experts or a module without a mechanism is added to mha.",           \
                 .default_value = "mha,gqa,mqa", .lists = CH_LISTS_SEVERAL)
#define CH_LINEUP_SIZE(at)                                                                                   \
  CH_COUNT_OPTION(                                                                                           \
      "params", (at) + CH_LINEUP(settings.lineup.parameters), "N", 1, 0,                                     \
      "Parameters of each model, with embeddings (default: 1M, or those of the first config file).",         \
      .setting = "parameters"),                                                                              \
      CH_CHOICE_OPTION("match", (at) + CH_LINEUP(match), "WHAT", ch_lineup_matches,                          \
                       "The quantity held equal across the models: all parameters (also called all), the "   \
                       "active ones (without gate tables and experts that are not chosen), FLOPs per "       \
                       "token, training time on this machine, or the cache per token (--cache-per-token). "  \
                       "none: no quantity; the models have the same shape apart from their attention.",      \
                       .default_value = "parameters"),                                                       \
      CH_COUNT_OPTION("cache-per-token", (at) + CH_LINEUP(settings.lineup.cache_per_token), "N", 1, 0,       \
                      "With --match cache: the largest number of cache elements per token, all layers "      \
                      "together. Each mechanism gets the largest size that fits."),                          \
      CH_COUNT_OPTION("layers", (at) + CH_LINEUP(settings.lineup.layers), "N", 1, 1000,                      \
                      "Number of layers (default: chosen from --params)."),                                  \
      CH_COUNT_OPTION("hidden", (at) + CH_LINEUP(settings.lineup.hidden), "N", 1, 65536,                     \
                      "Hidden size (default: chosen from --params)."),                                       \
      CH_CHOICE_OPTION("init", (at) + CH_LINEUP(init), "HOW", ch_lineup_inits,                               \
                       "With --parametrization standard: the standard deviation of initial weights. "        \
                       "default is 0.02, deepseek is 0.006 (embeddings 0.02), fan_in is 1 / sqrt(inputs).",  \
                       .default_value = "default"),                                                          \
      CH_CHOICE_OPTION("parametrization", (at) + CH_LINEUP(parametrization), "HOW",                          \
                       ch_lineup_parametrizations,                                                           \
                       "How initial weights and learning rates are set. spectral: for each tensor by its "   \
                       "shape and role. standard: one standard deviation and one rate for all.",             \
                       .default_value = "spectral"),                                                         \
      CH_COUNT_OPTION(                                                                                       \
          "heads", (at) + CH_LINEUP(settings.lineup.heads), "N", 1, 4096,                                    \
          "Number of query heads (default: 8; above a hidden size of 512, one for every 64 elements).")
#define CH_LINEUP_ENGINE(at)                                                                                 \
  CH_CHOICE_OPTION("engine", (at) + CH_LINEUP(engine), "NAME", ch_lineup_engines,                            \
                   "What trains the models: this program, or PyTorch, on GPUs or the CPU.",                  \
                   .default_value = "native"),                                                               \
      CH_TEXT_OPTION("device", (at) + CH_LINEUP(settings.workers.device), "NAME",                            \
                     "With --engine pytorch: cuda (all GPUs), cuda:1, cpu or xpu, several with commas "      \
                     "(default: the first GPU, else the CPU)."),                                             \
      CH_FLAG_OPTION("shard", (at) + CH_LINEUP(settings.workers.shard),                                      \
                     "With --engine pytorch and --ranks-per-run: each device holds a part of the model "     \
                     "(FSDP2) instead of the whole; the steps are the same."),                               \
      CH_PATH_OPTION(                                                                                        \
          "python", (at) + CH_LINEUP(settings.workers.python), "PATH",                                       \
          "With --engine pytorch: the Python that has PyTorch, transformers and the package crosshead "      \
          "(default: CROSSHEAD_PYTHON, else that of an active virtual environment, else python3).")
#define CH_LINEUP_TOKENIZER(at)                                                                              \
  CH_COUNT_OPTION(                                                                                           \
      "vocab", (at) + CH_LINEUP(settings.lineup.vocab), "N", 257, 4000000,                                   \
      "Vocabulary size of the tokenizer that is trained (default: chosen from --params and the text)."),     \
      CH_PATH_OPTION(                                                                                        \
          "tokenizer", (at) + CH_LINEUP(settings.lineup.tokenizer), "FILE",                                  \
          "A tokenizer.json, a tokenizer.bin, or a directory that has one (default: trained on the text).")
#define CH_LINEUP_VALIDATION(at)                                                                             \
  CH_PATH_OPTION("validation", (at) + CH_LINEUP(settings.text.validation_text), "FILE",                      \
                 "A text to validate on (default: a tenth of --data, left out of training).",                \
                 .setting = "validation_text")
#define CH_LINEUP_TOKENS(at)                                                                                 \
  CH_COUNT_OPTION("tokens", (at) + CH_LINEUP(settings.training.tokens), "N", 1, 0,                           \
                  "Tokens that each model is trained on. A short text is read repeatedly.",                  \
                  .default_value = "2M")
#define CH_LINEUP_MICRO_BATCH(at, what)                                                                      \
  CH_COUNT_OPTION("micro-batch", (at) + CH_LINEUP(settings.training.micro_batch), "N", 1, 65536,             \
                  what                                                                                       \
                  " computed at a time, a divisor of --batch (default: as many as memory allows). Several "  \
                  "--ranks-per-run share the micro-batches of a step.")
#define CH_LINEUP_RANKS(at)                                                                                  \
  CH_COUNT_OPTION("ranks-per-run", (at) + CH_LINEUP(settings.workers.ranks_per_run), "N", 1, 1 << 20,        \
                  "Ranks of mpirun, or devices with --engine pytorch, that train one run together. Each "    \
                  "such group trains one run at a time, the longest runs first.",                            \
                  .default_value = "1")
#define CH_LINEUP_SEQ(at)                                                                                    \
  CH_COUNT_OPTION("seq", (at) + CH_LINEUP(settings.lineup.sequence), "N", 2, 1048576,                        \
                  "Sequence length in tokens.", .setting = "sequence", .default_value = "256")
/* Rows of --compute, --warmup and --seed. */
#define CH_LINEUP_WARMUP(at)                                                                                 \
  CH_CHOICE_OPTION("compute", (at) + CH_LINEUP(dtype), "TYPE", ch_compute_names,                             \
                   "Arithmetic of large matrix products: f32, or bf16 with sums in f32, which is faster on " \
                   "processors with BF16 instructions.",                                                     \
                   .setting = "type", .alias = "dtype", .default_value = "f32"),                             \
      CH_COUNT_OPTION("warmup", (at) + CH_LINEUP(settings.training.warmup), "STEPS", 0, 1e9,                 \
                      "Steps of linear warm-up (default: 5 % of all steps, at most 1000)."),                 \
      CH_COUNT_OPTION("seed", (at) + CH_LINEUP(settings.training.seed), "N", 0, 9e15,                        \
                      "Random seed of the initial weights and of the order of the text.",                    \
                      .default_value = "1")

/* Returns the settings for the library. Settings that options give by name are converted. */
ch_compare_settings ch_lineup_settings(const ch_lineup *lineup);

/* Writes entry `index` of the list of mechanisms, "gqa[:N]", and its meaning; a ch_command.list. */
bool ch_lineup_list(int index, ch_text *entry, ch_text *meaning);
#define CH_LISTS_MECHANISMS .list_title = "Mechanisms", .list = ch_lineup_list

#endif

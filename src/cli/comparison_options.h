/* Options that compare, sweep, plan and config share: names, shape, text, training. */
#ifndef CH_CLI_COMPARISON_OPTIONS_H
#define CH_CLI_COMPARISON_OPTIONS_H

#include <crosshead/compare.h>

#include "cli/command.h"
#include "cli/precision.h"

/* The values of these options, a member of the command's arguments. */
typedef struct ch_lineup {
  ch_compare_settings settings; /* numbers and texts */
  const char *match, *init, *parametrization, *schedule, *dtype,
      *engine; /* settings by name: ch_lineup_settings */
} ch_lineup;

extern const char *const ch_lineup_matches[], *const ch_lineup_inits[], *const ch_lineup_parametrizations[],
                                                                            *const ch_lineup_engines[];

/* Rows of an option table; `at` is the offset of the ch_lineup. */
#define CH_LINEUP(member) offsetof(ch_lineup, member)
#define CH_LINEUP_MECHANISMS(at)                                                                             \
  {                                                                                                          \
    .name = "mechanisms", .type = CH_OPTION_TEXT, .offset = (at) + CH_LINEUP(settings.lineup.mechanisms),    \
    .metavar = "LIST", .default_value = "mha,gqa,mqa", .lists = CH_LISTS_SEVERAL,                            \
    .help = "Names from the list below, or paths of config files, separated by commas. A sharing "           \
            "scheme, experts or a module follow a mechanism after a plus (mfa+masa-qkvo, "                   \
            "kha-mlp+moe, gated+xsa). A scheme, experts or a module without a mechanism is added "           \
            "to mha."                                                                                        \
  }
#define CH_LINEUP_SIZE(at)                                                                                   \
  {.name = "params",                                                                                         \
   .setting = "parameters",                                                                                  \
   .type = CH_OPTION_COUNT,                                                                                  \
   .offset = (at) + CH_LINEUP(settings.lineup.parameters),                                                   \
   .metavar = "N",                                                                                           \
   .min = 1,                                                                                                 \
   .max = 0,                                                                                                 \
   .help = "Parameters of each model, with embeddings (default: 1M, or those of the first config file)."},   \
      {.name = "match",                                                                                      \
       .type = CH_OPTION_CHOICE,                                                                             \
       .offset = (at) + CH_LINEUP(match),                                                                    \
       .metavar = "WHAT",                                                                                    \
       .choices = ch_lineup_matches,                                                                         \
       .default_value = "parameters",                                                                        \
       .help = "The quantity held equal across the models: all parameters (also called all), the active "    \
               "ones (without gate tables and experts that are not chosen), FLOPs per token, "               \
               "training time on this machine, or the cache per token (--cache-per-token). none: "           \
               "no quantity; the models have the same shape apart from their attention."},                   \
      {.name = "cache-per-token",                                                                            \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(settings.lineup.cache_per_token),                                          \
       .metavar = "N",                                                                                       \
       .min = 1,                                                                                             \
       .max = 0,                                                                                             \
       .help = "With --match cache: the largest number of cache elements per token, all layers "             \
               "together. Each mechanism gets the size that comes nearest to it."},                          \
      {.name = "layers",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(settings.lineup.layers),                                                   \
       .metavar = "N",                                                                                       \
       .min = 1,                                                                                             \
       .max = 1000,                                                                                          \
       .help = "Number of layers (default: chosen from --params)."},                                         \
      {.name = "hidden",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(settings.lineup.hidden),                                                   \
       .metavar = "N",                                                                                       \
       .min = 1,                                                                                             \
       .max = 65536,                                                                                         \
       .help = "Hidden size (default: chosen from --params)."},                                              \
      {.name = "init",                                                                                       \
       .type = CH_OPTION_CHOICE,                                                                             \
       .offset = (at) + CH_LINEUP(init),                                                                     \
       .metavar = "HOW",                                                                                     \
       .default_value = "default",                                                                           \
       .choices = ch_lineup_inits,                                                                           \
       .help = "With --parametrization standard: the standard deviation of initial weights. default "        \
               "is 0.02, deepseek is 0.006, fan_in is 1 / sqrt(inputs)."},                                   \
      {.name = "parametrization",                                                                            \
       .type = CH_OPTION_CHOICE,                                                                             \
       .offset = (at) + CH_LINEUP(parametrization),                                                          \
       .metavar = "HOW",                                                                                     \
       .default_value = "spectral",                                                                          \
       .choices = ch_lineup_parametrizations,                                                                \
       .help = "How initial weights and learning rates are set. spectral: for each tensor by its "           \
               "shape and role. standard: one standard deviation and one rate for all."},                    \
  {                                                                                                          \
    .name = "heads", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(settings.lineup.heads),             \
    .metavar = "N", .min = 1, .max = 4096,                                                                   \
    .help = "Number of query heads (default: 8; above a hidden size of 512, one for "                        \
            "every 64 elements)."                                                                            \
  }
#define CH_LINEUP_ENGINE(at)                                                                                 \
  {.name = "engine",                                                                                         \
   .type = CH_OPTION_CHOICE,                                                                                 \
   .offset = (at) + CH_LINEUP(engine),                                                                       \
   .metavar = "NAME",                                                                                        \
   .choices = ch_lineup_engines,                                                                             \
   .default_value = "native",                                                                                \
   .help = "What trains the models: this program, or PyTorch, on GPUs or the CPU."},                         \
      {.name = "device",                                                                                     \
       .type = CH_OPTION_TEXT,                                                                               \
       .offset = (at) + CH_LINEUP(settings.workers.device),                                                  \
       .metavar = "NAME",                                                                                    \
       .help = "With --engine pytorch: cuda (all GPUs), cuda:1, cpu, mps or xpu, several with commas "       \
               "(default: the first GPU, else the CPU)."},                                                   \
      {.name = "shard",                                                                                      \
       .type = CH_OPTION_FLAG,                                                                               \
       .offset = (at) + CH_LINEUP(settings.workers.shard),                                                   \
       .help = "With --engine pytorch and --ranks-per-run: each device holds a part of the model (FSDP2) "   \
               "in place of all; the steps are the same."},                                                  \
  {                                                                                                          \
    .name = "python", .type = CH_OPTION_PATH, .offset = (at) + CH_LINEUP(settings.workers.python),           \
    .metavar = "PATH",                                                                                       \
    .help = "With --engine pytorch: the Python that has PyTorch, transformers and the package crosshead "    \
            "(default: CROSSHEAD_PYTHON, that of an active virtual environment, python3)."                   \
  }
#define CH_LINEUP_TOKENIZER(at)                                                                              \
  {.name = "vocab",                                                                                          \
   .type = CH_OPTION_COUNT,                                                                                  \
   .offset = (at) + CH_LINEUP(settings.lineup.vocab),                                                        \
   .metavar = "N",                                                                                           \
   .min = 257,                                                                                               \
   .max = 4000000,                                                                                           \
   .help =                                                                                                   \
       "Vocabulary size of the tokenizer that is trained (default: chosen from --params and the text)."},    \
  {                                                                                                          \
    .name = "tokenizer", .type = CH_OPTION_PATH, .offset = (at) + CH_LINEUP(settings.lineup.tokenizer),      \
    .metavar = "FILE",                                                                                       \
    .help = "A tokenizer.json, or a directory that has one (default: a tokenizer is trained on the text)."   \
  }
#define CH_LINEUP_VALIDATION(at)                                                                             \
  {                                                                                                          \
    .name = "validation", .setting = "validation_text", .type = CH_OPTION_PATH,                              \
    .offset = (at) + CH_LINEUP(settings.text.validation_text), .metavar = "FILE",                            \
    .help = "A text to validate on (default: a tenth of --data, left out of training)."                      \
  }
#define CH_LINEUP_TOKENS(at)                                                                                 \
  {                                                                                                          \
    .name = "tokens", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(settings.training.tokens),         \
    .metavar = "N", .default_value = "2M", .min = 1, .max = 0,                                               \
    .help = "Tokens that each model is trained on. A short text is read repeatedly."                         \
  }
#define CH_LINEUP_MICRO_BATCH(at, what)                                                                      \
  {                                                                                                          \
    .name = "micro-batch", .type = CH_OPTION_COUNT,                                                          \
    .offset = (at) + CH_LINEUP(settings.training.micro_batch), .metavar = "N", .min = 1, .max = 65536,       \
    .help = what " computed at a time, a divisor of --batch (default: as many as memory allows). Several "   \
                 "--ranks-per-run share the micro-batches of a step."                                        \
  }
#define CH_LINEUP_RANKS(at)                                                                                  \
  {                                                                                                          \
    .name = "ranks-per-run", .type = CH_OPTION_COUNT,                                                        \
    .offset = (at) + CH_LINEUP(settings.workers.ranks_per_run), .metavar = "N", .default_value = "1",        \
    .min = 1, .max = 1 << 20,                                                                                \
    .help =                                                                                                  \
        "Ranks of mpirun, or devices with --engine pytorch, that train one run together. Each such group "   \
        "trains one run at a time, the longest runs first."                                                  \
  }
#define CH_LINEUP_SEQ(at)                                                                                    \
  {                                                                                                          \
    .name = "seq", .setting = "sequence", .type = CH_OPTION_COUNT,                                           \
    .offset = (at) + CH_LINEUP(settings.lineup.sequence), .metavar = "N", .default_value = "256", .min = 2,  \
    .max = 1048576, .help = "Sequence length in tokens."                                                     \
  }
/* Also the type that products of training multiply. */
#define CH_LINEUP_WARMUP(at)                                                                                 \
  {.name = "compute",                                                                                        \
   .setting = "type",                                                                                        \
   .alias = "dtype",                                                                                         \
   .type = CH_OPTION_CHOICE,                                                                                 \
   .offset = (at) + CH_LINEUP(dtype),                                                                        \
   .metavar = "TYPE",                                                                                        \
   .default_value = "f32",                                                                                   \
   .choices = ch_compute_names,                                                                              \
   .help = "Arithmetic of large matrix products: f32, or bf16 with sums in f32, which is faster on "         \
           "processors with BF16 instructions."},                                                            \
      {.name = "warmup",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(settings.training.warmup),                                                 \
       .metavar = "STEPS",                                                                                   \
       .min = 0,                                                                                             \
       .max = 1e9,                                                                                           \
       .help = "Steps of linear warm-up (default: 5 % of all steps)."},                                      \
  {                                                                                                          \
    .name = "seed", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(settings.training.seed),             \
    .metavar = "N", .default_value = "1", .min = 0, .max = 9e15,                                             \
    .help = "Random seed of the initial weights and of the order of the text."                               \
  }

/* Returns the library's settings, with the values that options give by name. */
ch_compare_settings ch_lineup_settings(const ch_lineup *lineup);

/* The list of mechanisms after the options: "gqa[:N]", and a line about it. */
bool ch_lineup_list(int index, ch_text *entry, ch_text *meaning);

#endif

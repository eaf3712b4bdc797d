/* The options that commands share which train mechanisms side by side: names, shape, text, training. */
#ifndef CH_CLI_LINEUP_H
#define CH_CLI_LINEUP_H

#include "cli/command.h"
#include "cli/element_types.h"
#include "config/initial_std.h"
#include "train/compare.h"

/* Their values: a member of the command's arguments. */
typedef struct ch_lineup {
  const char *mechanisms, *tokenizer, *match, *init, *dtype;
  int64_t params, vocab, layers, hidden, heads, tokens, sequence, warmup, seed;
} ch_lineup;

extern const char *const ch_lineup_matches[];

/* Rows of an option table; `at` is the offset of the ch_lineup. */
#define CH_LINEUP(member) offsetof(ch_lineup, member)
#define CH_LINEUP_MECHANISMS(at)                                                                             \
  {                                                                                                          \
    .name = "mechanisms", .type = CH_OPTION_TEXT, .offset = (at) + CH_LINEUP(mechanisms), .metavar = "LIST", \
    .default_value = "mha,gqa,mqa",                                                                          \
    .help =                                                                                                  \
        "Names of the list below, or paths of config files, with commas between; what layers share stands "  \
        "behind a mechanism and a plus (mfa+masa-qkvo), or alone for mha."                                   \
  }
#define CH_LINEUP_SIZE(at)                                                                                   \
  {.name = "params",                                                                                         \
   .type = CH_OPTION_COUNT,                                                                                  \
   .offset = (at) + CH_LINEUP(params),                                                                       \
   .metavar = "N",                                                                                           \
   .min = 1,                                                                                                 \
   .max = 0,                                                                                                 \
   .help =                                                                                                   \
       "Parameters of each model, embeddings included (1M; with config files, what the first one has)."},    \
      {.name = "match",                                                                                      \
       .type = CH_OPTION_CHOICE,                                                                             \
       .offset = (at) + CH_LINEUP(match),                                                                    \
       .metavar = "WHAT",                                                                                    \
       .choices = ch_lineup_matches,                                                                         \
       .default_value = "all",                                                                               \
       .help =                                                                                               \
           "Which parameters are made equal: all, or those that a token meets, without lookup tables of "    \
           "gates and experts that are not chosen."},                                                        \
      {.name = "layers",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(layers),                                                                   \
       .metavar = "N",                                                                                       \
       .min = 1,                                                                                             \
       .max = 1000,                                                                                          \
       .help = "Layers, instead of those that --params gives."},                                             \
      {.name = "hidden",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(hidden),                                                                   \
       .metavar = "N",                                                                                       \
       .min = 1,                                                                                             \
       .max = 65536,                                                                                         \
       .help = "Width, instead of the one that --params gives."},                                            \
      {.name = "init",                                                                                       \
       .type = CH_OPTION_CHOICE,                                                                             \
       .offset = (at) + CH_LINEUP(init),                                                                     \
       .metavar = "HOW",                                                                                     \
       .default_value = "default",                                                                           \
       .choices = ch_init_names,                                                                             \
       .help = "How widely weights spread at the start: 0.02, 0.006, or 1 / sqrt(inputs)."},                 \
  {                                                                                                          \
    .name = "heads", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(heads), .metavar = "N", .min = 1,   \
    .max = 4096, .help = "Query heads, instead of 8 (or heads of 64 in models wider than 512)."              \
  }
#define CH_LINEUP_TOKENIZER(at)                                                                              \
  {.name = "vocab",                                                                                          \
   .type = CH_OPTION_COUNT,                                                                                  \
   .offset = (at) + CH_LINEUP(vocab),                                                                        \
   .metavar = "N",                                                                                           \
   .min = 257,                                                                                               \
   .max = 4000000,                                                                                           \
   .help = "Size of the vocabulary that is trained, instead of one that suits --params and the text."},      \
  {                                                                                                          \
    .name = "tokenizer", .type = CH_OPTION_PATH, .offset = (at) + CH_LINEUP(tokenizer), .metavar = "FILE",   \
    .help = "A tokenizer.json, or a directory with one, instead of one trained on the text."                 \
  }
#define CH_LINEUP_TOKENS(at)                                                                                 \
  {                                                                                                          \
    .name = "tokens", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(tokens), .metavar = "N",           \
    .default_value = "2M", .min = 1, .max = 0,                                                               \
    .help = "Tokens each model is trained on; a short text is read repeatedly."                              \
  }
#define CH_LINEUP_SEQ(at)                                                                                    \
  {                                                                                                          \
    .name = "seq", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(sequence), .metavar = "N",            \
    .default_value = "256", .min = 2, .max = 1048576, .help = "Tokens of a sequence."                        \
  }
/* Also the type that products of training multiply. */
#define CH_LINEUP_WARMUP(at)                                                                                 \
  {.name = "dtype",                                                                                          \
   .type = CH_OPTION_CHOICE,                                                                                 \
   .offset = (at) + CH_LINEUP(dtype),                                                                        \
   .metavar = "TYPE",                                                                                        \
   .default_value = "f32",                                                                                   \
   .choices = ch_compute_names,                                                                              \
   .help = "Arithmetic of training; bf16: products multiply BF16, faster where the processor has "           \
           "instructions for it."},                                                                          \
      {.name = "warmup",                                                                                     \
       .type = CH_OPTION_COUNT,                                                                              \
       .offset = (at) + CH_LINEUP(warmup),                                                                   \
       .metavar = "STEPS",                                                                                   \
       .min = 0,                                                                                             \
       .max = 1e9,                                                                                           \
       .help = "Steps of linear warm-up (5 % of all)."},                                                     \
  {                                                                                                          \
    .name = "seed", .type = CH_OPTION_COUNT, .offset = (at) + CH_LINEUP(seed), .metavar = "N",               \
    .default_value = "1", .min = 0, .max = 9e15, .help = "Of the initial weights and the order of the text." \
  }

/* What they ask of a comparison; `arguments` is the command's struct. */
void ch_lineup_ask(const void *arguments, const ch_lineup *lineup, ch_compare_options *asked);

/* The list of names behind the options: "gqa[:N]", and what it is. */
bool ch_lineup_list(int index, ch_text *entry, ch_text *meaning);

#endif

/* The pre-tokenizers that GGUF files name, with the patterns of their tokenizer.json files. */
#include <string.h>

#include "formats/pieces.h"

#define LIST(...)                                                                                            \
  (const char *const[]) {                                                                                    \
    __VA_ARGS__, NULL                                                                                        \
  }
#define NOTHING                                                                                              \
  (const char *const[]) {                                                                                    \
    NULL                                                                                                     \
  }

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST
#define QWEN CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST
#define SINGLE_CASE "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TITLE_CASE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN                                                                                               \
  "[^\\r\\n\\p{L}\\p{N}]?" TITLE_CASE "*" SINGLE_CASE "+|[^\\r\\n\\p{L}\\p{N}]?" TITLE_CASE "+" SINGLE_CASE  \
  "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MAYBE_CONTRACTION CONTRACTIONS "?"
#define O200K                                                                                                \
  "[^\\r\\n\\p{L}\\p{N}]?" TITLE_CASE "*" SINGLE_CASE "+" MAYBE_CONTRACTION                                  \
  "|[^\\r\\n\\p{L}\\p{N}]?" TITLE_CASE "+" SINGLE_CASE "*" MAYBE_CONTRACTION                                 \
  "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35                                                                                               \
  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"          \
               "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SEED                                                                                                 \
  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+"             \
               "|\\s+(?!\\S)|\\s+"
#define BAILING                                                                                              \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]" \
  "|\\s+(?!\\S)|\\s+"
#define DEEPSEEK3                                                                                            \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "      \
  "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Letters with case, as DeepSeek's tokenizer lists them. They are written as numbers, because editors that normalise
   Unicode would replace some of them. */
#define CASED                                                                                                \
  "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                             \
  "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}"             \
  "\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"                     \
  "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}"              \
  "\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"                             \
  "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"                             \
  "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}"                     \
  "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"                    \
  "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"                             \
  "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}"                     \
  "\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"                               \
  "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}"                     \
  "\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}"                              \
  "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}"                             \
  "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"                             \
  "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"                       \
  "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

static const ch_word_rule rules[] = {
    {LIST("gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "mpt", "olmo", "jais",
          "trillion", "gigachat", "mellum", "a.x-4.0", "exaone4", "granite-docling", "modern-bert"),
     NOTHING, .gpt2 = true},
    {LIST("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
     LIST(LLAMA3), .ignore_merges = true, .begins = true},
    {LIST("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), LIST(LLAMA3), .gpt2 = false},
    {LIST("qwen2", "deepseek-r1-qwen", "kormo", "megrez"), LIST(QWEN), .normalize = true},
    {LIST("stablelm2", "hunyuan", "solar-open", "grok-2"), LIST(QWEN), .gpt2 = false},
    {LIST("qwen35"), LIST(QWEN35), .normalize = true},
    {LIST("seed-coder"), LIST(SEED), .gpt2 = false},
    {LIST("bailingmoe", "bailingmoe2", "llada-moe"), LIST(BAILING), .gpt2 = false},
    {LIST("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
     LIST("\\p{N}"), .gpt2 = true},
    {LIST("deepseek-v3", "hunyuan-dense", "joyai-llm"),
     LIST("\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3), .gpt2 = false},
    {LIST("deepseek-llm"),
     LIST("[\\r\\n]", "\\s?[" CASED "]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
          "[一-龥ࠀ-一가-퟿]+", "\\p{N}"),
     .gpt2 = false},
    {LIST("deepseek-coder"),
     LIST("[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"), .gpt2 = false},
    {LIST("tekken"), LIST(TEKKEN), .ignore_merges = true, .begins = true, .approximate = true},
    {LIST("gpt-4o", "llama4", "kanana2", "minimax-m2"), LIST(O200K), .approximate = true},
};

enum { RULES = sizeof rules / sizeof *rules };

const ch_word_rule *ch_word_rule_named(const char *name, size_t size) {
  for (int i = 0; i < RULES; i++)
    for (const char *const *known = rules[i].names; *known; known++)
      if (strlen(*known) == size && memcmp(*known, name, size) == 0) return &rules[i];
  return NULL;
}

int ch_word_rule_count(void) {
  return RULES;
}

const ch_word_rule *ch_word_rule_at(int index) {
  return &rules[index];
}

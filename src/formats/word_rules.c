/* The pre-tokenizers that GGUF files name, as the patterns that their tokenizer.json files have. */
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
#define DEEPSEEK3                                                                                            \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "      \
  "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Letters with case, as DeepSeek's tokenizer lists them. */
/* clang-format off */
#define CASED                                                                                                                               \
  "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ"                                  \
  "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-"    \
  "Ίῠ-"                                                                                                                                  \
  "Ῥ"                                                                                                                                     \
  "ῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-" \
  "ꞇꞋ-"                                                                                                                                 \
  "ꞎ"                                                                                                                                     \
  "ꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
/* clang-format on */

static const ch_word_rule rules[] = {
    {LIST("gpt-2", "phi-2", "jina-es", "jina-de", "mpt", "olmo", "jais", "trillion", "gigachat", "mellum"),
     NOTHING, .gpt2 = true},
    {LIST("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"), LIST(LLAMA3),
     .ignore_merges = true, .begins = true},
    {LIST("dbrx", "smaug-bpe"), LIST(LLAMA3), .gpt2 = false},
    {LIST("qwen2", "deepseek-r1-qwen"), LIST(QWEN), .normalize = true},
    {LIST("stablelm2", "hunyuan"), LIST(QWEN), .gpt2 = false},
    {LIST("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), LIST("\\p{N}"),
     .gpt2 = true},
    {LIST("deepseek-v3", "hunyuan-dense"), LIST("\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3),
     .gpt2 = false},
    {LIST("deepseek-llm"),
     LIST("[\\r\\n]", "\\s?[" CASED "]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
          "[一-龥ࠀ-一가-퟿]+", "\\p{N}"),
     .gpt2 = false},
    {LIST("deepseek-coder"),
     LIST("[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"), .gpt2 = false},
    {LIST("tekken"), LIST(TEKKEN), .ignore_merges = true, .begins = true},
};

enum { RULES = sizeof rules / sizeof *rules };

const ch_word_rule *ch_word_rule_named(const char *name, size_t size) {
  for (int i = 0; i < RULES; i++)
    for (const char *const *known = rules[i].names; *known; known++)
      if (strlen(*known) == size && memcmp(*known, name, size) == 0) return &rules[i];
  return NULL;
}

static bool same_patterns(const char *const *a, const char *const *b) {
  while (*a && *b && strcmp(*a, *b) == 0) a++, b++;
  return !*a && !*b;
}

/* Rules of one pattern that differ otherwise: the exact one, else one that at least cuts the same. */
const ch_word_rule *ch_word_rule_like(const ch_word_rule *rule) {
  const ch_word_rule *near = NULL;
  for (int i = 0; i < RULES; i++) {
    if (rules[i].gpt2 != rule->gpt2 || !same_patterns(rules[i].patterns, rule->patterns)) continue;
    if (rules[i].ignore_merges == rule->ignore_merges && rules[i].normalize == rule->normalize)
      return &rules[i];
    if (!near && rules[i].ignore_merges == rule->ignore_merges) near = &rules[i];
  }
  return near;
}

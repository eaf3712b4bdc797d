/* crosshead export MODEL --format transformers|safetensors|gguf --out PATH: writes models for other programs. */
#include <string.h>

#include <crosshead/convert.h>

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *format, *dtype, *tokenizer;
  int64_t threads;
  bool no_tokenizer, untrained, own_code, expand_heads, json, force;
} arguments;

static const char *const types[] = {"f32", "f16", "bf16", "q8_0", NULL};

/* names of the formats, in the order of ch_export_format */
static const char *const formats[] = {"safetensors", "gguf", "transformers", NULL};

static ch_export_format format_of(const char *name) {
  int format = 0;
  while (strcmp(formats[format], name) != 0) format++;
  return (ch_export_format)format;
}

static void put_page(const void *given, const json_t *report, ch_text *text) {
  const arguments *a = given;
  const char *type = ch_json_text_at(report, "model_type");
  ch_text_printf(text, "%s: %s %s model, %s%s\n", a->out, ch_article(type), type,
                 ch_json_text_at(report, "dtype"),
                 json_is_true(json_object_get(report, "tokenizer")) ? "" : ", without a tokenizer");
  long long before = ch_report_count(report, "cache_elements_per_token_before"),
            after = ch_report_count(report, "cache_elements_per_token");
  if (after > before)
    ch_text_printf(text,
                   "cache per token: %lld elements, before %lld: virtual heads were expanded, which does not "
                   "undo their loss of quality\n",
                   after, before);
  if (!json_is_true(json_object_get(report, "tokenizer_exact")))
    ch_text_printf(text, "some texts get other token ids in llama.cpp: GGUF cannot express %s\n",
                   ch_json_text_at(report, "tokenizer_loss"));
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  bool gguf = strcmp(a->format, "gguf") == 0;
  if (!gguf && a->dtype && strcmp(a->dtype, "q8_0") == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--dtype q8_0 is for --format gguf only; safetensors files hold f32, f16 or bf16");
  ch_export_format format = format_of(a->format);
  if (a->untrained && format != CH_EXPORT_TRANSFORMERS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--untrained needs --format transformers");
  if (a->own_code && format != CH_EXPORT_TRANSFORMERS)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--own-code needs --format transformers; the other formats have no code");
  if (a->expand_heads && !gguf)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--expand-heads needs --format gguf; the other formats keep virtual heads");
  ch_work work;
  ch_export_settings settings;
  ch_export_defaults(&settings);
  settings.format = format;
  settings.untrained = a->untrained;
  settings.own_code = a->own_code;
  settings.expand_heads = a->expand_heads;
  settings.type = ch_precision_of(a->dtype);
  settings.tokenizer = a->tokenizer;
  settings.no_tokenizer = a->no_tokenizer;
  settings.progress = ch_work_progress;
  settings.user = &work;
  char *json = NULL;
  ch_work_begin(&work, "converting");
  ch_status status = ch_export(a->positional[0], ch_output_path(a, "out"), &settings, &json, error);
  CH_TRY(ch_work_end(&work, status, error));
  return ch_report_print(json, a->json, put_page, a, error);
}

static const ch_option options[] = {
    CH_CHOICE_OPTION("format", offsetof(arguments, format), "FORMAT", formats,
                     "transformers: a model directory with its PyTorch code; safetensors: a model directory; "
                     "gguf: one file, for llama.cpp.",
                     .required = true),
    CH_PATH_OPTION("out", offsetof(arguments, out), "PATH",
                   "Directory (transformers, safetensors) or file (gguf) to write.", .required = true,
                   .writes = CH_WRITES_DIRECTORY),
    CH_CHOICE_OPTION("dtype", offsetof(arguments, dtype), "TYPE", types,
                     "Element type of matrices (default: each one's own). q8_0 is for GGUF only.",
                     .setting = "type"),
    CH_PATH_OPTION("tokenizer", offsetof(arguments, tokenizer), "FILE",
                   "With --untrained: the tokenizer.json to write, or a directory that has one (default: "
                   "that of the configuration's directory)."),
    CH_FLAG_OPTION("no-tokenizer", offsetof(arguments, no_tokenizer), "Do not write the tokenizer."),
    CH_FLAG_OPTION("expand-heads", offsetof(arguments, expand_heads),
                   "Expand virtual heads (gguf only): llama.cpp then needs the cache of all heads."),
    CH_FLAG_OPTION("untrained", offsetof(arguments, untrained),
                   "Write the code and the configuration without weights, to train the model in PyTorch; "
                   "MODEL may be a config.json of any size."),
    CH_FLAG_OPTION("own-code", offsetof(arguments, own_code),
                   "Write Crosshead's PyTorch code, with its parameter groups and caches, even if a class of "
                   "transformers would suffice (transformers only)."),
    CH_JSON_OPTION(offsetof(arguments, json)),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_export = {
    .name = "export",
    .positional = "MODEL",
    .meant = "out",
    .summary = "Write a model as a Hugging Face directory or a GGUF file.",
    .description = "transformers: a directory that transformers loads, with Crosshead's PyTorch code unless "
                   "a class of transformers suffices.\n\nsafetensors: the tensors that inference needs, as a "
                   "Hugging Face directory. If a Hugging "
                   "Face model type describes the model, that type is used.\n\n"
                   "gguf: one file with the tokenizer, for llama.cpp. It supports the model families that "
                   "docs/export.md lists. It also supports Crosshead models that become one of these once "
                   "knocking, head mixing and shared matrices are folded into the weights; export folds "
                   "them. GGUF has no virtual heads: a "
                   "model whose "
                   "cache holds fewer heads is refused unless --expand-heads is given.",
    .examples =
        "crosshead export runs/compare/mla --format transformers --out mla\n"
        "crosshead export config.json --format transformers --untrained --tokenizer tok.json --out large\n"
        "crosshead export model --format gguf --dtype q8_0 --out model.gguf\n"
        "crosshead export runs/mine --format safetensors --dtype bf16 --out plain",
    CH_RUNS(options, arguments, run),
};

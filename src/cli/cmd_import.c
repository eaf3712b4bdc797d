/* crosshead import FILE_OR_DIR --out DIR: converts other programs' models to a model directory. */
#include <crosshead/convert.h>

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *tokenizer, *dtype;
  int64_t threads;
  bool keep_blocks, json, force;
} arguments;

/* The context of put_page. `blocks` is the number of quantised matrices in the file. */
typedef struct import_output {
  const arguments *arguments;
  int64_t blocks;
} import_output;

static void put_page(const void *context, const json_t *report, ch_text *text) {
  const import_output *done = context;
  const arguments *a = done->arguments;
  char count[32];
  bool tokenizer = json_is_true(json_object_get(report, "tokenizer"));
  double parameters = (double)ch_report_count(report, "parameters_total");
  const char *type = ch_json_text_at(report, "model_type");
  ch_text_printf(text, "%s: %s %s model of %s parameters from %s%s\n", a->out, ch_article(type), type,
                 ch_format_count(parameters, count, sizeof count), ch_json_text_at(report, "format"),
                 tokenizer ? "" : ", without a tokenizer (--tokenizer gives it one)");
  if (done->blocks)
    ch_text_printf(text,
                   a->keep_blocks ? "%lld block-quantised %s, as they were\n"
                                  : "%lld quantised %s became %s (--keep-blocks leaves them)\n",
                   (long long)done->blocks, ch_plural(done->blocks, "matrix", "matrices"),
                   a->dtype ? a->dtype : "f32");
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_work work;
  import_output done = {.arguments = a};
  ch_import_settings settings;
  ch_import_defaults(&settings);
  settings.tokenizer = a->tokenizer;
  settings.type = ch_precision_of(a->dtype);
  settings.keep_blocks = a->keep_blocks;
  settings.progress = ch_work_progress;
  settings.user = &work;
  settings.matrices_quantised = &done.blocks;
  char *json = NULL;
  ch_work_begin(&work, "converting");
  ch_status status = ch_import(a->positional[0], ch_output_path(a, "out"), &settings, &json, error);
  CH_TRY(ch_work_end(&work, status, error));
  return ch_report_print(json, a->json, put_page, &done, error);
}

static const ch_option options[] = {
    CH_PATH_OPTION("out", offsetof(arguments, out), "DIR", "Directory for the model.", .required = true,
                   .writes = CH_WRITES_DIRECTORY),
    CH_PATH_OPTION("tokenizer", offsetof(arguments, tokenizer), "FILE",
                   "A tokenizer.json or a llama2.c tokenizer.bin (default: the model's own tokenizer)."),
    CH_CHOICE_OPTION("dtype", offsetof(arguments, dtype), "TYPE", ch_element_type_names,
                     "Element type to write (default: each tensor's own; f32 for quantised tensors).",
                     .setting = "type"),
    CH_FLAG_OPTION("keep-blocks", offsetof(arguments, keep_blocks),
                   "Keep matrices of type Q8_0, Q6_K, Q4_K and Q4_0 quantised."),
    CH_JSON_OPTION(offsetof(arguments, json)),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_import = {
    .name = "import",
    .positional = "FILE_OR_DIR",
    .summary = "Turn a GGUF file or a llama2.c checkpoint into a model directory.",
    .description =
        "Reads GGUF files (llama, qwen, gemma, phi3, deepseek2 and other architectures, listed in "
        "docs/import.md), llama2.c checkpoints of versions 0 to 2 and Hugging Face "
        "directories, and writes config.json, model.safetensors and tokenizer.json. Quantised tensors become "
        "floats unless --keep-blocks is given. Rotary pairs are reordered to Hugging Face's layout. Hugging "
        "Face directories of known families need no import; importing one joins its shards or changes its "
        "element type.",
    .examples = "crosshead import model-Q4_K_M.gguf --dtype bf16 --out model\n"
                "crosshead import model-Q4_K_M.gguf --keep-blocks --out small\n"
                "crosshead import stories15M.bin --tokenizer tokenizer.bin --out stories",
    CH_RUNS(options, arguments, run),
};

/* crosshead import FILE_OR_DIR --out DIR: other programs' models as a model directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/conversion.h"
#include "cli/element_types.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "formats/source.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *tokenizer, *dtype;
  bool keep_blocks, json;
} arguments;

/* Matrices that stand in blocks where they come from. */
static int64_t in_blocks(const ch_source *source) {
  int64_t count = 0;
  for (int i = 0; i < source->params.count; i++) count += ch_dtype_in_blocks(source->dtypes[i]);
  return count;
}

static ch_status report(const arguments *a, const ch_source *source, ch_error *error) {
  double parameters = 0;
  int64_t blocks = in_blocks(source);
  char count[32];
  bool tokenizer = source->tokenizer.size > 0;
  char *copied = source->companions ? ch_path_join(source->companions, "tokenizer.json") : NULL;
  if (copied) tokenizer = tokenizer || ch_is_file(copied);
  free(copied);
  for (int i = 0; i < source->params.count; i++)
    parameters += (double)ch_param_count(&source->params.rows[i]);
  if (a->json)
    return ch_print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "format", source->format, "model_type",
                                   source->config.model_type, "parameters_total", (json_int_t)parameters,
                                   "tensors", (json_int_t)source->params.count, "matrices_in_blocks",
                                   (json_int_t)(a->keep_blocks ? blocks : 0), "tokenizer", tokenizer),
                         JSON_INDENT(2), error);
  ch_text text = {0};
  ch_text_printf(&text, "%s: a %s model of %s parameters from %s%s\n", a->out, source->config.model_type,
                 ch_format_count(parameters, count, sizeof count), source->format,
                 tokenizer ? "" : ", without a tokenizer (--tokenizer gives it one)");
  if (blocks)
    ch_text_printf(&text,
                   a->keep_blocks ? "%lld matrices in blocks, as they were\n"
                                  : "%lld quantised matrices became %s (--keep-blocks leaves them)\n",
                   (long long)blocks, a->dtype ? a->dtype : "f32");
  return ch_print_text(&text, error);
}

static ch_status convert(const arguments *a, const ch_source *source, ch_error *error) {
  ch_progress_line line;
  ch_source_writing writing = {.dtype = ch_element_type(a->dtype),
                               .keep_blocks = a->keep_blocks,
                               .stop = ch_stop_wanted,
                               .progress = ch_show_conversion,
                               .context = &line};
  ch_progress_begin(&line, stderr);
  ch_interrupt_watch();
  ch_status status = ch_source_write(source, a->out, &writing, error);
  ch_interrupt_release();
  ch_progress_end(&line);
  return status == CH_OK ? report(a, source, error) : status;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_source source;
  CH_TRY(ch_source_open(a->positional[0], a->tokenizer, &source, error));
  ch_status status = convert(a, &source, error);
  ch_source_close(&source);
  return status;
}

static const ch_option options[] = {
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, out),
     .metavar = "DIR",
     .required = true,
     .help = "Where the model directory is written."},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, tokenizer),
     .metavar = "FILE",
     .help = "A tokenizer.json or llama2.c tokenizer.bin, in place of the model's own."},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, dtype),
     .metavar = "TYPE",
     .choices = ch_element_type_names,
     .help = "Element type to write: each tensor's own unless given, f32 where it is quantised."},
    {.name = "keep-blocks",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, keep_blocks),
     .help = "Leave matrices of type Q8_0, Q6_K, Q4_K and Q4_0 as they are."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, json),
     .help = "Print one JSON object."},
    {.name = NULL}};

const ch_command ch_cmd_import = {
    .name = "import",
    .positional = "FILE_OR_DIR",
    .summary = "Turn a GGUF file or a llama2.c checkpoint into a model directory.",
    .description =
        "Reads GGUF files (llama, qwen2, qwen3, deepseek2), llama2.c checkpoints of versions 0 to 2 and "
        "Hugging Face "
        "directories, and writes config.json, model.safetensors and tokenizer.json, tensor by tensor. "
        "Quantised tensors become plain floats, or stay in blocks with --keep-blocks; rotary pairs are put "
        "where Hugging Face has them. "
        "Hugging Face directories of the families that are known need no import; it brings their shards "
        "together or changes their type.",
    .examples = "crosshead import model-Q4_K_M.gguf --dtype bf16 --out model\n"
                "crosshead import model-Q4_K_M.gguf --keep-blocks --out small\n"
                "crosshead import stories15M.bin --tokenizer tokenizer.bin --out stories",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

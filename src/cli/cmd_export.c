/* crosshead export MODEL --format safetensors|gguf --out PATH: models for other programs. */
#include <ctype.h>
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
#include "compress/absorb.h"
#include "formats/gguf_export.h"
#include "formats/source.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *format, *dtype;
  bool no_tokenizer, json;
} arguments;

static const char *const types[] = {"f32", "f16", "bf16", "q8_0", NULL};

static ch_block_type type_of(const char *name) {
  static const ch_block_type blocks[] = {CH_BLOCK_F32, CH_BLOCK_F16, CH_BLOCK_BF16, CH_BLOCK_Q8_0};
  int i = 0;
  while (types[i + 1] && strcmp(types[i], name) != 0) i++;
  return blocks[i];
}

/* What was written. */
typedef struct outcome {
  const char *model_type, *type;
  bool tokenizer, exact;
} outcome;

static ch_status report(const arguments *a, const outcome *o, ch_error *error) {
  if (a->json)
    return ch_print_json(json_pack("{s:s, s:s, s:s, s:b, s:b}", "format", a->format, "model_type",
                                   o->model_type, "dtype", o->type, "tokenizer", o->tokenizer,
                                   "tokenizer_exact", o->exact),
                         JSON_INDENT(2), error);
  ch_text text = {0};
  ch_text_printf(&text, "%s: a %s model, %s%s\n", a->out, o->model_type, o->type,
                 o->tokenizer ? "" : ", without a tokenizer");
  if (!o->exact)
    ch_text_puts(&text,
                 "llama.cpp merges any two pieces that make a third, the tokenizer only some: rare words may "
                 "get other ids\n");
  return ch_print_text(&text, error);
}

/* --- safetensors --------------------------------------------------------------------------------------------------- */

static ch_status write_directory(const arguments *a, ch_progress_line *line, ch_error *error) {
  ch_source source;
  ch_source_writing writing = {.dtype = ch_element_type(a->dtype),
                               .keep_blocks = !a->dtype,
                               .stop = ch_stop_wanted,
                               .progress = ch_show_conversion,
                               .context = line};
  CH_TRY(ch_directory_source_open(a->positional[0], !a->no_tokenizer, &source, error));
  ch_status status = ch_source_write(&source, a->out, &writing, error);
  ch_progress_end(line);
  char *tokenizer = ch_path_join(a->out, "tokenizer.json");
  outcome o = {source.config.model_type, a->dtype ? a->dtype : "each tensor in its own type",
               tokenizer && ch_is_file(tokenizer), true};
  free(tokenizer);
  if (status == CH_OK) status = report(a, &o, error);
  ch_source_close(&source);
  return status;
}

/* --- GGUF ---------------------------------------------------------------------------------------------------------- */

/* NULL where the model has none; a tokenizer.bin alone is none that this can describe. */
static ch_status open_tokenizer(const arguments *a, ch_tokenizer **tokenizer, ch_error *error) {
  *tokenizer = NULL;
  char *path = ch_path_join(a->positional[0], "tokenizer.json");
  if (!path) return ch_fail(error, CH_ERROR_MEMORY, "no memory to open %s", a->positional[0]);
  ch_status status = !a->no_tokenizer && ch_is_file(path) ? ch_tokenizer_open(path, tokenizer, error) : CH_OK;
  free(path);
  return status;
}

/* Without --dtype matrices keep their types; where some were folded, those have the embedding's, and so do all. */
static void choose_types(const arguments *a, const ch_absorbed *plain, ch_gguf_export *how) {
  bool folded = plain->knocked || plain->mixed_layers || plain->shared || plain->residuals;
  how->own = !a->dtype && !folded;
  how->type = a->dtype ? type_of(a->dtype)
              : folded ? ch_block_format_for(plain->tensors[0].dtype)->type
                       : ch_gguf_main_type(&plain->params, plain->tensors);
}

static ch_status write_plain(const arguments *a, const ch_absorbed *plain, const ch_weights *mapped,
                             ch_progress_line *line, ch_error *error) {
  char name[64], type[16] = "";
  ch_path_stem(a->positional[0], name, sizeof name);
  ch_tokenizer *tokenizer;
  CH_TRY(open_tokenizer(a, &tokenizer, error));
  ch_gguf_export how = {.name = name,
                        .tokenizer = tokenizer,
                        .stop = ch_stop_wanted,
                        .progress = ch_show_conversion,
                        .context = line,
                        .mapped = mapped};
  choose_types(a, plain, &how);
  const char *called = ch_block_format_of(how.type)->name;
  for (size_t i = 0; called[i] && i + 1 < sizeof type; i++) type[i] = (char)tolower((unsigned char)called[i]);
  outcome o = {plain->config.model_type, type, tokenizer != NULL, true};
  ch_status status =
      ch_gguf_write(a->out, &plain->config, &plain->params, plain->tensors, &how, &o.exact, error);
  ch_progress_end(line);
  ch_tokenizer_free(tokenizer);
  return status == CH_OK ? report(a, &o, error) : status;
}

/* llama.cpp knows plain models only: what folds into matrices is folded. */
static ch_status write_gguf(const arguments *a, ch_progress_line *line, ch_error *error) {
  ch_model *model;
  ch_absorbed plain;
  if (ch_is_file(a->out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--out %s is there already; give another name", a->out);
  CH_TRY(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &model, error));
  ch_status status = a->dtype && strcmp(a->dtype, "q8_0") == 0
                         ? ch_model_check_plain(model, "be quantised again", error)
                         : CH_OK;
  if (status == CH_OK) status = ch_absorb(model, &(ch_absorb_options){.keep_cache = false}, &plain, error);
  if (status == CH_OK) {
    status = write_plain(a, &plain, &model->weights, line, error);
    ch_absorbed_free(&plain);
  }
  ch_model_unload(model);
  return status;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  bool gguf = strcmp(a->format, "gguf") == 0;
  if (!gguf && a->dtype && strcmp(a->dtype, "q8_0") == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--dtype q8_0 is GGUF's; safetensors holds f32, f16 and bf16");
  ch_progress_line line;
  ch_progress_begin(&line, stderr);
  ch_interrupt_watch();
  ch_status status = (gguf ? write_gguf : write_directory)(a, &line, error);
  ch_interrupt_release();
  ch_progress_end(&line);
  return status;
}

static const char *const formats[] = {"safetensors", "gguf", NULL};

static const ch_option options[] = {
    {.name = "format",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, format),
     .metavar = "FORMAT",
     .choices = formats,
     .required = true,
     .help = "safetensors: a model directory; gguf: one file, for llama.cpp."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, out),
     .metavar = "PATH",
     .required = true,
     .help = "The directory or the file to write."},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, dtype),
     .metavar = "TYPE",
     .choices = types,
     .help = "Element type of matrices; each one's own unless given. q8_0 is GGUF's."},
    {.name = "no-tokenizer",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, no_tokenizer),
     .help = "Leave the tokenizer out."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, json),
     .help = "Print one JSON object."},
    {.name = NULL}};

const ch_command ch_cmd_export = {
    .name = "export",
    .positional = "MODEL",
    .summary = "Write a model as a Hugging Face directory or a GGUF file.",
    .description = "safetensors: the model as inference needs it, without what training alone uses, under "
                   "the model type of "
                   "a Hugging Face family where one says the same.\n\n"
                   "gguf: one file that llama.cpp loads, tokenizer included: llama, mistral, qwen2 and qwen3 "
                   "models, and "
                   "models of Crosshead's own that become one of these when knocking, head mixing and shared "
                   "matrices are "
                   "folded into the weights, which is done on the way.",
    .examples = "crosshead export model --format gguf --dtype q8_0 --out model.gguf\n"
                "crosshead export runs/mine --format safetensors --dtype bf16 --out plain",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

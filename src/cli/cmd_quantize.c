/* crosshead quantize MODEL --type TYPE --out DIR: matrices in 16 bits, or in blocks of 8, 6 or 4. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "compress/quantise.h"
#include "io/companions.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *type;
  bool keep_embedding, json;
} arguments;

static const char *const types[] = {"bf16", "f16", "q8_0", "q6_k", "q4_k", "q4_0", NULL};
static const ch_dtype dtypes_of_types[] = {CH_BF16, CH_F16, CH_Q8_0, CH_Q6_K, CH_Q4_K, CH_Q4_0};

static ch_status step(void *context, const char *what, double done, double total, ch_error *error) {
  ch_progress_line *line = context;
  (void)what;
  ch_progress_show_share(line, "quantising", done / total, ch_progress_seconds(line));
  return ch_interrupted() ? ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; nothing was written") : CH_OK;
}

static ch_status report(const arguments *a, const ch_quantised_sizes *sizes, ch_error *error) {
  if (a->json)
    return ch_print_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "type", a->type, "bytes_before",
                                   (json_int_t)sizes->before, "bytes", (json_int_t)sizes->after, "matrices",
                                   (json_int_t)sizes->in_blocks, "matrices_of_other_widths",
                                   (json_int_t)sizes->fallen_back, "matrices_left", (json_int_t)sizes->left),
                         JSON_INDENT(2), error);
  ch_text text = {0};
  char before[32], after[32];
  ch_text_printf(&text, "%s: %lld matrices as %s, %sB where there were %sB\n", a->out,
                 (long long)sizes->in_blocks, a->type, ch_format_count(sizes->after, after, sizeof after),
                 ch_format_count(sizes->before, before, sizeof before));
  if (sizes->fallen_back)
    ch_text_printf(&text, "%lld matrices as q8_0 or f16: their rows are not whole blocks of %s\n",
                   (long long)sizes->fallen_back, a->type);
  if (sizes->left) ch_text_printf(&text, "%lld matrices as they were\n", (long long)sizes->left);
  return ch_print_text(&text, error);
}

static ch_status quantise(const arguments *a, const ch_model *model, ch_error *error) {
  int type = 0;
  while (strcmp(types[type], a->type) != 0) type++;
  ch_dtype *dtypes = malloc(((size_t)model->params.count + 1) * sizeof *dtypes);
  if (!dtypes) return ch_fail(error, CH_ERROR_MEMORY, "no memory to quantise %s", a->positional[0]);
  ch_quantised_sizes sizes;
  ch_progress_line line;
  const ch_model_writing writing = {.read = &model->weights, .step = step, .context = &line};
  ch_progress_begin(&line, stderr);
  ch_interrupt_watch();
  ch_status status =
      ch_quantise_types(model, dtypes_of_types[type], a->keep_embedding, dtypes, &sizes, error);
  if (status == CH_OK)
    status = ch_model_write_as(a->out, &model->config, &model->params, model->weights.tensors, dtypes,
                               &writing, error);
  ch_interrupt_release();
  ch_progress_end(&line);
  if (status == CH_OK) status = ch_companions_copy(a->positional[0], a->out, error);
  free(dtypes);
  return status == CH_OK ? report(a, &sizes, error) : status;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  if (ch_same_file(a->positional[0], a->out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--out %s is the model itself; give another directory", a->out);
  ch_model *model;
  CH_TRY(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &model, error));
  ch_status status = quantise(a, model, error);
  ch_model_unload(model);
  return status;
}

static const ch_option options[] = {
    {.name = "type",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, type),
     .metavar = "TYPE",
     .choices = types,
     .required = true,
     .help = "16 bits a weight, or blocks of GGUF files: 8.5, 6.6, 4.5 and 4.5 bits."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, out),
     .metavar = "DIR",
     .required = true,
     .help = "Where the model is written."},
    {.name = "keep-embedding",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, keep_embedding),
     .help = "Leave the embedding and the LM head as they are."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, json),
     .help = "Print one JSON object."},
    {.name = NULL}};

const ch_command ch_cmd_quantize = {
    .name = "quantize",
    .positional = "MODEL",
    .summary = "Round a model's matrices to 16, 8, 6 or 4 bits.",
    .description =
        "Weights become floats of 16 bits, or small integers with a scale for each block, laid out as in "
        "GGUF files. Decoding "
        "reads "
        "them as they are: fewer bytes a token. Norms, biases and what multiplies cached states stay as they "
        "are.",
    .examples = "crosshead quantize Qwen3-0.6B --type q4_k --out small\n"
                "crosshead eval small --text text.txt",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

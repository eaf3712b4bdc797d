/* crosshead quantize MODEL --type TYPE --out DIR: converts matrices to 16 bits, or to blocks of 8, 6 or 4 bits. */
#include <crosshead/quantize.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *type;
  int64_t threads;
  bool keep_embedding, json, force;
} arguments;

static const char *const types[] = {"bf16", "f16", "q8_0", "q6_k", "q4_k", "q4_0", NULL};

static void put_page(const void *given, const json_t *report, ch_text *text) {
  const arguments *a = given;
  char before[32], after[32];
  long long matrices = ch_report_count(report, "matrices"),
            others = ch_report_count(report, "matrices_of_other_widths"),
            left = ch_report_count(report, "matrices_left");
  ch_text_printf(text, "%s: %lld %s as %s, %sB instead of %sB\n", a->out, matrices,
                 ch_plural(matrices, "matrix", "matrices"), a->type,
                 ch_format_count((double)ch_report_count(report, "bytes"), after, sizeof after),
                 ch_format_count((double)ch_report_count(report, "bytes_before"), before, sizeof before));
  if (others)
    ch_text_printf(text, "%lld %s as q8_0 or f16: rows are not whole blocks of %s\n", others,
                   ch_plural(others, "matrix", "matrices"), a->type);
  if (left) ch_text_printf(text, "%lld %s unchanged\n", left, ch_plural(left, "matrix", "matrices"));
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_work work;
  ch_quantize_settings settings;
  ch_quantize_defaults(&settings);
  settings.type = ch_precision_of(a->type);
  settings.keep_embedding = a->keep_embedding;
  settings.progress = ch_work_progress;
  settings.user = &work;
  char *json = NULL;
  ch_work_begin(&work, "quantising");
  ch_status status = ch_quantize(a->positional[0], ch_output_path(a, "out"), &settings, &json, error);
  CH_TRY(ch_work_end(&work, status, error));
  return ch_report_print(json, a->json, put_page, a, error);
}

static const ch_option options[] = {
    CH_CHOICE_OPTION("type", offsetof(arguments, type), "TYPE", types,
                     "Type of the stored weights. bf16 and f16 use 16 bits per weight; the GGUF block types "
                     "q8_0, q6_k, q4_k and q4_0 use 8.5, 6.6, 4.5 and 4.5.",
                     .required = true),
    CH_PATH_OPTION("out", offsetof(arguments, out), "DIR", "Directory for the quantised model.",
                   .required = true, .writes = CH_WRITES_DIRECTORY),
    CH_FLAG_OPTION("keep-embedding", offsetof(arguments, keep_embedding),
                   "Do not quantise the embedding and the LM head."),
    CH_JSON_OPTION(offsetof(arguments, json)),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_quantize = {
    .name = "quantize",
    .positional = "MODEL",
    .meant = "out",
    .summary = "Round a model's matrices to 16, 8, 6 or 4 bits.",
    .description = "Weights become floats of 16 bits, or small integers with a scale per block, as in GGUF "
                   "files. Decoding reads them in that form: fewer bytes per token. Norms, biases and "
                   "matrices that multiply cached states are not quantised.",
    .examples = "crosshead quantize Qwen3-0.6B --type q4_k --out small\n"
                "crosshead eval small --text text.txt",
    CH_RUNS(options, arguments, run),
};

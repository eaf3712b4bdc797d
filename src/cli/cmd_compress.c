/* crosshead compress MODEL --method METHOD --out DIR: makes a model smaller without training, and reports what was
   lost. */
#include <string.h>

#include "cli/compress_request.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/precision.h"
#include "cli/command_text.h"
#include "cli/work.h"

/* --- progress ----------------------------------------------------------------------------------------------- */

/* The progress of the current part of the work, and the share and time at which the part began. */
typedef struct progress_display {
  ch_work work;
  bool fresh;
  double began, share;
} progress_display;

static void begin_part(const char *name, void *context) {
  progress_display *s = context;
  s->work.what = name;
  s->fresh = true;
}

static bool show_progress(int64_t done, int64_t total, void *context) {
  progress_display *s = context;
  double share = (double)done / (double)total;
  if (s->fresh) {
    s->fresh = false;
    s->began = ch_clock();
    s->share = share;
  }
  double gained = share - s->share, seconds = ch_clock() - s->began;
  /* assumes a constant pace from 0 */
  ch_progress_show_share(&s->work.line, s->work.what, gained > 0 ? share : 0,
                         gained > 0 ? seconds * share / gained : seconds);
  return !ch_interrupted();
}

/* --- options ------------------------------------------------------------------------------------------------ */

#define AT(member) offsetof(ch_compress_arguments, member)
static const ch_option options[] = {
    CH_TEXT_OPTION("cache", AT(cache), "SHARE",
                   "Save this share of a 16-bit cache, as in 50%, in the cheapest way: smaller element types "
                   "first, then fewer heads. Used instead of --method; needs --calibration."),
    CH_CHOICE_OPTION(
        "method", AT(method), "METHOD", ch_compress_method_names,
        "For a smaller cache: mea, fewer key and value heads. For fewer attention parameters: masa, matrices "
        "built from atoms that groups of layers share; svd-llm and svd, every matrix as a product of two "
        "smaller ones; basis-sharing, the same, but adjacent layers share one of the two."),
    CH_PATH_OPTION("out", AT(out), "DIR", "Directory for the smaller model, report.json and report.html.",
                   .writes = CH_WRITES_DIRECTORY, .required = true),
    CH_CHOICE_OPTION("dtype", AT(dtype), "TYPE", ch_element_type_names,
                     "Element type of the new matrices (default: the model's own).", .setting = "type"),
    CH_FLAG_OPTION("json", AT(json), "Print the report as one JSON object."),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    CH_HEADING("Text"),
    CH_PATH_OPTION("calibration", AT(calibration), "FILE",
                   "Text with typical inputs, on which outputs should change little. Without it only the "
                   "weights decide. Without --text, its last fifth is held out to measure perplexity."),
    CH_PATH_OPTION("text", AT(text), "FILE", "Text to measure perplexity on, before and after.",
                   .alias = "data"),
    CH_COUNT_OPTION("calibration-tokens", AT(calibration_tokens), "N", 2, 1e9,
                    "Use the first N tokens of the calibration text.", .default_value = "65536"),
    CH_FLAG_OPTION("data-free", AT(data_free),
                   "Let only the weights decide, as the papers do. --profile and --budget still use the "
                   "calibration text."),
    CH_HEADING("Heads (--method mea)"),
    CH_COUNT_OPTION("component-heads", AT(component_heads), "N", 0, 65535,
                    "Key and value heads to keep per layer, at most the model's number of them."),
    CH_TEXT_OPTION("layers", AT(layers), "A-B",
                   "Layers to compress, from A to B inclusive, counted from 0 (default: all)."),
    CH_TEXT_OPTION("budget", AT(budget), "P%",
                   "With --component-heads: the share of layers to compress; those where the loss grows "
                   "least are chosen. Without it: the share of the cache to save; the heads of each layer "
                   "are chosen so that the loss grows least. Needs --calibration."),
    CH_FLAG_OPTION(
        "profile", AT(profile),
        "Measure how much the loss changes if only one layer is compressed, for each layer, and plot it."),
    CH_HEADING("Parameters (--method masa, svd-llm, svd, basis-sharing)"),
    CH_NUMBER_OPTION("ratio", AT(ratio), "R", 0.001, 0.999,
                     "Share of the attention parameters to save: 0.2 removes 20 % of them."),
    CH_TEXT_OPTION("keep", AT(keep), "LIST",
                   "Projections to leave unchanged, separated by commas: q,o or q_proj,o_proj."),
    CH_COUNT_OPTION("groups", AT(groups), "N", 1, 512,
                    "masa: number of layer groups that share atoms (default: chosen)."),
    CH_COUNT_OPTION("atoms", AT(atoms), "N", 1, 512, "masa: atoms per group (default: chosen)."),
    CH_CHOICE_OPTION("weighting", AT(weighting), "HOW", ch_compress_weighting_names,
                     "For masa, and for the others with --ranks searched: how errors are weighted. measured "
                     "(default): by their effect on the residual stream. paper: equally, as in the MASA "
                     "paper; masa then has ranks by projection."),
    CH_CHOICE_OPTION("ranks", AT(ranks), "HOW", ch_compress_rank_names,
                     "share: every matrix keeps the same share of its parameters (default except for masa). "
                     "projection: the same share of the rank it can have. searched: each unit of rank goes "
                     "where it lowers the error most (default of masa)."),
    CH_COUNT_OPTION("group-size", AT(group_size), "N", 2, 512,
                    "For basis-sharing: number of adjacent layers that share a basis.", .default_value = "2"),
    {0}};

static ch_status run(const void *given, ch_error *error) {
  const ch_compress_arguments *a = given;
  progress_display progress = {.fresh = true};
  ch_compress_settings settings;
  ch_text command = {0};
  char *json = NULL, *table = NULL;
  CH_TRY(ch_job_agree(ch_compress_read(a, &settings, error), error));
  ch_put_command_line("compress", options, a, &command);
  settings.command = command.data ? command.data : "crosshead compress";
  settings.table = &table;
  settings.job = ch_job_ranks();
  settings.progress = show_progress;
  settings.stage = begin_part;
  settings.user = &progress;
  ch_work_begin(&progress.work, "");
  const char *out = ch_job_leads() ? ch_output_path(a, "out") : a->out;
  ch_status status = ch_compress_model(a->positional[0], out, &settings, &json, error);
  status = ch_work_end(&progress.work, status, error);
  ch_text_free(&command);
  if (status == CH_OK && ch_job_leads()) {
    const char *report = a->json ? json : table;
    ch_output_put(report, strlen(report), false);
    if (a->json) ch_output_put("\n", 1, false);
  }
  ch_free(json);
  ch_free(table);
  return status;
}

const ch_command ch_cmd_compress = {
    .name = "compress",
    .positional = "MODEL",
    .meant = "out",
    .summary = "Make a model smaller without training, and report what was lost.",
    .description =
        "MODEL is a Crosshead model or a Hugging Face directory that needs no import. What do you want to "
        "save?\n\n"
        "Cache: try --cache-dtype q8_0 of `generate` and `eval` first. It halves a 16-bit cache, needs no "
        "compression "
        "and hardly changes the model. --cache SHARE finds the cheapest way to save more. --method mea keeps "
        "fewer key and value heads; the layer's heads become linear combinations of them (virtual heads). "
        "This raises the loss far more. The report compares both.\n\n"
        "Parameters: `crosshead quantize` stores weights in fewer bits. --method masa, svd-llm, svd and "
        "basis-sharing remove attention parameters.\n\n"
        "The result in --out runs like any other model and can be trained further with `train "
        "--init-from`. Its report shows perplexity, parameters, cache size and decoding speed "
        "before and after, and what each matrix lost.\n\n"
        "The processes of an MPI job (`mpirun -n 4 crosshead compress ...`) share the passes of text through "
        "the models.",
    .examples =
        "crosshead compress qwen3 --cache 50% --calibration text.txt --out small\n"
        "crosshead compress qwen3 --method mea --component-heads 4 --calibration text.txt --out small\n"
        "crosshead compress qwen3 --method mea --component-heads 4 --budget 50% --calibration text.txt "
        "--out "
        "half\n"
        "crosshead compress llama --method masa --ratio 0.2 --calibration text.txt --out small",
    .over_ranks = true,
    CH_RUNS(options, ch_compress_arguments, run),
};

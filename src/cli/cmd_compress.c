/* crosshead compress MODEL --method METHOD --out DIR: a smaller model without training, and a report of what was lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crosshead/version.h>

#include "base/file.h"
#include "cli/compress_request.h"
#include "cli/element_types.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/typed.h"
#include "compress/virtual_heads.h"
#include "train/machine.h"

static const char *const methods[] = {"mea", "masa", "svd-llm", "svd", NULL};
static const double kept_back = 0.2; /* of the calibration text, to measure on */

/* --- opening ----------------------------------------------------------------------------------------------------- */

/* What layers share and what are factors is written out first, and mixed heads go into the projections where components
   are taken apart anew. */
static ch_status settle_model(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  s->model = s->own;
  if (ch_form_differs(&s->own->config, &s->own->params, CH_FORM_DENSE))
    CH_TRY(ch_model_restate(s->own, CH_FORM_DENSE, error));
  if (!r->mea || !s->own->config.attention.head_mix.on) return CH_OK;
  if (r->a->budget || r->a->profile)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s has virtual heads already, which a profile would count anew; choose with --layers and "
                   "--component-heads, or profile the model it was made of",
                   s->directory);
  CH_TRY(ch_absorb(s->own, &(ch_absorb_options){0}, &s->absorbed, error));
  s->plain =
      (ch_model){.directory = s->own->directory, .config = s->absorbed.config, .params = s->absorbed.params};
  s->plain.weights.tensors = s->absorbed.tensors;
  s->model = &s->plain;
  return CH_OK;
}

static ch_status open_texts(ch_compress_request *r, ch_error *error) {
  const ch_compress_arguments *a = r->a;
  ch_shrinking *s = r->s;
  if (!a->calibration && !a->text) return CH_OK;
  CH_TRY(ch_tokenizer_open(s->directory, &s->tokenizer, error));
  if (a->calibration) {
    CH_TRY(ch_document_set_open(a->calibration, CH_SEPARATOR_AUTO, &s->calibration_text, error));
    s->report.calibration = a->data_free && !a->budget && !a->profile ? NULL : a->calibration;
    if (!a->text) {
      CH_TRY(ch_document_set_split(&s->calibration_text, kept_back, &s->text, error));
      s->report.text = a->calibration;
      s->report.text_kept_back = true;
    }
    CH_TRY(ch_encode_joined(s->tokenizer, s->calibration_text.documents, s->calibration_text.count,
                            ch_token_between(s->tokenizer, &s->own->config), a->calibration_tokens,
                            &s->tokens, error));
  }
  if (a->text) {
    CH_TRY(ch_document_set_open(a->text, CH_SEPARATOR_AUTO, &s->text, error));
    s->report.text = a->text;
  }
  return CH_OK;
}

static ch_status open_all(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  if (ch_same_file(s->directory, s->out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--out %s is the model itself; give another directory", s->out);
  CH_TRY(ch_model_load(s->directory, CH_WEIGHTS_MAPPED, &s->own, error));
  CH_TRY(ch_config_needs_text(&s->own->config, "compress", error));
  CH_TRY(ch_model_check_plain(s->own, "be compressed", error));
  if (s->own->config.num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(error, CH_ERROR_CONFIG, "%s has %lld layers; at most %d are supported here", s->directory,
                   (long long)s->own->config.num_hidden_layers, (int)CH_MAX_LISTED_LAYERS);
  CH_TRY(ch_compress_read(r, error));
  CH_TRY(ch_shrinking_count(s->own, &s->report.before, error));
  CH_TRY(settle_model(r, error));
  unsigned states;
  if (r->mea) CH_TRY(ch_virtual_heads_check(s->model, &states, error));
  CH_TRY(open_texts(r, error));
  CH_TRY(ch_model_load(s->directory, CH_WEIGHTS_MAPPED, &s->before, error));
  return ch_model_restate(s->before, CH_FORM_SERVING, error);
}

static void close_all(ch_shrinking *s) {
  ch_shrinking_clean(s);
  ch_compressed_free(&s->compressed);
  ch_sensitivity_free(&s->sensitivity);
  ch_calibration_free(s->calibration);
  ch_ids_free(&s->tokens);
  ch_document_set_close(&s->text);
  ch_document_set_close(&s->calibration_text);
  ch_tokenizer_free(s->tokenizer);
  ch_absorbed_free(&s->absorbed);
  ch_model_unload(s->before);
  ch_model_unload(s->own);
}

/* --- compressing ------------------------------------------------------------------------------------------------- */

static ch_compress_method *method_of(const char *name) {
  static ch_compress_method *const of[] = {ch_compress_mea, ch_compress_masa, ch_compress_svd_llm,
                                           ch_compress_svd};
  int i = 0;
  while (strcmp(methods[i], name) != 0) i++;
  return of[i];
}

static ch_status compress(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  ch_compress_options options = {.component_heads = s->heads,
                                 .ratio = r->a->ratio,
                                 .before = s->report.before.parameters_attention,
                                 .groups = r->a->groups,
                                 .atoms = r->a->atoms,
                                 .keep = r->keep,
                                 .keep_count = r->keep_count,
                                 .dtype = r->s->dtype,
                                 .step = ch_shrinking_step,
                                 .context = s};
  CH_TRY(ch_compress_calibrate(r, error));
  if (r->mea) CH_TRY(ch_compress_choose_heads(r, error));
  CH_TRY(method_of(r->a->method)(s->model, s->calibration, &options, &s->compressed, error));
  s->report.compressed = &s->compressed;
  return CH_OK;
}

/* What was written is what is measured. */
static ch_status measure_after(ch_shrinking *s, ch_error *error) {
  ch_model *after = NULL;
  CH_TRY(ch_model_load(s->staging, CH_WEIGHTS_MAPPED, &after, error));
  ch_status status = ch_shrinking_count(after, &s->report.after, error);
  if (status == CH_OK) status = ch_model_restate(after, CH_FORM_SERVING, error);
  if (status == CH_OK)
    status = ch_shrinking_perplexity(s, after, "perplexity after", &s->report.after, error);
  if (status == CH_OK) status = ch_shrinking_race(s, after, error);
  ch_model_unload(after);
  return status;
}

static ch_status shrink(ch_compress_request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  CH_TRY(ch_compress_check(r, error));
  CH_TRY(open_all(r, error));
  CH_TRY(ch_shrinking_perplexity(s, s->before, "perplexity before", &s->report.before, error));
  CH_TRY(compress(r, error));
  CH_TRY(ch_shrinking_write(s, error));
  ch_calibration_free(s->calibration); /* of a large model gigabytes, which the one to be measured can use */
  s->calibration = NULL;
  return measure_after(s, error);
}

static ch_status tell(const ch_compress_request *r, ch_error *error) {
  if (r->a->json) return ch_print_json(ch_compression_to_json(&r->s->report), JSON_INDENT(2), error);
  ch_text text = {0};
  ch_compression_write(&r->s->report, &text);
  return ch_print_text(&text, error);
}

static void begin_report(ch_compress_request *r, ch_text *command);

static ch_status run(const void *given, ch_error *error) {
  const ch_compress_arguments *a = given;
  ch_text command = {0};
  ch_shrinking *s = calloc(1, sizeof *s);
  if (!s) return ch_fail(error, CH_ERROR_MEMORY, "no memory to compress");
  s->directory = a->positional[0];
  s->out = a->out;
  ch_compress_request r = {.a = a, .mea = strcmp(a->method, "mea") == 0, .s = s};
  begin_report(&r, &command);
  double began = ch_clock();
  ch_interrupt_watch();
  ch_progress_begin(&s->progress, stderr);
  ch_status status = shrink(&r, error);
  s->report.seconds = ch_clock() - began;
  s->report.layers = s->own ? s->own->config.num_hidden_layers : 0;
  s->report.groups = s->own ? s->own->config.num_key_value_heads : 0;
  if (status == CH_OK) status = ch_shrinking_publish(s, error);
  ch_progress_end(&s->progress);
  ch_interrupt_release();
  if (status == CH_OK) status = tell(&r, error);
  close_all(s);
  ch_text_free(&command);
  free(s);
  return status;
}

/* --- options ----------------------------------------------------------------------------------------------------- */

#define AT(member) .offset = offsetof(ch_compress_arguments, member)
static const ch_option options[] = {
    {.name = "method",
     .type = CH_OPTION_CHOICE,
     AT(method),
     .metavar = "METHOD",
     .choices = methods,
     .required = true,
     .help = "mea: fewer key and value heads in the cache. masa: matrices out of atoms that groups of layers "
             "share. "
             "svd-llm, svd: every matrix as a product of two."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     AT(out),
     .metavar = "DIR",
     .required = true,
     .help = "Where the smaller model goes, with report.json and report.html."},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     AT(dtype),
     .metavar = "TYPE",
     .choices = ch_element_type_names,
     .help = "Element type of the matrices that are made; the model's own unless given."},
    {.name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print the report as one JSON object."},
    {.name = "", .help = "Text"},
    {.name = "calibration",
     .type = CH_OPTION_PATH,
     AT(calibration),
     .metavar = "FILE",
     .help = "Text that shows what inputs look like, so that outputs lose least; without it weights alone "
             "decide. "
             "Unless --text is given, its last fifth is kept back to measure on."},
    {.name = "text",
     .type = CH_OPTION_PATH,
     AT(text),
     .metavar = "FILE",
     .help = "Text to measure the perplexity on, before and after."},
    {.name = "calibration-tokens",
     .type = CH_OPTION_COUNT,
     AT(calibration_tokens),
     .metavar = "N",
     .min = 2,
     .max = 1e9,
     .default_value = "64k",
     .help = "Tokens of the calibration text that are used, its first."},
    {.name = "data-free",
     .type = CH_OPTION_FLAG,
     AT(data_free),
     .help = "Let weights alone decide, as the papers do, even with calibration text; --profile and --budget "
             "still use "
             "it."},
    {.name = "", .help = "Heads (--method mea)"},
    {.name = "component-heads",
     .type = CH_OPTION_COUNT,
     AT(component_heads),
     .metavar = "N",
     .min = 0,
     .max = 65535,
     .help = "Key and value heads that are kept in a layer, of G; all G is the model as it is."},
    {.name = "layers",
     .type = CH_OPTION_TEXT,
     AT(layers),
     .metavar = "A-B",
     .help = "Layers that are compressed, both ends among them, counted from 0 as in the names of tensors "
             "(all)."},
    {.name = "budget",
     .type = CH_OPTION_TEXT,
     AT(budget),
     .metavar = "P%",
     .help = "With --component-heads: the share of layers to compress, those that cost least. Without: the "
             "share of the "
             "cache to save, the heads of every layer chosen so that it costs least. Needs --calibration."},
    {.name = "profile",
     .type = CH_OPTION_FLAG,
     AT(profile),
     .help = "Measure how much the loss changes when each layer alone is compressed, and plot it."},
    {.name = "", .help = "Parameters (--method masa, svd-llm, svd)"},
    {.name = "ratio",
     .type = CH_OPTION_NUMBER,
     AT(ratio),
     .metavar = "R",
     .min = 0.001,
     .max = 0.999,
     .help = "Share of the attention parameters to save: 0.2 takes 20 % of them away."},
    {.name = "keep",
     .type = CH_OPTION_TEXT,
     AT(keep),
     .metavar = "LIST",
     .help = "Projections to leave alone, with commas between: o, or o_proj."},
    {.name = "groups",
     .type = CH_OPTION_COUNT,
     AT(groups),
     .metavar = "N",
     .min = 1,
     .max = 512,
     .help = "masa: groups of layers that share atoms (chosen)."},
    {.name = "atoms",
     .type = CH_OPTION_COUNT,
     AT(atoms),
     .metavar = "N",
     .min = 1,
     .max = 512,
     .help = "masa: atoms of each group (chosen)."},
    {0}};

static void begin_report(ch_compress_request *r, ch_text *command) {
  ch_compression_report *report = &r->s->report;
  ch_put_typed("compress", options, r->a, command);
  ch_format_utc(time(NULL), report->created);
  report->command = command->data ? command->data : "crosshead compress";
  report->version = CH_VERSION_STRING;
  report->model = r->a->positional[0];
  report->out = r->a->out;
  report->method = r->a->method;
  report->ratio = r->a->ratio;
  ch_machine_describe(&report->machine);
}

const ch_command ch_cmd_compress = {
    .name = "compress",
    .positional = "MODEL",
    .summary = "Make a smaller model of one that exists, without training, and say what it cost.",
    .description = "MODEL is a directory of ours or a Hugging Face llama, qwen2, qwen3 or mistral. mea keeps "
                   "fewer key and value "
                   "heads in the cache, of which each layer's heads are combinations (virtual heads); masa, "
                   "svd-llm and svd take "
                   "attention parameters away.\n\n"
                   "The result runs like any other model, trains on with train --init-from, and lies in "
                   "--out with a report: "
                   "perplexity, parameters, cache and decoding before and after, and what each matrix lost. "
                   "It is put into place "
                   "when it is complete.",
    .examples =
        "crosshead compress qwen3 --method mea --component-heads 4 --calibration text.txt --out small\n"
        "crosshead compress qwen3 --method mea --component-heads 4 --budget 50% --calibration text.txt "
        "--out "
        "half\n"
        "crosshead compress llama --method masa --ratio 0.2 --calibration text.txt --out small",
    .options = options,
    .arguments_size = sizeof(ch_compress_arguments),
    .run = run,
};

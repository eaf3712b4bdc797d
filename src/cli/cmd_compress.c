/* crosshead compress MODEL --method METHOD --out DIR: a smaller model without training, and a report of what was lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crosshead/version.h>

#include "attention/registry.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/element_types.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/shrinking.h"
#include "cli/typed.h"
#include "compress/virtual_heads.h"
#include "train/machine.h"

enum { MOST_KEPT = CH_MAX_PROJECTIONS, PROFILE_TOKENS = 1 << 14, FINEST_CHOICES = 4 };
static const char *const methods[] = {"mea", "masa", "svd-llm", "svd", NULL};
static const double kept_back = 0.2; /* of the calibration text, to measure on */

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *method, *out, *layers, *budget, *calibration, *text, *keep, *dtype;
  int64_t component_heads, calibration_tokens, groups, atoms;
  double ratio;
  bool profile, data_free, json;
} arguments;

/* The arguments with their texts understood. */
typedef struct request {
  const arguments *a;
  bool mea;
  int64_t first, last; /* layers */
  double budget;       /* 0: not given; of 1 */
  char names[MOST_KEPT][CH_PROJECTION_NAME_SIZE];
  const char *keep[MOST_KEPT];
  int keep_count;
  ch_shrinking *s;
} request;

/* --- what is asked for ------------------------------------------------------------------------------------------- */

static ch_status wrong(ch_error *error, const char *method, const char *sentence) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "--method %s %s", method, sentence);
}

/* Options that belong to another method, and those that a method cannot do without. */
static ch_status check_options(const request *r, ch_error *error) {
  const arguments *a = r->a;
  if (r->mea) {
    if (a->ratio != 0)
      return wrong(error, a->method, "counts heads: give --component-heads N or --budget P%, not --ratio");
    if (a->keep || a->groups || a->atoms)
      return wrong(error, a->method,
                   "changes keys and values alone: --keep, --groups and --atoms are for masa");
    if (!ch_option_given(a, "component-heads") && !a->budget)
      return wrong(error, a->method, "needs --component-heads N, or --budget P% to choose them by");
    if ((a->budget || a->profile) && !a->calibration)
      return wrong(error, a->method,
                   "profiles layers on text: --budget and --profile need --calibration FILE");
    return CH_OK;
  }
  if (a->component_heads || a->layers || a->budget || a->profile)
    return wrong(error, a->method,
                 "takes --ratio R: --component-heads, --layers, --budget and --profile are for --method mea");
  if (a->ratio == 0)
    return wrong(error, a->method, "needs --ratio R, the share of attention parameters to save");
  if ((a->groups || a->atoms) && strcmp(a->method, "masa") != 0)
    return wrong(error, a->method, "has no dictionaries: --groups and --atoms are for masa");
  if (strcmp(a->method, "svd-llm") == 0 && (!a->calibration || a->data_free))
    return wrong(error, a->method, "whitens by what inputs look like: it needs --calibration FILE");
  return CH_OK;
}

/* "11-34", or "11": layers from 0 on, as in the names of tensors; both ends are meant. */
static ch_status read_layers(request *r, ch_error *error) {
  int64_t layers = r->s->own->config.num_hidden_layers;
  long long first = 0, last = layers - 1;
  int end = 0;
  const char *text = r->a->layers;
  if (text) {
    bool one = sscanf(text, "%lld%n", &first, &end) == 1 && !text[end];
    bool two = !one && sscanf(text, "%lld-%lld%n", &first, &last, &end) == 2 && !text[end];
    if (one) last = first;
    if (!one && !two)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--layers needs a range like 0-%lld, not '%s'",
                     (long long)layers - 1, text);
  }
  if (first < 0 || first > last || last >= layers)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--layers %s is outside the model's layers, 0-%lld", text,
                   (long long)layers - 1);
  r->first = first;
  r->last = last;
  return CH_OK;
}

static ch_status read_budget(request *r, ch_error *error) {
  char number[32];
  const char *text = r->a->budget;
  if (!text) return CH_OK;
  size_t length = strlen(text);
  if (length && text[length - 1] == '%') length--;
  snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : sizeof number - 1), text);
  if (!ch_parse_number(number, &r->budget) || r->budget <= 0 || r->budget > 100)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--budget needs a share from above 0 to 100%%, not '%s'", text);
  r->budget /= 100;
  return CH_OK;
}

static ch_status read_keep(request *r, ch_error *error) {
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS + 1] = {NULL};
  if (!r->a->keep) return CH_OK;
  CH_TRY(ch_list_projections(&r->s->own->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) names[i] = shapes.rows[i].name;
  for (const char *p = r->a->keep; *p;) {
    size_t length = strcspn(p, ",");
    char *name = r->names[r->keep_count];
    int i = 0;
    snprintf(name, CH_PROJECTION_NAME_SIZE, "%.*s%s", (int)(length < 24 ? length : 24), p,
             length == 1 ? "_proj" : "");
    while (names[i] && strcmp(names[i], name) != 0) i++;
    if (!names[i]) {
      const char *near = ch_nearest_name(name, names);
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--keep names '%.*s', which is no projection of %s; there is %s", (int)length, p,
                     r->s->directory, near ? near : names[0]);
    }
    r->keep[r->keep_count++] = name;
    p += length;
    if (*p) p++;
    if (*p && r->keep_count == MOST_KEPT)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--keep names more than the %d projections there can be",
                     MOST_KEPT);
  }
  return CH_OK;
}

static ch_status read_heads(const request *r, ch_error *error) {
  int64_t groups = r->s->own->config.num_key_value_heads, heads = r->a->component_heads;
  if (!r->mea || !ch_option_given(r->a, "component-heads") || (heads >= 1 && heads <= groups)) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "--component-heads %lld: %s has %lld key-value heads, so 1 to %lld can be kept; the nearest is %lld",
      (long long)heads, r->s->directory, (long long)groups, (long long)groups,
      (long long)(heads < 1 ? 1 : groups));
}

static void choose_dtype(request *r) {
  const ch_dtype *asked = ch_element_type(r->a->dtype);
  r->s->dtype = asked ? *asked : r->s->own->weights.tensors[0].dtype;
  r->s->report.dtype = ch_element_type_name(r->s->dtype);
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

/* What layers share and what are factors is written out first, and mixed heads go into the projections where components
   are taken apart anew. */
static ch_status settle_model(request *r, ch_error *error) {
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

static ch_status open_texts(request *r, ch_error *error) {
  const arguments *a = r->a;
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

static ch_status open_all(request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  if (ch_same_file(s->directory, s->out))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--out %s is the model itself; give another directory", s->out);
  CH_TRY(ch_model_load(s->directory, CH_WEIGHTS_MAPPED, &s->own, error));
  CH_TRY(ch_config_needs_text(&s->own->config, "compress", error));
  CH_TRY(ch_model_check_plain(s->own, "be compressed", error));
  if (s->own->config.num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(error, CH_ERROR_CONFIG, "%s has %lld layers; at most %d are supported here", s->directory,
                   (long long)s->own->config.num_hidden_layers, (int)CH_MAX_LISTED_LAYERS);
  CH_TRY(read_layers(r, error));
  CH_TRY(read_budget(r, error));
  CH_TRY(read_heads(r, error));
  CH_TRY(read_keep(r, error));
  choose_dtype(r);
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

/* --- calibration and choice -------------------------------------------------------------------------------------- */

/* Fewer tokens than inputs leave directions that nothing was seen of, along which whitened methods would cut as they
   please. */
static ch_status check_calibration(const request *r, ch_error *error) {
  int64_t tokens = (int64_t)r->s->tokens.size, inputs = r->s->model->config.hidden_size;
  if (r->mea || tokens > inputs) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s gives %lld tokens to calibrate on, too few for the %lld inputs of a projection; take a "
                 "text of some times %lld, or %s",
                 r->a->calibration, (long long)tokens, (long long)inputs, (long long)inputs,
                 strcmp(r->a->method, "masa") == 0 ? "--data-free" : "--method svd");
}

static ch_status calibrate(request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  ch_projection_shapes shapes = {0};
  const char *names[CH_MAX_PROJECTIONS];
  int count = 0;
  if (!r->a->calibration || r->a->data_free || strcmp(r->a->method, "svd") == 0) return CH_OK;
  CH_TRY(check_calibration(r, error));
  CH_TRY(ch_list_projections(&s->model->config, &shapes, error));
  for (int i = 0; i < shapes.count; i++) {
    const char *name = shapes.rows[i].name;
    bool kept = r->mea && strcmp(name, "k_proj") != 0 && strcmp(name, "v_proj") != 0;
    for (int k = 0; k < r->keep_count; k++) kept |= strcmp(r->keep[k], name) == 0;
    if (!kept) names[count++] = name;
  }
  ch_calibration_options options = {.projections = names,
                                    .projection_count = count,
                                    .drift = strcmp(r->a->method, "masa") == 0,
                                    .step = ch_shrinking_step,
                                    .context = s};
  CH_TRY(ch_calibrate(s->model, s->tokens.data, (int64_t)s->tokens.size, &options, &s->calibration, error));
  s->report.calibration_tokens = ch_calibration_tokens(s->calibration);
  s->report.calibration_loss = ch_calibration_loss(s->calibration);
  return CH_OK;
}

/* h' to try: the one asked for; else all below G, or four at even distances where there are many. */
static int choices_of(const request *r, int64_t groups, int64_t heads[CH_MAX_HEAD_CHOICES]) {
  int count = 0;
  if (r->a->component_heads) {
    heads[0] = r->a->component_heads;
    return heads[0] < groups;
  }
  int64_t step = groups <= FINEST_CHOICES ? 1 : (groups + FINEST_CHOICES - 1) / FINEST_CHOICES;
  for (int64_t h = step; h < groups && count < CH_MAX_HEAD_CHOICES; h += step) heads[count++] = h;
  return count;
}

static ch_status choose_by_budget(request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  double layers = (double)s->sensitivity.layers;
  if (r->a->component_heads) {
    int64_t count = (int64_t)(r->budget * layers + 0.5);
    return ch_choose_layers(&s->sensitivity, 0, count > 0 ? count : 1, s->heads, error);
  }
  double saved = r->budget * layers * (double)s->sensitivity.groups;
  return ch_choose_heads(&s->sensitivity, (int64_t)(saved + 0.999999), s->heads, error);
}

static ch_status choose_heads(request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  const ch_config *c = &s->own->config;
  int64_t tried[CH_MAX_HEAD_CHOICES], groups = c->num_key_value_heads;
  for (int l = 0; l < c->num_hidden_layers; l++) {
    int64_t now = ch_mixed_components(c, l, CH_ON_K | CH_ON_V);
    s->heads[l] = now && now < groups ? now : groups;
    if (l >= r->first && l <= r->last && r->a->component_heads && r->a->component_heads < s->heads[l])
      s->heads[l] = r->a->component_heads;
  }
  s->report.component_heads = s->heads;
  if (!r->a->profile && !r->a->budget) return CH_OK;
  ch_sensitivity_options options = {
      .first = r->first, .last = r->last, .heads = tried, .step = ch_shrinking_step, .context = s};
  options.choices = choices_of(r, groups, tried);
  if (!options.choices)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "with %lld key-value heads and as many components nothing is compressed; there is nothing to profile",
        (long long)groups);
  int64_t count = (int64_t)s->tokens.size < PROFILE_TOKENS ? (int64_t)s->tokens.size : PROFILE_TOKENS;
  CH_TRY(ch_sensitivity_measure(s->model, s->calibration, s->tokens.data, count, &options, &s->sensitivity,
                                error));
  s->report.sensitivity = &s->sensitivity;
  return r->a->budget ? choose_by_budget(r, error) : CH_OK;
}

/* --- compressing ------------------------------------------------------------------------------------------------- */

static ch_compress_method *method_of(const char *name) {
  static ch_compress_method *const of[] = {ch_compress_mea, ch_compress_masa, ch_compress_svd_llm,
                                           ch_compress_svd};
  int i = 0;
  while (strcmp(methods[i], name) != 0) i++;
  return of[i];
}

static ch_status compress(request *r, ch_error *error) {
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
  CH_TRY(calibrate(r, error));
  if (r->mea) CH_TRY(choose_heads(r, error));
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

static ch_status shrink(request *r, ch_error *error) {
  ch_shrinking *s = r->s;
  CH_TRY(check_options(r, error));
  CH_TRY(open_all(r, error));
  CH_TRY(ch_shrinking_perplexity(s, s->before, "perplexity before", &s->report.before, error));
  CH_TRY(compress(r, error));
  CH_TRY(ch_shrinking_write(s, error));
  return measure_after(s, error);
}

static ch_status tell(const request *r, ch_error *error) {
  if (r->a->json) return ch_print_json(ch_compression_to_json(&r->s->report), JSON_INDENT(2), error);
  ch_text text = {0};
  ch_compression_write(&r->s->report, &text);
  return ch_print_text(&text, error);
}

static void begin_report(request *r, ch_text *command);

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_text command = {0};
  ch_shrinking *s = calloc(1, sizeof *s);
  if (!s) return ch_fail(error, CH_ERROR_MEMORY, "no memory to compress");
  s->directory = a->positional[0];
  s->out = a->out;
  request r = {.a = a, .mea = strcmp(a->method, "mea") == 0, .s = s};
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

#define AT(member) .offset = offsetof(arguments, member)
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

static void begin_report(request *r, ch_text *command) {
  ch_compression_report *report = &r->s->report;
  time_t seconds = time(NULL);
  struct tm parts;
  ch_put_typed("compress", options, r->a, command);
  if (gmtime_r(&seconds, &parts))
    strftime(report->created, sizeof report->created, "%Y-%m-%dT%H:%M:%SZ", &parts);
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
    .arguments_size = sizeof(arguments),
    .run = run,
};

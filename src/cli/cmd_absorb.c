/* crosshead absorb MODEL --out DIR: knocking heads, head mixing and shared matrices become plain weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/element_types.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "compress/absorb.h"
#include "io/companions.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *dtype;
  bool keep_cache, json;
} arguments;

static bool anything_folded(const ch_absorbed *absorbed) {
  return absorbed->knocked || absorbed->mixed_layers || absorbed->shared || absorbed->residuals;
}

/* What was folded is rounded once, to F32; what was only copied keeps its type. */
static ch_dtype type_to_write(const arguments *a, const ch_model *model, const ch_absorbed *absorbed) {
  const ch_dtype *asked = ch_element_type(a->dtype);
  if (asked) return *asked;
  return anything_folded(absorbed) ? CH_F32 : model->weights.tensors[0].dtype;
}

/* "q, k, v" of CH_ON_ bits; "" of none. */
static const char *states(unsigned on, char buffer[16]) {
  snprintf(buffer, 16, "%s%s%s", on & CH_ON_Q ? ", q" : "", on & CH_ON_K ? ", k" : "",
           on & CH_ON_V ? ", v" : "");
  return on ? buffer + 2 : buffer;
}

static void put_page(const arguments *a, const ch_absorbed *absorbed, ch_text *text) {
  char buffer[16];
  bool folded = anything_folded(absorbed);
  bool left = absorbed->knocks_left || absorbed->mixes_left;
  if (absorbed->shared)
    ch_text_printf(text, "wrote out the matrices of %lld shared projections, layer by layer\n",
                   (long long)absorbed->shared);
  if (absorbed->residuals)
    ch_text_printf(text, "added the low-rank residuals of %lld matrices to them\n",
                   (long long)absorbed->residuals);
  if (absorbed->knocked)
    ch_text_printf(text, "folded linear knocking of %s into the projections\n",
                   states(absorbed->knocked, buffer));
  if (absorbed->mixed_layers)
    ch_text_printf(text, "folded the head mixing of %lld layers into the projections\n",
                   (long long)absorbed->mixed_layers);
  if (!folded) ch_text_puts(text, left ? "nothing could be folded\n" : "there is nothing to fold\n");
  if (absorbed->knocks_left)
    ch_text_printf(text, "left the knocking of %s: %s\n", states(absorbed->knocks_left, buffer),
                   absorbed->config.attention.knocking.type == CH_KNOCKING_LINEAR
                       ? "the projection has other uses than what is knocked"
                       : "it is not linear");
  if (absorbed->mixes_left)
    ch_text_printf(text, "left the head mixing of %lld layers, without which the cache would grow\n",
                   (long long)absorbed->mixes_left);
  if (absorbed->cache_after != absorbed->cache_before)
    ch_text_printf(text, "cache a token: %lld elements where there were %lld%s\n",
                   (long long)absorbed->cache_after, (long long)absorbed->cache_before,
                   a->keep_cache ? "" : " (--keep-cache leaves such mixing alone)");
  ch_text_printf(text, "%s: a %s model%s\n", a->out, absorbed->config.model_type,
                 folded || left ? "" : ", a copy");
}

static json_t *letters(unsigned on) {
  json_t *list = json_array();
  if (on & CH_ON_Q) json_array_append_new(list, json_string("q"));
  if (on & CH_ON_K) json_array_append_new(list, json_string("k"));
  if (on & CH_ON_V) json_array_append_new(list, json_string("v"));
  return list;
}

static ch_status report(const arguments *a, const ch_absorbed *absorbed, ch_error *error) {
  if (a->json)
    return ch_print_json(
        json_pack("{s:s, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I}", "model_type", absorbed->config.model_type,
                  "shared_projections_written", (json_int_t)absorbed->shared, "residuals_added",
                  (json_int_t)absorbed->residuals, "knocking_folded", letters(absorbed->knocked),
                  "mixed_layers_folded", (json_int_t)absorbed->mixed_layers, "knocking_left",
                  letters(absorbed->knocks_left), "mixed_layers_left", (json_int_t)absorbed->mixes_left,
                  "cache_elements_per_token_before", (json_int_t)absorbed->cache_before,
                  "cache_elements_per_token", (json_int_t)absorbed->cache_after),
        JSON_INDENT(2), error);
  ch_text text = {0};
  put_page(a, absorbed, &text);
  return ch_print_text(&text, error);
}

static ch_status write_absorbed(const arguments *a, const ch_model *model, ch_error *error) {
  ch_absorbed absorbed;
  CH_TRY(ch_model_check_plain(model, "be folded", error));
  CH_TRY(ch_absorb(model, &(ch_absorb_options){.keep_cache = a->keep_cache}, &absorbed, error));
  ch_status status = ch_model_write(a->out, &absorbed.config, &absorbed.params, absorbed.tensors,
                                    type_to_write(a, model, &absorbed), error);
  if (status == CH_OK) status = ch_companions_copy(a->positional[0], a->out, error);
  if (status == CH_OK) status = report(a, &absorbed, error);
  ch_absorbed_free(&absorbed);
  return status;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_model *model;
  CH_TRY(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &model, error));
  ch_status status = CH_OK;
  if (ch_same_file(a->positional[0], a->out))
    status =
        ch_fail(error, CH_ERROR_ARGUMENT, "--out %s is the model itself; give another directory", a->out);
  else
    status = write_absorbed(a, model, error);
  ch_model_unload(model);
  return status;
}

static const ch_option options[] = {
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, out),
     .metavar = "DIR",
     .required = true,
     .help = "Where the plain model is written."},
    {.name = "keep-cache",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, keep_cache),
     .help = "Leave head mixing alone where folding it would enlarge the cache."},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, dtype),
     .metavar = "TYPE",
     .choices = ch_element_type_names,
     .help = "Element type to write: f32 when something is folded, else the model's own, "
             "unless given."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, json),
     .help = "Print one JSON object."},
    {.name = NULL}};

const ch_command ch_cmd_absorb = {
    .name = "absorb",
    .positional = "MODEL",
    .summary = "Fold knocking heads, head mixing and shared matrices into a plain checkpoint.",
    .description =
        "Linear knocking and head mixing are linear maps beside a projection: their product is a "
        "projection again, "
        "with the same results. Matrices that layers share, or that are products, are written out. "
        "What is left is the plainest model that computes the same; where "
        "nothing else is "
        "beside plain attention, a llama, qwen2 or qwen3 directory that other programs load.",
    .examples = "crosshead absorb runs/kha-linear --out plain",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

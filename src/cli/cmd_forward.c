/* crosshead forward: computes logits, loss and gradients of given tokens or images, for comparing
   implementations. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crosshead/forward.h>

#include "base/file.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *tokens, *pixels, *out, *compute, *cache_dtype;
  int64_t cached, threads;
  bool gradients, json, force;
} arguments;

/* --- inputs of the model ------------------------------------------------------------------------------------ */

static ch_status parse_list(const char *text, ch_forward_request *request, ch_error *error) {
  int32_t *ids = malloc((strlen(text) + 1) * sizeof *ids);
  if (!ids) return ch_no_memory(error);
  request->tokens = ids;
  request->sequences = 1;
  for (const char *p = text;;) {
    char *end;
    errno = 0;
    long long id = strtoll(p, &end, 10);
    if (end == p || errno || id < 0 || id > INT32_MAX || (*end != 0 && *end != ','))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--tokens needs a .safetensors file or ids like 5,9,2; '%.40s' is neither", text);
    ids[request->length++] = (int32_t)id;
    if (*end == 0) return CH_OK;
    p = end + 1;
  }
}

static ch_status read_request(const arguments *a, const ch_model *model, ch_forward_request *request,
                              ch_error *error) {
  bool images = ch_model_takes_images(model);
  if (a->pixels && !images)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--pixels is for models of images, which a \"%s\" is not; give --tokens",
                   ch_model_type(model));
  if (!a->pixels && images)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "this model is for images; give them with --pixels FILE.safetensors");
  if (a->tokens && !ch_is_file(a->tokens) && !strstr(a->tokens, ".safetensors"))
    return parse_list(a->tokens, request, error);
  return ch_forward_read(a->pixels ? a->pixels : a->tokens, model, request, error);
}

static ch_status choose_cache(const arguments *a, const ch_model *model, ch_forward_request *request,
                              ch_error *error) {
  ch_cache_choice choice;
  unsigned held = 0;
  if (!a->cache_dtype) return CH_OK;
  CH_TRY(ch_model_cache_roles(model, &held, error));
  CH_TRY(ch_cache_choice_read(a->cache_dtype, CH_PRECISION_F32, held, &choice, error));
  request->cache_keys = choice.keys;
  request->cache_values = choice.values;
  request->cache_latents = choice.latents;
  return CH_OK;
}

/* --- results ------------------------------------------------------------------------------------------------ */

static ch_status print_result(bool json, bool cached, const ch_forward_result *result, ch_error *error) {
  if (!json) {
    if (result->has_loss) printf("loss %.9g\n", result->loss);
    if (cached)
      printf("cache %lld elements per token, %zu bytes for %lld %s\n",
             (long long)result->cache_elements_per_token, result->cache_bytes_allocated,
             (long long)result->cache_tokens, ch_plural(result->cache_tokens, "token", "tokens"));
    return CH_OK;
  }
  json_t *object = json_object();
  if (result->has_loss) json_object_set_new(object, "loss", json_real(result->loss));
  if (!cached) return ch_print_json(object, 0, error);
  json_object_set_new(object, "cache_elements_per_token", json_integer(result->cache_elements_per_token));
  json_object_set_new(object, "cache_bytes_allocated",
                      json_integer((json_int_t)result->cache_bytes_allocated));
  json_object_set_new(object, "cache_tokens", json_integer(result->cache_tokens));
  return ch_print_json(object, 0, error);
}

/* --- the command -------------------------------------------------------------------------------------------- */

static ch_status check_arguments(const arguments *a, ch_error *error) {
  if (!a->tokens && !a->pixels)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--tokens is needed: ids like 5,9,2 or a .safetensors file; or --pixels, for a model of images");
  if (a->tokens && a->pixels)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--tokens and --pixels exclude each other: a model needs only one of them");
  if (a->cached > 0 && a->gradients)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--cached and --grads exclude each other: gradients need the whole pass");
  if (a->cached > 0 && strcmp(a->compute, "f64") == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--cached and --compute f64 exclude each other: the cache does not support f64");
  if (a->gradients && strcmp(a->compute, "bf16") == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--grads and --compute bf16 exclude each other: gradients are computed in f32 or f64");
  if (a->cache_dtype && a->cached == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--cache-dtype needs --cached");
  if (a->gradients && !a->out)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--grads needs --out FILE to write them to");
  return CH_OK;
}

static ch_status run(const void *options_given, ch_error *error) {
  const arguments *a = options_given;
  CH_TRY(check_arguments(a, error));
  ch_precision compute = strcmp(a->compute, "f64") == 0 ? CH_PRECISION_F64 : ch_precision_of(a->compute);
  ch_forward_request request = {
      .gradients = a->gradients, .loss_alone = !a->out && !a->pixels, .cached = a->cached};
  ch_forward_result result = {0};
  ch_model *model = NULL;
  ch_status status;
  CH_TRY_GOTO(ch_model_open_exact(a->positional[0], compute, a->gradients, &model, error));
  CH_TRY_GOTO(read_request(a, model, &request, error));
  CH_TRY_GOTO(choose_cache(a, model, &request, error));
  CH_TRY_GOTO(ch_forward(model, &request, &result, error));
  if (a->out) CH_TRY_GOTO(ch_forward_write(a->out, &result, error));
  status = print_result(a->json, !a->pixels, &result, error);
done:
  ch_forward_result_free(&result);
  ch_forward_request_free(&request);
  ch_model_close(model);
  return status;
}

static const char *const arithmetics[] = {"f32", "bf16", "f64", NULL};

static const ch_option options[] = {
    CH_TEXT_OPTION("tokens", offsetof(arguments, tokens), "IDS|FILE",
                   "Token ids like 5,9,2, or a .safetensors file with an integer tensor tokens [B, T]."),
    CH_PATH_OPTION("pixels", offsetof(arguments, pixels), "FILE",
                   "For models of images: a .safetensors file with an F32 tensor pixels [B, C, H, W] and, "
                   "for a loss, integers labels [B]."),
    CH_PATH_OPTION(
        "out", offsetof(arguments, out), "FILE",
        "Write logits [B, T, V] (of images [B, classes]), loss [1] and gradients to this safetensors file.",
        .writes = CH_WRITES_FILE),
    CH_FLAG_OPTION(
        "grads", offsetof(arguments, gradients),
        "Also compute the gradient of the loss for every parameter NAME and write it as grad.NAME."),
    CH_COUNT_OPTION("cached", offsetof(arguments, cached), "N", 1, 1e9,
                    "Prefill N tokens, then decode the others one at a time through the cache."),
    CH_TEXT_OPTION("cache-dtype", offsetof(arguments, cache_dtype), CH_CACHE_TYPES_METAVAR,
                   CH_CACHE_TYPES_HELP),
    CH_CHOICE_OPTION(
        "compute", offsetof(arguments, compute), "TYPE", arithmetics,
        "Arithmetic: f32; bf16 for large matrix products with sums in f32; or f64 in plain C, the reference.",
        .alias = "dtype", .default_value = "f32"),
    CH_FLAG_OPTION("json", offsetof(arguments, json),
                   "Print one JSON object with the loss and the cache's figures."),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_forward = {
    .name = "forward",
    .positional = "MODEL",
    .meant = "tokens",
    .summary = "Compute logits, loss and gradients of given tokens or images.",
    .description =
        "Runs a model once over tokens or images and writes the results, to compare other implementations "
        "number by number. The loss is the mean cross entropy of the next token, or of the labels of images.",
    .examples =
        "crosshead forward models/tiny --tokens 5,9,2\n"
        "crosshead forward models/tiny --tokens tokens.safetensors --out out.safetensors --grads\n"
        "crosshead forward models/tiny --tokens tokens.safetensors --out out.safetensors --cached 8 --json",
    CH_RUNS(options, arguments, run),
};

/* crosshead forward: logits, loss and gradients of given tokens or images - the parity door. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cache_types.h"
#include "cli/element_types.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "infer/forward.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *tokens, *pixels, *out, *dtype, *compute, *cache_dtype;
  int64_t cached;
  bool gradients, json;
} arguments;

/* What the model is given: tokens, or images. */
typedef struct given {
  int32_t *ids; /* [sequences, length] */
  int64_t sequences, length;
  float *pixels;   /* [sequences, channels, size, size]; length is 1 */
  int32_t *labels; /* [sequences], or NULL */
} given;

/* --- tokens -------------------------------------------------------------------------------------------------- */

static ch_status parse_list(const char *text, given *tokens, ch_error *error) {
  tokens->ids = malloc((strlen(text) + 1) * sizeof *tokens->ids);
  if (!tokens->ids) return ch_fail(error, CH_ERROR_MEMORY, "no memory for tokens");
  tokens->sequences = 1;
  for (const char *p = text;;) {
    char *end;
    errno = 0;
    long long id = strtoll(p, &end, 10);
    if (end == p || errno || id < 0 || id > INT32_MAX || (*end != 0 && *end != ','))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--tokens needs a .safetensors file or ids like 5,9,2; '%.40s' is neither", text);
    tokens->ids[tokens->length++] = (int32_t)id;
    if (*end == 0) return CH_OK;
    p = end + 1;
  }
}

/* The integers of an I32 or I64 tensor from `least` on; *ids is the caller's. */
static ch_status copy_ids(const ch_tensor *tensor, const char *path, const char *what, int64_t least,
                          int32_t **ids, ch_error *error) {
  int64_t count = ch_tensor_count(tensor);
  *ids = malloc((size_t)count * sizeof **ids);
  if (!*ids) return ch_fail(error, CH_ERROR_MEMORY, "no memory for %ss", what);
  for (int64_t i = 0; i < count; i++) {
    int64_t id = 0;
    int32_t narrow = 0;
    if (tensor->dtype == CH_I64) {
      memcpy(&id, (const char *)tensor->data + i * 8, 8);
    } else {
      memcpy(&narrow, (const char *)tensor->data + i * 4, 4);
      id = narrow;
    }
    if (id < least || id > INT32_MAX)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: %s %lld is not one", path, what, (long long)id);
    (*ids)[i] = (int32_t)id;
  }
  return CH_OK;
}

static bool is_integer(const ch_tensor *tensor) {
  return tensor->dtype == CH_I64 || tensor->dtype == CH_I32;
}

static ch_status copy_tokens(const ch_tensor *tensor, const char *path, given *tokens, ch_error *error) {
  if (tensor->rank != 2 || !is_integer(tensor))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: tokens must be an I32 or I64 tensor [B, T]", path);
  if (ch_tensor_count(tensor) < 1)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: tokens is empty; it must hold at least one id", path);
  tokens->sequences = tensor->shape[0];
  tokens->length = tensor->shape[1];
  return copy_ids(tensor, path, "token id", 0, &tokens->ids, error);
}

static ch_status read_tokens(const char *text, given *tokens, ch_error *error) {
  if (!ch_is_file(text) && !strstr(text, ".safetensors")) return parse_list(text, tokens, error);
  ch_safetensors file;
  CH_TRY(ch_safetensors_open(text, &file, error));
  const ch_stored_tensor *stored = ch_safetensors_find(&file, "tokens");
  ch_status status = stored ? copy_tokens(&stored->tensor, text, tokens, error)
                            : ch_fail(error, CH_ERROR_FORMAT, "%s has no tensor named tokens", text);
  ch_safetensors_close(&file);
  return status;
}

/* --- images -------------------------------------------------------------------------------------------------- */

static ch_status copy_pixels(const ch_tensor *tensor, const char *path, const ch_config *c, given *images,
                             ch_error *error) {
  char shape[96];
  bool fits = tensor->dtype == CH_F32 && tensor->rank == 4 && tensor->shape[0] > 0 &&
              tensor->shape[1] == c->num_channels && tensor->shape[2] == c->image_size &&
              tensor->shape[3] == c->image_size;
  if (!fits)
    return ch_fail(
        error, CH_ERROR_FORMAT, "%s: pixels are %s %s where the model needs F32 [B, %lld, %lld, %lld]", path,
        ch_dtype_name(tensor->dtype), ch_shape_text(tensor->rank, tensor->shape, shape, sizeof shape),
        (long long)c->num_channels, (long long)c->image_size, (long long)c->image_size);
  images->sequences = tensor->shape[0];
  images->length = 1;
  images->pixels = malloc(ch_tensor_bytes(tensor));
  if (!images->pixels) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the images of %s", path);
  memcpy(images->pixels, tensor->data, ch_tensor_bytes(tensor));
  return CH_OK;
}

static ch_status copy_labels(const ch_tensor *tensor, const char *path, given *images, ch_error *error) {
  if (tensor->rank != 1 || !is_integer(tensor) || tensor->shape[0] != images->sequences)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: labels must be an I32 or I64 tensor [%lld], one an image",
                   path, (long long)images->sequences);
  return copy_ids(tensor, path, "label", -1, &images->labels, error);
}

static ch_status read_images(const char *path, const ch_config *config, given *images, ch_error *error) {
  ch_safetensors file;
  if (!ch_config_is_vision(config))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--pixels is for models of images, which a \"%s\" is not; give --tokens",
                   config->model_type);
  CH_TRY(ch_safetensors_open(path, &file, error));
  const ch_stored_tensor *pixels = ch_safetensors_find(&file, "pixels"),
                         *labels = ch_safetensors_find(&file, "labels");
  if (!pixels) pixels = ch_safetensors_find(&file, "pixel_values");
  ch_status status = pixels ? copy_pixels(&pixels->tensor, path, config, images, error)
                            : ch_fail(error, CH_ERROR_FORMAT, "%s has no tensor named pixels", path);
  if (status == CH_OK && labels) status = copy_labels(&labels->tensor, path, images, error);
  ch_safetensors_close(&file);
  return status;
}

static ch_status read_given(const arguments *a, const ch_config *config, given *g, ch_error *error) {
  if (a->pixels) return read_images(a->pixels, config, g, error);
  if (ch_config_is_vision(config))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "this model takes images; give them with --pixels FILE.safetensors");
  return read_tokens(a->tokens, g, error);
}

/* --- results ------------------------------------------------------------------------------------------------- */

/* [B, T, V], or [B, classes]. */
static ch_tensor logits_of(const given *g, const ch_forward_result *result) {
  if (g->pixels) return (ch_tensor){CH_F32, 2, {g->sequences, result->classes}, result->logits};
  return (ch_tensor){CH_F32, 3, {g->sequences, g->length, result->classes}, result->logits};
}

static ch_status write_result(const char *path, const ch_model *model, const given *g,
                              const ch_forward_result *result, ch_error *error) {
  int count = 0, parameters = result->gradients ? model->params.count : 0;
  float loss = (float)result->loss;
  ch_arena names = {0};
  ch_stored_tensor *all = calloc((size_t)parameters + 2, sizeof *all);
  ch_status status = all ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", path);
  if (status == CH_OK) {
    all[count++] = (ch_stored_tensor){.name = "logits", .tensor = logits_of(g, result)};
    if (result->has_loss)
      all[count++] = (ch_stored_tensor){.name = "loss", .tensor = {CH_F32, 1, {1}, &loss}};
  }
  for (int i = 0; status == CH_OK && i < parameters; i++) {
    if (model->params.rows[i].frozen) continue;
    char *name = ch_arena_printf(&names, "grad.%s", model->params.rows[i].name);
    if (!name)
      status = ch_fail(error, CH_ERROR_MEMORY, "no memory to write %s", path);
    else
      all[count++] = (ch_stored_tensor){.name = name, .tensor = result->gradients[i]};
  }
  if (status == CH_OK) status = ch_safetensors_write(path, all, count, NULL, error);
  ch_arena_free(&names);
  free(all);
  return status;
}

static ch_status print_result(bool json, bool cached, const ch_forward_result *result, ch_error *error) {
  if (!json) {
    if (result->has_loss) printf("loss %.9g\n", result->loss);
    if (cached)
      printf("cache %lld elements a token, %zu bytes for %lld tokens\n",
             (long long)result->cache_elements_per_token, result->cache_bytes_allocated,
             (long long)result->cache_tokens);
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

/* --- the command --------------------------------------------------------------------------------------------- */

static ch_weights_mode weights_mode(ch_dtype dtype, bool gradients) {
  if (dtype == CH_F64) return CH_WEIGHTS_F64;
  return gradients ? CH_WEIGHTS_F32 : CH_WEIGHTS_MAPPED;
}

/* The form for serving writes sums of matrices of 16 bits out in 16 bits again, rounded: not here, where numbers are
   compared. */
static ch_form form_of(const ch_model *model) {
  for (int i = 0; i < model->params.count; i++) {
    ch_dtype dtype = model->weights.tensors[i].dtype;
    if (dtype == CH_F16 || dtype == CH_BF16) return CH_FORM_INFERENCE;
  }
  return CH_FORM_SERVING;
}

static ch_status check_arguments(const arguments *a, ch_error *error) {
  if (!a->tokens && !a->pixels)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--tokens is needed: ids like 5,9,2 or a .safetensors file; or --pixels, for a model of images");
  if (a->tokens && a->pixels)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--tokens and --pixels exclude each other: a model takes one of them");
  if (a->cached > 0 && a->gradients)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--cached and --grads exclude each other: gradients need the whole pass");
  if (a->cached > 0 && strcmp(a->dtype, "f64") == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--cached works in F32; --dtype f64 is for whole passes");
  if (a->gradients && ch_compute_type(a->compute) == CH_BF16)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--grads and --compute bf16 exclude each other: gradients are computed in the type of --dtype");
  if (a->cache_dtype && a->cached == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--cache-dtype is for --cached");
  if (a->gradients && !a->out)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--grads needs --out FILE to write them to");
  return CH_OK;
}

static ch_status run(const void *options_given, ch_error *error) {
  const arguments *a = options_given;
  CH_TRY(check_arguments(a, error));
  ch_dtype dtype = strcmp(a->dtype, "f64") == 0 ? CH_F64 : CH_F32;
  given g = {0};
  ch_model *model = NULL;
  ch_forward_result result = {0};
  ch_status status;
  CH_TRY_GOTO(ch_model_load(a->positional[0], weights_mode(dtype, a->gradients), &model, error));
  model->compute = ch_compute_type(a->compute);
  CH_TRY_GOTO(read_given(a, &model->config, &g, error));
  if (!a->gradients) CH_TRY_GOTO(ch_model_restate(model, form_of(model), error));
  ch_forward_request request = {.tokens = g.ids,
                                .pixels = g.pixels,
                                .labels = g.labels,
                                .sequences = g.sequences,
                                .length = g.length,
                                .dtype = dtype,
                                .gradients = a->gradients,
                                .loss_alone = !a->out && !a->pixels,
                                .cached = a->cached};
  if (a->cache_dtype)
    CH_TRY_GOTO(ch_cache_types_read(a->cache_dtype, CH_F32, &model->config, &request.cache, error));
  CH_TRY_GOTO(ch_forward(model, &request, &result, error));
  if (a->out) CH_TRY_GOTO(write_result(a->out, model, &g, &result, error));
  status = print_result(a->json, !g.pixels, &result, error);
done:
  ch_forward_result_free(&result);
  ch_model_unload(model);
  free(g.ids);
  free(g.pixels);
  free(g.labels);
  return status;
}

static const char *const dtypes[] = {"f32", "f64", NULL};

static const ch_option options[] = {
    {.name = "tokens",
     .type = CH_OPTION_TEXT,
     .offset = offsetof(arguments, tokens),
     .metavar = "IDS|FILE",
     .help = "Token ids like 5,9,2, or a .safetensors file with an integer tensor tokens [B, T]."},
    {.name = "pixels",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, pixels),
     .metavar = "FILE",
     .help =
         "For models of images: a .safetensors file with an F32 tensor pixels [B, C, H, W] and, for a loss, "
         "integers labels [B]."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = offsetof(arguments, out),
     .metavar = "FILE",
     .help =
         "Write logits [B, T, V] (of images [B, classes]), loss [1] and gradients to this safetensors file."},
    {.name = "grads",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, gradients),
     .help = "Also compute the loss's gradient for every parameter, written as grad.NAME."},
    {.name = "cached",
     .type = CH_OPTION_COUNT,
     .offset = offsetof(arguments, cached),
     .metavar = "N",
     .min = 1,
     .max = 1e9,
     .help = "Prefill N tokens, then decode the others one at a time through the cache."},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     .offset = offsetof(arguments, cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .help = CH_CACHE_TYPES_HELP},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = offsetof(arguments, dtype),
     .metavar = "TYPE",
     .default_value = "f32",
     .choices = dtypes,
     .help = "Arithmetic: f32, or f64 in plain C, the reference."},
    CH_COMPUTE_OPTION(arguments, compute),
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = offsetof(arguments, json),
     .help = "Print one JSON object with the loss and the cache's figures."},
    {0}};

const ch_command ch_cmd_forward = {
    .name = "forward",
    .positional = "MODEL",
    .summary = "Compute logits, loss and gradients of given tokens or images.",
    .description = "Runs a model once over given tokens or images and writes what it computed, so that other "
                   "implementations "
                   "can be compared with it number by number. The loss is the mean next-token cross entropy, "
                   "or that of the "
                   "labels.",
    .examples =
        "crosshead forward models/tiny --tokens 5,9,2\n"
        "crosshead forward models/tiny --tokens tokens.safetensors --out out.safetensors --grads\n"
        "crosshead forward models/tiny --tokens tokens.safetensors --out out.safetensors --cached 8 --json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};

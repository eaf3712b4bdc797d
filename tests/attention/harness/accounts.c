/* Checks declared and allocated sizes against the definitions' formulas, and models that are written and read
 * back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "infer/api_forward.h"
#include "model/accounting.h"
#include "config_file/config_json.h"
#include "properties.h"

static void expect_equal(const specimen *s, const char *what, int64_t value, int64_t expected) {
  if (value != expected)
    complain(s, "%s is %lld and should be %lld", what, (long long)value, (long long)expected);
}

/* Returns how many of `tokens` tokens a layer caches. A layer with a window caches at most the tokens of the window and
   the sinks. */
static int64_t kept_tokens(const specimen *s, int64_t layer, int64_t tokens) {
  const reference_config *c = &s->definition;
  int64_t most = c->window + c->sinks;
  return c->slides[layer] && most < tokens ? most : tokens;
}

/* Returns the bytes of the states of `tokens` tokens. Blocks of 32 have a scale of 2 bytes. */
static int64_t bytes_by_parts(const specimen *s, const ch_cache_types *types, int64_t tokens) {
  int64_t bytes = 0;
  ch_layer_parts *parts = calloc((size_t)s->config.num_hidden_layers, sizeof *parts);
  ch_state_parts(&s->config, parts);
  for (int64_t l = 0; l < s->config.num_hidden_layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &parts[l].part[p];
      if (part->kind != CH_PART_ELEMENTS) continue;
      int64_t blocks = (part->width + 31) / 32, kept = kept_tokens(s, l, tokens);
      switch (types->of[part->role]) {
      case CH_F32:
        bytes += kept * 4 * part->width;
        break;
      case CH_Q8_0:
        bytes += kept * blocks * 34;
        break;
      case CH_Q4_0:
        bytes += kept * blocks * 18;
        break;
      default:
        bytes += kept * 2 * part->width;
      }
    }
  free(parts);
  return bytes;
}

/* Returns the bytes of a sequence's states of constant size, which are F32 in every cache. */
static int64_t state_bytes(const specimen *s) {
  reference_figures figures;
  reference_count(&s->definition, &figures);
  return figures.state_elements * (int64_t)sizeof(float);
}

/* Checks the elements and bytes that a pass through the cache reports. A token needs `beside` bytes in addition to
   its states. */
static void check_reported_cache(const specimen *s, int64_t elements, int64_t beside) {
  ch_model model = {.config = s->config, .params = s->params, .weights = {.tensors = s->narrow}};
  ch_forward_request request = {
      .tokens = s->tokens, .sequences = s->sequences, .length = s->length, .cached = 1};
  ch_forward_result result = {0};
  ch_error error = {0};
  const ch_cache_types types = {{CH_F32, CH_F32, CH_F32}};
  if (ch_forward(&model, &request, &result, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return;
  }
  expect_equal(s, "cache_tokens", result.cache_tokens, s->sequences * s->length);
  expect_equal(s, "cache_elements_per_token of a pass through the cache", result.cache_elements_per_token,
               elements);
  expect_equal(s, "cache_bytes_allocated", (int64_t)result.cache_bytes_allocated,
               s->sequences * (bytes_by_parts(s, &types, s->length) + s->length * beside + state_bytes(s)));
  ch_forward_result_free(&result);
}

void check_cache_size(laboratory *lab, const specimen *s) {
  (void)lab;
  reference_figures figures;
  reference_count(&s->definition, &figures);
  expect_equal(s, "width of a token's states", ch_state_elements(&s->config), figures.cache_elements);
  /* With an embedding gate, the cache also has ids of tokens and moments of the norm. The formula below does not cover
     an embedding gate with windows, because moments are then in rings and ids are not. */
  if (s->config.attention.gate_embedding_dim && ch_any_layer_slides(&s->config)) return;
  int64_t beside = s->config.attention.gate_embedding_dim ? (int64_t)sizeof(int32_t) : 0;
  beside += reference_uncounted_scalars(&s->definition) * (int64_t)sizeof(float);
  static const ch_cache_types types[] = {{{CH_F32, CH_F32, CH_F32}},
                                         {{CH_BF16, CH_BF16, CH_BF16}},
                                         {{CH_Q8_0, CH_Q4_0, CH_Q8_0}},
                                         {{CH_F16, CH_Q8_0, CH_Q4_0}}};
  for (int i = 0; i < 4; i++) {
    ch_session_options options = {.sequences = 3, .context = 7, .chunk = 7, .cache = types[i]};
    int64_t bytes = bytes_by_parts(s, &types[i], 1);
    if (i < 2) expect_equal(s, "bytes of a token", bytes, figures.cache_elements * (i == 0 ? 4 : 2));
    expect_equal(s, "bytes of a token, accounted", ch_state_bytes(&s->config, &types[i]), bytes);
    ch_session *session = NULL;
    ch_error error = {0};
    if (ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error) != CH_OK) {
      complain(s, "%s", error.message);
      return;
    }
    expect_equal(s, "bytes of a cache of 3 sequences of 7 tokens", (int64_t)ch_session_cache(session)->bytes,
                 3 * (bytes_by_parts(s, &types[i], 7) + 7 * beside + state_bytes(s)));
    ch_session_free(session);
  }
  check_reported_cache(s, figures.cache_elements, beside);
}

void check_parameters(laboratory *lab, const specimen *s) {
  (void)lab;
  reference_figures f;
  reference_count(&s->definition, &f);
  ch_account account;
  ch_error error = {0};
  if (ch_account_model(&s->config, &s->params, 8, ch_cache_of(CH_F32), &account, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return;
  }
  int64_t declared = 0;
  for (int p = 0; p < s->params.count; p++) declared += ch_param_count(&s->params.rows[p]);
  expect_equal(s, "sum of all tensors", declared, f.parameters_stored);
  expect_equal(s, "parameters_total", account.parameters_total, f.parameters_total);
  expect_equal(s, "parameters_attention", account.parameters_attention, f.parameters_attention);
  expect_equal(s, "parameters_embedding", account.parameters_embedding, f.parameters_embedding);
  expect_equal(s, "parameters_gate_embedding", account.parameters_gate_embedding,
               f.parameters_gate_embedding);
  expect_equal(s, "parameters_active", account.parameters_active, f.parameters_active);
  expect_equal(s, "cache_elements_per_token", account.cache_elements_per_token, f.cache_elements);
  expect_equal(s, "state_elements_per_sequence", account.state_elements_per_sequence, f.state_elements);
  expect_equal(s, "total_effective_rank", account.total_effective_rank, f.total_effective_rank);
  expect_equal(s, "shared_latent_dim", account.shared_latent_dim, f.shared_latent_dim);
}

/* --- models that are written and read back --- */

static void compare_configs(const specimen *s, const ch_config *read) {
  ch_text a = {0}, b = {0};
  ch_config_write(&s->config, &a);
  ch_config_write(read, &b);
  if (strcmp(a.data, b.data) != 0) complain(s, "the configuration reads back as %s", b.data);
  ch_text_free(&a);
  ch_text_free(&b);
}

static void compare_models(laboratory *lab, const specimen *s, const char *directory) {
  ch_error error = {0};
  ch_model *model = NULL;
  if (ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return;
  }
  compare_configs(s, &model->config);
  expect_equal(s, "number of tensors read", model->params.count, s->params.count);
  if (model->params.count == s->params.count) {
    int64_t count = s->sequences * s->length * s->vocab;
    ch_model_graph shape = specimen_shape(s, CH_F32, CH_HEAD_LOGITS);
    double *before = specimen_run(s, &lab->narrow, &shape, s->narrow, s->tokens, NULL, count);
    double *after = specimen_run(s, &lab->narrow, &shape, model->weights.tensors, s->tokens, NULL, count);
    expect_near(s, "logits of the model read back", count, after, before, s->largest, 0);
    free(before);
    free(after);
  }
  ch_model_unload(model);
}

void check_files(laboratory *lab, const specimen *s) {
  const char *base = getenv("TMPDIR");
  char directory[512], command[600];
  ch_error error = {0};
  snprintf(directory, sizeof directory, "%s/crosshead-test-XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(directory));
  if (ch_model_write(directory, &s->config, &s->params, s->narrow, CH_F32, &error) != CH_OK)
    complain(s, "%s", error.message);
  else
    compare_models(lab, s, directory);
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  assert_int_equal(system(command), 0);
}

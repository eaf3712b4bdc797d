/* Latent attention of our own that leaves as a DeepSeek model: rows in another order and size, the same logits. */
#include "formats_testing.h"

#include <sys/stat.h>

#include "model/transformer.h"
#include "config_file/config_json.h"
#include "train/initialise.h"

enum { LENGTH = 9, VOCABULARY = 31 };

#define SIGMOIDS "\"scoring\": \"sigmoid\", \"balance\": \"loss_free\""
#define EXPERTS "\"experts\": 4, \"active\": 2, \"shared\": 1, \"expert_intermediate_size\": 8"

static const struct {
  const char *keys, *attention; /* of the config, beyond the sizes */
  ch_dtype dtype;
  const char *leaves_as;
} cases[] = {
    {"", "", CH_F32, "deepseek_v3"},
    {", \"rms_norm_eps\": 1e-6", "", CH_BF16, "deepseek_v3"}, /* only an order changes */
    {", \"rope_interleaved\": true", ", \"latent_norm_eps\": 1e-3", CH_F32, "deepseek_v3"},
    {"", ", \"q_lora_rank\": 6, \"latent_norm_eps\": 0.1", CH_F32, "deepseek_v3"},
    {", \"moe\": {" EXPERTS ", " SIGMOIDS ", \"first_dense_layers\": 1}", "", CH_F32, "deepseek_v3"},
    {", \"moe\": {" EXPERTS ", \"renormalise\": false, \"balance\": \"none\"}", "", CH_F32, "deepseek_v2"},
    {"", "", CH_BF16, "crosshead"}, /* a factor would round twice */
    {", \"position\": \"none\"", "", CH_F32, "crosshead"},
    {", \"hidden_act\": \"gelu\"", "", CH_F32, "crosshead"},
    {"", ", \"gate_embedding_dim\": 4", CH_F32, "crosshead"},
    {", \"moe\": {" EXPERTS ", " SIGMOIDS ", \"dense_layers\": [1]}", "", CH_F32, "crosshead"},
};

/* Writes a freshly started model. Its latents are small, so that the eps counts. */
static void make_model(size_t i, const char *directory) {
  char text[800];
  ch_config config;
  ch_params params = {0};
  snprintf(
      text, sizeof text,
      "{\"model_type\": \"crosshead\", \"vocab_size\": %d, \"hidden_size\": 24, \"intermediate_size\": 20, "
      "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"max_position_embeddings\": 16%s, "
      "\"attention\": {\"type\": \"mla\", \"kv_lora_rank\": 10, \"qk_nope_head_dim\": 6, "
      "\"qk_rope_head_dim\": 8, \"v_head_dim\": 5%s}}",
      VOCABULARY, cases[i].keys, cases[i].attention);
  must(ch_config_parse(text, "config.json", &config, &problem));
  must(ch_model_declare(&config, &params, &problem));
  ch_tensor *tensors = calloc((unsigned)params.count, sizeof *tensors);
  for (int p = 0; p < params.count; p++) {
    tensors[p] = (ch_tensor){.dtype = CH_F32, .rank = params.rows[p].rank};
    memcpy(tensors[p].shape, params.rows[p].shape, sizeof tensors[p].shape);
    tensors[p].data = calloc((size_t)ch_param_count(&params.rows[p]), sizeof(float));
  }
  ch_initialise(&params, 4, tensors);
  must(ch_model_write(directory, &config, &params, tensors, cases[i].dtype, &problem));
  for (int p = 0; p < params.count; p++) free(tensors[p].data);
  free(tensors);
  ch_params_free(&params);
}

static void logits_of(const char *directory, float logits[LENGTH * VOCABULARY]) {
  ch_model *model;
  int32_t tokens[LENGTH];
  for (int t = 0; t < LENGTH; t++) tokens[t] = t * 7 % VOCABULARY;
  ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = LENGTH};
  ch_forward_result result;
  must(ch_model_load(directory, CH_WEIGHTS_F32, &model, &problem));
  must(ch_forward(model, &request, &result, &problem));
  memcpy(logits, result.logits, LENGTH * VOCABULARY * sizeof *logits);
  ch_forward_result_free(&result);
  ch_model_unload(model);
}

static void latent_attention_leaves_as_deepseek_where_it_is_that(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char directory[64], given[96], written[96];
    float before[LENGTH * VOCABULARY], after[LENGTH * VOCABULARY], largest = 0;
    ch_source source;
    scratch_begin(directory);
    snprintf(given, sizeof given, "%s/given", directory);
    snprintf(written, sizeof written, "%s/written", directory);
    assert_int_equal(mkdir(given, 0755), 0);
    make_model(i, given);
    must(ch_directory_source_open(given, false, &source, &problem));
    if (strcmp(source.config.model_type, cases[i].leaves_as) != 0)
      fail_msg("case %zu leaves as %s, not %s", i, source.config.model_type, cases[i].leaves_as);
    must(ch_source_write(&source, written, &(ch_source_writing){0}, &problem));
    ch_source_close(&source);
    logits_of(given, before);
    logits_of(written, after);
    for (int e = 0; e < LENGTH * VOCABULARY; e++) largest = fmaxf(largest, fabsf(before[e]));
    for (int e = 0; e < LENGTH * VOCABULARY; e++)
      if (!(fabsf(after[e] - before[e]) <= 1e-5F * largest))
        fail_msg("case %zu: logit %d is %g and was %g", i, e, (double)after[e], (double)before[e]);
    scratch_end(directory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(latent_attention_leaves_as_deepseek_where_it_is_that)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests exporting our models as models of a family: latent attention as DeepSeek's, and imported families as
 * themselves. The exported models have the same logits. */
#include "formats_testing.h"

#include <crosshead/convert.h>
#include <sys/stat.h>

#include "attention/registry.h"
#include "base/embedded_text.h"
#include "config_file/config_json.h"
#include "model/transformer.h"

enum { LENGTH = 9, VOCABULARY = 31 };

#define SIGMOIDS "\"scoring\": \"sigmoid\", \"balance\": \"loss_free\""
#define EXPERTS "\"experts\": 4, \"active\": 2, \"shared\": 1, \"expert_intermediate_size\": 8"

static const struct {
  const char *keys, *attention; /* further keys of the config and of its `attention` object */
  ch_dtype dtype;
  const char *leaves_as;
} cases[] = {
    {"", "", CH_F32, "deepseek_v3"},
    {", \"rms_norm_eps\": 1e-6", "", CH_BF16, "deepseek_v3"}, /* only the order of rows changes */
    {", \"rope_interleaved\": true", ", \"latent_norm_eps\": 1e-3", CH_F32, "deepseek_v3"},
    {"", ", \"q_lora_rank\": 6, \"latent_norm_eps\": 0.1", CH_F32, "deepseek_v3"},
    {", \"moe\": {" EXPERTS ", " SIGMOIDS ", \"first_dense_layers\": 1}", "", CH_F32, "deepseek_v3"},
    {", \"moe\": {" EXPERTS ", \"renormalise\": false, \"balance\": \"none\"}", "", CH_F32, "deepseek_v2"},
    {"", "", CH_BF16, "crosshead"}, /* a factor on 16-bit weights would round twice */
    {", \"position\": \"none\"", "", CH_F32, "crosshead"},
    {", \"hidden_act\": \"gelu\"", "", CH_F32, "crosshead"},
    {"", ", \"gate_embedding_dim\": 4", CH_F32, "crosshead"},
    {", \"moe\": {" EXPERTS ", " SIGMOIDS ", \"dense_layers\": [1]}", "", CH_F32, "crosshead"},
};

/* Writes a freshly initialised model. Its latents are small, so eps changes the logits. */
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
  write_model(directory, &config, &params, cases[i].dtype);
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

/* Tests families that were imported into our keys, and models plain enough for another family. */
static void families_in_our_words_leave_as_what_they_were(void **state) {
  (void)state;
  static const struct {
    const char *model, *leaves_as; /* NULL: the model's name */
  } families[] = {{"olmo2", NULL},
                  {"phi3", NULL},
                  {"gpt2", NULL},
                  {"granite", NULL},
                  {"smollm3", NULL},
                  {"seed_oss", "qwen2"},
                  {"stablelm", NULL},
                  {"stablelm_parallel", "stablelm"},
                  {"starcoder2", NULL},
                  {"glm4", NULL},
                  {"mixtral", NULL},
                  {"gemma3_text", NULL},
                  {"olmo3", NULL},
                  {"gpt_oss", NULL},
                  {"gemma2", NULL},
                  {"gemma3_windows", "gemma3_text"},
                  {"phi3_longrope", "phi3"},
                  {"olmo3_windows", "olmo3"},
                  {"smollm3_windows", "smollm3"}};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    char directory[64], given[256], reference[288], imported[96], written[96];
    scratch_begin(directory);
    snprintf(given, sizeof given, TEST_DATA "/reference/%s", families[i].model);
    snprintf(reference, sizeof reference, "%s/ref.safetensors", given);
    snprintf(written, sizeof written, "%s/written", directory);
    import_model(given, NULL, directory, imported);
    const ch_export_settings settings = {.format = CH_EXPORT_TRANSFORMERS};
    char *json = NULL, wanted[64];
    must(ch_export(imported, written, &settings, &json, &problem));
    const char *name = families[i].leaves_as ? families[i].leaves_as : families[i].model;
    snprintf(wanted, sizeof wanted, "\"%s\"", name);
    if (!strstr(json, wanted)) fail_msg("%s leaves as something else: %s", families[i].model, json);
    free(json);
    double difference = logit_difference(written, reference, "input_ids", "logits");
    if (!(difference < 2e-5)) fail_msg("%s: logits differ by %g", families[i].model, difference);
    scratch_end(directory);
  }
}

static bool has_part(const char *name) {
  const ch_embedded_text *text = ch_embedded_pytorch;
  while (text->name && strcmp(text->name, name) != 0) text++;
  return text->name;
}

static void every_mechanism_has_pytorch_code(void **state) {
  (void)state;
  for (const char *const *name = ch_mechanism_names(); *name; name++)
    if (!has_part(*name)) fail_msg("src/formats/pytorch/%s.py is missing", *name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(latent_attention_leaves_as_deepseek_where_it_is_that),
                                     cmocka_unit_test(families_in_our_words_leave_as_what_they_were),
                                     cmocka_unit_test(every_mechanism_has_pytorch_code)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

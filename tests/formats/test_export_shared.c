/* Tests exporting models with shared matrices as a directory. It contains only the tensors that inference
 * needs, and the logits are the same. */
#include "formats_testing.h"

#include <sys/stat.h>

#include "model/transformer.h"
#include "config_file/config_json.h"

enum { LENGTH = 9, VOCABULARY = 31 };

#define QKVO "\"projections\": [\"q\", \"k\", \"v\", \"o\"]"

static const struct {
  const char *sharing;
  /* part of a name that no exported tensor may have, or NULL; part of a name that one must have */
  const char *gone, *there;
} cases[] = {
    {"{\"type\": \"masa\", " QKVO ", \"atoms\": 2}", NULL, "layers.2.self_attn.q_proj.coefficients"},
    {"{\"type\": \"masa\", " QKVO ", \"atoms\": 2, \"coefficients\": \"mlp\", \"common_dictionary\": true}",
     "model.dictionary.q_proj.", "layers.2.self_attn.q_proj.coefficients"},
    {"{\"type\": \"sequential\", " QKVO ", \"atoms\": 2}", NULL, "model.dictionary.q_proj.atoms"},
    {"{\"type\": \"repeat\", " QKVO ", \"atoms\": 2}", NULL, "model.dictionary.q_proj.atoms"},
    {"{\"type\": \"low_rank\", " QKVO ", \"rank\": 5}", NULL, "q_proj.a.weight"},
    {"{\"type\": \"low_rank\", " QKVO "}", NULL, "q_proj.a.weight"}, /* the rank follows from the tensors */
};

/* Writes a freshly initialised model. */
static void make_model(const char *sharing, const char *directory) {
  char text[600];
  ch_config config;
  ch_params params = {0};
  bool left_open = !strstr(sharing, "atoms") && !strstr(sharing, "rank\":");
  snprintf(
      text, sizeof text,
      "{\"model_type\": \"crosshead\", \"vocab_size\": %d, \"hidden_size\": 24, \"intermediate_size\": 20, "
      "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
      "\"max_position_embeddings\": 16, \"sharing\": %s}",
      VOCABULARY, sharing);
  must(ch_config_parse(text, "config.json", &config, &problem));
  if (left_open) config.sharing.rank = 5;
  must(ch_model_declare(&config, &params, &problem));
  if (left_open) config.sharing.rank = 0;
  write_model(directory, &config, &params, CH_F32);
}

static void logits_of(const ch_model *model, float logits[LENGTH * VOCABULARY]) {
  int32_t tokens[LENGTH];
  for (int t = 0; t < LENGTH; t++) tokens[t] = t * 7 % VOCABULARY;
  ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = LENGTH};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &problem));
  memcpy(logits, result.logits, LENGTH * VOCABULARY * sizeof *logits);
  ch_forward_result_free(&result);
}

static bool has(const ch_model *model, const char *part) {
  for (int p = 0; p < model->params.count; p++)
    if (strstr(model->params.rows[p].name, part)) return true;
  return false;
}

static void exported_directories_hold_what_inference_needs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char directory[64], given[96], written[96];
    float before[LENGTH * VOCABULARY], after[LENGTH * VOCABULARY], largest = 0;
    ch_source source;
    ch_model *model, *back;
    scratch_begin(directory);
    snprintf(given, sizeof given, "%s/given", directory);
    snprintf(written, sizeof written, "%s/written", directory);
    assert_int_equal(mkdir(given, 0755), 0);
    make_model(cases[i].sharing, given);
    must(ch_directory_source_open(given, false, &source, &problem));
    must(ch_source_write(&source, written, &(ch_source_writing){0}, &problem));
    ch_source_close(&source);
    must(ch_model_load(given, CH_WEIGHTS_MAPPED, &model, &problem));
    must(ch_model_load(written, CH_WEIGHTS_MAPPED, &back, &problem));
    logits_of(model, before);
    logits_of(back, after);
    for (int e = 0; e < LENGTH * VOCABULARY; e++) largest = fmaxf(largest, fabsf(before[e]));
    for (int e = 0; e < LENGTH * VOCABULARY; e++)
      if (!(fabsf(after[e] - before[e]) <= 1e-5F * largest))
        fail_msg("%s: logit %d is %g and was %g", cases[i].sharing, e, (double)after[e], (double)before[e]);
    if (cases[i].gone && has(back, cases[i].gone))
      fail_msg("%s: %s is left", cases[i].sharing, cases[i].gone);
    if (!has(back, cases[i].there)) fail_msg("%s: there is no %s", cases[i].sharing, cases[i].there);
    assert_int_equal(back->config.sharing.type, model->config.sharing.type);
    ch_model_unload(model);
    ch_model_unload(back);
    scratch_end(directory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(exported_directories_hold_what_inference_needs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

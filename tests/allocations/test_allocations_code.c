/* Tests that the writing of a model's PyTorch code survives the failure of any allocation. */
#include "allocations/every_allocation.h"
#include "config_file/config_json.h"
#include "formats/transformers.h"
#include "model/transformer.h"

/* Fails the test if a config.json differs from that of the first call. */
static ch_status check_config(const char *directory, ch_error *error) {
  static char first[4096];
  char path[256], *text = NULL;
  snprintf(path, sizeof path, "%s/config.json", directory);
  CH_TRY(ch_read_file(path, sizeof first - 1, &text, NULL, error));
  if (!*first) strcpy(first, text);
  assert_string_equal(text, first);
  free(text);
  return CH_OK;
}

static ch_status write_code(const char *directory, ch_error *error) {
  static const char text[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 9, \"hidden_size\": 8, \"intermediate_size\": 8,"
      " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"max_position_embeddings\": 8}";
  ch_source source = {0};
  CH_TRY(ch_config_parse(text, "config.json", &source.config, error));
  ch_status status = ch_model_declare(&source.config, &source.params, error);
  if (status == CH_OK) status = ch_transformers_write_untrained(&source, directory, error);
  if (status == CH_OK) status = check_config(directory, error);
  ch_params_free(&source.params);
  return status;
}

static void code(void **state) {
  (void)state;
  check_every_allocation("writing code", write_code, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(code),
  };
  return RUN_ON_ONE_THREAD(tests);
}

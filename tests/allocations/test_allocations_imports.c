/* Tests that imports of llama2.c's files and of GGUF survive the failure of any allocation. */
#include "allocations/every_allocation.h"
#include "formats/source.h"

static ch_status import(const char *path, const char *directory, ch_error *error) {
  ch_source source = {0};
  ch_source_writing writing = {0};
  char out[256];
  snprintf(out, sizeof out, "%s/model", directory);
  CH_TRY(ch_source_open(path, NULL, &source, error));
  ch_status status = ch_source_write(&source, out, &writing, error);
  ch_source_close(&source);
  return status;
}

static ch_status import_llama2c(const char *directory, ch_error *error) {
  return import(TEST_DATA "/formats/tied_v2.bin", directory, error);
}

static ch_status import_gguf(const char *directory, ch_error *error) {
  return import(TEST_DATA "/formats/deepseek_v2.gguf", directory, error);
}

static void imports(void **state) {
  (void)state;
  check_every_allocation("importing llama2.c", import_llama2c, true);
  check_every_allocation("importing GGUF", import_gguf, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(imports),
  };
  return RUN_ON_ONE_THREAD(tests);
}

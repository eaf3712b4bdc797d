/* Fuzz target: configurations. An accepted configuration must be valid, have a parameter table, and be equal after
 * writing and reading. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/params.h"
#include "model/transformer.h"
#include "config_file/config_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const ch_config *config) {
  ch_error error = {0};
  ch_config again, plain = *config;
  ch_text json = {0};
  memset(plain.layout, 0, sizeof plain.layout); /* written files have Crosshead's layout */
  if (ch_config_validate(config, "accepted", &error) != CH_OK) abort();
  ch_config_write(config, &json);
  if (ch_config_parse(json.data, "written", &again, &error) != CH_OK) abort();
  if (memcmp(&plain, &again, sizeof again) != 0) abort();
  ch_text_free(&json);
  if (config->num_hidden_layers > 8) return; /* large tables are slow */
  /* sizes that are only in a checkpoint cannot be declared without one */
  const ch_sharing *sharing = &config->sharing;
  if (sharing->type == CH_SHARING_LOW_RANK ? !sharing->rank : sharing->group_count && !sharing->atoms) return;
  ch_params params = {0};
  if (ch_model_declare(config, &params, &error) != CH_OK) abort();
  for (int i = 0; i < params.count; i++)
    if (ch_param_count(&params.rows[i]) <= 0) abort();
  ch_params_free(&params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  if (size) memcpy(text, data, size);
  text[size] = 0;
  ch_config config;
  ch_error error = {0};
  ch_status status = ch_config_parse(text, "input", &config, &error);
  if (status == CH_OK)
    check_accepted(&config);
  else if (status != error.status || !error.message[0])
    abort();
  free(text);
  return 0;
}

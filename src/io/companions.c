/* Copying the small files beside a model. */
#include "io/companions.h"

#include <stdlib.h>

#include "base/file.h"

static const char *const companions[] = {"tokenizer.json",         "tokenizer.bin",
                                         "tokenizer_config.json",  "special_tokens_map.json",
                                         "generation_config.json", NULL};

ch_status ch_companions_copy(const char *from, const char *to, ch_error *error) {
  ch_status status = CH_OK;
  for (int i = 0; companions[i] && status == CH_OK; i++) {
    char *source = ch_path_join(from, companions[i]), *target = ch_path_join(to, companions[i]);
    if (!source || !target)
      status = ch_fail(error, CH_ERROR_MEMORY, "no memory to copy %s", companions[i]);
    else if (ch_is_file(source))
      status = ch_copy_file(source, target, error);
    free(source);
    free(target);
  }
  return status;
}

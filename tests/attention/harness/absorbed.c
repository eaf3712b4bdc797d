/* Checks ch_absorb, which folds modules into weights. Logits stay equal, and no shared matrices are left. Linear
 * knocking is left only in mechanisms whose values use the key. */
#include <stdlib.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"
#include "attention/registry.h"
#include "compress/absorb.h"
#include "properties.h"

static bool foldable(const reference_config *c) {
  if (c->mix_k || c->mix_v || c->sharing.type != REFERENCE_NO_SHARING || c->stored_count) return true;
  return c->knock.type == REFERENCE_KNOCK_LINEAR;
}

void check_absorbed(laboratory *lab, const specimen *s) {
  if (!foldable(&s->definition)) return;
  ch_model model = {.config = s->config, .params = s->params, .weights = {.tensors = s->narrow}};
  ch_absorb_options options = {.keep_cache = false};
  ch_absorption absorbed = {0};
  ch_error error = {0};
  if (ch_absorb(&model, &options, &absorbed, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return;
  }
  specimen plain = *s;
  plain.config = absorbed.config;
  plain.params = absorbed.params;
  int64_t count = s->sequences * s->length * s->vocab;
  ch_model_graph shape = specimen_shape(s, CH_F32, CH_HEAD_LOGITS);
  double *logits = specimen_run(&plain, &lab->narrow, &shape, absorbed.tensors, s->tokens, NULL, count);
  expect_near(s, "logits of the absorbed model", count, logits, s->logits, s->largest, 1e-4);
  if (absorbed.cache_after != ch_state_elements(&absorbed.config))
    complain(s, "the absorbed model says a cache of %lld where it has %lld", (long long)absorbed.cache_after,
             (long long)ch_state_elements(&absorbed.config));
  bool linear = s->definition.knock.type == REFERENCE_KNOCK_LINEAR;
  bool key_kept = s->definition.type->key_kept;
  bool kept = absorbed.config.attention.knocking.type != CH_KNOCKING_NONE;
  if (linear && kept && !key_kept) complain(s, "knocking is left in the absorbed model");
  if (absorbed.config.sharing.type != CH_SHARING_NONE) complain(s, "sharing is left in the absorbed model");
  free(logits);
  ch_absorbed_free(&absorbed);
}

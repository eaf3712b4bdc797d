/* Checks the forms to which models with shared matrices are converted. Every form must compute and decode the logits of
 * the definition. */
#include <stdlib.h>
#include <string.h>

#include "infer/session.h"
#include "model/materialise.h"
#include "properties.h"

static specimen in_form(const specimen *s, const ch_materialised_model *form) {
  specimen materialised = *s;
  materialised.config = form->config;
  materialised.params = form->params;
  return materialised;
}

static bool is_left(const ch_params *params, const char *part) {
  for (int p = 0; p < params->count; p++)
    if (strstr(params->rows[p].name, part)) return true;
  return false;
}

static bool has_run(const ch_profile *profile, const char *operation) {
  for (int i = 0; i < profile->rows; i++)
    if (strcmp(profile->row[i].name, operation) == 0) return true;
  return false;
}

/* Feeds half of the tokens at once and the rest one by one. If `written_out`, steps must not compose matrices from
   atoms or factors. */
static void check_decoding(const specimen *s, const ch_materialised_model *form, bool written_out) {
  ch_session_options options = {
      .sequences = 1, .context = s->length, .chunk = s->length, .cache = ch_cache_of(CH_F32)};
  ch_session *session = NULL;
  ch_error error = {0};
  ch_profile profile = {0};
  const float *last = NULL;
  ch_status status = ch_session_new(&form->config, &form->params, form->tensors, &options, &session, &error);
  if (status == CH_OK) ch_session_profile(session, &profile);
  for (int64_t t = 0, n; status == CH_OK && t < s->length; t += n) {
    n = t == 0 && s->length > 1 ? s->length / 2 : 1;
    status = ch_session_feed(session, s->tokens + t, n, &last, &error);
  }
  if (status == CH_OK) {
    double *values = widened(last, s->vocab);
    expect_near(s, "last logits decoded in another form", s->vocab, values,
                s->logits + (s->length - 1) * s->vocab, s->largest, 1e-4);
    free(values);
    if (written_out && (has_run(&profile, "combine_atoms") || has_run(&profile, "matrix_product")))
      complain(s, "decoding makes matrices anew for every token");
  } else {
    complain(s, "%s", error.message);
  }
  ch_session_free(session);
}

static void check_form(laboratory *lab, const specimen *s, ch_materialise_for form, bool wide) {
  ch_materialised_model materialised;
  ch_error error = {0};
  if (ch_materialise(&s->config, &s->params, wide ? s->wide : s->narrow, form, &materialised, &error) !=
      CH_OK) {
    complain(s, "form %d: %s", form, error.message);
    return;
  }
  int64_t count = s->sequences * s->length * s->vocab;
  ch_model_graph shape = specimen_shape(s, wide ? CH_F64 : CH_F32, CH_HEAD_LOGITS);
  specimen other = in_form(s, &materialised);
  double *logits = specimen_run(&other, wide ? &lab->wide : &lab->narrow, &shape, materialised.tensors,
                                s->tokens, NULL, count);
  expect_near(s, "logits in another form", count, logits, s->logits, s->largest, wide ? 1e-9 : 1e-4);
  if (form == CH_MATERIALISE_INFERENCE &&
      (is_left(&materialised.params, "block_embedding") || is_left(&materialised.params, ".mlp.0")))
    complain(s, "what training alone needs is left for inference");
  if (form == CH_MATERIALISE_DENSE &&
      (is_left(&materialised.params, ".dictionary.") || is_left(&materialised.params, ".a.weight") ||
       materialised.config.sharing.type != CH_SHARING_NONE))
    complain(s, "sharing is left in the dense form");
  if (!wide) check_decoding(s, &materialised, form != CH_MATERIALISE_INFERENCE);
  free(logits);
  ch_materialised_model_free(&materialised);
}

void check_forms(laboratory *lab, const specimen *s) {
  static const ch_materialise_for forms[] = {CH_MATERIALISE_INFERENCE, CH_MATERIALISE_SERVING,
                                             CH_MATERIALISE_DENSE};
  if (s->definition.sharing.type == REFERENCE_NO_SHARING && !s->definition.stored_count) return;
  for (int i = 0; i < 3; i++) check_form(lab, s, forms[i], false);
  check_form(lab, s, CH_MATERIALISE_INFERENCE, true);
  check_form(lab, s, CH_MATERIALISE_DENSE, true);
}

/* Prints how likely a model finds each continuation of a text: score MODEL_DIRECTORY CONTEXT CONTINUATION...
 *
 * The context is read once. Each continuation is read after it, and removed before the next. */
#include <crosshead/crosshead.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TOKENS = 4096 };

/* Returns ln of the probability of tokens [count] after the context, whose last logits are `logits`. */
static ch_status score(ch_session *session, int64_t vocab_size, const float *logits, const int32_t *tokens,
                       size_t count, double *sum, ch_error *error) {
  ch_status status = CH_OK;
  *sum = 0;
  for (size_t i = 0; status == CH_OK && i < count; i++) {
    double log_probability = 0;
    status = ch_log_probability(logits, vocab_size, tokens[i], &log_probability, error);
    *sum += log_probability;
    if (status == CH_OK) status = ch_session_feed(session, &tokens[i], 1, &logits, error);
  }
  return status;
}

static ch_status score_all(const ch_model *model, ch_session *session, int count, char **texts,
                           ch_error *error) {
  static int32_t context[MOST_TOKENS], tokens[MOST_TOKENS];
  size_t length, size;
  ch_status status = ch_encode(model, texts[0], strlen(texts[0]), true, context, MOST_TOKENS, &length, error);
  for (int i = 1; status == CH_OK && i < count; i++) {
    const float *logits;
    double sum;
    /* Feeds the last token of the context again, because its logits are needed. */
    status = ch_session_truncate(session, (int64_t)length - 1, error);
    if (status != CH_OK) break;
    size_t held = (size_t)ch_session_length(session);
    status = ch_session_feed(session, context + held, length - held, &logits, error);
    if (status == CH_OK)
      status = ch_encode(model, texts[i], strlen(texts[i]), false, tokens, MOST_TOKENS, &size, error);
    if (status == CH_OK)
      status = score(session, ch_model_vocab_size(model), logits, tokens, size, &sum, error);
    if (status == CH_OK) printf("%10.4f  %s\n", sum, texts[i]);
  }
  return status;
}

int main(int argc, char **argv) {
  ch_model *model = NULL;
  ch_session *session = NULL;
  ch_error error = {CH_ERROR_ARGUMENT, "usage: score MODEL_DIRECTORY CONTEXT CONTINUATION..."};
  bool done = argc > 3 && ch_model_open(argv[1], &model, &error) == CH_OK &&
              ch_session_create(model, NULL, &session, &error) == CH_OK &&
              score_all(model, session, argc - 2, argv + 2, &error) == CH_OK;
  if (!done) fprintf(stderr, "%s\n", error.message);
  ch_session_free(session);
  ch_model_close(model);
  return done ? 0 : 1;
}

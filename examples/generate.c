/* Prints how a model continues a text: generate MODEL_DIRECTORY PROMPT */
#include <crosshead/crosshead.h>
#include <stdio.h>

static bool print(const char *text, size_t size, void *stream) {
  return fwrite(text, 1, size, stream) == size;
}

int main(int argc, char **argv) {
  ch_model *model = NULL;
  ch_session *session = NULL;
  ch_sampler sampler;
  ch_error error = {CH_ERROR_ARGUMENT, "usage: generate MODEL_DIRECTORY PROMPT"};
  ch_sampler_defaults(&sampler, 1); /* seed 1; by default all tokens at temperature 1 */
  sampler.temperature = 0.8;        /* as `crosshead generate` does */
  sampler.top_k = 40;
  sampler.top_p = 0.95;
  bool done = argc == 3 && ch_model_open(argv[1], &model, &error) == CH_OK &&
              ch_session_create(model, NULL, &session, &error) == CH_OK &&
              ch_generate(session, argv[2], 100, &sampler, print, stdout, NULL, &error) == CH_OK;
  if (!done) fprintf(stderr, "%s\n", error.message);
  ch_session_free(session);
  ch_model_close(model);
  return done ? 0 : 1;
}

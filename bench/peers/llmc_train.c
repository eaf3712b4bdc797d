/* Measures the training speed of llm.c on the reference shapes. bench/peers/compare.py compiles it against a
 * checkout of llm.c:
 *
 *   cc -Ofast -march=native -fopenmp -DOMP -I LLMC bench/peers/llmc_train.c -lm -o llmc_train &&
 *     ./llmc_train A STEPS
 * Its model is GPT-2: LayerNorm, learned positions, a GELU layer of 4 D (as many weights as the three matrices of the
 * shape's SwiGLU), and an LM head that is always tied. The program prints one line: tokens per second in the median
 * step, and the loss of the last step. */
#define TESTING
#include "train_gpt2.c"

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void write_checkpoint(const char *path, GPT2Config config) {
  int header[256] = {20240326,           3,
                     config.max_seq_len, config.vocab_size,
                     config.num_layers,  config.num_heads,
                     config.channels,    config.padded_vocab_size};
  size_t sizes[NUM_PARAMETER_TENSORS], count = 0;
  unsigned state = 1;
  FILE *file = fopenCheck(path, "wb");
  fwrite(header, sizeof(int), 256, file);
  fill_in_parameter_sizes(sizes, config);
  for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) count += sizes[i];
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    float value = ((float)(state >> 8) / 16777216.0f - 0.5f) * 0.06f;
    fwrite(&value, sizeof value, 1, file);
  }
  fcloseCheck(file);
}

int main(int count, char **arguments) {
  int large = count > 1 && arguments[1][0] == 'B', steps = count > 2 ? atoi(arguments[2]) : 3;
  int B = large ? 4 : 16, T = large ? 512 : 256;
  GPT2Config config = {
      T, large ? 32000 : 8192, large ? 32000 : 8192, large ? 12 : 6, large ? 12 : 6, large ? 768 : 384};
  char path[] = "/tmp/llmc_shape_XXXXXX";
  int descriptor = mkstemp(path), *tokens = mallocCheck((size_t)(B * T + 1) * sizeof(int));
  double seconds[64];
  GPT2 model;
  if (descriptor < 0 || steps < 1 || steps > 64) return 1;
  close(descriptor);
  write_checkpoint(path, config);
  gpt2_build_from_checkpoint(&model, path);
  remove(path);
  for (int i = 0; i <= B * T; i++) tokens[i] = (int)((i * 7919u) % (unsigned)config.vocab_size);
  for (int step = 0; step <= steps; step++) { /* the first step warms up and is not timed */
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpt2_forward(&model, tokens, tokens + 1, B, T);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, step + 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (step)
      seconds[step - 1] = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  }
  qsort(seconds, (size_t)steps, sizeof *seconds, by_value);
  printf("llm.c shape %s: %.1f tokens/s, loss %.4f\n", large ? "B" : "A", B * T / seconds[steps / 2],
         model.mean_loss);
  return 0;
}

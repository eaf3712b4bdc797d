/* Mechanisms that are special cases of others: the same logits, and gradients that follow from each other. */
#include "harness/trial.h"

enum { HEADS = 4 };

static const char *in_attention(int layer, const char *name) {
  static char names[2][80];
  static int next;
  char *full = names[next++ % 2];
  snprintf(full, sizeof names[0], "model.layers.%d.self_attn.%s", layer, name);
  return full;
}

/* MEA, Appendix A: heads 2i and 2i + 1 both weigh their values by the weights of head 2i less lambda times those of head 2i + 1
   (eq. 27). */
static void differential_attention_without_a_norm_is_talking_heads(void **state) {
  (void)state;
  static const char *const positions[] = {"'position': 'rope'", "'position': 'alibi'"};
  for (int p = 0; p < 2; p++) {
    trial *diff = open_trial(positions[p], "diff", "'diff_lambda': 'per_pair', 'head_norm': false");
    trial *talking = open_trial(positions[p], "talking", "'mix_logits': false");
    int layers = (int)diff->s.config.num_hidden_layers;
    assert_int_equal(diff->s.config.num_attention_heads, HEADS);
    for (int layer = 0; layer < layers; layer++) {
      double *mix = values(talking, in_attention(layer, "weight_mix.weight"));
      const double *lambda = values(diff, in_attention(layer, "lambda"));
      for (int o = 0; o < HEADS; o++)
        for (int g = 0; g < HEADS; g++)
          mix[o * HEADS + g] = g / 2 != o / 2 ? 0 : g % 2 == 0 ? 1 : -lambda[o / 2];
    }
    run(diff);
    run(talking);
    assert_same_logits(diff, talking);
    assert_same_gradients(diff, talking);
    for (int layer = 0; layer < layers; layer++) {
      const double *of_mix = gradient(talking, in_attention(layer, "weight_mix.weight"));
      double of_lambda[HEADS / 2];
      for (int i = 0; i < HEADS / 2; i++)
        of_lambda[i] = -of_mix[2 * i * HEADS + 2 * i + 1] - of_mix[(2 * i + 1) * HEADS + 2 * i + 1];
      assert_same("gradients of lambda", gradient(diff, in_attention(layer, "lambda")), of_lambda, HEADS / 2);
    }
    close_trial(diff);
    close_trial(talking);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differential_attention_without_a_norm_is_talking_heads),
  };
  return cmocka_run_group_tests(tests, open_engine, close_engine);
}

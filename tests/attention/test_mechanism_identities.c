/* Tests mechanisms that are special cases of others: their logits and the gradients of common tensors are equal. */
#include "harness/trial.h"

enum { HEADS = 4 };

static const char *in_attention(int layer, const char *name) {
  static char names[2][80];
  static int next;
  char *full = names[next++ % 2];
  snprintf(full, sizeof names[0], "model.layers.%d.self_attn.%s", layer, name);
  return full;
}

/* MEA, Appendix A, eq. 27: heads 2i and 2i + 1 both have the weights of head 2i minus lambda times those of head
   2i + 1. */
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

/* Runs both models, compares logits and the gradients of common tensors, and frees the models. */
static void assert_alike(trial *a, trial *b) {
  run(a);
  run(b);
  assert_same_logits(a, b);
  assert_same_gradients(a, b);
  close_trial(a);
  close_trial(b);
}

#define LATENT                                                                                               \
  "'kv_lora_rank': 8, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, 'q_lora_rank': 9"

static void one_latent_in_one_group_is_mla_and_one_branch_is_grouped_latents(void **state) {
  (void)state;
  static const char *const positions[] = {"'position': 'rope'", "'position': 'alibi'"};
  for (int p = 0; p < 2; p++) {
    assert_alike(open_trial(positions[p], "mla", LATENT),
                 open_trial(positions[p], "gla", LATENT ", 'latent_heads': 1"));
    assert_alike(
        open_trial(positions[p], "gla", LATENT ", 'latent_heads': 2"),
        open_trial(positions[p], "mlra", LATENT ", 'latent_heads': 2, 'branches': 1, 'latent_scale': false"));
  }
}

/* The mixing vector of each head selects the head's own block of the shared dims. */
static void collaborative_heads_of_separate_blocks_are_multi_head_attention(void **state) {
  (void)state;
  enum { DIM = 6, SHARED = HEADS * DIM };
  static const char *const sizes[] = {"'head_dim': 6", "'head_dim': 6, 'position': 'alibi'"};
  for (int p = 0; p < 2; p++) {
    trial *blocks = open_trial(sizes[p], "collaborative", "'shared_qk_dim': 24");
    for (int layer = 0; layer < blocks->s.config.num_hidden_layers; layer++) {
      double *mixing = values(blocks, in_attention(layer, "mixing.weight"));
      for (int i = 0; i < HEADS * SHARED; i++) mixing[i] = i / SHARED == i % SHARED / DIM;
    }
    assert_alike(open_trial(sizes[p], "gqa", ""), blocks);
  }
}

/* The factors over heads select, for each head, the factor of its group. */
static void tensor_products_of_one_hot_factors_are_grouped_query_attention(void **state) {
  (void)state;
  enum { GROUPS = 2, DIM = 6 };
  trial *grouped = open_trial("'head_dim': 6, 'num_key_value_heads': 2", "gqa", "");
  trial *product = open_trial("'head_dim': 6", "tpa", "'k_rank': 2, 'v_rank': 2, 'a_factors': 'fixed'");
  for (int layer = 0; layer < product->s.config.num_hidden_layers; layer++)
    for (int v = 0; v < 2; v++) {
      double *a = values(product, in_attention(layer, v ? "a_v.weight" : "a_k.weight"));
      for (int i = 0; i < HEADS * GROUPS; i++) a[i] = i % GROUPS == i / GROUPS * GROUPS / HEADS ? GROUPS : 0;
      int64_t count = GROUPS * DIM * grouped->s.config.hidden_size;
      memcpy(values(product, in_attention(layer, v ? "b_v_proj.weight" : "b_k_proj.weight")),
             values(grouped, in_attention(layer, v ? "v_proj.weight" : "k_proj.weight")),
             (size_t)count * sizeof(double));
    }
  assert_alike(grouped, product);
}

/* If all parameters of the gates are 0, all heads have equal weights. */
static void heads_that_are_all_active_with_gates_of_zero_are_grouped_query_attention(void **state) {
  (void)state;
  static const char *const choices[] = {"'active_heads': 4", "'shared_heads': 1, 'active_heads': 3",
                                        "'shared_heads': 2, 'active_heads': 2"};
  for (int c = 0; c < 3; c++) {
    trial *chosen = open_trial("'num_key_value_heads': 2", "moh", choices[c]);
    for (int p = 0; p < chosen->s.params.count; p++) {
      const ch_param *row = &chosen->s.params.rows[p];
      if (strstr(row->name, "head_gate"))
        memset(chosen->s.wide[p].data, 0, (size_t)ch_param_count(row) * sizeof(double));
    }
    assert_alike(open_trial("'num_key_value_heads': 2", "gqa", ""), chosen);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differential_attention_without_a_norm_is_talking_heads),
      cmocka_unit_test(one_latent_in_one_group_is_mla_and_one_branch_is_grouped_latents),
      cmocka_unit_test(collaborative_heads_of_separate_blocks_are_multi_head_attention),
      cmocka_unit_test(tensor_products_of_one_hot_factors_are_grouped_query_attention),
      cmocka_unit_test(heads_that_are_all_active_with_gates_of_zero_are_grouped_query_attention),
  };
  return cmocka_run_group_tests(tests, open_engine, close_engine);
}

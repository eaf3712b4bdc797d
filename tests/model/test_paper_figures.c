/* Tests the figures that the papers print, counted from the configurations in configs/papers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/accounting.h"
#include "model/transformer.h"
#include "config_file/config_json.h"

#define CONFIGS TEST_DATA "/../../configs/papers/"

static ch_config read_config(const char *name) {
  char path[512];
  ch_config config;
  ch_error error = {0};
  snprintf(path, sizeof path, CONFIGS "%s.json", name);
  if (ch_config_read(path, &config, &error) != CH_OK) fail_msg("%s", error.message);
  return config;
}

static ch_account account_of(const ch_config *config, int64_t depth) {
  ch_params params = {0};
  ch_account account;
  ch_error error = {0};
  if (ch_model_declare(config, &params, &error) != CH_OK ||
      ch_account_model(config, &params, depth, ch_cache_of(CH_BF16), &account, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_params_free(&params);
  return account;
}

static ch_account figures(const char *name) {
  ch_config config = read_config(name);
  return account_of(&config, 0);
}

static void caches_are_those_of_the_tables(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t elements; /* cached elements per token in all layers */
  } rows[] = {
      {"egmla-mha-base", 18432}, /* EG-MLA, Table 10 */
      {"egmla-mla-base", 3840},
      {"egmla-base-kv256", 3840},
      {"egmla-base-kv128", 2304},
      {"egmla-base-kv64", 1536},
      {"egmla-base-kv16", 960},
      {"egmla-mla-large-kv512", 12 * (512 + 64)}, /* by Table 5's formula */
      {"egmla-large-kv128-emb512", 12 * (128 + 64)},
      {"egmla-large-kv256-emb512", 12 * (256 + 64)},
      {"egmla-large-kv256-emb512-lgz2", 6 * (256 + 64)},
      {"egmla-large-kv256-emb512-lgz4", 3 * (256 + 64)},
      {"egmla-large-kv256-emb512-lgz6", 2 * (256 + 64)},
      {"egmla-mla-xlarge-kv512", 24 * (512 + 64)},
      {"egmla-xlarge-kv128-emb512", 24 * (128 + 64)},
      {"mfa-mha", 163840 / 2}, /* MFA, Tables 4 and 5: bytes at 16 bits */
      {"mfa-mfa", 20480 / 2},
      {"mfa-mfa-kr", 10240 / 2},
      {"mfa-mla", 20 * (512 + 64)},
      {"mfa-unfactored-2048", 20480 / 2},
      {"mfa-unfactored-3584", 20480 / 2},
      {"mfa-mfa-kr-key", 10240 / 2},
      {"mfa-mfa-kr-projection", 10240 / 2},
      {"mfa-mfa-kr-residual", 10240 / 2},
      {"mfa-alibi-mha", 163840 / 2}, /* MFA, Table 6 */
      {"mfa-alibi-mfa", 20480 / 2},
      {"mfa-alibi-mfa-kr", 10240 / 2},
      {"mfa-7b-mha", 196608 / 2}, /* MFA, Table 7 */
      {"mfa-7b-mfa", 24576 / 2},
      {"mfa-7b-mfa-kr", 12288 / 2},
      {"kha-mla", 18 * 576}, /* KHA, Table 3, which gives one of 18 layers */
      {"kha-gta", 18 * 576},
      {"kha-mqa", 18 * 256},
      {"kha-gqa8", 18 * 2048},
      {"kha-gqa4", 18 * 1024},
      {"kha-mha", 18 * 4096},
      {"mea-qwen3-30b-a3b", 98304 / 2}, /* MEA, 5.2: bytes at 16 bits */
      {"mea-qwen3-30b-a3b-full", 49152 / 2},
      {"mea-qwen3-30b-a3b-half", (98304 + 49152) / 2 / 2},
      {"mea-qwen3-30b-a3b-deep", (3 * 98304 + 45 * 49152) / 48 / 2},
      {"mea-1b-transformer", 16 * 2 * 8 * 64}, /* as Llama 3.2 1B */
      {"mea-1b-mea", 16 * 2 * 8 * 64},
      {"mea-1b-diff", 16 * 2 * 8 * 64},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_account a = figures(rows[i].name);
    if (a.cache_elements_per_token != rows[i].elements || a.cache_bytes_per_token != 2 * rows[i].elements)
      fail_msg("%s: %lld elements per token where the paper has %lld", rows[i].name,
               (long long)a.cache_elements_per_token, (long long)rows[i].elements);
  }
}

/* EG-MLA saves 91.67 % of MHA's cache and 60.0 % of MLA's (the paper prints 59.9). */
static void the_embedding_gate_saves_what_the_paper_says(void **state) {
  (void)state;
  double gated = (double)figures("egmla-base-kv64").cache_elements_per_token;
  double mha = (double)figures("egmla-mha-base").cache_elements_per_token;
  double mla = (double)figures("egmla-mla-base").cache_elements_per_token;
  assert_true(llround(1e4 * (1 - gated / mha)) == 9167);
  assert_true(llround(1e3 * (1 - gated / mla)) == 600);
}

static void assert_millions(const char *name, int64_t count, double millions, int decimals) {
  double unit = pow(10, decimals);
  if (llround((double)count / 1e6 * unit) != llround(millions * unit))
    fail_msg("%s: %lld where %.*f M is right", name, (long long)count, decimals, millions);
}

/* The sizes are those of EG-MLA, Tables 2, 3, 7, 10, 11 and 12, in millions: all parameters, lookup tables,
   and what a token uses. Some are rounded, others cut off. The paper does not give the width of its FFN; one
   SwiGLU of 2.5 widths gives all of them. */
static void models_of_eg_mla_have_the_sizes_that_the_paper_says(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double all, tables, active;
  } rows[] = {{"egmla-mha-base", 124, 0, 124},
              {"egmla-mla-base", 120, 0, 120},
              {"egmla-base-kv256", 279, 154, 125},
              {"egmla-base-kv128", 276, 154, 122},
              {"egmla-base-kv64", 274, 154, 120},
              {"egmla-base-kv16", 273, 154, 119},
              {"egmla-base-kv64-emb64", 155, 38, 155 - 38},
              {"egmla-base-kv64-emb128", 195, 77, 195 - 77},
              {"egmla-base-kv64-emb512", 433, 309, 433 - 309},
              {"egmla-base-kv64-emb1024", 752, 618, 752 - 618},
              {"egmla-base-kv64-emb2048", 1389, 1236, 1389 - 1236},
              {"egmla-base-kv256-no-norm", 279, 154, 125},
              {"egmla-base-kv256-add", 279, 154, 125},
              {"egmla-mla-large-kv512", 645, 0, 645},
              {"egmla-large-kv128-emb512", 951, 309, 951 - 309},
              {"egmla-large-kv256-emb512", 961, 309, 961 - 309},
              {"egmla-mla-xlarge-kv512", 1188, 0, 1188},
              {"egmla-xlarge-kv128-emb512", 1800, 618, 1182}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_account a = figures(rows[i].name);
    const struct {
      const char *what;
      int64_t count;
      double millions;
    } parts[] = {{"parameters", a.parameters_total, rows[i].all},
                 {"in lookup tables", a.parameters_gate_embedding, rows[i].tables},
                 {"active", a.parameters_active, rows[i].active}};
    for (int p = 0; p < 3; p++)
      if (fabs((double)parts[p].count / 1e6 - parts[p].millions) >= 1)
        fail_msg("%s: %.2f M %s where the paper has %g M", rows[i].name, (double)parts[p].count / 1e6,
                 parts[p].what, parts[p].millions);
  }
}

/* In EG-MLA, section H, the layers of a group share latent, gate and lookup table. */
static void groups_of_layers_have_one_lookup_table(void **state) {
  (void)state;
  static const char *const names[] = {"egmla-large-kv256-emb512-lgz2", "egmla-large-kv256-emb512-lgz4",
                                      "egmla-large-kv256-emb512-lgz6"};
  static const int64_t groups[] = {6, 3, 2};
  ch_account single = figures("egmla-large-kv256-emb512");
  for (int i = 0; i < 3; i++) {
    ch_account a = figures(names[i]);
    assert_int_equal(a.parameters_gate_embedding, groups[i] * 50304 * 512);
    assert_int_equal(a.cache_elements_per_token * 12, single.cache_elements_per_token * groups[i]);
    int64_t shared = (256 + 64) * 2048 + 256 + 4096 * (256 + 512 + 2);
    assert_int_equal(single.parameters_attention - a.parameters_attention, (12 - groups[i]) * shared);
  }
}

static void parameters_are_those_of_the_tables(void **state) {
  (void)state;
  ch_account a = figures("egmla-base-kv128");
  assert_millions("EG-MLA base", a.parameters_gate_embedding, 154.5, 1);
  assert_int_equal(a.parameters_total - a.parameters_active, a.parameters_gate_embedding);
  assert_millions("EG-MLA 1.2B", figures("egmla-xlarge-kv128-emb512").parameters_gate_embedding, 618.1, 1);
  ch_account mha = figures("mfa-mha"); /* MFA, Table 9, without embeddings */
  assert_millions("MFA's MHA", mha.parameters_total - mha.parameters_embedding, 1074, 0);
  ch_account mfa = figures("mfa-mfa");
  assert_millions("MFA", mfa.parameters_total - mfa.parameters_embedding, 1077, 0);
  ch_account plain = figures("mfa-unfactored-2048"); /* MFA, Table 4 */
  assert_millions("MQA of 8 heads", (plain.parameters_total - plain.parameters_embedding) / 10, 108, 0);
  plain = figures("mfa-unfactored-3584");
  assert_millions("MQA of 14 heads", (plain.parameters_total - plain.parameters_embedding) / 10, 120, 0);
  ch_account moe = figures("mfa-7b-mha"); /* MFA, Table 7, without embeddings: 6.9 B, 1.2 B active */
  assert_millions("MFA's 7B", (moe.parameters_total - moe.parameters_embedding) / 100, 69, 0);
  assert_millions("MFA's 7B, active", (moe.parameters_active - moe.parameters_embedding) / 100, 12, 0);
  moe = figures("mfa-7b-mfa");
  assert_millions("MFA's 7B", (moe.parameters_total - moe.parameters_embedding) / 100, 69, 0);
  assert_millions("MFA's 7B, active", (moe.parameters_active - moe.parameters_embedding) / 100, 12, 0);
  moe = figures("mfa-7b-mfa-kr"); /* experts of 1508, half of the shared 3016; the table's 1536 gives 7.0 B */
  assert_millions("MFA-KR's 7B", (moe.parameters_total - moe.parameters_embedding) / 100, 69, 0);
  assert_millions("MFA-KR's 7B, active", (moe.parameters_active - moe.parameters_embedding) / 100, 12, 0);
  moe = figures("mea-qwen3-30b-a3b"); /* 30.5 B, of which 3.4 B are active */
  assert_millions("Qwen3-30B-A3B", moe.parameters_total / 100, 305, 0);
  assert_millions("Qwen3-30B-A3B, active", moe.parameters_active / 100, 34, 0);
}

/* The baseline of MEA, 5.1.1, is Llama 3.2 1B with 1236 M parameters and an output matrix of its own. MEA adds only
   a norm for the heads of a layer and two matrices of 8 x 8 per layer. */
static void models_of_mea_are_llama_with_little_more(void **state) {
  (void)state;
  int64_t plain = figures("mea-1b-transformer").parameters_total, norms = 16 * 64, mixes = 16 * 2 * 8 * 8;
  assert_millions("Llama 3.2 1B", plain - INT64_C(128256) * 2048, 1236, 0);
  assert_int_equal(figures("mea-1b-head-norm").parameters_total, plain + norms);
  assert_int_equal(figures("mea-1b-mea-no-norm").parameters_total, plain + mixes);
  assert_int_equal(figures("mea-1b-mea").parameters_total, plain + norms + mixes);
  assert_int_equal(figures("mea-1b-diff").parameters_total, plain + 16 * (2 * 64 + 32 / 2));
}

/* Compares a count in billions to `decimals` decimals. It may be rounded or cut off, as in the paper. */
static void assert_billions(const char *name, int64_t count, double billions, int decimals) {
  double unit = pow(10, decimals), scaled = (double)count / 1e9 * unit, printed = llround(billions * unit);
  if (llround(scaled) != (long long)printed && floor(scaled) != printed)
    fail_msg("%s: %lld where %.*f B is right", name, (long long)count, decimals, billions);
}

/* The sizes are those of KHA, Table 5. The paper does not give layers and widths of the model of 6.1 B: 18, 2048
   and 384 give both of its figures. It does not give the vocabulary either: 157184 tied rows give all figures. */
static void models_of_kha_have_the_sizes_that_the_paper_says(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double active, total;
    int active_decimals, total_decimals;
  } rows[] = {{"kha-moe-2.3b", 0.44, 2.3, 2, 1},     {"kha-moe-6.6b", 0.8, 6.6, 1, 1},
              {"kha-moe-14.6b", 1.6, 14.6, 1, 1},    {"kha-moe-6.1b", 1.01, 6.1, 2, 1},
              {"kha-dense-0.61b", 0.61, 0.61, 2, 2}, {"kha-dense-1.68b", 1.68, 1.68, 2, 2},
              {"kha-dense-3.94b", 3.94, 3.94, 2, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_config config = read_config(rows[i].name);
    for (int knocked = 1; knocked >= 0; knocked--) { /* knocking adds less than a percent, as in the paper */
      if (!knocked) config.attention.knocking = (ch_knocking){0};
      ch_account a = account_of(&config, 0);
      assert_billions(rows[i].name, a.parameters_active, rows[i].active, rows[i].active_decimals);
      assert_billions(rows[i].name, a.parameters_total, rows[i].total, rows[i].total_decimals);
    }
  }
}

/* The sizes are those of KHA, Table 3: active parameters, in millions, of the model of 6.6 B with other attention,
   before heads are knocked. The maps add less than 0.2 %. MLA has its own output matrix. With the shared one, 8
   heads give 731 M. With its own matrix they give 972 M, and the paper prints 970. */
static void attention_in_kha_has_the_sizes_that_table_3_says(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double millions, off;
  } rows[] = {{"kha-gta", 868, 0.5},  {"kha-mqa", 859, 0.5}, {"kha-gqa8", 795, 0.5},
              {"kha-gqa4", 880, 0.5}, {"kha-mha", 852, 0.5}, {"kha-mla", 970, 3}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_config config = read_config(rows[i].name);
    ch_account knocked = account_of(&config, 0);
    config.attention.knocking = (ch_knocking){0};
    ch_account plain = account_of(&config, 0);
    assert_true(fabs((double)plain.parameters_active / 1e6 - rows[i].millions) <= rows[i].off);
    assert_in_range(knocked.parameters_active, plain.parameters_active + 1,
                    plain.parameters_active + plain.parameters_active / 500);
    assert_billions(rows[i].name, knocked.parameters_total, strcmp(rows[i].name, "kha-mla") == 0 ? 6.7 : 6.6,
                    strcmp(rows[i].name, "kha-gqa8") == 0 ? 0 : 1);
  }
}

/* Checks the cache of one layer for published models whose shapes no file of configs/papers has. Also checks effective
   rank and width of the shared latent space against their formulas. */
static void caches_of_the_field_are_those_that_it_publishes(void **state) {
  (void)state;
#define LATENT                                                                                               \
  ", \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128"
  static const struct {
    int64_t hidden, heads, head_dim;
    const char *attention;
    int64_t elements, rank, shared;
  } rows[] = {
      /* sizes of T6, small */
      {1408, 22, 64, "\"tpa\", \"q_rank\": 6, \"k_rank\": 2, \"v_rank\": 2", 344, 22 * 64, 2 * 64},
      {1408, 22, 64, "\"gqa\"", 2816, 22 * 64, 22 * 64},
      {3072, 24, 128, "\"gla\"" LATENT, 576, 24 * 128, 512},
      {3072, 24, 128, "\"mlra\"" LATENT, 576, 4 * 24 * 128, 512},
      {3072, 24, 128, "\"mlra\", \"branches\": 2" LATENT, 576, 2 * 24 * 128, 512},
      {768, 12, 64, "\"collaborative\", \"shared_qk_dim\": 256, \"content_bias\": true", 12432 / 12, 12 * 256,
       256},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[600];
    ch_config config;
    ch_error error = {0};
    snprintf(text, sizeof text,
             "{\"model_type\": \"crosshead\", \"vocab_size\": 100, \"hidden_size\": %lld, "
             "\"intermediate_size\": 64, "
             "\"num_hidden_layers\": 1, \"num_attention_heads\": %lld, \"head_dim\": %lld, \"attention\": "
             "{\"type\": %s}}",
             (long long)rows[i].hidden, (long long)rows[i].heads, (long long)rows[i].head_dim,
             rows[i].attention);
    if (ch_config_parse(text, "made", &config, &error) != CH_OK) fail_msg("%s", error.message);
    ch_account a = account_of(&config, 0);
    assert_int_equal(a.cache_elements_per_token, rows[i].elements);
    assert_int_equal(a.total_effective_rank, rows[i].rank);
    assert_int_equal(a.shared_latent_dim, rows[i].shared);
  }
}

/* The sizes are those of MFA, Table 8, without embeddings. Its text says 2.1 B where the table says 2.2. */
static void the_scales_of_mfa_have_the_sizes_of_table_8(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int total, active; /* parameters in hundreds of millions */
  } rows[] = {
      {"mfa-scale-1b", 10, 2}, {"mfa-scale-2b", 22, 4}, {"mfa-scale-5b", 55, 9}, {"mfa-7b-mha", 69, 12}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_account a = figures(rows[i].name);
    assert_millions(rows[i].name, (a.parameters_total - a.parameters_embedding) / 100, rows[i].total, 0);
    assert_millions(rows[i].name, (a.parameters_active - a.parameters_embedding) / 100, rows[i].active, 0);
  }
}

/* The figures are those of MFA, Table 3: bytes of a token's keys or values at 16 bits, and billions of parameters
   without embeddings. */
static void compressed_and_shared_sides_are_those_of_table_3(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t bytes, other; /* bytes of the side under test; elements of the other side in all layers */
    double billions;      /* parameters in billions; 0 if the paper's model has different keys */
  } rows[] = {{"mfa-keys-compressed", 12800, 20 * 2048, 1.12},
              {"mfa-keys-2-groups", 10240, 20 * 2048, 1.06},
              {"mfa-values-compressed", 10240, 20 * (16 * 64 + 64), 0},
              {"mfa-values-2-groups", 10240, 20 * 2048, 1.06}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_account a = figures(rows[i].name);
    assert_int_equal(2 * (a.cache_elements_per_token - rows[i].other), rows[i].bytes);
    if (rows[i].billions > 0)
      assert_millions(rows[i].name, (a.parameters_total - a.parameters_embedding) / 1000, rows[i].billions,
                      2);
  }
}

/* The spreads are those of MFA, 4.1 and Table 10: the paper's initialisation and DeepSeek's, for MLA, MHA and
   MFA. MFA-KR's N is a linear layer like the others, and alpha starts at zero. */
static void initial_spreads_are_those_of_table_10(void **state) {
  (void)state;
  static const char *const names[] = {"mfa-mla", "mfa-mha", "mfa-mfa", "mfa-mfa-kr"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    for (int deepseek = 0; deepseek < 2; deepseek++) {
      ch_config config = read_config(names[n]);
      ch_params params = {0};
      ch_error error = {0};
      config.init = deepseek ? CH_INIT_DEEPSEEK : CH_INIT_DEFAULT;
      assert_int_equal(ch_model_declare(&config, &params, &error), CH_OK);
      int maps = 0;
      for (int p = 0; p < params.count; p++) {
        const ch_param *row = &params.rows[p];
        int layer = 0;
        if (strstr(row->name, "v_reuse.gate")) assert_true(row->start == 0 && row->std == 0);
        if (row->rank != 2 || sscanf(row->name, "model.layers.%d.", &layer) != 1) continue;
        bool output = strstr(row->name, "o_proj") || strstr(row->name, "down_proj");
        double expected = deepseek ? 0.006 : output ? 0.02 / sqrt(2.0 * (layer + 1)) : 0.02;
        if (fabs(row->std - expected) > 1e-12)
          fail_msg("%s starts at %g, not %g", row->name, row->std, expected);
        maps += strstr(row->name, "v_reuse") != NULL;
      }
      assert_int_equal(maps, n == 3 ? config.num_hidden_layers : 0);
      ch_params_free(&params);
    }
}

static double saved(const char *name, const char *dense) {
  return 1 - (double)figures(name).parameters_attention / (double)figures(dense).parameters_attention;
}

static void assert_saves(const char *name, const char *dense, double percent) {
  double share = saved(name, dense);
  if (llround(1e3 * share) != llround(10 * percent))
    fail_msg("%s saves %.2f %% of attention, not %.1f %%", name, 100 * share, percent);
}

/* The sizes are those of MASA, section 4: Transformer-S, -M and -L; GQA with 6 and 8 query heads per
   key-value head. */
static void models_of_masa_have_the_sizes_that_the_paper_says(void **state) {
  (void)state;
  assert_millions("Transformer-S", figures("masa-s-dense").parameters_total, 110, 0);
  assert_millions("Transformer-M", figures("masa-m-dense").parameters_total, 335, 0);
  assert_millions("Transformer-L", figures("masa-dense").parameters_total, 729, 0);
  assert_millions("its attention", figures("masa-dense").parameters_attention, 226.5, 1);
  assert_saves("masa-s-gqa", "masa-s-dense", 41.7);
  assert_saves("masa-m-gqa", "masa-m-dense", 43.8);
  assert_saves("masa-gqa", "masa-dense", 41.7);
}

/* MASA, Tables 1 and 2 and section 3.1, saves r = 1 - S (d h + L) / (L d h) of every shared matrix. For a low
   rank that saves two thirds, the paper says d / 3. That rank saves one third, and d / 6 is meant. */
static void sharing_saves_what_the_paper_says(void **state) {
  (void)state;
  const int64_t L = 24, S = 8, D = 1536;
  ch_account masa = figures("masa-qkvo");
  assert_millions("MASA-QKVO's attention", masa.parameters_attention, 75.5, 1);
  assert_int_equal(masa.parameters_attention, 4 * S * (D * D + L));
  assert_int_equal(figures("masa-qkv").parameters_attention, 3 * S * (D * D + L) + L * D * D);
  assert_int_equal(figures("masa-sequential").parameters_attention, 4 * S * D * D);
  assert_int_equal(figures("masa-repeat").parameters_attention, 4 * S * D * D);
  assert_int_equal(figures("masa-low-rank").parameters_attention, 4 * L * 2 * D * (D / 6));
  static const struct {
    const char *name, *dense;
    double percent;
  } rows[] = {{"masa-qkvo", "masa-dense", 66.7},       {"masa-qkv", "masa-dense", 50.0},
              {"masa-sequential", "masa-dense", 66.7}, {"masa-repeat", "masa-dense", 66.7},
              {"masa-low-rank", "masa-dense", 66.7},   {"masa-low-rank-third", "masa-dense", 33.3},
              {"masa-s-qkvo", "masa-s-dense", 66.7},   {"masa-s-common", "masa-s-dense", 66.7},
              {"masa-s-qkv-2", "masa-s-dense", 62.5},  {"masa-s-qkv-4", "masa-s-dense", 50.0},
              {"masa-s-qkv-6", "masa-s-dense", 37.5},  {"masa-s-qkv-8", "masa-s-dense", 25.0},
              {"masa-s-qkvo-2", "masa-s-dense", 83.3}, {"masa-s-qkvo-6", "masa-s-dense", 50.0},
              {"masa-s-qkvo-8", "masa-s-dense", 33.3}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_saves(rows[i].name, rows[i].dense, rows[i].percent);
    ch_account shared = figures(rows[i].name), dense = figures(rows[i].dense);
    assert_int_equal(shared.parameters_total - shared.parameters_attention,
                     dense.parameters_total - dense.parameters_attention);
    assert_int_equal(shared.cache_elements_per_token, dense.cache_elements_per_token);
    /* Sums of atoms are computed once, before the first token. Factors cost their parameters. */
    double saved_flops = strstr(rows[i].name, "low-rank")
                             ? 2 * (double)(dense.parameters_attention - shared.parameters_attention)
                             : 0;
    assert_true(shared.flops.total == dense.flops.total - saved_flops);
  }
  assert_true(fabs(saved("masa-qkvo", "masa-dense") - (1 - (double)(S * (D * D + L)) / (double)(L * D * D))) <
              1e-12);
}

/* The figures are those of MFA, Table 1: parameters of a layer's attention, dimension of the shared latent
   subspace, total effective rank. */
static void capacities_are_those_of_table_1(void **state) {
  (void)state;
  static const int64_t H = 2048, n = 16, d = 128, C = 256, m = 14, c = 512;
  const struct {
    const char *name;
    int64_t parameters, latent, rank; /* `parameters` is 0 if the table's variant differs from ours */
  } rows[] = {
      /* The table has 2 H^3, because its key and value are the input itself. */
      {"mfa-fpba", 2 * H * H * H + 2 * H * H, H, H * H},
      {"mfa-mha", 4 * H * H, H, n * d},
      {"mfa-mqa", 2 * H * H + 2 * H * H / n, d, n * d},
      {"mfa-gqa8", 2 * H * H + 2 * 8 * H * H / n, 8 * d, n * d},
      {"mfa-gqa4", 2 * H * H + 2 * 4 * H * H / n, 4 * d, n * d},
      {"mfa-gqa2", 2 * H * H + 2 * 2 * H * H / n, 2 * d, n * d},
      {"mfa-mla", 0, c, n * d},
      {"mfa-mfa", H * (3 * C + m * C) + m * C * C, C, m * C},
      {"mfa-mfa-kr", 0, C, m * C},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ch_account a = figures(rows[i].name);
    assert_int_equal(a.shared_latent_dim, rows[i].latent);
    assert_int_equal(a.total_effective_rank, rows[i].rank);
    if (rows[i].parameters) assert_int_equal(a.parameters_attention, 20 * rows[i].parameters);
  }
}

/* In MFA, Tables 7 and 9, the FFN is adjusted so that all models have the same size. */
static void models_of_one_table_have_one_size(void **state) {
  (void)state;
  static const char *const names[] = {"mfa-gqa8", "mfa-gqa4", "mfa-gqa2",  "mfa-mqa",
                                      "mfa-mla",  "mfa-mfa",  "mfa-mfa-kr"};
  double mha = (double)figures("mfa-mha").parameters_total;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_true(fabs((double)figures(names[i]).parameters_total / mha - 1) < 0.006);
}

/* In KHA, eqs. 10-12, at L = 2048, d = 1024, n = 32, d_ff = 3 d, knocking is 0.55 % of a layer's arithmetic
   and 1.17 % of its attention's. The ratio is the same for the forward pass and for training. */
static void knocking_takes_the_share_that_the_paper_says(void **state) {
  (void)state;
  static const char *const knocked[] = {"kha-eqs-linear", "kha-eqs-mlp"};
  const double L = 2048, d = 1024, n = 32;
  ch_config plain = read_config("kha-eqs-mha");
  ch_flops base = account_of(&plain, 2048).flops;
  double attention = base.attention_projections + base.attention_context;
  double layer = attention + base.feed_forward;
  assert_true(attention == 8 * d * d + 4 * L * d); /* eq. 10, per token */
  assert_true(layer == 26 * d * d + 4 * L * d);    /* eq. 11 */
  for (int i = 0; i < 2; i++) {
    ch_config config = read_config(knocked[i]);
    ch_flops flops = account_of(&config, 2048).flops;
    double more = flops.total - base.total;
    assert_true(more == 6 * d * d / n); /* eq. 12 */
    assert_true(llround(1e4 * more / layer) == 55);
    assert_true(llround(1e4 * more / attention) == 117);
    ch_account shared = account_of(&config, 2048);
    config.attention.knocking.per_head = true; /* the same arithmetic with n times the parameters */
    ch_account own = account_of(&config, 2048);
    double maps = 3 * (d / n) * (d / n) * (double)config.num_hidden_layers;
    assert_true(own.flops.total == shared.flops.total);
    assert_true((double)(own.parameters_attention - shared.parameters_attention) == (n - 1) * maps);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches_are_those_of_the_tables),
      cmocka_unit_test(the_embedding_gate_saves_what_the_paper_says),
      cmocka_unit_test(models_of_eg_mla_have_the_sizes_that_the_paper_says),
      cmocka_unit_test(groups_of_layers_have_one_lookup_table),
      cmocka_unit_test(parameters_are_those_of_the_tables),
      cmocka_unit_test(caches_of_the_field_are_those_that_it_publishes),
      cmocka_unit_test(the_scales_of_mfa_have_the_sizes_of_table_8),
      cmocka_unit_test(compressed_and_shared_sides_are_those_of_table_3),
      cmocka_unit_test(initial_spreads_are_those_of_table_10),
      cmocka_unit_test(models_of_masa_have_the_sizes_that_the_paper_says),
      cmocka_unit_test(sharing_saves_what_the_paper_says),
      cmocka_unit_test(capacities_are_those_of_table_1),
      cmocka_unit_test(models_of_one_table_have_one_size),
      cmocka_unit_test(models_of_mea_are_llama_with_little_more),
      cmocka_unit_test(models_of_kha_have_the_sizes_that_the_paper_says),
      cmocka_unit_test(attention_in_kha_has_the_sizes_that_table_3_says),
      cmocka_unit_test(knocking_takes_the_share_that_the_paper_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

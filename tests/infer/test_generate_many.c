/* Tests texts in a batch: with many mechanisms, each text equals, bit for bit, the text that is generated alone.
 * Also tests shared prompts, ends, stops and errors. */
#include "small_models.h"

#include "count_allocations.h"
#include "infer/generate.h"
#include "infer/session.h"

#define FOUR_TWO "'num_attention_heads': 4, 'num_key_value_heads': 2, "
static const char *const models[] = {
    FOUR_TWO "'attention': {'type': 'gqa', 'qk_norm': true}",
    "'num_attention_heads': 4, 'num_key_value_heads': 4, 'head_dim': 64, 'attention': {'type': 'gqa'}",
    "'num_attention_heads': 4, 'num_key_value_heads': 1, 'head_dim': 64, 'attention': {'type': 'gqa'}",
    "'num_attention_heads': 24, 'num_key_value_heads': 1, 'head_dim': 16, 'attention': {'type': 'gqa'}",
    FOUR_TWO "'attention': {'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}}",
    FOUR_TWO "'tie_word_embeddings': true, 'attention': {'type': 'gta'}",
    FOUR_TWO "'hidden_act': 'gelu', 'attention': {'type': 'diff'}",
    FOUR_TWO "'attention': {'type': 'gated', 'knocking': {'type': 'mlp', 'on': ['v']}}",
    "'num_attention_heads': 4, 'attention': {'type': 'talking'}",
    "'num_attention_heads': 3, 'head_dim': 32, 'attention': {'type': 'mfa'}",
    "'num_attention_heads': 3, 'head_dim': 32, 'attention': {'type': 'mfa_kr'}",
    "'num_attention_heads': 4, 'attention': {'type': 'mla', 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, "
    "'qk_rope_head_dim': 8, 'v_head_dim': 16}",
    FOUR_TWO "'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 32}, 'attention': "
             "{'type': 'gqa'}"};
static const char gated_latents[] =
    "'num_attention_heads': 4, 'attention': {'type': 'mla', 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, "
    "'qk_rope_head_dim': 8, 'v_head_dim': 16, 'gate_embedding_dim': 8}";
enum { MODELS = sizeof models / sizeof *models, TEXTS = 13, SEQUENCES = 5, MOST = 64 };

typedef struct written {
  int32_t ids[MOST];
  int64_t count;
  int64_t stop_after; /* tokens after which the sink stops the text (0 = never) */
  ch_batch_text asked;
} written;

static bool take(const ch_token_probability *token, const ch_token_probability *top, int32_t top_count,
                 void *user) {
  (void)top, (void)top_count;
  written *w = user;
  w->ids[w->count++] = token->token;
  return w->stop_after == 0 || w->count < w->stop_after;
}

static ch_sampler sampler_of(double temperature, int32_t top_k, double top_p, uint64_t seed) {
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, seed);
  sampler.temperature = temperature;
  sampler.top_k = top_k;
  sampler.top_p = top_p;
  return sampler;
}

static ch_session *session_with(const ch_model *model, int64_t sequences, int64_t context, ch_dtype cache,
                                ch_dtype compute) {
  ch_session_options options;
  ch_session_options_default(&model->config, &options);
  options.sequences = sequences;
  options.context = context;
  options.chunk = context > MOST ? 256 : 16;
  options.cache = ch_cache_of(cache);
  options.compute = compute;
  ch_session *session;
  must(ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &session, &failure));
  return session;
}

static ch_session *session_of(const ch_model *model, int64_t sequences, ch_dtype cache, ch_dtype compute) {
  return session_with(model, sequences, MOST, cache, compute);
}

/* Creates texts of different lengths, seeds and settings. Some have an end token, and one fills the context. */
static void make_texts(int32_t prompts[TEXTS][MOST], written to[TEXTS], ch_generation_text texts[TEXTS]) {
  static const int32_t end = 3;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  memset(to, 0, TEXTS * sizeof *to);
  for (int i = 0; i < TEXTS; i++) {
    int64_t count = i == 4 ? 50 : 1 + (int64_t)ch_random_below(&random, 40);
    for (int64_t t = 0; t < count; t++) prompts[i][t] = (int32_t)ch_random_below(&random, VOCABULARY);
    to[i].asked =
        (ch_batch_text){.max_tokens = i == 4 ? 0 : 1 + 3 * i % 17, .token_sink = take, .user = &to[i]};
    texts[i] = (ch_generation_text){
        .asked = &to[i].asked,
        .sampler = sampler_of(i % 3 == 0 ? 0 : 1.2, i % 4 == 1 ? 6 : 0, 0.97, (uint64_t)i),
        .prompt = prompts[i],
        .count = count,
        .end_tokens = &end,
        .end_token_count = i % 2};
  }
}

static void check_model(const ch_model *model, ch_dtype cache, ch_dtype compute, const char *what) {
  static int32_t prompts[TEXTS][MOST];
  static written alone[TEXTS], together[TEXTS];
  ch_generation_text texts[TEXTS];
  make_texts(prompts, alone, texts);
  for (int i = 0; i < TEXTS; i++) {
    ch_session *session = session_of(model, 1, cache, compute);
    must(ch_generate_tokens(session, NULL, &texts[i], &failure));
    ch_session_free(session);
  }
  make_texts(prompts, together, texts);
  ch_session *session = session_of(model, SEQUENCES, cache, compute);
  must(ch_generate_texts(session, NULL, texts, TEXTS, &failure));
  ch_session_free(session);
  for (int i = 0; i < TEXTS; i++) {
    if (alone[i].count != together[i].count)
      fail_msg("%s: text %d has %d tokens alone and %d beside others", what, i, (int)alone[i].count,
               (int)together[i].count);
    for (int64_t t = 0; t < alone[i].count; t++)
      if (alone[i].ids[t] != together[i].ids[t])
        fail_msg("%s: token %d of text %d is %d alone and %d beside others", what, (int)t, i, alone[i].ids[t],
                 together[i].ids[t]);
  }
}

static void texts_in_step_are_what_they_are_alone_with_every_mechanism(void **state) {
  (void)state;
  for (int i = 0; i < MODELS; i++) {
    char keys[512];
    snprintf(keys, sizeof keys, "'num_hidden_layers': 2, %s", models[i]);
    ch_model *model = sized_model_of(64, 96, keys, CH_F32);
    check_model(model, CH_F32, CH_F32, models[i]);
    ch_model_unload(model);
  }
}

static void texts_in_step_are_what_they_are_alone_in_16_bits(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    char keys[512];
    snprintf(keys, sizeof keys, "'num_hidden_layers': 2, %s", models[i]);
    ch_model *model = sized_model_of(64, 96, keys, CH_BF16);
    check_model(model, CH_BF16, CH_F32, models[i]);
    check_model(model, CH_BF16, CH_BF16, models[i]);
    ch_model_unload(model);
    model = sized_model_of(64, 96, keys, CH_F16);
    check_model(model, CH_F16, CH_F32, models[i]);
    ch_model_unload(model);
  }
}

/* Compares the logits, not only the sampled tokens, of sequences of different lengths in one step. */
static void logits_of_a_step_are_those_of_each_sequence_alone(void **state) {
  (void)state;
  enum { COUNT = 19 };
  ch_model *model = sized_model_of(64, 96,
                                   "'num_hidden_layers': 2, 'num_attention_heads': 4, 'head_dim': 64, "
                                   "'num_key_value_heads': 4, 'attention': {'type': 'gqa'}",
                                   CH_F32);
  ch_session *many = session_of(model, COUNT, CH_F32, CH_F32);
  float expected[COUNT][VOCABULARY];
  int32_t tokens[COUNT];
  const float *logits;
  for (int s = 0; s < COUNT; s++) {
    ch_session *one = session_of(model, 1, CH_F32, CH_F32);
    int32_t text[60];
    int64_t length = 1 + s * 3;
    for (int64_t t = 0; t < length; t++) text[t] = (int32_t)((t * t + s) % VOCABULARY);
    tokens[s] = s % VOCABULARY;
    must(ch_session_feed(one, text, length, &logits, &failure));
    must(ch_session_step(one, 1, &tokens[s], &logits, &failure));
    memcpy(expected[s], logits, sizeof expected[s]);
    must(ch_session_feed_one(many, s, text, length, &logits, &failure));
    ch_session_free(one);
  }
  must(ch_session_step(many, COUNT, tokens, &logits, &failure));
  assert_memory_equal(logits, expected, sizeof expected);
  for (int s = 0; s < COUNT; s++) assert_int_equal(ch_session_cache(many)->length[s], 2 + s * 3);
  ch_session_free(many);
  ch_model_unload(model);
}

static bool are_alike(const float *a, const float *b, bool rounded) {
  if (!rounded) return memcmp(a, b, VOCABULARY * sizeof *a) == 0;
  double most = 0, largest = 0;
  for (int i = 0; i < VOCABULARY; i++) {
    most = fmax(most, fabs((double)a[i] - b[i]));
    largest = fmax(largest, fabs((double)b[i]));
  }
  return most <= 1e-5 * largest;
}

/* The sequences are long enough for threads to share a single one. The division of work on talking heads and on
   tokens of one id depends on the rest of the batch, so their logits are equal only within rounding. */
static void long_sequences_in_step_are_what_they_are_alone(void **state) {
  (void)state;
  enum { COUNT = 4, LONGEST = 620 };
  static const int64_t lengths[COUNT] = {350, 1, 610, 64};
  static const char *const shapes[] = {
      "'num_attention_heads': 2, 'num_key_value_heads': 2, 'head_dim': 64, 'attention': {'type': 'gqa'}",
      "'num_attention_heads': 24, 'num_key_value_heads': 2, 'head_dim': 64, 'attention': {'type': 'gqa'}",
      "'num_attention_heads': 8, 'head_dim': 64, 'attention': {'type': 'mfa_kr'}",
      "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 32, 'attention': {'type': 'gta'}",
      "'num_attention_heads': 4, 'num_key_value_heads': 4, 'head_dim': 32, 'attention': {'type': 'diff'}",
      "'num_attention_heads': 4, 'attention': {'type': 'talking'}",
      "'num_attention_heads': 12, 'attention': {'type': 'mla', 'kv_lora_rank': 64, 'qk_nope_head_dim': 32, "
      "'qk_rope_head_dim': 16, 'v_head_dim': 32}",
      "'num_attention_heads': 4, 'attention': {'type': 'mla', 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, "
      "'qk_rope_head_dim': 8, 'v_head_dim': 16, 'gate_embedding_dim': 8}"};
  static const ch_dtype caches[] = {CH_F32, CH_F16, CH_BF16, CH_Q4_0, CH_Q8_0};
  static int32_t text[LONGEST];
  float expected[COUNT][VOCABULARY];
  int32_t tokens[COUNT];
  const float *logits;
  for (int i = 0; i < LONGEST; i++) text[i] = (int32_t)((i * i + i / 7) % VOCABULARY);
  for (size_t m = 0; m < sizeof shapes / sizeof *shapes; m++) {
    char keys[512];
    snprintf(keys, sizeof keys, "'num_hidden_layers': 1, %s", shapes[m]);
    ch_model *model = sized_model_of(64, 96, keys, CH_F32);
    for (int c = 0; c < 5; c += m < 2 ? 1 : 2) {
      ch_session *many = session_with(model, COUNT, LONGEST, caches[c], CH_F32),
                 *one = session_with(model, 1, LONGEST, caches[c], CH_F32);
      for (int s = 0; s < COUNT; s++) {
        tokens[s] = s % VOCABULARY;
        assert_int_equal(ch_session_truncate(one, 0, NULL), CH_OK);
        must(ch_session_feed(one, text + s, lengths[s], &logits, &failure));
        must(ch_session_step(one, 1, &tokens[s], &logits, &failure));
        memcpy(expected[s], logits, sizeof expected[s]);
        must(ch_session_feed_one(many, s, text + s, lengths[s], &logits, &failure));
      }
      must(ch_session_step(many, COUNT, tokens, &logits, &failure));
      for (int s = 0; s < COUNT; s++)
        if (!are_alike(logits + s * VOCABULARY, expected[s],
                       strstr(shapes[m], "talking") || strstr(shapes[m], "gate")))
          fail_msg("%s, cache %s: sequence %d of %d tokens differs", shapes[m], ch_dtype_name(caches[c]), s,
                   (int)lengths[s]);
      ch_session_free(many);
      ch_session_free(one);
    }
    ch_model_unload(model);
  }
}

/* --- memory ------------------------------------------------------------------------------------------------- */

/* Returns the number of allocations of all texts together. Each text has `most` tokens or a few more. Adds their
   number to *tokens. */
static long allocations_of(ch_session *session, const ch_tokenizer *tokenizer, int64_t most,
                           int64_t *tokens) {
  static int32_t prompts[TEXTS][MOST];
  static written to[TEXTS];
  ch_generation_text texts[TEXTS];
  make_texts(prompts, to, texts);
  for (int i = 0; i < TEXTS; i++) {
    if (texts[i].count > 20) texts[i].count = 20;
    to[i].asked.max_tokens = most + i % 5;
    texts[i].end_token_count = 0;
  }
  const long before = allocations;
  must(ch_generate_texts(session, tokenizer, texts, TEXTS, &failure));
  const long made = allocations - before;
  for (int i = 0; i < TEXTS; i++) *tokens += to[i].count;
  return made;
}

/* Texts of different lengths begin and end. The number of allocations must not depend on their tokens. */
static void a_token_of_texts_in_step_allocates_nothing(void **state) {
  (void)state;
  if (!COUNTS_ALLOCATIONS) {
    print_message("allocations are not counted here\n");
    skip();
  }
  ch_tokenizer *tokenizer;
  must(ch_tokenizer_open(TEST_DATA "/TinyStories-656K", &tokenizer, &failure));
  for (int i = 0; i <= MODELS; i++) {
    char keys[512];
    snprintf(keys, sizeof keys, "'num_hidden_layers': 2, %s", i < MODELS ? models[i] : gated_latents);
    ch_model *model = sized_model_of(64, 96, keys, CH_F32);
    ch_session *session = session_of(model, SEQUENCES, CH_F32, CH_F32);
    int64_t few = 0, many = 0, warm = 0;
    allocations_of(session, tokenizer, 30, &warm);
    const long of_few = allocations_of(session, tokenizer, 9, &few),
               of_many = allocations_of(session, tokenizer, 30, &many);
    assert_int_equal(many - few, 21 * TEXTS);
    if (of_many != of_few)
      fail_msg("%s: %ld allocations for %d tokens, %ld for %d", keys, of_many, (int)many, of_few, (int)few);
    ch_session_free(session);
    ch_model_unload(model);
  }
  ch_tokenizer_free(tokenizer);
}

/* --- prompts in common, stops, errors ----------------------------------------------------------------------- */

typedef struct desk {
  ch_model *model;
  ch_session *session;
  written written[TEXTS];
  ch_generation_text texts[TEXTS];
  int32_t prompt[20];
} desk;

static void open_desk(desk *d, int64_t sequences) {
  memset(d, 0, sizeof *d);
  d->model =
      model_of("'num_hidden_layers': 2, 'num_attention_heads': 3, 'num_key_value_heads': 3, 'attention': "
               "{'type': 'gqa'}",
               CH_F32);
  d->session = session_of(d->model, sequences, CH_F32, CH_F32);
  for (int t = 0; t < 20; t++) d->prompt[t] = t % VOCABULARY;
  for (int i = 0; i < TEXTS; i++) {
    d->written[i].asked =
        (ch_batch_text){.max_tokens = 5 + i % 4, .token_sink = take, .user = &d->written[i]};
    d->texts[i] = (ch_generation_text){.asked = &d->written[i].asked,
                                       .sampler = sampler_of(1, 0, 1, (uint64_t)i),
                                       .prompt = d->prompt,
                                       .count = 20};
  }
}

static void close_desk(desk *d) {
  ch_session_free(d->session);
  ch_model_unload(d->model);
}

static void a_prompt_of_several_texts_is_computed_once(void **state) {
  (void)state;
  desk d, other;
  open_desk(&d, 4);
  must(ch_generate_texts(d.session, NULL, d.texts, TEXTS, &failure));
  int64_t fed = 0;
  for (int i = 0; i < TEXTS; i++) fed += d.texts[i].asked->generated.prompt_tokens;
  assert_int_equal(fed, 20);
  for (int i = 0; i < TEXTS; i++) { /* sharing the prompt does not change the texts */
    open_desk(&other, 1);
    must(ch_generate_tokens(other.session, NULL, &other.texts[i], &failure));
    assert_int_equal(d.written[i].count, 5 + i % 4);
    assert_int_equal(other.written[i].count, 5 + i % 4);
    assert_memory_equal(d.written[i].ids, other.written[i].ids, (size_t)(5 + i % 4) * sizeof(int32_t));
    close_desk(&other);
  }
  close_desk(&d);
}

static void a_text_that_is_stopped_leaves_the_others_alone(void **state) {
  (void)state;
  desk d;
  open_desk(&d, 3);
  d.written[1].stop_after = 2;
  must(ch_generate_texts(d.session, NULL, d.texts, TEXTS, &failure));
  for (int i = 0; i < TEXTS; i++) {
    assert_int_equal(d.written[i].count, i == 1 ? 2 : 5 + i % 4);
    assert_int_equal(d.texts[i].asked->generated.tokens, d.written[i].count);
    assert_int_equal(d.texts[i].asked->generated.end, i == 1 ? CH_END_STOPPED : CH_END_LIMIT);
  }
  close_desk(&d);
}

static void set_first(ch_model *model, const char *name, int64_t at, float value) {
  int row = ch_params_find(&model->params, name);
  assert_true(row >= 0);
  ((float *)model->weights.tensors[row].data)[at] = value;
}

/* Neither the other texts nor the next text in the slot of the broken one are affected. */
static void a_text_whose_numbers_break_ends_alone(void **state) {
  (void)state;
  static const ch_dtype caches[] = {CH_F32, CH_BF16, CH_Q8_0};
  for (int c = 0; c < 3; c++) {
    desk d, whole;
    ch_error error;
    open_desk(&whole, 3);
    open_desk(&d, 3);
    desk *both[] = {&whole, &d};
    for (int i = 0; i < 2; i++) {
      ch_session_free(both[i]->session);
      both[i]->session = session_of(both[i]->model, 3, caches[c], CH_F32);
      for (int t = 0; t < 20; t++) both[i]->prompt[t] %= VOCABULARY - 1;
      for (int t = 0; t < TEXTS; t++) both[i]->texts[t].sampler.temperature = 0;
    }
    static const int32_t broken[] = {1, VOCABULARY - 1, 2};
    set_first(d.model, "model.embed_tokens.weight", 24 * (VOCABULARY - 1), NAN);
    d.texts[1].prompt = whole.texts[1].prompt = broken;
    d.texts[1].count = whole.texts[1].count = 3;
    must(ch_generate_texts(whole.session, NULL, whole.texts, TEXTS, &failure));
    assert_int_equal(ch_generate_texts(d.session, NULL, d.texts, TEXTS, &error), CH_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "texts[1]: "));
    for (int i = 0; i < TEXTS; i++) {
      assert_int_equal(d.texts[i].asked->status, i == 1 ? CH_ERROR_NUMERIC : CH_OK);
      assert_int_equal(d.texts[i].asked->generated.end, i == 1 ? CH_END_ERROR : CH_END_LIMIT);
      assert_int_equal(d.written[i].count, i == 1 ? 0 : whole.written[i].count);
      for (int64_t t = 0; t < d.written[i].count; t++) {
        assert_int_not_equal(whole.written[i].ids[t], VOCABULARY - 1);
        assert_int_equal(d.written[i].ids[t], whole.written[i].ids[t]);
      }
    }
    close_desk(&d);
    close_desk(&whole);
  }
}

static void a_prompt_without_room_is_refused_before_anything_is_written(void **state) {
  (void)state;
  desk d;
  ch_error error;
  static int32_t zeros[MOST + 1];
  open_desk(&d, 3);
  d.texts[7].prompt = zeros;
  d.texts[7].count = MOST + 1;
  assert_int_equal(ch_generate_texts(d.session, NULL, d.texts, TEXTS, &error), CH_ERROR_FULL);
  assert_string_equal(error.message,
                      "texts[7]: the prompt has 65 tokens, but the context only has room for 64");
  for (int i = 0; i < TEXTS; i++) assert_int_equal(d.written[i].count, 0);
  d.texts[7].count = 0;
  assert_int_equal(ch_generate_texts(d.session, NULL, d.texts, TEXTS, &error), CH_ERROR_ARGUMENT);
  must(ch_generate_texts(d.session, NULL, d.texts, 0, &failure));
  close_desk(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_in_step_are_what_they_are_alone_with_every_mechanism),
      cmocka_unit_test(texts_in_step_are_what_they_are_alone_in_16_bits),
      cmocka_unit_test(logits_of_a_step_are_those_of_each_sequence_alone),
      cmocka_unit_test(long_sequences_in_step_are_what_they_are_alone),
      cmocka_unit_test(a_token_of_texts_in_step_allocates_nothing),
      cmocka_unit_test(a_prompt_of_several_texts_is_computed_once),
      cmocka_unit_test(a_text_that_is_stopped_leaves_the_others_alone),
      cmocka_unit_test(a_text_whose_numbers_break_ends_alone),
      cmocka_unit_test(a_prompt_without_room_is_refused_before_anything_is_written),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

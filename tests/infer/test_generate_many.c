/* Many texts in step: each is what it is alone, bit for bit, whatever the mechanism; shared prompts, ends, stops, errors. */
#include "small_models.h"

#include "infer/generate.h"
#include "infer/timeline.h"

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
enum { MODELS = sizeof models / sizeof *models, TEXTS = 13, SEQUENCES = 5, MOST = 64 };

typedef struct written {
  int32_t ids[MOST];
  int64_t count;
  int64_t stop_after; /* tokens; 0 = never */
} written;

static bool take(void *context, int32_t id, const char *text, size_t size) {
  (void)text, (void)size;
  written *w = context;
  if (id >= 0) w->ids[w->count++] = id;
  return w->stop_after == 0 || w->count < w->stop_after;
}

static ch_timeline *timeline_of(const ch_model *model, int64_t sequences, ch_dtype cache, ch_dtype compute) {
  ch_timeline_options options;
  ch_timeline_options_default(&model->config, &options);
  options.sequences = sequences;
  options.chunk = 16;
  options.cache = ch_cache_of(cache);
  options.compute = compute;
  ch_timeline *timeline;
  must(ch_timeline_create(&model->config, &model->params, model->weights.tensors, &options, &timeline,
                          &failure));
  return timeline;
}

/* Texts of different lengths, seeds and settings; some end by a token, one fills the context. */
static void make_texts(int32_t prompts[TEXTS][MOST], written to[TEXTS], ch_generation_text texts[TEXTS]) {
  static const int32_t end = 3;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  memset(to, 0, TEXTS * sizeof *to);
  for (int i = 0; i < TEXTS; i++) {
    int64_t count = i == 4 ? 50 : 1 + (int64_t)ch_random_below(&random, 40);
    for (int64_t t = 0; t < count; t++) prompts[i][t] = (int32_t)ch_random_below(&random, VOCABULARY);
    texts[i] = (ch_generation_text){.prompt = prompts[i], .count = count};
    texts[i].options = (ch_generation_options){.sampling = {i % 3 == 0 ? 0 : 1.2, i % 4 == 1 ? 6 : 0, 0.97},
                                               .max_tokens = i == 4 ? 0 : 1 + 3 * i % 17,
                                               .end_tokens = &end,
                                               .end_token_count = i % 2,
                                               .sink = take,
                                               .context = &to[i]};
    ch_random_seed(&texts[i].options.random, (uint64_t)i, 0);
  }
}

static void check_model(const ch_model *model, ch_dtype cache, ch_dtype compute, const char *what) {
  static int32_t prompts[TEXTS][MOST];
  static written alone[TEXTS], together[TEXTS];
  ch_generation_text texts[TEXTS];
  make_texts(prompts, alone, texts);
  for (int i = 0; i < TEXTS; i++) {
    ch_timeline *timeline = timeline_of(model, 1, cache, compute);
    ch_generation_result result;
    must(ch_generate_tokens(timeline, NULL, texts[i].prompt, texts[i].count, &texts[i].options, &result,
                            &failure));
    ch_timeline_free(timeline);
  }
  make_texts(prompts, together, texts);
  ch_timeline *timeline = timeline_of(model, SEQUENCES, cache, compute);
  must(ch_generate_texts(timeline, NULL, texts, TEXTS, &failure));
  ch_timeline_free(timeline);
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

/* Logits, not only what was drawn from them: sequences of different lengths in one step. */
static void logits_of_a_step_are_those_of_each_sequence_alone(void **state) {
  (void)state;
  enum { COUNT = 19 };
  ch_model *model = sized_model_of(64, 96,
                                   "'num_hidden_layers': 2, 'num_attention_heads': 4, 'head_dim': 64, "
                                   "'num_key_value_heads': 4, 'attention': {'type': 'gqa'}",
                                   CH_F32);
  ch_timeline *many = timeline_of(model, COUNT, CH_F32, CH_F32);
  float expected[COUNT][VOCABULARY];
  int32_t tokens[COUNT];
  const float *logits;
  for (int s = 0; s < COUNT; s++) {
    ch_timeline *one = timeline_of(model, 1, CH_F32, CH_F32);
    int32_t text[60];
    int64_t length = 1 + s * 3;
    for (int64_t t = 0; t < length; t++) text[t] = (int32_t)((t * t + s) % VOCABULARY);
    tokens[s] = s % VOCABULARY;
    must(ch_timeline_feed(one, text, length, &logits, &failure));
    must(ch_timeline_step(one, 1, &tokens[s], &logits, &failure));
    memcpy(expected[s], logits, sizeof expected[s]);
    must(ch_timeline_feed_one(many, s, text, length, &logits, &failure));
    ch_timeline_free(one);
  }
  must(ch_timeline_step(many, COUNT, tokens, &logits, &failure));
  assert_memory_equal(logits, expected, sizeof expected);
  for (int s = 0; s < COUNT; s++) assert_int_equal(ch_timeline_cache(many)->length[s], 2 + s * 3);
  ch_timeline_free(many);
  ch_model_unload(model);
}

/* --- prompts in common, stops, errors -------------------------------------------------------------------------- */

typedef struct desk {
  ch_model *model;
  ch_timeline *timeline;
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
  d->timeline = timeline_of(d->model, sequences, CH_F32, CH_F32);
  for (int t = 0; t < 20; t++) d->prompt[t] = t % VOCABULARY;
  for (int i = 0; i < TEXTS; i++) {
    d->texts[i] = (ch_generation_text){.prompt = d->prompt, .count = 20};
    d->texts[i].options = (ch_generation_options){
        .sampling = {1, 0, 1}, .max_tokens = 5 + i % 4, .sink = take, .context = &d->written[i]};
    ch_random_seed(&d->texts[i].options.random, (uint64_t)i, 0);
  }
}

static void close_desk(desk *d) {
  ch_timeline_free(d->timeline);
  ch_model_unload(d->model);
}

static void a_prompt_of_several_texts_is_computed_once(void **state) {
  (void)state;
  desk d, other;
  open_desk(&d, 4);
  must(ch_generate_texts(d.timeline, NULL, d.texts, TEXTS, &failure));
  int64_t fed = 0;
  for (int i = 0; i < TEXTS; i++) fed += d.texts[i].result.prompt_tokens;
  assert_int_equal(fed, 20);
  for (int i = 0; i < TEXTS; i++) { /* and what follows it is the same as without */
    open_desk(&other, 1);
    must(ch_generate_tokens(other.timeline, NULL, other.prompt, 20, &other.texts[i].options,
                            &other.texts[i].result, &failure));
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
  must(ch_generate_texts(d.timeline, NULL, d.texts, TEXTS, &failure));
  for (int i = 0; i < TEXTS; i++) {
    assert_int_equal(d.written[i].count, i == 1 ? 2 : 5 + i % 4);
    assert_int_equal(d.texts[i].result.tokens, d.written[i].count);
    assert_int_equal(d.texts[i].result.end, i == 1 ? CH_GENERATION_STOPPED : CH_GENERATION_LENGTH);
  }
  close_desk(&d);
}

static void a_prompt_without_room_is_refused_before_anything_is_written(void **state) {
  (void)state;
  desk d;
  ch_error error;
  static int32_t zeros[MOST + 1];
  open_desk(&d, 3);
  d.texts[7].prompt = zeros;
  d.texts[7].count = MOST + 1;
  assert_int_equal(ch_generate_texts(d.timeline, NULL, d.texts, TEXTS, &error), CH_ERROR_FULL);
  for (int i = 0; i < TEXTS; i++) assert_int_equal(d.written[i].count, 0);
  d.texts[7].count = 0;
  assert_int_equal(ch_generate_texts(d.timeline, NULL, d.texts, TEXTS, &error), CH_ERROR_ARGUMENT);
  must(ch_generate_texts(d.timeline, NULL, d.texts, 0, &failure));
  close_desk(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_in_step_are_what_they_are_alone_with_every_mechanism),
      cmocka_unit_test(texts_in_step_are_what_they_are_alone_in_16_bits),
      cmocka_unit_test(logits_of_a_step_are_those_of_each_sequence_alone),
      cmocka_unit_test(a_prompt_of_several_texts_is_computed_once),
      cmocka_unit_test(a_text_that_is_stopped_leaves_the_others_alone),
      cmocka_unit_test(a_prompt_without_room_is_refused_before_anything_is_written),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

/* Tests the planner through the public interface: its sizes against bytes counted by hand. */
#include "api_testing.h"

enum { VOCABULARY = 256, LAYERS = 2, USERS = 3, CONTEXT = 100 };

/* Two layers of width 64 with an FFN of 128. */
#define SHAPE                                                                                                \
  "{\"model_type\": \"crosshead\", \"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 128, "   \
  "\"num_hidden_layers\": 2, \"max_position_embeddings\": 512, \"tie_word_embeddings\": false, "
#define GQA SHAPE "\"num_attention_heads\": 8, \"num_key_value_heads\": 2}"
#define MLA                                                                                                  \
  SHAPE                                                                                                      \
  "\"num_attention_heads\": 4, \"attention\": {\"type\": \"mla\", \"q_lora_rank\": 0, \"kv_lora_rank\": "    \
  "16, "                                                                                                     \
  "\"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16"
#define MFA SHAPE "\"num_attention_heads\": 4, \"head_dim\": 32, \"attention\": {\"type\": \"mfa\"}}"

/* A device that reaches its 1 GB/s and 1 TFLOP/s. */
static const ch_device plain = {.name = "plain",
                                .title = "plain",
                                .source = "made up",
                                .read_bandwidth = 1e9,
                                .flops = 1e12,
                                .memory = 1000000000,
                                .reading = 1,
                                .computing = 1,
                                .computing_step = 1};

static ch_capacity_settings settings_of(const char *const *models, size_t count) {
  ch_capacity_settings settings;
  ch_capacity_defaults(&settings);
  settings.models = models;
  settings.model_count = count;
  settings.context = CONTEXT;
  settings.users = USERS;
  settings.devices = &plain;
  settings.device_count = 1;
  return settings;
}

static ch_capacity *plan(const ch_capacity_settings *settings) {
  ch_capacity *capacity = NULL;
  must(ch_capacity_plan(settings, &capacity, &error));
  return capacity;
}

/* Returns the only candidate of a configuration with these types. */
static ch_capacity_candidate sizes_of(const char *config, ch_precision weights, ch_precision cache) {
  const char *path = at("config.json");
  write_file(path, config);
  ch_capacity_settings settings = settings_of(&path, 1);
  settings.weights = weights;
  settings.cache = cache;
  ch_capacity *capacity = plan(&settings);
  ch_capacity_candidate candidate = *ch_capacity_candidate_at(capacity, 0);
  candidate.name = candidate.mechanism = candidate.weights = candidate.excluded = "";
  ch_capacity_free(capacity);
  return candidate;
}

static void bytes_of_gqa_are_those_counted_by_hand(void **state) {
  (void)state;
  /* q and o 64 x 64, k and v 16 x 64, three of 128 x 64; embedding and head 256 x 64; five norms of 64 */
  enum { LAYER = 2 * 64 * 64 + 2 * 16 * 64 + 3 * 128 * 64, TABLE = 256 * 64, NORMS = 5 * 64 };
  enum { MATRICES = 2 * TABLE + LAYERS * LAYER };
  ch_capacity_candidate of = sizes_of(GQA, CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  assert_int_equal(of.parameters, MATRICES + NORMS);
  assert_int_equal(of.weight_bytes, 2 * MATRICES + 4 * NORMS); /* BF16; vectors are F32 */
  assert_int_equal(of.step_weight_bytes, 2 * (MATRICES - TABLE));
  assert_int_equal(of.cache_elements_per_token, LAYERS * 2 * 2 * 8);
  assert_int_equal(of.cache_bytes_per_token, 128);
  assert_int_equal(of.cache_bytes_per_user, 128 * CONTEXT);
  assert_int_equal(of.cache_bytes, 128 * CONTEXT * USERS);
  assert_int_equal(of.gate_bytes, 0);
  assert_int_equal(of.needed_bytes, of.weight_bytes + of.cache_bytes + of.work_bytes);
  assert_true(of.work_bytes > USERS * VOCABULARY * 4); /* the logits at least */

  of = sizes_of(GQA, CH_PRECISION_F32, CH_PRECISION_F32);
  assert_int_equal(of.weight_bytes, 4 * (MATRICES + NORMS));
  assert_int_equal(of.cache_bytes_per_token, 256);
  of = sizes_of(GQA, CH_PRECISION_Q8_0, CH_PRECISION_Q8_0);
  assert_int_equal(of.weight_bytes, MATRICES / 32 * 34 + 4 * NORMS); /* blocks: 32 bytes and a scale */
  assert_int_equal(of.cache_bytes_per_token, LAYERS * 2 * 34);       /* 16 values fill half a block */
  of = sizes_of(GQA, CH_PRECISION_Q4_0, CH_PRECISION_Q4_0);
  assert_int_equal(of.weight_bytes, MATRICES / 32 * 18 + 4 * NORMS);
  assert_int_equal(of.cache_bytes_per_token, LAYERS * 2 * 18);
}

static void latents_gates_and_shared_heads_are_counted(void **state) {
  (void)state;
  enum { EXPANDED = 4 * (16 + 16), GATE = 8 };
  ch_capacity_candidate mla = sizes_of(MLA "}}", CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  assert_int_equal(mla.cache_elements_per_token, LAYERS * (16 + 8));
  assert_int_equal(mla.cache_bytes, 2 * LAYERS * (16 + 8) * CONTEXT * USERS);

  ch_capacity_candidate gated =
      sizes_of(MLA ", \"gate_embedding_dim\": 8}}", CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  assert_int_equal(gated.cache_bytes_per_token, mla.cache_bytes_per_token);
  /* In addition to its latents, a token has two moments per layer and its id. */
  assert_int_equal(gated.cache_bytes, mla.cache_bytes + (2 * LAYERS * 4 + 4) * CONTEXT * USERS);
  /* 300 tokens have at most 256 ids. */
  assert_int_equal(gated.gate_bytes, VOCABULARY * LAYERS * EXPANDED * 4);
  /* A step reads the gate's projections but not its tables. Projections and tables are in memory. */
  assert_int_equal(gated.step_weight_bytes - mla.step_weight_bytes, 2 * LAYERS * EXPANDED * GATE);
  assert_int_equal(gated.weight_bytes - mla.weight_bytes,
                   LAYERS * (2 * EXPANDED * GATE + 2 * VOCABULARY * GATE + 4 * 2 * EXPANDED));

  ch_capacity_candidate mfa = sizes_of(MFA, CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  assert_int_equal(mfa.cache_elements_per_token, LAYERS * 2 * 32); /* one key and one value for all heads */
  assert_int_equal(mfa.cache_bytes, 2 * LAYERS * 2 * 32 * CONTEXT * USERS);
}

/* Decoding expands the matrices of shared atoms. */
static void shared_matrices_are_counted_as_they_are_served(void **state) {
  (void)state;
  ch_capacity_candidate own = sizes_of(GQA, CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  ch_capacity_candidate shared =
      sizes_of(SHAPE "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"sharing\": "
                     "{\"type\": \"masa\", \"projections\": [\"q_proj\"], \"atoms\": 1}}",
               CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
  assert_true(shared.parameters < own.parameters);
  assert_int_equal(shared.weight_bytes, own.weight_bytes);
}

static void a_model_directory_has_the_types_of_its_files(void **state) {
  (void)state;
  const char *path = MODEL;
  ch_capacity_settings settings = settings_of(&path, 1);
  ch_capacity *capacity = plan(&settings);
  assert_string_equal(ch_capacity_candidate_at(capacity, 0)->weights, "f32");
  assert_int_equal(ch_capacity_candidate_at(capacity, 0)->weight_bytes, 4 * 656000);
  ch_capacity_free(capacity);
  settings.weights = CH_PRECISION_BF16;
  capacity = plan(&settings);
  assert_string_equal(ch_capacity_candidate_at(capacity, 0)->weights, "bf16");
  ch_capacity_free(capacity);
}

/* The FLOPs of a token of GQA without its context: projections, FFN, head. */
static const double gqa_products =
    2.0 * (LAYERS * (2 * 64 * 64 + 2 * 16 * 64 + 3 * 128 * 64) + VOCABULARY * 64);

static void times_follow_from_bytes_and_flops(void **state) {
  (void)state;
  const char *path = at("config.json");
  write_file(path, GQA);
  ch_device slow = plain, cached = plain;
  slow.reading = 0.5;
  slow.computing_step = 0.25;
  slow.computing = 0.125;
  slow.layer_seconds = 1e-3;
  cached.rate_count = 2;
  cached.rates[0] = (ch_read_rate){1e3, 3e9};
  cached.rates[1] = (ch_read_rate){1e9, 1e9};
  const ch_device devices[] = {plain, slow, cached};
  ch_capacity_settings settings = settings_of(&path, 1);
  settings.devices = devices;
  settings.device_count = 3;
  ch_capacity *capacity = plan(&settings);
  ch_capacity_candidate of = *ch_capacity_candidate_at(capacity, 0);

  /* Scores and weighted sums cover 100 tokens, with 8 heads of 8 dimensions. */
  double scores = LAYERS * 2.0 * CONTEXT * 8 * (8 + 8);
  double weights = (double)of.step_weight_bytes, cache = (double)of.cache_bytes;
  assert_true(fabs(of.decode_flops - gqa_products - scores) < 1e-6 * of.decode_flops);
  double step = hypot(weights / 1e9, USERS * gqa_products / 1e12) + hypot(cache / 1e9, USERS * scores / 1e12);
  const ch_capacity_estimate *e = ch_capacity_estimate_at(capacity, 0, 0);
  assert_true(fabs(e->step_seconds - step) < 1e-6 * step);
  assert_true(fabs(e->tokens_per_second - USERS / step) < 1e-6 * USERS / step);
  assert_true(fabs(e->user_tokens_per_second - 1 / step) < 1e-6 / step);
  assert_string_equal(e->bound, "weights");

  e = ch_capacity_estimate_at(capacity, 0, 1);
  step = hypot(weights / 0.5e9, USERS * gqa_products / 0.25e12) +
         hypot(cache / 0.5e9, USERS * scores / 0.25e12) + LAYERS * 1e-3;
  assert_true(fabs(e->step_seconds - step) < 1e-6 * step);
  assert_string_equal(e->bound, "layers");

  e = ch_capacity_estimate_at(capacity, 0, 2);
  double rate = 3e9 - 2e9 * log((weights + cache) / 1e3) / log(1e6);
  step = hypot(weights / rate, USERS * gqa_products / 1e12) + hypot(cache / rate, USERS * scores / 1e12);
  assert_true(fabs(e->step_seconds - step) < 1e-6 * step);

  /* The prompt is one pass. Its tokens see 50 others on average, and only the last one needs the LM head. */
  double prompt = CONTEXT * (gqa_products - 2.0 * VOCABULARY * 64 + LAYERS * 2.0 * 50 * 8 * (8 + 8)) +
                  2.0 * VOCABULARY * 64;
  e = ch_capacity_estimate_at(capacity, 0, 0);
  assert_true(fabs(of.prefill_flops - prompt) < 1e-6 * prompt);
  assert_true(fabs(e->prompt_seconds - hypot(weights / 1e9, prompt / 1e12)) < 1e-6 * e->prompt_seconds);
  e = ch_capacity_estimate_at(capacity, 0, 1);
  assert_true(fabs(e->prompt_seconds - hypot(weights / 0.5e9, prompt / 0.125e12) - LAYERS * 1e-3) <
              1e-6 * e->prompt_seconds);
  assert_null(ch_capacity_estimate_at(capacity, 0, 3));
  assert_null(ch_capacity_candidate_at(capacity, 1));
  ch_capacity_free(capacity);
}

static ch_capacity_estimate expected_with(const char *path, int64_t memory, char *reason, size_t size) {
  ch_capacity_settings settings = settings_of(&path, 1);
  settings.memory = memory;
  ch_capacity *capacity = plan(&settings);
  ch_capacity_estimate e = *ch_capacity_estimate_at(capacity, 0, 0);
  snprintf(reason, size, "%s", e.excluded);
  e.excluded = e.bound = "";
  ch_capacity_free(capacity);
  return e;
}

static void as_much_fits_as_the_memory_holds(void **state) {
  (void)state;
  static const char *const configs[] = {GQA, MLA ", \"gate_embedding_dim\": 8}}"};
  char reason[512];
  for (int i = 0; i < 2; i++) {
    ch_capacity_candidate of = sizes_of(configs[i], CH_PRECISION_DEFAULT, CH_PRECISION_DEFAULT);
    const char *path = at("config.json");
    write_file(path, configs[i]);
    ch_capacity_estimate e = expected_with(path, of.needed_bytes, reason, sizeof reason);
    assert_string_equal(reason, "");
    assert_int_equal(e.users, USERS);
    assert_int_equal(e.context, CONTEXT);
    e = expected_with(path, of.needed_bytes - 1, reason, sizeof reason);
    assert_non_null(strstr(reason, "2 of 3 users fit, or 99 tokens of context"));
    assert_int_equal(e.users, USERS - 1);
    assert_int_equal(e.context, CONTEXT - 1);
    expected_with(path, of.weight_bytes - 1, reason, sizeof reason);
    assert_non_null(strstr(reason, "weights alone"));
    expected_with(path, of.weight_bytes + of.work_bytes, reason, sizeof reason);
    assert_non_null(strstr(reason, "even empty contexts do not fit"));
  }
}

static void what_excludes_a_candidate_is_told(void **state) {
  (void)state;
  const char *const paths[] = {at("config.json"), at("image.json")};
  write_file(paths[0], GQA);
  write_file(paths[1],
             "{\"model_type\": \"crosshead_vit\", \"hidden_size\": 64, \"intermediate_size\": 128, "
             "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"image_size\": 32, \"patch_size\": 4, "
             "\"num_channels\": 3, \"num_classes\": 10}");
  ch_capacity_settings settings = settings_of(paths, 2);
  settings.context = 513;
  settings.mechanisms = "gqa:3,mqa";
  ch_capacity *capacity = plan(&settings);
  assert_int_equal(ch_capacity_count(capacity), 4);
  assert_non_null(strstr(ch_capacity_estimate_at(capacity, 0, 0)->excluded, "positions end at 512 tokens"));
  assert_non_null(strstr(ch_capacity_estimate_at(capacity, 1, 0)->excluded, "model of images"));
  assert_non_null(strstr(ch_capacity_estimate_at(capacity, 2, 0)->excluded, "use 1, 2, 4 or 8"));
  /* The positions of a model that is still to be trained have no limit. */
  assert_string_equal(ch_capacity_estimate_at(capacity, 3, 0)->excluded, "");
  ch_capacity_free(capacity);

  settings = settings_of(paths, 1);
  settings.least_speed = 1e9;
  capacity = plan(&settings);
  assert_non_null(strstr(ch_capacity_estimate_at(capacity, 0, 0)->excluded, "below the required 1e+09"));
  ch_capacity_free(capacity);
}

static void named_mechanisms_have_the_parameters_of_the_shape(void **state) {
  (void)state;
  const char *path = at("config.json");
  write_file(path, GQA);
  ch_capacity_settings settings = settings_of(NULL, 0);
  settings.mechanisms = "mha,gqa:2,mqa,mfa";
  settings.like = path;
  ch_capacity *capacity = plan(&settings);
  for (int i = 0; i < 4; i++) {
    const ch_capacity_candidate *of = ch_capacity_candidate_at(capacity, i);
    assert_string_equal(of->excluded, "");
    assert_int_equal(of->layers, LAYERS);
    double share = (double)of->parameters / (2 * 256 * 64 + 5 * 64 + LAYERS * (10240 + 24576));
    assert_true(share > 0.99 && share < 1.01);
  }
  assert_int_equal(ch_capacity_candidate_at(capacity, 1)->intermediate_size, 128); /* the shape's own */
  assert_int_equal(ch_capacity_candidate_at(capacity, 0)->cache_elements_per_token, LAYERS * 2 * 64);
  ch_capacity_free(capacity);

  /* The rows of wide FFNs are whole blocks, as in the shape. */
  const char *wide = at("wide.json");
  write_file(wide, "{\"model_type\": \"crosshead\", \"vocab_size\": 256, \"hidden_size\": 64, "
                   "\"intermediate_size\": 2560, \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
                   "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512}");
  settings.like = wide;
  settings.weights = CH_PRECISION_Q8_0;
  capacity = plan(&settings);
  for (int i = 0; i < 4; i++)
    assert_int_equal(ch_capacity_candidate_at(capacity, i)->intermediate_size % 128, 0);
  ch_capacity_free(capacity);

  settings.like = NULL;
  settings.parameters = 10000000;
  capacity = plan(&settings);
  double share = (double)ch_capacity_candidate_at(capacity, 3)->parameters / 1e7;
  assert_true(share > 0.99 && share < 1.01);
  ch_capacity_free(capacity);
}

static void on_a_device_the_fastest_that_fits_is_first(void **state) {
  (void)state;
  const char *path = at("config.json");
  write_file(path, GQA);
  ch_capacity_settings settings = settings_of(&path, 1);
  settings.mechanisms = "gqa:3,mha,mqa";
  ch_capacity *capacity = plan(&settings);
  char *text = NULL;
  must(ch_capacity_json(capacity, &text, &error));
  json_t *object = read_json(text);
  const json_t *device = json_array_get(json_object_get(object, "devices"), 0);
  const json_t *list = json_object_get(device, "candidates");
  assert_string_equal(text_of(json_array_get(list, 0), "name"), "mqa");
  assert_string_equal(text_of(json_array_get(list, 2), "name"), "mha");
  assert_string_equal(text_of(json_array_get(list, 3), "name"), "gqa:3");
  assert_true(number_of(json_array_get(list, 0), "tokens_per_second") >
              number_of(json_array_get(list, 1), "tokens_per_second"));
  assert_true(number_of(device, "memory_to_use_bytes") == 1e9);
  assert_true(number_of(json_array_get(json_object_get(object, "candidates"), 0), "cache_bytes") == 38400);
  json_decref(object);
  must(ch_capacity_text(capacity, &text, &error));
  assert_memory_equal(text, "100 tokens of context for each of 3 users; weights bf16, cache bf16\n", 67);
  assert_non_null(strstr(text, "\nexcluded\n  gqa:3: 3 key-value heads do not divide"));
  ch_free(text);
  ch_capacity_free(capacity);
}

static void devices_have_figures_and_their_source(void **state) {
  (void)state;
  ch_device device, again;
  int32_t count = 0;
  for (; ch_device_at(count, &device); count++) {
    assert_true(strlen(device.name) > 0 && strlen(device.title) > 0 && strlen(device.source) > 20);
    assert_true(device.read_bandwidth > 1e11 && device.flops > 1e12 && device.memory > 1000000000);
    must(ch_device_read(device.name, &again, &error));
    assert_memory_equal(&device, &again, sizeof device);
  }
  assert_true(count >= 5);
  assert_false(ch_device_at(-1, &device));
  must(ch_device_read("name=mine,gb/s=900,flop/s=120T,memory=48GiB,reading=90", &device, &error));
  assert_string_equal(device.name, "mine");
  assert_true(device.read_bandwidth == 900e9 && device.flops == 120e12 && device.reading == 0.9);
  assert_int_equal(device.memory, INT64_C(48) << 30);
  static const struct {
    const char *text, *sentence;
  } wrong[] = {{"h100", "did you mean h100-sxm?"},
               {"abacus", "use here, h100-sxm"},
               {"", "unknown device ''; use here"},
               {"name=x,gb/s=1,flop/s=1", "has no memory"},
               {"name=x,gb/s=0,flop/s=1,memory=1GB", "gb/s is '0'"},
               {"name=x,gb/s=1,flop/s=many,memory=1GB", "flop/s is 'many'"},
               {"name=x,gb/s=1,flop/s=1,memory=1 ton", "48GB (10^9 bytes)"},
               {"name=x,gb/s=1,flop/s=1,memory=1GB,reading=101", "reading is '101'"},
               {"name=x,memroy=1GB", "did you mean memory?"},
               {"name=,gb/s=1", "1 to 31 characters"},
               {"name=x,l4", "'l4' has no '='"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(ch_device_read(wrong[i].text, &device, &error), CH_ERROR_ARGUMENT);
    if (!strstr(error.message, wrong[i].sentence)) fail_msg("%s: %s", wrong[i].text, error.message);
  }
}

static void this_machine_has_limits(void **state) {
  (void)state;
  ch_device device;
  must(ch_device_measure(CH_PRECISION_DEFAULT, &device, &error));
  assert_string_equal(device.name, "here");
  assert_true(device.read_bandwidth > 0 && device.flops > 0 && device.memory > 0 &&
              device.layer_seconds >= 0);
  assert_true(device.computing > 0 && device.computing <= 1);
  must(ch_device_measure(CH_PRECISION_BF16, &device, &error));
  assert_true(device.computing > 0 && device.computing <= 1);
  assert_int_equal(device.rate_count, CH_DEVICE_RATES);
  for (int i = 0; i < device.rate_count; i++) assert_true(device.rates[i].rate > 0);
  assert_int_equal(ch_device_measure(CH_PRECISION_Q8_0, &device, &error), CH_ERROR_ARGUMENT);
}

static void what_cannot_be_asked_is_an_error(void **state) {
  (void)state;
  const char *path = at("config.json");
  write_file(path, GQA);
  ch_capacity *capacity = NULL;
  ch_capacity_settings s = settings_of(&path, 1);
  assert_int_equal(ch_capacity_plan(NULL, &capacity, &error), CH_ERROR_ARGUMENT);
  s.context = 0;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  assert_memory_equal(error.message, "context is 0", 12);
  s = settings_of(&path, 1);
  s.users = 0;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  s = settings_of(&path, 1);
  s.device_count = 0;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  s = settings_of(NULL, 0);
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  s.mechanisms = "mha";
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "needs a shape"));
  s.mechanisms = "mna";
  s.like = path;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "did you mean mha?"));
  s.mechanisms = "mha";
  s.layers = 3;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  s = settings_of(&path, 1);
  s.cache = CH_PRECISION_Q6_K;
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_ARGUMENT);
  path = "/nonexistent/config.json";
  s = settings_of(&path, 1);
  assert_int_equal(ch_capacity_plan(&s, &capacity, &error), CH_ERROR_IO);
  assert_null(capacity);
  ch_capacity_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_gqa_are_those_counted_by_hand),
      cmocka_unit_test(latents_gates_and_shared_heads_are_counted),
      cmocka_unit_test(shared_matrices_are_counted_as_they_are_served),
      cmocka_unit_test(a_model_directory_has_the_types_of_its_files),
      cmocka_unit_test(times_follow_from_bytes_and_flops),
      cmocka_unit_test(as_much_fits_as_the_memory_holds),
      cmocka_unit_test(what_excludes_a_candidate_is_told),
      cmocka_unit_test(named_mechanisms_have_the_parameters_of_the_shape),
      cmocka_unit_test(on_a_device_the_fastest_that_fits_is_first),
      cmocka_unit_test(devices_have_figures_and_their_source),
      cmocka_unit_test(this_machine_has_limits),
      cmocka_unit_test(what_cannot_be_asked_is_an_error),
  };
  return cmocka_run_group_tests(tests, make_work, remove_work);
}

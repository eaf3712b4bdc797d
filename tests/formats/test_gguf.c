/* Tests the GGUF parser with values of every type and with malformed files. Models written here as GGUF must
 * give the reference logits. */
#include "formats_testing.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/gguf.h"
#include "config_file/config_json.h"
#include "gguf_building.h"

/* --- the parser --------------------------------------------------------------------------------------------- */

/* Parses a copy on the heap of exactly its size, so that sanitizers see every byte that is read past the end. */
static ch_status parse(const ch_text *text, ch_gguf *file) {
  static unsigned char *copy;
  free(copy);
  copy = malloc(text->size);
  assert_non_null(copy);
  memcpy(copy, text->data, text->size);
  return ch_gguf_parse(copy, text->size, "input", file, &problem);
}

/* Asserts that the text is refused, and frees it. */
static void refuse(ch_text *text, const char *part) {
  ch_gguf file;
  assert_int_equal(parse(text, &file), CH_ERROR_FORMAT);
  if (!strstr(problem.message, part)) fail_msg("\"%s\" does not say \"%s\"", problem.message, part);
  ch_gguf_close(&file);
  ch_text_free(text);
}

static void values_of_every_type_are_read(void **state) {
  (void)state;
  ch_text out = {0};
  ch_gguf file;
  put_header(&out, 3, 1, 6);
  put_u32(&out, "u", 4000000000u);
  put_f32(&out, "f", -0.5f);
  put_text(&out, "s", "text");
  put_string(&out, "b");
  put_number(&out, KV_BOOL, 4);
  put_number(&out, 1, 1);
  put_string(&out, "list");
  put_number(&out, KV_ARRAY, 4);
  put_number(&out, KV_STRING, 4);
  put_number(&out, 2, 8);
  put_string(&out, "one");
  put_string(&out, "");
  put_string(&out, "negative");
  put_number(&out, 11, 4);
  put_number(&out, (uint64_t)-7, 8);
  put_tensor_info(&out, "t", 2, (uint64_t[]){2, 3}, 0, 0);
  pad_to(&out, 32);
  for (int i = 0; i < 6; i++) put_number(&out, 0x3f800000, 4);
  must(parse(&out, &file));
  int64_t whole = 0;
  double number = 0;
  bool flag = false;
  ch_gguf_string text;
  const ch_gguf_value *list;
  must(ch_gguf_whole(&file, "u", true, &whole, &problem));
  assert_int_equal(whole, 4000000000);
  must(ch_gguf_whole(&file, "negative", true, &whole, &problem));
  assert_int_equal(whole, -7);
  must(ch_gguf_number(&file, "f", true, &number, &problem));
  assert_true(number == -0.5);
  must(ch_gguf_bool(&file, "b", &flag, &problem));
  assert_true(flag);
  must(ch_gguf_text(&file, "s", true, &text, &problem));
  assert_true(text.size == 4 && memcmp(text.data, "text", 4) == 0);
  must(ch_gguf_list(&file, "list", CH_GGUF_STRING, true, &list, &problem));
  const unsigned char *at = list->data;
  assert_int_equal(list->count, 2);
  assert_int_equal(ch_gguf_next_string(&at).size, 3);
  assert_int_equal(ch_gguf_next_string(&at).size, 0);
  assert_int_equal(ch_gguf_whole(&file, "s", false, &whole, &problem), CH_ERROR_FORMAT);
  assert_int_equal(ch_gguf_whole(&file, "absent", true, &whole, &problem), CH_ERROR_FORMAT);
  must(ch_gguf_whole(&file, "absent", false, &whole, &problem));
  const ch_gguf_tensor *tensor = ch_gguf_find_tensor(&file, "t");
  assert_non_null(tensor);
  assert_true(tensor->shape[0] == 3 && tensor->shape[1] == 2 && tensor->bytes == 24);
  ch_gguf_close(&file);
  ch_text_free(&out);
}

static void headers_that_lie_are_refused(void **state) {
  (void)state;
  ch_text out = {0};
  ch_text_puts(&out, "GGML");
  refuse(&out, "not a GGUF file");
  put_header(&out, 1, 0, 0);
  refuse(&out, "version 1");
  put_header(&out, 0x03000000, 0, 0);
  refuse(&out, "byte order");
  put_header(&out, 3, UINT64_MAX, 0);
  refuse(&out, "truncated");
  put_header(&out, 3, 0, UINT64_MAX);
  refuse(&out, "truncated");
  put_header(&out, 3, 0, 1);
  put_number(&out, UINT64_MAX - 3, 8); /* a key's length */
  refuse(&out, "truncated");
  put_header(&out, 3, 0, 1);
  put_string(&out, "");
  refuse(&out, "name of a key");
  put_header(&out, 3, 0, 1);
  put_number(&out, 3, 8);
  ch_text_put(&out, "a\0b", 3);
  refuse(&out, "NUL");
  put_header(&out, 3, 0, 2);
  put_u32(&out, "twice", 1);
  put_u32(&out, "twice", 1);
  refuse(&out, "appears twice");
}

static void put_list(ch_text *out, uint32_t type, uint64_t count) {
  put_header(out, 3, 0, 1);
  put_string(out, "list");
  put_number(out, KV_ARRAY, 4);
  put_number(out, type, 4);
  put_number(out, count, 8);
  put_number(out, 0, 8);
}

static void values_that_lie_are_refused(void **state) {
  (void)state;
  ch_text out = {0};
  put_header(&out, 3, 0, 1);
  put_string(&out, "odd");
  put_number(&out, 13, 4);
  refuse(&out, "type 13");
  put_list(&out, KV_ARRAY, 1);
  refuse(&out, "list of lists");
  put_list(&out, 10, UINT64_MAX / 8 + 2); /* 8 bytes each: the product wraps */
  refuse(&out, "room");
  put_list(&out, KV_STRING, UINT64_MAX);
  refuse(&out, "truncated");
  put_list(&out, 0, 9);
  refuse(&out, "room");
}

/* A tensor's entry in a file with the data of 8 x 4 numbers in F32, and a part of the message that refuses
   it. */
typedef struct tensor_case {
  int rank;
  uint64_t dims[4];
  uint32_t type;
  uint64_t offset;
  const char *says;
} tensor_case;

static void tensors_that_lie_are_refused(void **state) {
  (void)state;
  static const tensor_case cases[] = {
      {0, {0}, 0, 0, "dimensions"},
      {5, {0}, 0, 0, "dimensions"},
      {2, {0, 4}, 0, 0, "overflows"},
      {2, {UINT64_MAX, 1}, 0, 0, "overflows"},
      {2, {UINT64_C(1) << 33, UINT64_C(1) << 33}, 0, 0, "overflows"},
      {2, {8, 4}, 4, 0, "not supported"},
      {2, {8, 4}, 0xffffff, 0, "not supported"},
      {2, {8, 4}, 2, 0, "cannot hold"},
      {2, {8, 4}, 0, 1, "not a multiple"},
      {2, {8, 4}, 0, 128, "truncated"},
      {2, {8, 4}, 0, UINT64_MAX - 31, "truncated"},
      {2, {8, 5}, 0, 0, "truncated"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_text out = {0};
    put_header(&out, 3, 1, 0);
    put_tensor_info(&out, "t", cases[i].rank, cases[i].dims, cases[i].type, cases[i].offset);
    pad_to(&out, 32);
    for (int j = 0; j < 32; j++) put_number(&out, 0, 4);
    refuse(&out, cases[i].says);
  }
}

static void tensors_that_overlap_or_share_a_name_are_refused(void **state) {
  (void)state;
  for (int twice = 0; twice < 2; twice++) {
    ch_text out = {0};
    put_header(&out, 3, 2, 0);
    put_tensor_info(&out, "a", 1, (uint64_t[]){16}, 0, 0);
    put_tensor_info(&out, twice ? "a" : "b", 1, (uint64_t[]){16}, 0, twice ? 64 : 32);
    pad_to(&out, 32);
    for (int j = 0; j < 32; j++) put_number(&out, 0, 4);
    refuse(&out, twice ? "appears twice" : "overlaps");
  }
}

static void an_alignment_must_be_a_power_of_two(void **state) {
  (void)state;
  static const uint32_t wrong[] = {0, 3, 0xffffffff};
  for (int i = 0; i < 3; i++) {
    ch_text out = {0};
    put_header(&out, 3, 0, 1);
    put_u32(&out, "general.alignment", wrong[i]);
    refuse(&out, "power of two");
  }
}

/* --- whole models, written from a reference directory --------------------------------------------------- */

typedef struct made {
  ch_model *model;
  const char *architecture;
  bool turned;
  ch_text header, data;
  int tensors, values;
} made;

/* Hugging Face's and GGUF's names of tensors after the layer's prefix. */
static const char *const inside[][2] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"mlp.gate", "ffn_gate_inp"}};

static void name_of(const char *name, char out[96]) {
  int layer;
  char rest[96];
  if (sscanf(name, "model.layers.%d.%95s", &layer, rest) == 2) {
    char *suffix = strrchr(rest, '.');
    *suffix = 0;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
      if (strcmp(inside[i][0], rest) == 0) snprintf(out, 96, "blk.%d.%s.%s", layer, inside[i][1], suffix + 1);
  } else
    snprintf(out, 96, "%s",
             strcmp(name, "lm_head.weight") == 0      ? "output.weight"
             : strcmp(name, "model.norm.weight") == 0 ? "output_norm.weight"
                                                      : "token_embd.weight");
}

/* Writes the rows of a tensor. If `turned`, their order [head, half, pair] becomes [head, pair, half]. */
static void put_rows(made *m, const ch_tensor *tensor, bool turned) {
  int64_t rows = tensor->rank == 2 ? tensor->shape[0] : 1, columns = tensor->shape[tensor->rank - 1];
  int64_t size = m->model->config.head_dim, half = size / 2;
  for (int64_t head = 0; head < (turned ? rows / size : 1); head++)
    for (int64_t i = 0; i < (turned ? size : rows); i++) {
      int64_t from = turned ? head * size + i % 2 * half + i / 2 : i;
      ch_text_put(&m->data, (const char *)tensor->data + (size_t)(from * columns) * 4, (size_t)columns * 4);
    }
}

/* If the tensor belongs to expert 0, writes the matrices of all experts as one tensor [E, out, in]. Writes nothing for
   other experts. Returns false if the tensor does not belong to an expert. */
static bool put_expert(made *m, int index) {
  int layer, expert, experts = (int)m->model->config.moe.experts;
  char what[8], name[96];
  if (sscanf(m->model->params.rows[index].name, "model.layers.%d.mlp.experts.%d.%7[a-z]_proj", &layer,
             &expert, what) != 3)
    return false;
  m->tensors -= expert > 0;
  if (expert > 0) return true;
  const ch_tensor *first = &m->model->weights.tensors[index];
  pad_to(&m->data, 32);
  snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", layer, what);
  put_tensor_info(&m->header, name, 3,
                  (uint64_t[]){(uint64_t)first->shape[1], (uint64_t)first->shape[0], (uint64_t)experts}, 0,
                  m->data.size);
  for (int e = 0; e < experts; e++) {
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s_proj.weight", layer, e, what);
    put_rows(m, &m->model->weights.tensors[ch_params_find(&m->model->params, name)], false);
  }
  return true;
}

static void put_tensor(made *m, int index) {
  const ch_tensor *tensor = &m->model->weights.tensors[index];
  char name[96];
  if (put_expert(m, index)) return;
  uint64_t dims[2] = {(uint64_t)tensor->shape[tensor->rank - 1], (uint64_t)tensor->shape[0]};
  name_of(m->model->params.rows[index].name, name);
  pad_to(&m->data, 32);
  put_tensor_info(&m->header, name, tensor->rank, dims, 0, m->data.size);
  put_rows(m, tensor, m->turned && (strstr(name, "attn_q.") || strstr(name, "attn_k.")));
}

static void put_architecture(made *m, ch_text *out) {
  const ch_config *c = &m->model->config;
  const struct {
    const char *key;
    int64_t value;
  } sizes[] = {{"block_count", c->num_hidden_layers},
               {"context_length", c->max_position_embeddings},
               {"embedding_length", c->hidden_size},
               {"feed_forward_length", c->intermediate_size},
               {"attention.head_count", c->num_attention_heads},
               {"attention.head_count_kv", c->num_key_value_heads},
               {"attention.key_length", c->head_dim},
               {"attention.value_length", c->head_dim},
               {"expert_count", c->moe.experts},
               {"expert_used_count", c->moe.active},
               {"expert_feed_forward_length", c->moe.expert_intermediate_size}};
  char key[96];
  put_text(out, "general.architecture", m->architecture);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    snprintf(key, sizeof key, "%s.%s", m->architecture, sizes[i].key);
    put_u32(out, key, (uint32_t)sizes[i].value);
  }
  snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", m->architecture);
  put_f32(out, key, (float)c->rms_norm_eps);
  snprintf(key, sizeof key, "%s.rope.freq_base", m->architecture);
  put_f32(out, key, (float)c->rope_theta);
}

/* Writes Llama 3's divisors of the frequencies as llama.cpp stores them. */
static void put_divisors(made *m) {
  const ch_config *c = &m->model->config;
  const ch_rope_scaling *s = &c->rope_scaling;
  if (s->type != CH_ROPE_LLAMA3) return;
  pad_to(&m->data, 32);
  put_tensor_info(&m->header, "rope_freqs.weight", 1, (uint64_t[]){(uint64_t)c->head_dim / 2}, 0,
                  m->data.size);
  m->tensors++;
  for (int64_t i = 0; i < c->head_dim / 2; i++) {
    double wave = 2 * acos(-1) * pow(c->rope_theta, 2 * (double)i / (double)c->head_dim);
    double context = (double)s->original_max_position_embeddings;
    double smooth = (context / wave - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    smooth = fmin(fmax(smooth, 0), 1);
    float divisor = (float)(1 / ((1 - smooth) / s->factor + smooth));
    ch_text_put(&m->data, (const char *)&divisor, 4);
  }
}

/* Writes the model of a directory as GGUF in F32. */
static void make(const char *directory, const char *architecture, bool turned, const char *path) {
  made m = {.architecture = architecture, .turned = turned};
  ch_text out = {0};
  must(ch_model_load(directory, CH_WEIGHTS_F32, &m.model, &problem));
  m.tensors = m.model->params.count;
  for (int i = 0; i < m.model->params.count; i++) put_tensor(&m, i);
  put_divisors(&m);
  put_header(&out, 3, (uint64_t)m.tensors, 14);
  put_architecture(&m, &out);
  ch_text_put(&out, m.header.data, m.header.size);
  pad_to(&out, 32);
  ch_text_put(&out, m.data.data, m.data.size);
  must(ch_write_file(path, out.data, out.size, &problem));
  ch_text_free(&out);
  ch_text_free(&m.header);
  ch_text_free(&m.data);
  ch_model_unload(m.model);
}

static void check(const char *reference, const char *architecture, bool turned) {
  char directory[64], model[96], path[96], expected[256];
  scratch_begin(directory);
  snprintf(path, sizeof path, "%s/model.gguf", directory);
  snprintf(expected, sizeof expected, "%s/ref.safetensors", reference);
  make(reference, architecture, turned, path);
  import_model(path, NULL, directory, model);
  assert_true(logit_difference(model, expected, "input_ids", "logits") < 2e-5);
  ch_config before, after;
  must(ch_config_read(reference, &before, &problem));
  must(ch_config_read(model, &after, &problem));
  before.bos_token_id = before.eos_token_id = -1; /* these ids come with a vocabulary */
  assert_memory_equal(&before, &after, sizeof before);
  scratch_end(directory);
}

static void llama_models_come_back_with_their_rows_in_place(void **state) {
  (void)state;
  check(TEST_DATA "/reference/llama_gqa", "llama", true);
}

static void llama3_scaling_is_found_in_its_divisors(void **state) {
  (void)state;
  check(TEST_DATA "/reference/llama3_rope", "llama", true);
}

static void qwen3_models_come_back(void **state) {
  (void)state;
  check(TEST_DATA "/reference/qwen3", "qwen3", false);
}

static void qwen3_models_come_back_with_their_experts(void **state) {
  (void)state;
  check(TEST_DATA "/reference/qwen3_moe", "qwen3moe", false);
}

/* The files are from the gguf package. They have kv_b_proj in two parts, as in newer versions, or in one. */
static void a_latents_expansion_may_come_in_two_parts(void **state) {
  (void)state;
  char directory[64], model[96];
  scratch_begin(directory);
  import_model(TEST_DATA "/formats/deepseek_v2.gguf", NULL, directory, model);
  assert_true(logit_difference(model, TEST_DATA "/reference/deepseek_v2/ref.safetensors", "input_ids",
                               "logits") < 2e-5);
  scratch_end(directory);
}

/* GGUF has one number of YaRN for mscale and mscale_all_dim. With mscale and mscale_all_dim set to that number, the
   model is the same. */
static void deepseek_v3_comes_with_the_correction_of_its_choice(void **state) {
  (void)state;
  char directory[64], model[96];
  ch_config before, after;
  ch_model *expected, *got;
  scratch_begin(directory);
  import_model(TEST_DATA "/formats/deepseek_v3.gguf", NULL, directory, model);
  must(ch_config_read(TEST_DATA "/reference/deepseek_v3", &before, &problem));
  must(ch_config_read(model, &after, &problem));
  before.rope_scaling.mscale = before.rope_scaling.mscale_all_dim;
  before.bos_token_id = before.eos_token_id = -1;
  before.rope_scaling.beta_fast = before.rope_scaling.beta_slow = 0; /* absent from the file */
  assert_memory_equal(&before, &after, sizeof before);
  must(ch_model_load(TEST_DATA "/reference/deepseek_v3", CH_WEIGHTS_F32, &expected, &problem));
  must(ch_model_load(model, CH_WEIGHTS_F32, &got, &problem));
  assert_int_equal(expected->params.count, got->params.count);
  for (int i = 0; i < got->params.count; i++)
    assert_memory_equal(expected->weights.tensors[i].data, got->weights.tensors[i].data,
                        ch_tensor_bytes(&got->weights.tensors[i]));
  ch_model_unload(expected);
  ch_model_unload(got);
  scratch_end(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_of_every_type_are_read),
      cmocka_unit_test(headers_that_lie_are_refused),
      cmocka_unit_test(values_that_lie_are_refused),
      cmocka_unit_test(tensors_that_lie_are_refused),
      cmocka_unit_test(tensors_that_overlap_or_share_a_name_are_refused),
      cmocka_unit_test(an_alignment_must_be_a_power_of_two),
      cmocka_unit_test(llama_models_come_back_with_their_rows_in_place),
      cmocka_unit_test(llama3_scaling_is_found_in_its_divisors),
      cmocka_unit_test(qwen3_models_come_back),
      cmocka_unit_test(qwen3_models_come_back_with_their_experts),
      cmocka_unit_test(a_latents_expansion_may_come_in_two_parts),
      cmocka_unit_test(deepseek_v3_comes_with_the_correction_of_its_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

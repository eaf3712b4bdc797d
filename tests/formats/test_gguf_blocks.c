/* Tests that block-quantised tensors are copied byte for byte between GGUF files and directories, in both
 * directions. */
#include "formats_testing.h"

#include "base/file.h"
#include "compress/absorb.h"
#include "compress/quantise.h"
#include "bench/random_model.h"
#include "formats/gguf.h"
#include "formats/gguf_export.h"

#define STORIES SHARED_DATA "/data/models/TinyStories-656K"

enum { HEADS = 4, HEAD = 64 };

static void export_model(const char *model, const char *path) {
  ch_model *from;
  ch_absorption plain;
  const char *loss;
  must(ch_model_load(model, CH_WEIGHTS_MAPPED, &from, &problem));
  must(ch_absorb(from, &(ch_absorb_options){0}, &plain, &problem));
  const ch_gguf_export how = {
      .name = "test", .own = true, .type = ch_gguf_main_type(&plain.params, plain.tensors)};
  must(ch_gguf_write(path, &plain.config, &plain.params, plain.tensors, &how, &loss, &problem));
  ch_absorbed_free(&plain);
  ch_model_unload(from);
}

static void import_blocks(const char *path, const ch_dtype *dtype, const char *directory) {
  ch_source source;
  must(ch_source_open(path, NULL, &source, &problem));
  must(ch_source_write(&source, directory, &(ch_source_writing){.dtype = dtype, .keep_blocks = true},
                       &problem));
  ch_source_close(&source);
}

static void compare_files(const char *a, const char *b) {
  char command[400];
  snprintf(command, sizeof command, "cmp '%s' '%s'", a, b);
  if (system(command)) fail_msg("%s and %s differ", a, b);
}

/* Writes a model of random matrices of type `dtype`. Rows are whole blocks in every type, but rows of the FFN's down
   projection are not whole superblocks. */
static void make_model(const char *directory, const char *family, ch_dtype dtype, bool keep_embedding) {
  char path[160], json[700];
  ch_model *model;
  ch_dtype dtypes[64];
  ch_quantised_sizes sizes;
  must(ch_make_directory(directory, &problem));
  snprintf(path, sizeof path, "%s/config.json", directory);
  snprintf(json, sizeof json,
           "{\"model_type\": \"%s\", \"vocab_size\": 70, \"hidden_size\": 256, \"intermediate_size\": 160,"
           " \"num_hidden_layers\": 2, \"num_attention_heads\": %d, \"num_key_value_heads\": 2,"
           " \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": false}",
           family, HEADS);
  must(ch_write_file(path, json, strlen(json), &problem));
  must(ch_model_random(path, CH_BF16, 3, &model, &problem));
  assert_true(model->params.count <= 64);
  must(ch_quantise_types(model, dtype, keep_embedding, dtypes, &sizes, &problem));
  must(ch_model_write_as(directory, &model->config, &model->params, model->weights.tensors, dtypes,
                         &(ch_model_writing){0}, &problem));
  ch_model_unload(model);
}

/* Returns the row of a GGUF file that holds row `row` of a projection of heads. In architecture llama (`turned`), the
   two rows of a rotary pair are adjacent. */
static int64_t row_in_file(int64_t row, bool turned) {
  int64_t i = row % HEAD;
  return turned ? row - i + (i < HEAD / 2 ? 2 * i : 2 * (i - HEAD / 2) + 1) : row;
}

static void compare_matrix(const ch_safetensors *directory, const ch_gguf *file, const char *ours,
                           const char *theirs, bool turned) {
  const ch_stored_tensor *a = ch_safetensors_find(directory, ours);
  const ch_gguf_tensor *b = ch_gguf_find_tensor(file, theirs);
  assert_non_null(a);
  assert_non_null(b);
  assert_int_equal(a->tensor.dtype, b->format->dtype);
  size_t row_bytes = ch_dtype_bytes(a->tensor.dtype, a->tensor.shape[1]);
  for (int64_t r = 0; r < a->tensor.shape[0]; r++)
    assert_memory_equal((const char *)a->tensor.data + (size_t)r * row_bytes,
                        b->data + (size_t)row_in_file(r, turned) * row_bytes, row_bytes);
}

static void check_bytes(const char *model, const char *path, bool turned) {
  char weights[128];
  ch_safetensors directory;
  ch_gguf file;
  snprintf(weights, sizeof weights, "%s/model.safetensors", model);
  must(ch_safetensors_open(weights, &directory, &problem));
  must(ch_gguf_open(path, &file, &problem));
  compare_matrix(&directory, &file, "model.embed_tokens.weight", "token_embd.weight", false);
  compare_matrix(&directory, &file, "lm_head.weight", "output.weight", false);
  compare_matrix(&directory, &file, "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", turned);
  compare_matrix(&directory, &file, "model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", turned);
  compare_matrix(&directory, &file, "model.layers.1.self_attn.v_proj.weight", "blk.1.attn_v.weight", false);
  compare_matrix(&directory, &file, "model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight", false);
  ch_gguf_close(&file);
  ch_safetensors_close(&directory);
}

static void blocks_pass_both_ways_byte_for_byte(void **state) {
  (void)state;
  static const ch_dtype types[] = {CH_Q8_0, CH_Q6_K, CH_Q4_K, CH_Q4_0};
  static const int64_t file_types[] = {7, 18, 14, 2};
  static const char *const families[] = {"llama", "qwen2"};
  for (int f = 0; f < 2; f++)
    for (int t = 0; t < 4; t++) {
      char directory[64], model[96], back[96], path[96], again[96], a[128], b[128];
      int64_t file_type = -1;
      ch_gguf file;
      scratch_begin(directory);
      snprintf(model, sizeof model, "%s/quantised", directory);
      snprintf(back, sizeof back, "%s/back", directory);
      snprintf(path, sizeof path, "%s/model.gguf", directory);
      snprintf(again, sizeof again, "%s/again.gguf", directory);
      make_model(model, families[f], types[t], f == 1);
      export_model(model, path);
      check_bytes(model, path, f == 0);
      must(ch_gguf_open(path, &file, &problem));
      must(ch_gguf_whole(&file, "general.file_type", true, &file_type, &problem));
      assert_int_equal(file_type, file_types[t]);
      ch_gguf_close(&file);
      import_blocks(path, NULL, back);
      snprintf(a, sizeof a, "%s/model.safetensors", model);
      snprintf(b, sizeof b, "%s/model.safetensors", back);
      compare_files(a, b);
      export_model(back, again);
      compare_files(path, again);
      scratch_end(directory);
    }
}

static void directories_in_blocks_are_copied_or_widened(void **state) {
  (void)state;
  char directory[64], model[96], kept[96], wide[96], from_kept[128], from_model[128];
  ch_model *plain, *blocks;
  ch_source source;
  scratch_begin(directory);
  snprintf(model, sizeof model, "%s/quantised", directory);
  snprintf(kept, sizeof kept, "%s/kept", directory);
  make_model(model, "llama", CH_Q4_K, false);
  import_blocks(model, NULL, kept);
  snprintf(from_model, sizeof from_model, "%s/model.safetensors", model);
  snprintf(from_kept, sizeof from_kept, "%s/model.safetensors", kept);
  compare_files(from_model, from_kept);
  import_model(model, NULL, directory, wide);
  must(ch_model_load(wide, CH_WEIGHTS_MAPPED, &plain, &problem));
  must(ch_model_load(model, CH_WEIGHTS_F32, &blocks, &problem));
  for (int i = 0; i < plain->params.count; i++) {
    const ch_tensor *a = &plain->weights.tensors[i], *b = &blocks->weights.tensors[i];
    if (strstr(plain->params.rows[i].name, "down_proj")) assert_int_equal(a->dtype, CH_F32);
    if (a->dtype == CH_F32) assert_memory_equal(a->data, b->data, ch_tensor_bytes(a));
  }
  ch_model_unload(plain);
  ch_model_unload(blocks);
  /* The dtype applies to tensors that are not block-quantised. */
  snprintf(kept, sizeof kept, "%s/kept16", directory);
  import_blocks(model, &(ch_dtype){CH_F16}, kept);
  must(ch_source_open(kept, NULL, &source, &problem));
  for (int i = 0; i < source.params.count; i++)
    assert_true(source.params.rows[i].rank == 1 ? source.dtypes[i] == CH_F16
                                                : ch_dtype_is_block_quantised(source.dtypes[i]));
  ch_source_close(&source);
  scratch_end(directory);
}

/* Compares every tensor of a file, byte for byte, with that of the same name in another. */
static void compare_tensors(const char *path, const char *other) {
  ch_gguf a, b;
  must(ch_gguf_open(path, &a, &problem));
  must(ch_gguf_open(other, &b, &problem));
  assert_int_equal(a.tensor_count, b.tensor_count);
  for (int64_t i = 0; i < a.tensor_count; i++) {
    assert_string_equal(a.tensors[i].name, b.tensors[i].name);
    assert_int_equal(a.tensors[i].format->type, b.tensors[i].format->type);
    assert_int_equal(a.tensors[i].bytes, b.tensors[i].bytes);
    assert_memory_equal(a.tensors[i].data, b.tensors[i].data, a.tensors[i].bytes);
  }
  ch_gguf_close(&a);
  ch_gguf_close(&b);
}

static void files_of_llama_cpp_come_back_as_they_were(void **state) {
  (void)state;
  static const char *const types[] = {"f32", "F16", "BF16", "Q8_0", "Q4_0"};
  skip_without(STORIES "/gguf/ts656k-f32.gguf");
  for (int t = 0; t < 5; t++) {
    char directory[64], path[256], model[96], back[96];
    scratch_begin(directory);
    snprintf(path, sizeof path, STORIES "/gguf/ts656k-%s.gguf", types[t]);
    snprintf(model, sizeof model, "%s/model", directory);
    snprintf(back, sizeof back, "%s/back.gguf", directory);
    import_blocks(path, NULL, model);
    export_model(model, back);
    compare_tensors(path, back);
    scratch_end(directory);
  }
}

/* Tests a scale that is not finite. */
static void damaged_blocks_are_refused(void **state) {
  (void)state;
  char directory[64], model[96], path[96], out[96], *bytes;
  size_t size;
  ch_gguf file;
  ch_source source;
  scratch_begin(directory);
  snprintf(model, sizeof model, "%s/quantised", directory);
  snprintf(path, sizeof path, "%s/model.gguf", directory);
  snprintf(out, sizeof out, "%s/out", directory);
  make_model(model, "llama", CH_Q8_0, false);
  export_model(model, path);
  must(ch_gguf_open(path, &file, &problem));
  const ch_gguf_tensor *tensor = ch_gguf_find_tensor(&file, "blk.1.ffn_up.weight");
  size_t at = (size_t)(tensor->data - (const unsigned char *)file.map.data) + 34 * 5;
  ch_gguf_close(&file);
  must(ch_read_file(path, 1 << 24, &bytes, &size, &problem));
  bytes[at] = 0, bytes[at + 1] = 0x7c; /* infinity */
  must(ch_write_file(path, bytes, size, &problem));
  free(bytes);
  must(ch_source_open(path, NULL, &source, &problem));
  assert_int_equal(ch_source_write(&source, out, &(ch_source_writing){.keep_blocks = true}, &problem),
                   CH_ERROR_NUMERIC);
  assert_non_null(strstr(problem.message, "up_proj.weight holds a value that is not finite"));
  ch_source_close(&source);
  scratch_end(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_pass_both_ways_byte_for_byte),
      cmocka_unit_test(directories_in_blocks_are_copied_or_widened),
      cmocka_unit_test(files_of_llama_cpp_come_back_as_they_were),
      cmocka_unit_test(damaged_blocks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

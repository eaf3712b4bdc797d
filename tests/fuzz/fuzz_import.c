/* Fuzz target: models of other programs. The first byte is the format of the rest: 'l' for a checkpoint of llama2.c,
 * 'g' for GGUF, 'c' for the config.json and 'w' for the model.safetensors of a directory in Hugging Face's format,
 * whose other file is fixed. The last row of every tensor of an accepted model must be readable, or reading it must
 * fail with a message. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_COLUMNS = 1 << 16 };

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 8, \"intermediate_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"max_position_embeddings\": 16, \"tie_word_embeddings\": true}";

static void read_rows(const ch_source *source) {
  for (int i = 0; i < source->params.count; i++) {
    int64_t rows, columns;
    ch_error error = {0};
    ch_rows_of(&source->params.rows[i], &rows, &columns);
    if (columns > MOST_COLUMNS || rows < 1) continue;
    float *values = malloc((size_t)columns * sizeof *values);
    if (values && source->rows(source, i, rows - 1, 1, values, &error) != CH_OK && !*error.message) abort();
    free(values);
  }
}

static void open_source(const char *path, ch_status open(const char *, bool, ch_source *, ch_error *)) {
  ch_source source = {0};
  ch_error error = {0};
  ch_status status = open(path, true, &source, &error);
  if (status != CH_OK && (status != error.status || !*error.message || strchr(error.message, '\n'))) abort();
  if (status != CH_OK) return;
  read_rows(&source);
  ch_source_close(&source);
}

static ch_status open_llama2c(const char *path, bool vocabulary, ch_source *source, ch_error *error) {
  (void)vocabulary;
  return ch_llama2c_open(path, source, error);
}

static void write_whole(const char *directory, const char *name, const void *data, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "wb");
  if (!file) return;
  if (size) fwrite(data, 1, size, file);
  fclose(file);
}

static void open_directory(const uint8_t *data, size_t size, bool config) {
  static const char weights[] = "\2\0\0\0\0\0\0\0{}";
  char directory[] = "/tmp/crosshead-fuzz-XXXXXX", path[128];
  if (!mkdtemp(directory)) return;
  write_whole(directory, "config.json", config ? (const void *)data : config_text,
              config ? size : strlen(config_text));
  write_whole(directory, "model.safetensors", config ? (const void *)weights : data,
              config ? sizeof weights - 1 : size);
  open_source(directory, ch_directory_source_open);
  snprintf(path, sizeof path, "%s/config.json", directory);
  unlink(path);
  snprintf(path, sizeof path, "%s/model.safetensors", directory);
  unlink(path);
  rmdir(directory);
}

static void open_file(const uint8_t *data, size_t size,
                      ch_status open(const char *, bool, ch_source *, ch_error *)) {
  char path[64];
  int file = memfd_create("model", MFD_CLOEXEC);
  if (file < 0) return;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (write(file, data, size) == (ssize_t)size) open_source(path, open);
  close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  if (data[0] == 'l') open_file(data + 1, size - 1, open_llama2c);
  if (data[0] == 'g') open_file(data + 1, size - 1, ch_gguf_source_open);
  if (data[0] == 'c' || data[0] == 'w') open_directory(data + 1, size - 1, data[0] == 'c');
  return 0;
}

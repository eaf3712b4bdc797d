/* Tests the memory of the program: with a long prompt only the cache grows, and limits end with a message. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/random_model.h"
#include "io/model_files.h"
#include "sanitized.h"

enum { CONTEXT = 32768, LONG_WORDS = 26000, SHORT_WORDS = 1500, LONGEST_SECONDS = 120, MIB = 1 << 20 };

static char directory[] = "/tmp/crosshead-memory-XXXXXX";

static char *within(const char *name) {
  char *path = ch_path_join(directory, name);
  assert_non_null(path);
  return path;
}

static void write_file(const char *name, const char *text, size_t size) {
  char *path = within(name);
  assert_int_equal(ch_write_file(path, text, size, NULL), CH_OK);
  free(path);
}

/* Writes the model of tests/data with room for longer texts. */
static void write_model(void) {
  static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
  for (int i = 0; i < 3; i++) {
    char path[512], *text = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/TinyStories-656K/%s", TEST_DATA, names[i]);
    assert_int_equal(ch_read_file(path, 64 * (size_t)MIB, &text, &size, NULL), CH_OK);
    if (i == 0) { /* two digits more, in place of two spaces */
      char *positions = strstr(text, " \"max_position_embeddings\": 512,");
      assert_non_null(positions);
      memcpy(positions, "\"max_position_embeddings\":32768,", 32);
    }
    write_file(names[i], text, size);
    free(text);
  }
}

static void write_prompt(const char *name, int words) {
  static const char *const some[] = {"the", "cat", "and", "a",   "dog", "ran",
                                     "to",  "her", "big", "red", "ball"};
  char *text = malloc((size_t)words * 8);
  size_t size = 0;
  for (int i = 0; i < words; i++)
    size += (size_t)sprintf(text + size, "%s%s", i ? " " : "", some[(i * i / 3 + i) % 11]);
  write_file(name, text, size);
  free(text);
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(directory)) return -1;
  write_model();
  write_prompt("long", LONG_WORDS);
  write_prompt("short", SHORT_WORDS);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json", "long", "short",
                                      "said"};
  for (int i = 0; i < 6; i++) {
    char *path = within(names[i]);
    unlink(path);
    free(path);
  }
  return rmdir(directory);
}

typedef struct ran {
  int status;      /* exit status in waitpid's format */
  long peak;       /* largest resident memory in bytes */
  char said[4096]; /* text on standard error */
} ran;

static void become_program(const char *prompt, const char *said, size_t limit) {
  char *path = within(prompt);
  const struct rlimit most = {limit, limit};
  int out = open("/dev/null", O_WRONLY), errors = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, 1);
  dup2(errors, 2);
  alarm(LONGEST_SECONDS);
  setenv("MALLOC_ARENA_MAX", "1", 1); /* otherwise, malloc may reserve 64 MiB for each thread */
  if (limit && setrlimit(RLIMIT_AS, &most) != 0) _exit(3);
  execl(CROSSHEAD_PROGRAM, "crosshead", "generate", directory, "--prompt-file", path, "--context", "32768",
        "--max-tokens", "2", "--temperature", "0", "--ignore-eos", (char *)NULL);
  _exit(127);
}

/* Runs `generate` on a prompt with at most `limit` bytes of address space; 0: no limit. */
static ran run(const char *prompt, size_t limit) {
  ran r = {0};
  char *said = within("said"), *text = NULL;
  size_t size = 0;
  pid_t child = fork();
  if (child == 0) become_program(prompt, said, limit);
  struct rusage usage;
  assert_int_equal(wait4(child, &r.status, 0, &usage), child);
  r.peak = usage.ru_maxrss * 1024;
  assert_int_equal(ch_read_file(said, MIB, &text, &size, NULL), CH_OK);
  snprintf(r.said, sizeof r.said, "%s", text);
  free(text);
  free(said);
  return r;
}

static bool succeeded(const ran *r) {
  return WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0;
}

static long number_after(const char *text, const char *before) {
  const char *at = strstr(text, before);
  if (!at) fail_msg("'%s' is not in: %s", before, text);
  return strtol(at + strlen(before), NULL, 10);
}

/* Returns true if the program's libraries can start in `limit` bytes of address space. OpenBLAS 0.3.29 retries forever
   if they cannot. */
static bool starts(size_t limit) {
  const struct rlimit most = {limit, limit}, seconds = {2, 2};
  pid_t child = fork();
  if (child == 0) {
    int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 1);
    dup2(nothing, 2);
    if (setrlimit(RLIMIT_CPU, &seconds) == 0 && setrlimit(RLIMIT_AS, &most) == 0)
      execl(CROSSHEAD_PROGRAM, "crosshead", "--version", (char *)NULL);
    _exit(127);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Returns the smallest address space in bytes in which the program starts, with an error of at most 16 MiB. */
static size_t room_to_start(void) {
  size_t none = 16 * (size_t)MIB, room = 4096 * (size_t)MIB;
  assert_true(starts(room));
  while (room - none > 16 * (size_t)MIB) {
    size_t middle = none + (room - none) / 2;
    if (starts(middle))
      room = middle;
    else
      none = middle;
  }
  return room;
}

/* Bytes of address space in which `generate` can answer a short prompt and reserve the cache of a long one; 0:
   unknown. */
static size_t enough;

/* Sanitizers map more than any limit, and delay reuse of freed memory to detect its use. */
static void skip_under_sanitizers(void) {
  if (!SANITIZED) return;
  print_message("memory is not limited under sanitizers\n");
  skip();
}

/* Too little memory is an error with a one-line message. */
static void a_limit_ends_in_a_sentence(void **state) {
  (void)state;
  skip_under_sanitizers();
  bool started = false; /* true once the program itself, not OpenMP, reports the lack of memory */
  const size_t room = room_to_start();
  for (enough = room;; enough += enough / 12) {
    ran r = run("short", enough);
    if (succeeded(&r)) break;
    size_t size = strlen(r.said);
    started |= strncmp(r.said, "crosshead generate: ", 20) == 0;
    if (started && (!WIFEXITED(r.status) || size == 0 || strchr(r.said, '\n') != r.said + size - 1))
      fail_msg("with %zu MiB: status %x, and: %s", enough / MIB, (unsigned)r.status, r.said);
    assert_true(enough < 4096 * (size_t)MIB);
  }
  if (enough == room) { /* OpenBLAS 0.3.29 needs at least 400 MiB to start */
    print_message("what the libraries start with, %zu MiB, is enough for the program: no limit is too low\n",
                  room / MIB);
    skip();
  }
  assert_true(started);
}

/* Checks that a prompt of tens of thousands of tokens fits into `limit` bytes of address space (0: no limit). Compared
   with a short prompt, it may only need the memory of its entries in the cache and 6 MiB more. */
static void compare_prompts(const char *what, size_t limit) {
  ran few = run("short", 0), many = run("long", limit);
  if (!succeeded(&few) || !succeeded(&many)) fail_msg("%s: %s%s", what, few.said, many.said);
  long tokens = number_after(many.said, "prefill: "), bytes = number_after(many.said, "cache:   ");
  long more = tokens - number_after(few.said, "prefill: ");
  assert_in_range(tokens, 25000, CONTEXT);
  print_message("%s, %ld tokens: %ld MiB at most, %ld MiB of it cache; %ld MiB with %ld fewer\n", what,
                tokens, many.peak / MIB, tokens * bytes / MIB, few.peak / MIB, more);
  assert_true(many.peak - few.peak <= more * bytes + 6 * MIB);
}

static void a_long_prompt_takes_its_cache_and_nothing_more(void **state) {
  (void)state;
  skip_under_sanitizers();
  const size_t arena = 64 * (size_t)MIB; /* address space that malloc reserves for a second thread */
  compare_prompts("llama", enough ? enough + arena + 8 * MIB : 0);
}

/* Replaces the model by one of another mechanism, with random weights and the same tokenizer. */
static void put_mechanism(const char *attention) {
  char json[1024];
  int size =
      snprintf(json, sizeof json,
               "{'model_type': 'crosshead', 'vocab_size': 2048, 'hidden_size': 32, 'intermediate_size': 32, "
               "'num_hidden_layers': 1, 'num_attention_heads': 4, 'num_key_value_heads': %d, "
               "'max_position_embeddings': %d, 'attention': {%s}}",
               strstr(attention, "'mfa") ? 1 : 4, CONTEXT, attention);
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  write_file("config.json", json, (size_t)size);
  ch_error error = {0};
  ch_model *model;
  if (ch_model_random(directory, CH_F32, 1, &model, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_model_write(directory, &model->config, &model->params, model->weights.tensors, CH_F32, &error) !=
      CH_OK)
    fail_msg("%s", error.message);
  ch_model_unload(model);
}

/* Tests one mechanism for every kind of state and every way to read it. */
static void so_does_one_of_any_mechanism(void **state) {
  (void)state;
  static const char *const mechanisms[] = {
      "'type': 'gta'",
      "'type': 'mfa_kr'",
      "'type': 'talking'",
      "'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 2}",
      "'type': 'mla', 'kv_lora_rank': 24, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 8, 'v_head_dim': 8",
      "'type': 'mla', 'kv_lora_rank': 24, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 8, 'v_head_dim': 8, "
      "'gate_embedding_dim': 8"};
  skip_under_sanitizers();
  for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++) {
    put_mechanism(mechanisms[i]);
    compare_prompts(mechanisms[i], 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_ends_in_a_sentence),
      cmocka_unit_test(a_long_prompt_takes_its_cache_and_nothing_more),
      cmocka_unit_test(so_does_one_of_any_mechanism),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

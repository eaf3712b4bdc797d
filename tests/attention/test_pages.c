/* docs/mechanisms: every mechanism has its page, every page an example, and what it says of the example is counted. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "attention/registry.h"
#include "model/accounting.h"
#include "model/transformer.h"

#define PAGES TEST_DATA "/../../docs/mechanisms"

enum { LIMIT = 1 << 20 };

static char *read_page(const char *name) {
  char path[512];
  snprintf(path, sizeof path, PAGES "/%s", name);
  FILE *file = fopen(path, "r");
  char *text = calloc(1, LIMIT);
  if (!file || !text || fread(text, 1, LIMIT - 1, file) == 0)
    fail_msg("docs/mechanisms/%s cannot be read", name);
  fclose(file);
  return text;
}

/* What stands between `open` and `close`; NULL when there is none. */
static char *between(const char *text, const char *open, const char *close) {
  const char *begin = strstr(text, open), *end = begin ? strstr(begin + strlen(open), close) : NULL;
  return end ? strndup(begin + strlen(open), (size_t)(end - begin - strlen(open))) : NULL;
}

/* Every tensor of the example's attention stands on its page; on a module's those that it adds to gqa or mla. */
static void check_tensors(const char *page, const char *text, const ch_params *params) {
  static const char prefix[] = "model.layers.0.self_attn.";
  char *gqa = read_page("gqa.md"), *mla = read_page("mla.md");
  for (int i = 0; i < params->count; i++) {
    const char *name = params->rows[i].name;
    if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
    char *tensor = strndup(name + strlen(prefix), strcspn(name + strlen(prefix), "."));
    if (!strstr(text, tensor) && !strstr(gqa, tensor) && !strstr(mla, tensor))
      fail_msg("%s does not name %s", page, tensor);
    free(tensor);
  }
  free(gqa);
  free(mla);
}

static void check_example(const char *page, const char *text, const char *json) {
  ch_error error = {0};
  ch_config config;
  ch_params params = {0};
  ch_account account;
  if (ch_config_parse(json, page, &config, &error) != CH_OK ||
      ch_model_declare(&config, &params, &error) != CH_OK ||
      ch_account_model(&config, &params, 0, CH_BF16, &account, &error) != CH_OK)
    fail_msg("%s: the example does not load: %s", page, error.message);
  long long cache, attention, tables = 0;
  const char *counts = strstr(text, "`crosshead info` counts ");
  if (!counts ||
      sscanf(counts, "`crosshead info` counts %lld cache elements a token and %lld attention parameters",
             &cache, &attention) != 2)
    fail_msg(
        "%s does not say \"`crosshead info` counts N cache elements a token and N attention parameters\"",
        page);
  if (config.attention.gate_embedding_dim &&
      sscanf(strstr(counts, "; ") ? strstr(counts, "; ") : "", "; %lld", &tables) != 1)
    fail_msg("%s does not count the lookup tables", page);
  if (cache != account.cache_elements_per_token || attention != account.parameters_attention ||
      tables != account.parameters_gate_embedding)
    fail_msg("%s counts %lld cache elements, %lld attention parameters and %lld in tables where info has "
             "%lld, %lld and "
             "%lld",
             page, cache, attention, tables, (long long)account.cache_elements_per_token,
             (long long)account.parameters_attention, (long long)account.parameters_gate_embedding);
  check_tensors(page, text, &params);
  ch_params_free(&params);
}

static void check_page(const char *page, const char *index) {
  char *text = read_page(page), *json = between(text, "```json\n", "```"), link[300];
  static const char *const parts[] = {"\n```\n", "| parameters of a layer |", "\n## When to take it\n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("%s has no \"%s\"", page, parts[i]);
  snprintf(link, sizeof link, "](%s)", page);
  if (!strstr(index, link)) fail_msg("README.md has no link to %s", page);
  if (!json) fail_msg("%s has no example", page);
  check_example(page, text, json);
  free(json);
  free(text);
}

static void every_page_is_listed_and_its_example_is_what_info_counts(void **state) {
  (void)state;
  char *index = read_page("README.md");
  DIR *directory = opendir(PAGES);
  int pages = 0;
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    const char *end = strrchr(entry->d_name, '.');
    if (!end || strcmp(end, ".md") != 0 || strcmp(entry->d_name, "README.md") == 0 ||
        strcmp(entry->d_name, "adding.md") == 0)
      continue;
    check_page(entry->d_name, index);
    pages++;
  }
  assert_true(pages > 0);
  closedir(directory);
  free(index);
}

static void every_mechanism_has_its_page(void **state) {
  (void)state;
  for (const char *const *name = ch_mechanism_names(); *name; name++) {
    char page[64];
    snprintf(page, sizeof page, "%s.md", *name);
    free(read_page(page));
  }
}

/* adding.md shows gta.c: every piece of code on it must be there, line by line. */
static void the_code_on_the_page_about_adding_is_the_code(void **state) {
  (void)state;
  char *page = read_page("adding.md"), *source = read_page("../../src/attention/gta.c");
  static const char open[] = "```c\n";
  int pieces = 0;
  for (char *piece, *at = page; (piece = between(at, open, "```")); pieces++) {
    if (!strstr(source, piece)) fail_msg("gta.c does not have\n%s", piece);
    at = strstr(at, open) + strlen(open) + strlen(piece);
    free(piece);
  }
  assert_true(pieces > 0);
  free(source);
  free(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_page_is_listed_and_its_example_is_what_info_counts),
      cmocka_unit_test(every_mechanism_has_its_page),
      cmocka_unit_test(the_code_on_the_page_about_adding_is_the_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

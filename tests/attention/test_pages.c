/* Tests docs/mechanisms: every mechanism has a page that agrees with its code, and the numbers on every page are those
 * that `crosshead info` counts for its example. */
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
#include "base/text.h"
#include "config_file/config_json.h"
#include "config_file/keys.h"
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

/* Returns a copy of the text between `open` and `close`, or NULL. */
static char *between(const char *text, const char *open, const char *close) {
  const char *begin = strstr(text, open), *end = begin ? strstr(begin + strlen(open), close) : NULL;
  return end ? strndup(begin + strlen(open), (size_t)(end - begin - strlen(open))) : NULL;
}

/* Checks that the page, or that of gqa or mla, names every attention tensor in layer 0 of the example. */
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
      ch_account_model(&config, &params, 0, ch_cache_of(CH_BF16), &account, &error) != CH_OK)
    fail_msg("%s: the example does not load: %s", page, error.message);
  long long cache = 0, attention = 0, tables = 0;
  const char *counts = strstr(text, "`crosshead info` counts ");
  if (!counts ||
      sscanf(counts, "`crosshead info` counts %lld cache elements per token and %lld attention parameters",
             &cache, &attention) != 2)
    fail_msg(
        "%s does not say \"`crosshead info` counts N cache elements per token and N attention parameters\"",
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

static void check_page(const char *page) {
  char *text = read_page(page), *json = between(text, "```json\n", "```");
  static const char *const parts[] = {"\n```\n", "| parameters of a layer |", "\n## When to use it\n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("%s has no \"%s\"", page, parts[i]);
  if (!json) fail_msg("%s has no example", page);
  check_example(page, text, json);
  free(json);
  free(text);
}

static bool is_mechanism(const char *page) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(page, "."), page);
  return ch_mechanism_find(name) != NULL;
}

/* Checks that the page ends with a section on the paper, whose last line is a row of a table. */
static void check_last_table(const char *page) {
  char *text = read_page(page);
  size_t end = strlen(text);
  while (end && text[end - 1] == '\n') text[--end] = 0;
  const char *last = strrchr(text, '\n'), *paper = strstr(text, "\n## The paper");
  if (!paper) paper = strstr(text, "\n## What the paper did");
  if (!last || last[1] != '|' || !paper || strstr(paper + 1, "\n## "))
    fail_msg("%s does not end with a table of what the paper did and what the presets do", page);
  free(text);
}

/* Checks all pages of docs/mechanisms except README.md and adding.md. README.md must have a link to each page of a
   module. */
static void every_page_is_found_and_its_example_is_what_info_counts(void **state) {
  (void)state;
  char *index = read_page("README.md"), link[300];
  DIR *directory = opendir(PAGES);
  int pages = 0;
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    const char *end = strrchr(entry->d_name, '.');
    if (!end || strcmp(end, ".md") != 0 || strcmp(entry->d_name, "README.md") == 0 ||
        strcmp(entry->d_name, "adding.md") == 0)
      continue;
    check_page(entry->d_name);
    check_last_table(entry->d_name);
    snprintf(link, sizeof link, "](%s)", entry->d_name);
    if (!is_mechanism(entry->d_name) && !strstr(index, link))
      fail_msg("README.md has no link to %s", entry->d_name);
    pages++;
  }
  assert_true(pages > 0);
  closedir(directory);
  free(index);
}

/* Writes the states on which a module is possible: " of q, k". */
static void put_states(unsigned on, ch_text *line) {
  const char *between_them = " of ";
  for (int i = 0; i < 3; i++)
    if (on >> i & 1) {
      ch_text_printf(line, "%s%c", between_them, "qkv"[i]);
      between_them = ", ";
    }
}

static void put_module(const char *name, unsigned on, ch_text *line) {
  ch_text_printf(line, "%s%s", line->size ? "; " : "| modules | ", name);
  if (on) put_states(on, line);
}

/* Returns the row of modules on a mechanism's page. */
static char *row_of_modules(const ch_mechanism *m) {
  ch_text line = {0};
  if (m->modules & CH_MODULE_QK_NORM) put_module("[QK norm](qk_norm.md)", 0, &line);
  if (m->modules & CH_MODULE_HEAD_NORM) put_module("[head norm](head_norm.md)", 0, &line);
  if (m->modules & CH_MODULE_KNOCK_OTHER)
    put_module("[knocking](knocking.md)", m->knocks, &line);
  else if (m->modules & CH_MODULE_KNOCK_LINEAR)
    put_module("linear [knocking](knocking.md)", m->knocks, &line);
  if (m->modules & CH_MODULE_HEAD_MIX) put_module("[head mixing](head_mix.md)", m->mixes, &line);
  if (m->modules & CH_MODULE_BIAS) put_module("biases", 0, &line);
  ch_text_puts(&line, " |\n");
  return line.data;
}

/* Checks the list of presets: "`gqa`, `gqa:N`". */
static void check_presets(const char *page, const char *text, const ch_mechanism *m) {
  char name[80];
  for (const ch_preset *p = m->presets; p->name; p++)
    for (int numbered = 0; numbered < (p->number ? 2 : 1); numbered++) {
      snprintf(name, sizeof name, "`%s%s`", p->name, numbered ? ":N" : "");
      if (!strstr(text, name)) fail_msg("%s does not say what `compare` makes of %s", page, name);
    }
}

static void every_mechanism_has_its_page_with_its_modules_and_presets(void **state) {
  (void)state;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++) {
    char page[64], title[80];
    snprintf(page, sizeof page, "%s.md", (*m)->name);
    snprintf(title, sizeof title, "# `%s`: ", (*m)->name);
    char *text = read_page(page), *modules = row_of_modules(*m);
    if (strncmp(text, title, strlen(title)) != 0) fail_msg("%s does not begin with \"%s\"", page, title);
    if (!strstr(text, modules)) fail_msg("%s does not have the row\n%s", page, modules);
    check_presets(page, text, *m);
    free(modules);
    free(text);
  }
}

/* Checks the rows of config.md: "| `q_lora_rank` | `mla`, `mfa`, `mfa_kr` |". */
static void keys_of_single_mechanisms_stand_beside_their_owners(void **state) {
  (void)state;
  char *text = read_page("../config.md");
  for (int i = 0; i < ch_config_key_count; i++) {
    const char *key = ch_config_keys[i].name;
    if (!ch_config_keys[i].of_mechanisms) continue;
    ch_text quoted = {0}, owners = {0};
    ch_text_printf(&quoted, "`%s`", key);
    for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++)
      if (ch_mechanism_has_key(*m, key))
        ch_text_printf(&owners, "%s`%s`", owners.size ? ", " : " | ", (*m)->name);
    ch_text_puts(&owners, " |");
    const char *row = strstr(text, "### Keys of single mechanisms");
    row = row ? strstr(row, quoted.data) : NULL;
    const char *cell = row ? strstr(row, " | ") : NULL;
    if (!cell || strncmp(cell, owners.data, owners.size) != 0)
      fail_msg("docs/config.md does not have %s%s", quoted.data, owners.data);
    ch_text_free(&quoted);
    ch_text_free(&owners);
  }
  free(text);
}

static void links_of_the_index_lead_somewhere(void **state) {
  (void)state;
  char *index = read_page("README.md");
  int links = 0;
  for (const char *at = index; (at = strstr(at, "](")); links++) {
    char page[200];
    at += 2;
    snprintf(page, sizeof page, "%.*s", (int)strcspn(at, ")#"), at);
    if (*page && !strstr(page, "://")) free(read_page(page));
  }
  assert_true(links > 0);
  free(index);
}

/* Checks that every piece of code in adding.md occurs in gta.c, in gated.c or in the test of gta.c. */
static void the_code_on_the_page_about_adding_is_the_code(void **state) {
  (void)state;
  char *page = read_page("adding.md"), *source = read_page("../../src/attention/gta.c"),
       *shortest = read_page("../../src/attention/gated.c"),
       *test = read_page("../../tests/attention/mechanisms/gta.c");
  static const char open[] = "```c\n";
  int pieces = 0;
  for (char *piece, *at = page; (piece = between(at, open, "```")); pieces++) {
    if (!strstr(source, piece) && !strstr(test, piece) && !strstr(shortest, piece))
      fail_msg("neither gta.c nor gated.c has\n%s", piece);
    at = strstr(at, open) + strlen(open) + strlen(piece);
    free(piece);
  }
  assert_true(pieces > 0);
  free(shortest);
  free(source);
  free(test);
  free(page);
}

/* Checks that every operation declared in ops.h is in the index of adding.md. */
static void the_index_has_every_operation(void **state) {
  (void)state;
  static const char prefix[] = "ch_op_";
  char *page = read_page("adding.md"), *header = read_page("../../src/graph/ops.h");
  const char *list = strstr(page, "## The operations");
  int count = 0;
  if (!list) fail_msg("adding.md has no index of operations");
  for (const char *at = header; (at = strstr(at, prefix)); count++) {
    char name[80];
    at += strlen(prefix);
    snprintf(name, sizeof name, "`%.*s`", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_"), at);
    if (!strstr(list, name)) fail_msg("the index of adding.md does not have %s", name);
  }
  assert_true(count > 50);
  free(page);
  free(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_page_is_found_and_its_example_is_what_info_counts),
      cmocka_unit_test(every_mechanism_has_its_page_with_its_modules_and_presets),
      cmocka_unit_test(keys_of_single_mechanisms_stand_beside_their_owners),
      cmocka_unit_test(links_of_the_index_lead_somewhere),
      cmocka_unit_test(the_code_on_the_page_about_adding_is_the_code),
      cmocka_unit_test(the_index_has_every_operation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

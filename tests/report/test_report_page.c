/* Tests the report page: it needs no other file, is well formed, and is safe with any names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "report/embedded.h"
#include "report/page.h"
#include "report/sample.h"

/* Returns the page without Vega, which is not ours to check. */
static char *page_of(const ch_comparison *comparison) {
  ch_text html = {0};
  ch_error error = {0};
  if (ch_page_write(comparison, &html, &error) != CH_OK) fail_msg("%s", error.message);
  const char *library = (const char *)ch_embedded_vega_modules;
  char *start = strstr(html.data, library);
  assert_non_null(start);
  memmove(start, start + strlen(library), strlen(start + strlen(library)) + 1);
  return html.data;
}

static char *sample_page(int count) {
  ch_comparison comparison;
  sample_comparison(&comparison, count);
  char *html = page_of(&comparison);
  ch_arena_free(&comparison.arena);
  return html;
}

static void assert_has(const char *html, const char *part) {
  if (!strstr(html, part)) fail_msg("the page lacks: %s", part);
}

static void assert_lacks(const char *html, const char *part) {
  const char *found = strstr(html, part);
  if (found) fail_msg("the page has: %.80s", found);
}

static bool is_void(const char *name) {
  static const char *const names[] = {"meta", "link", "input", "br", "hr", "img"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* Asserts that every element is closed, in order, and that attributes are quoted. */
static void assert_well_formed(const char *html) {
  enum { DEEPEST = 32 };
  char open[DEEPEST][24];
  int depth = 0;
  const char *p = strchr(html, '>') + 1; /* past the doctype */
  while ((p = strchr(p, '<')) != NULL) {
    bool closing = p[1] == '/';
    char name[24];
    size_t length = strspn(p + 1 + closing, "abcdefghijklmnopqrstuvwxyz0123456789");
    assert_in_range(length, 1, sizeof name - 1);
    snprintf(name, sizeof name, "%.*s", (int)length, p + 1 + closing);
    int quotes = 0;
    for (p += 1 + closing + length; *p && (*p != '>' || quotes % 2); p++) {
      quotes += *p == '"';
      assert_true(*p != '<' || quotes % 2);
      if (*p == '=' && quotes % 2 == 0) assert_int_equal(p[1], '"');
    }
    assert_int_equal(*p, '>');
    if (closing) {
      assert_in_range(depth, 1, DEEPEST);
      assert_string_equal(open[--depth], name);
    } else if (!is_void(name)) {
      assert_in_range(depth, 0, DEEPEST - 1);
      strcpy(open[depth++], name);
      if (strcmp(name, "script") == 0 || strcmp(name, "style") == 0) {
        char end[32];
        snprintf(end, sizeof end, "</%s>", name);
        p = strstr(p, end); /* the content is not markup */
        assert_non_null(p);
      }
    }
  }
  assert_int_equal(depth, 0);
}

static json_t *results_in(const char *html) {
  static const char opening[] = "<script type=\"application/json\" id=\"results\">";
  const char *start = strstr(html, opening);
  assert_non_null(start);
  start += sizeof opening - 1;
  const char *end = strstr(start, "</script>");
  assert_non_null(end);
  json_error_t why;
  json_t *root = json_loadb(start, (size_t)(end - start), 0, &why);
  if (!root) fail_msg("%s", why.text);
  return root;
}

static void the_page_is_well_formed(void **state) {
  (void)state;
  for (int count = 0; count <= 4; count++) {
    char *html = sample_page(count);
    assert_well_formed(html);
    free(html);
  }
}

static void nothing_is_loaded_from_elsewhere(void **state) {
  (void)state;
  static const char *const loads[] = {"http:",  "https:",         "//",     "src=", "@import", "url(",
                                      "fetch(", "XMLHttpRequest", "import("};
  char *html = sample_page(4);
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) assert_lacks(html, loads[i]);
  for (const char *link = html; (link = strstr(link, "href=\"")) != NULL; link += 6)
    assert_true(strncmp(link + 6, "data:,\"", 7) == 0 || link[6] == '#');
  free(html);
  /* Vega is whole and cannot end its script element. */
  assert_null(strstr((const char *)ch_embedded_vega_modules, "</script"));
  assert_null(strstr((const char *)ch_embedded_vega_modules, "<!--"));
  assert_non_null(strstr((const char *)ch_embedded_vega_modules, "modules.sources[\"vega-parser\"]"));
}

static void the_page_tells_what_was_found(void **state) {
  (void)state;
  char *html = sample_page(4);
  assert_has(html, "<title>mha, gqa:4, gqa:2 and mqa on plays.txt</title>");
  assert_has(html, "Take gqa:2 for now: 512 bytes of cache per token, 0.7 % behind the lowest loss of 4. The "
                   "risk is unknown with one seed; "
                   "three would bound it.");
  assert_has(html, "gqa:2</a> <span class=\"take\">for now</span>");
  assert_has(html, "<code>crosshead compare --data plays.txt --out demo</code>");
  assert_has(html, "<dd>A Processor</dd>");
  assert_has(html, "2026-11-20 06:40:00 UTC");
  assert_has(html, "1,000,960");
  assert_has(html, "role=\"img\"");
  assert_lacks(html, "Unfinished");
  assert_lacks(html, "{{");
  free(html);
}

static void the_embedded_results_are_those_of_the_file(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 3);
  char *html = page_of(&comparison);
  json_t *root = results_in(html), *models = json_object_get(root, "models");
  assert_int_equal(json_array_size(models), 3);
  for (size_t i = 0; i < 3; i++) {
    const json_t *model = json_array_get(models, i);
    assert_string_equal(json_string_value(json_object_get(model, "name")), comparison.models[i].name);
    assert_float_equal(json_real_value(json_object_get(model, "validation_loss")),
                       comparison.models[i].validation_loss, 1e-6);
    assert_int_equal(json_array_size(json_object_get(model, "curve")), SAMPLE_POINTS);
  }
  json_decref(root);
  free(html);
  ch_arena_free(&comparison.arena);
}

static void the_engine_and_its_devices_are_named(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 2);
  char *html = page_of(&comparison);
  assert_has(html, "<dt>engine</dt><dd>native, Crosshead 0.1.0</dd>");
  assert_lacks(html, "<dt>trained on</dt>");
  free(html);
  comparison.engine = CH_ENGINE_PYTORCH;
  comparison.device = "cuda:0,cuda:1";
  html = page_of(&comparison);
  assert_has(html, "<dt>engine</dt><dd>PyTorch, Crosshead 0.1.0</dd>");
  assert_has(html, "<dt>trained on</dt><dd>cuda:0,cuda:1</dd>");
  free(html);
  ch_arena_free(&comparison.arena);
}

static void hostile_names_stay_text(void **state) {
  (void)state;
  static const char *const names[] = {
      "</script><script>alert(1)</script>",
      "<!--<script>",
      "\"><img src=x onerror=alert(1)>",
      "' onmouseover='alert(1)",
      "a&b<c>.json",
      "]]></style><b>",
      "{{results}}",
      "\x01\x1b[31m\x7f",
      "ünïcode/路.json",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ch_comparison comparison;
    sample_comparison(&comparison, 2);
    comparison.models[0].name = names[i];
    comparison.data.file = names[i];
    comparison.data.tokenizer = names[i];
    comparison.command = names[i];
    char *html = page_of(&comparison);
    assert_well_formed(html);
    assert_lacks(html, "<script>alert");
    assert_lacks(html, "<img");
    assert_lacks(html, "<b>");
    assert_lacks(html, "<!--");
    assert_lacks(html, "\x1b");
    json_t *root = results_in(html);
    assert_string_equal(json_string_value(json_object_get(root, "command")), names[i]);
    const json_t *first = json_array_get(json_object_get(root, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), names[i]);
    json_decref(root);
    free(html);
    ch_arena_free(&comparison.arena);
  }
}

/* Of two files of the same name in different folders, the second is shown with its path, because its label is
   taken. */
static void long_paths_are_shown_by_their_last_component(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 4);
  comparison.models[0].name = "/home/somebody/experiments/attention/wide-heads.json";
  comparison.models[1].name = "/home/somebody/experiments/a-very-long-name-of-a-configuration-file.json";
  comparison.models[2].name = "/home/somebody/experiments/first/config.json";
  comparison.models[3].name = "/home/somebody/experiments/second/config.json";
  char *html = page_of(&comparison);
  assert_well_formed(html);
  assert_has(html, "title=\"/home/somebody/experiments/attention/wide-heads.json\">wide-heads<");
  assert_has(html, ">a-very-lon…iguration-file<");
  assert_has(html, ">config<");
  assert_has(html, ">/home/somebody/experiments/second/config.json<");
  assert_has(html, "\"name\":\"wide-heads\"");
  free(html);
  ch_arena_free(&comparison.arena);
}

static void an_unfinished_comparison_says_so(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 2);
  comparison.planned = 3;
  char *html = page_of(&comparison);
  assert_has(html, "Unfinished: 2 of 3 models are trained so far.");
  free(html);
  ch_arena_free(&comparison.arena);
}

static void escaping_covers_the_five_characters(void **state) {
  (void)state;
  ch_text html = {0};
  ch_html_escape("<a href=\"x\">&'\t\n\r\x0b", &html);
  assert_string_equal(html.data, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\t\n");
  ch_text_free(&html);
}

static void spikes_are_said_where_there_are_any(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 3);
  char *html = page_of(&comparison);
  assert_lacks(html, "Loss spikes");
  free(html);
  comparison.models[1].loss_spikes = 12;
  html = page_of(&comparison);
  assert_has(html, "<p class=\"note\">Loss spikes while training: mha 0, gqa:4 12, gqa:2 0.</p>");
  free(html);
  ch_arena_free(&comparison.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_is_well_formed),
      cmocka_unit_test(nothing_is_loaded_from_elsewhere),
      cmocka_unit_test(the_page_tells_what_was_found),
      cmocka_unit_test(the_embedded_results_are_those_of_the_file),
      cmocka_unit_test(the_engine_and_its_devices_are_named),
      cmocka_unit_test(hostile_names_stay_text),
      cmocka_unit_test(long_paths_are_shown_by_their_last_component),
      cmocka_unit_test(an_unfinished_comparison_says_so),
      cmocka_unit_test(spikes_are_said_where_there_are_any),
      cmocka_unit_test(escaping_covers_the_five_characters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

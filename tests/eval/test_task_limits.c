/* Tests templates and tasks that would crash, fill the memory or never end. Each is refused with a message
 * that names the limit; what stays below a limit is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "eval/tasks/question.h"
#include "template/template.h"
#include "template/template_limits.h"
#include "sanitized.h"

static ch_status fill(const char *text, json_t **value, ch_error *error) {
  ch_template *template;
  json_t *item = json_pack("{s:s, s:i}", "t", "abc", "q", 1);
  ch_template_scope scope = {.fields = item};
  *value = NULL;
  ch_status status = ch_template_parse(text, CH_TEMPLATE_TASK, "test", &template, error);
  if (status == CH_OK) status = ch_template_value(template, &scope, value, error);
  ch_template_free(template);
  ch_template_scope_free(&scope);
  json_decref(item);
  return status;
}

static void assert_fills(const char *text) {
  ch_error error = {0};
  json_t *value;
  if (fill(text, &value, &error) != CH_OK) fail_msg("%.60s: %s", text, error.message);
  assert_non_null(value);
  json_decref(value);
}

static void assert_refused(const char *text, const char *why) {
  ch_error error = {0};
  json_t *value;
  if (fill(text, &value, &error) != CH_ERROR_FORMAT) fail_msg("%.160s: %s", text, error.message);
  assert_null(value);
  if (!strstr(error.message, why)) fail_msg("%.60s: %s", text, error.message);
  assert_true(strncmp(error.message, "test", 4) == 0);
}

/* Returns "{{ BEFORE PIECE PIECE ... AFTER }}" (malloc'd). */
static char *chain(const char *before, const char *piece, int count, const char *after) {
  ch_text text = {0};
  ch_text_printf(&text, "{{ %s", before);
  for (int i = 0; i < count; i++) ch_text_puts(&text, piece);
  ch_text_printf(&text, "%s }}", after);
  assert_false(text.failed);
  return text.data;
}

static void long_chains_of_operators_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *before, *piece, *after, *why;
    int fine;
  } cases[] = {
      {"", "not ", "t", "\"not\"s are nested more than 64 deep", 60},
      {"", "1+", "1", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"", "q and ", "q", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"", "q or ", "q", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"", "t ~ ", "t", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"t", "|trim", "", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"t", ".strip()", "", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"t", "[0]", "", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"t", "[0:]", "", "more than 256 operators and filters", CH_TEMPLATE_HEIGHT},
      {"", "1 if q else ", "1", "brackets are nested more than 64 deep", 60},
      {"", "(", "q", "brackets are nested more than 64 deep", 0},
      {"", "[", "q", "brackets are nested more than 64 deep", 0},
      {"t", "|trim(t", "", "brackets are nested more than 64 deep", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = chain(cases[i].before, cases[i].piece, cases[i].fine, cases[i].after);
    assert_fills(text);
    free(text);
    text = chain(cases[i].before, cases[i].piece, 100000, cases[i].after);
    assert_refused(text, cases[i].why);
    free(text);
  }
}

static void nested_statements_are_refused(void **state) {
  (void)state;
  static const char *const pieces[] = {"{% if q %}", "{% for x in [1] %}", "{% if q %}{% elif q %}"};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    ch_text text = {0};
    for (int n = 0; n < 50000; n++) ch_text_puts(&text, n > 0 && i == 2 ? "{% elif q %}" : pieces[i]);
    assert_refused(text.data, "nested more than 64 deep");
    ch_text_free(&text);
  }
}

/* A template that sets x to a string, doubled `count` times. */
#define DOUBLED(count)                                                                                       \
  "{% set n=namespace(x='0123456789abcdef') %}{% for i in range(" #count                                     \
  ") %}{% set n.x=n.x~n.x %}{% endfor %}{% set x=n.x %}"
#define BYTES "more than 256 MiB of strings and lists"

/* The cases of refuse_all are thirty times as slow under the sanitizers, which run only the first two of each list. */
enum { MOST_CASES = SANITIZED ? 2 : 1000 };

static void refuse_all(const char *const cases[][2], size_t count) {
  for (size_t i = 0; i < count && i < MOST_CASES; i++) assert_refused(cases[i][0], cases[i][1]);
}

static void values_that_grow_without_bound_are_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{% set n=namespace(x=[]) %}{% for i in range(512) %}{% set n.x=[n.x] %}{% endfor %}.",
       "lists are nested more than 64 deep"},
      {"{% set n=namespace(x=['a']) %}{% for i in range(30) %}{% set n.x=[n.x,n.x,n.x] %}{% endfor %}.",
       "a list exceeds 1048576 elements"},
      {"{% set n=namespace(x=['a']) %}{% for i in range(30) %}{% set n.x=n.x+n.x %}{% endfor %}.", BYTES},
      {DOUBLED(30) ".", BYTES},
      {DOUBLED(20) "{% set n.l=[] %}{% for i in range(128) %}{% set n.l=n.l+[x~i] %}{% endfor %}.", BYTES},
      {DOUBLED(16) "{{ x.replace('0', x) | length }}.", "a string exceeds 64 MiB"},
      {DOUBLED(16) "{{ [x, x, x, x, x, x, x, x] | join(x) | regex_replace('0', '\\\\1' ~ x) }}.", "test"},
      {DOUBLED(
           18) "{% set n.l=[x] %}{% for i in range(8) %}{% set n.l=n.l+n.l %}{% endfor %}{{ n.l | join }}.",
       "test"},
      {DOUBLED(20) "{{ x.split('0') | length }}.", "a list exceeds"},
      {DOUBLED(20) "{{ ('[' ~ x ~ ']') | literal }}.", BYTES},
      {"{{ range(65537) | length }}.", "range goes up to 65536, not to 65537"},
      {"{{ 9223372036854775808 }}", "beyond 64 bits"},
  };
  refuse_all(cases, sizeof cases / sizeof *cases);
}

static void work_without_end_is_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{% set r=range(60000) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}.",
       "more than 1048576 steps"},
      {"{% for i in range(65536) %}{% set j=range(65536) %}{% endfor %}.", BYTES},
      {DOUBLED(18) "{% for i in range(60000) %}{% if 'z' in x %}{% endif %}{% endfor %}.", BYTES},
      {DOUBLED(18) "{% for i in range(60000) %}{% set y=x[99] %}{% endfor %}.", BYTES},
      {DOUBLED(18) "{% for i in range(60000) %}{% set y=x==x %}{% endfor %}.", BYTES},
      {"{% for i in range(65536) %}{% set y='a'|regex_replace('(a|b){100}' ~ i, '') %}{% endfor %}.", BYTES},
      /* patterns that backtrack */
      {"{% set n=namespace(x='((((((((((((((((') %}{% for i in range(12) %}{% set n.x=n.x~n.x %}{% endfor %}"
       "{{ n.x | regex_replace('\\(.*?[)z]', '') }}.",
       BYTES},
      {DOUBLED(14) "{{ x | regex_replace('(?>[0-9a-f]*)[yz]', '') }}.", BYTES},
      {DOUBLED(14) "{{ x | regex_replace('([0-9a-f]*)\\1[yz]', '') }}.", BYTES},
  };
  refuse_all(cases, sizeof cases / sizeof *cases);
}

static void work_that_real_prompts_need_goes_through(void **state) {
  (void)state;
  assert_fills(DOUBLED(16) "{{ x.replace('0', 'zero') | regex_replace('[a-c]+', '<\\0>') | length }}");
  assert_fills("{% set n=namespace(l=[]) %}{% for i in range(1000) %}{% set n.l=n.l+[i] %}{% endfor %}{{ n.l "
               "| join(' ') }}.");
  assert_fills("{% set n=namespace(x=q) %}{% for i in range(60) %}{% set n.x=[n.x] %}{% endfor %}.");
  assert_fills("{% for i in range(100) %}{% set y=t|regex_replace('a' ~ i, '') %}{% endfor %}.");
  /* At every sixteenth place, half of the text matches. A search by plain comparison would take hours. */
  assert_fills(DOUBLED(20) "{{ x.rfind(x[:8388608] ~ 'g') }}");
}

/* --- tasks -------------------------------------------------------------------------------------------------- */

static ch_status read_task(const char *form, int forms, ch_error *error) {
  ch_text text = {0};
  ch_task *task = NULL;
  ch_text_puts(&text, "{\"task\":\"t\",\"output_type\":\"loglikelihood\",\"metrics\":[\"acc\"],\"forms\":[");
  for (int i = 0; i < forms; i++) ch_text_printf(&text, "%s%s", i > 0 ? "," : "", form);
  ch_text_puts(&text, "]}");
  ch_status status = ch_task_parse(text.data, text.size, "t.json", &task, error);
  ch_task_free(task);
  ch_text_free(&text);
  return status;
}

static void a_task_has_no_more_than_64_forms(void **state) {
  (void)state;
  static const char form[] = "{\"fields\":[\"q\"],\"doc_to_text\":\"\",\"doc_to_target\":\"\"}";
  ch_error error = {0};
  assert_int_equal(read_task(form, 64, &error), CH_OK);
  assert_int_equal(read_task(form, 65, &error), CH_ERROR_CONFIG);
  assert_string_equal(error.message, "t.json: \"forms\" must be a list of 1 to 64 objects");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_chains_of_operators_are_refused),
      cmocka_unit_test(nested_statements_are_refused),
      cmocka_unit_test(values_that_grow_without_bound_are_refused),
      cmocka_unit_test(work_without_end_is_refused),
      cmocka_unit_test(work_that_real_prompts_need_goes_through),
      cmocka_unit_test(a_task_has_no_more_than_64_forms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

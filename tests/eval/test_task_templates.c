/* Tests templates of task descriptions against the results of Jinja and Python, and templates that are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "template/python_literal.h"
#include "eval/tasks/python_random.h"
#include "template/template.h"

static const char fields[] = "{\"text\": \"  a caf\\u00e9  b \", \"n\": 7, \"list\": [\"x\", \"y\", \"z\"], "
                             "\"deep\": {\"a\": {\"b\": 5}}, "
                             "\"items\": [{\"t\": \"p\", \"k\": 1}, {\"t\": \"q\", \"k\": 2}], \"label\": "
                             "\"2\", \"yes\": true, \"empty\": \"\"}";

static ch_status fill(const char *text, json_t **value, ch_error *error) {
  ch_template *template;
  ch_template_scope scope = {.fields = json_loads(fields, 0, NULL)};
  json_t *object = scope.fields;
  *value = NULL;
  ch_status status = ch_template_parse(text, CH_TEMPLATE_TASK, "test", &template, error);
  if (status == CH_OK) status = ch_template_value(template, &scope, value, error);
  if (status == CH_OK || template) ch_template_free(template);
  ch_template_scope_free(&scope);
  json_decref(object);
  return status;
}

/* Each case is a template and the JSON text of its value. */
static void templates_give_what_jinja_gives(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"plain", "\"plain\""},
      {"{{ n }}", "7"},
      {"{{ n }} of {{ list | length }}", "\"7 of 3\""},
      {"{{ yes }} {{ none }}", "\"True None\""},
      {"{{ text.strip() }}|", "\"a caf\\u00e9  b|\""},
      {"{{ text | trim | length }}", "9"},
      {"{{ text.strip()[2:6] }}", "\"caf\\u00e9\""},
      {"{{ text.strip()[-1] ~ n }}", "\"b7\""},
      {"{{ text.split() }}", "[\"a\", \"caf\\u00e9\", \"b\"]"},
      {"{{ 'a b  c'.split(' ') }}", "[\"a\", \"b\", \"\", \"c\"]"},
      {"{{ text.split(' ')[:-1] | join(' ') }}", "\"  a caf\\u00e9  b\""},
      {"{{ list[1:] + ['w'] }}", "[\"y\", \"z\", \"w\"]"},
      {"{{ list.index('z') }}", "2"},
      {"{{ deep.a.b * 2 - 1 }}", "9"},
      {"{{ -7 // 2 }} {{ -7 % 3 }}", "\"-4 2\""},
      {"{{ (label | int) - 1 }}", "1"},
      {"{{ items | map(attribute='t') }}", "[\"p\", \"q\"]"},
      {"{{ list | map('upper') | join('') }}", "\"XYZ\""},
      {"{{ 'x' in list and 'w' not in list }}", "true"},
      {"{{ 'caf' in text }}", "true"},
      {"{{ 1 in {1: 'a'} and 2 not in {1: 'a'} and '1' not in {1: 'a'} }}", "true"},
      {"{{ 1 is in({1: 'a'}) }}", "true"},
      {"{{ 'one' if n == 7 else 'other' }}", "\"one\""},
      {"{{ empty or 'nothing' }}", "\"nothing\""},
      {"{{ not empty }}", "true"},
      {"{{ 'hELLO wORLD'.capitalize() }}", "\"Hello world\""},
      {"{{ '\xc3\xa9t\xc3\xa9'.upper() }}", "\"\\u00c9T\\u00c9\""},
      {"{{ 'a [b] c [d]' | regex_replace('\\[.*?\\]', '') }}", "\"a  c \""},
      {"{{ '( a ) $1' | regex_replace('\\(\\s*([^\\)]*?)\\s*\\)', '(\\1)') }}", "\"(a) $1\""},
      {"{% set a = n + 1 %}{{ a }}", "8"},
      {"{% set a = n %}{% set b = a + 1 %}{{ b }}!", "\"8!\""},
      {"{% for x in list %}{% if x == 'y' %}[{{ x }}]{% elif x == 'z' %}.{% else %}-{% endif %}{% endfor %}",
       "\"-[y].\""},
      {"{% for i in range(3) %}{{ i }}{% endfor %}", "\"012\""},
      {"a {{- n -}} b", "\"a7b\""},
      {"{{ deep.keys() }}", "[\"a\"]"},
      {"{{ deep.a.values() }}", "[5]"},
      {"{{ \"[{'q': 'it\\\\'s', 'o': [1, -2.5, True, None,]}]\" | literal }}",
       "[{\"q\": \"it's\", \"o\": [1, -2.5, true, null]}]"},
      {"{{ '[(1), (2,), (3, 4), ()]' | literal }}", "[1, [2], [3, 4], []]"},
      {"{{ 'a\\nb' }}", "\"a\\nb\""},
      {"{ {n} }", "\"{ {n} }\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error = {0};
    json_t *value, *expected = json_loads(cases[i][1], JSON_DECODE_ANY, NULL);
    assert_non_null(expected);
    if (fill(cases[i][0], &value, &error) != CH_OK) fail_msg("%s: %s", cases[i][0], error.message);
    if (!json_equal(value, expected))
      fail_msg("%s gives %s, not %s", cases[i][0], json_dumps(value, JSON_ENCODE_ANY), cases[i][1]);
    json_decref(value);
    json_decref(expected);
  }
}

static void broken_templates_and_wrong_values_are_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{{ nothing }}", "no field \"nothing\""},
      {"{{ deep.c }}", "no field \"c\""},
      {"{{ n.a }}", "without fields"},
      {"{{ list[3] }}", "out of range"},
      {"{{ n + 'a' }}", "different types"},
      {"{{ n // 0 }}", "division by zero"},
      {"{{ n", "}} is missing"},
      {"{{ n }", "}} is missing"},
      {"{{ 'abc }}", "does not end"},
      {"{{ n | trimm }}", "did you mean \"trim\""},
      {"{{ n.frobnicate() }}", "no filter or method"},
      {"{% if n %}", "endif"},
      {"{% for x in list %}", "endfor"},
      {"{% endfor %}", "without its beginning"},
      {"{% while n %}", "use set, for, if"},
      {"{% for x in n %}{% endfor %}", "'for' needs a list"},
      {"{% set deep.c = 1 %}", "members of a namespace"},
      {"{% set n=namespace() %}{% set n.a=[n] %}", "cannot contain itself"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "too deeply"},
      {"{{ f(1) }}", "no function or macro \"f\""},
      {"{{ n is evn }}", "did you mean \"even\""},
      {"{{ text | regex_replace('(', '') }}", "pattern"},
      {"{{ 'x' | literal }}", "literal"},
      {"{{ text | int }}", "whole number"},
      {"{{ ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1", "more than 64 deep"},
      {"{% set m = namespace(a='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set m.a = m.a + m.a %}{% "
       "endfor %}",
       "256 MiB"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error = {0};
    json_t *value;
    if (fill(cases[i][0], &value, &error) == CH_OK) fail_msg("%s is accepted", cases[i][0]);
    assert_null(value);
    if (!strstr(error.message, cases[i][1])) fail_msg("%s: %s", cases[i][0], error.message);
  }
}

static void literals_of_python_that_are_broken_are_refused(void **state) {
  (void)state;
  static const char *const cases[] = {"",   "[",    "[1",   "[1 2]",  "{'a'}", "{1: 2}",
                                      "'a", "[1]]", "nope", "'\\x0'", "1e",    "--1"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error = {0};
    if (ch_python_literal(cases[i], strlen(cases[i]), &error)) fail_msg("%s is accepted", cases[i]);
    assert_true(error.message[0]);
  }
}

/* The expected numbers are those of random.Random(1234) in CPython 3.11. */
static void random_numbers_are_python_s(void **state) {
  (void)state;
  static const int64_t expected[][8] = {
      {99, 56, 14}, {15, 185, 1865, 1930, 1923, 1652}, {21, 22, 2, 3, 24, 11, 7, 0}};
  static const int64_t population[] = {100, 2000, 30}, count[] = {3, 6, 8};
  ch_python_random random;
  int64_t chosen[8];
  ch_python_seed(&random, 1234);
  for (int i = 0; i < 3; i++) {
    assert_true(ch_python_sample(&random, population[i], count[i], chosen));
    for (int64_t k = 0; k < count[i]; k++) assert_int_equal(chosen[k], expected[i][k]);
    if (i == 1) assert_true(ch_python_uniform(&random) == 0.5822275730589491);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(templates_give_what_jinja_gives),
                                     cmocka_unit_test(broken_templates_and_wrong_values_are_refused),
                                     cmocka_unit_test(literals_of_python_that_are_broken_are_refused),
                                     cmocka_unit_test(random_numbers_are_python_s)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

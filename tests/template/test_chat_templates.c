/* Tests chat templates: each case of tests/data/templates/chat.json must render, byte for byte, as with Jinja2 3.1 and
 * the settings of transformers. null means that Jinja2 raises an error. tests/python/test_templates.py renders these
 * cases with Jinja2 itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "template/template.h"

static ch_status render(const char *text, json_t *fields, json_t **value, ch_error *error) {
  ch_template *template = NULL;
  ch_template_scope scope = {.fields = fields, .now = 1700000000};
  *value = NULL;
  ch_status status = ch_template_parse(text, CH_TEMPLATE_CHAT, "chat template", &template, error);
  if (status == CH_OK) status = ch_template_value(template, &scope, value, error);
  ch_template_free(template);
  ch_template_scope_free(&scope);
  return status;
}

static void templates_render_as_jinja_renders_them(void **state) {
  (void)state;
  json_t *root = json_load_file(TEST_DATA "/templates/chat.json", 0, NULL), *one;
  size_t i;
  assert_non_null(root);
  json_array_foreach(json_object_get(root, "cases"), i, one) {
    const char *text = json_string_value(json_array_get(one, 0)),
               *expected = json_string_value(json_array_get(one, 1));
    ch_error error = {0};
    json_t *value;
    ch_status status = render(text, json_object_get(root, "fields"), &value, &error);
    if (!expected && status == CH_OK)
      fail_msg("%s gives %s, where Jinja raises an error", text, json_string_value(value));
    if (expected && status != CH_OK) fail_msg("%s: %s", text, error.message);
    if (expected && strcmp(json_string_value(value), expected) != 0)
      fail_msg("%s gives\n%s\nnot\n%s", text, json_string_value(value), expected);
    json_decref(value);
  }
  assert_true(i > 40);
  json_decref(root);
}

static void a_template_raises_errors_in_its_own_words(void **state) {
  (void)state;
  ch_error error = {0};
  json_t *value, *fields = json_object();
  assert_int_equal(render("{{ raise_exception('Roles must alternate') }}", fields, &value, &error),
                   CH_ERROR_ARGUMENT);
  assert_string_equal(error.message, "Roles must alternate");
  assert_null(value);
  json_decref(fields);
}

/* The time is 22:13:20 UTC; the year is the same in every time zone. */
static void the_time_is_the_one_of_the_scope(void **state) {
  (void)state;
  ch_error error = {0};
  json_t *value, *fields = json_object();
  assert_int_equal(render("{{ strftime_now('%Y') }}", fields, &value, &error), CH_OK);
  assert_string_equal(json_string_value(value), "2023");
  json_decref(value);
  json_decref(fields);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(templates_render_as_jinja_renders_them),
      cmocka_unit_test(a_template_raises_errors_in_its_own_words),
      cmocka_unit_test(the_time_is_the_one_of_the_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Jinja's tests: {{ value is name }}. */
#include <string.h>

#include "base/text.h"
#include "template/template_private.h"

const char *const ch_template_tests[] = {
    "defined",     "undefined", "none",    "string",      "number",   "integer",  "float", "boolean",
    "true",        "false",     "mapping", "iterable",    "sequence", "callable", "odd",   "even",
    "divisibleby", "in",        "equalto", "eq",          "==",       "sameas",   "ne",    "lt",
    "lessthan",    "le",        "gt",      "greaterthan", "ge",       "lower",    "upper", NULL};

bool ch_template_knows_test(const char *name) {
  return name && ch_in_list(name, ch_template_tests);
}

/* Returns the result of a test about the type of a value, 0 or 1; -1 if `name` is another kind of test. */
static int test_type(const char *name, const json_t *value) {
  bool undefined = value == ch_template_undefined(), string = json_is_string(value),
       array = json_is_array(value);
  const struct {
    const char *name;
    bool holds;
  } types[] = {
      {"defined", !undefined},
      {"undefined", undefined},
      {"none", json_is_null(value) && !undefined},
      {"string", string},
      {"number", json_is_number(value) || (json_is_boolean(value) && !ch_template_is_callable(value))},
      {"integer", json_is_integer(value)},
      {"float", json_is_real(value)},
      {"boolean", json_is_boolean(value) && !ch_template_is_callable(value)},
      {"true", json_is_true(value) && !ch_template_is_callable(value)},
      {"false", json_is_false(value)},
      {"mapping", json_is_object(value)},
      {"iterable", string || array || json_is_object(value) || undefined},
      {"sequence", string || array || json_is_object(value) || undefined},
      {"callable", ch_template_is_callable(value)}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, name) == 0) return types[i].holds;
  return -1;
}

static int wrong(const ch_template_call *c, const char *what) {
  ch_template_refuse(c, what);
  return -1;
}

static int test_number(const ch_template_call *c) {
  json_int_t by = json_is_integer(ch_template_argument(c, 0, "num"))
                      ? json_integer_value(ch_template_argument(c, 0, "num"))
                      : 0;
  if (!json_is_integer(c->self)) return wrong(c, "needs a whole number");
  json_int_t value = json_integer_value(c->self);
  if (strcmp(c->name, "odd") == 0) return value % 2 != 0;
  if (strcmp(c->name, "even") == 0) return value % 2 == 0;
  if (by == 0) return wrong(c, "needs a whole number other than 0 to divide by");
  return by == -1 || value % by == 0;
}

static int test_order(const ch_template_call *c, const json_t *other) {
  double order;
  if (!ch_template_order(c->self, other, &order)) return wrong(c, "compares two numbers or two strings");
  char kind = c->name[0];
  bool equal = strcmp(c->name, "le") == 0 || strcmp(c->name, "ge") == 0;
  return (equal && order == 0) || (kind == 'l' ? order < 0 : order > 0);
}

/* Returns the result of the test `in`, like the operator. */
static int test_in(const ch_template_call *c, const json_t *other) {
  if (json_is_string(other) && json_is_string(c->self))
    return strstr(json_string_value(other), json_string_value(c->self)) != NULL;
  if (json_is_object(other)) return ch_template_has_key(other, c->self);
  if (!json_is_array(other)) return wrong(c, "needs a list, an object, or a string in a string");
  for (size_t i = 0; i < json_array_size(other); i++)
    if (ch_template_equal(json_array_get(other, i), c->self)) return 1;
  return 0;
}

/* Returns 1 if the filter with the test's name, "lower" or "upper", does not change the text. */
static int test_case(const ch_template_call *c) {
  if (!json_is_string(c->self)) return wrong(c, "needs a text");
  json_t *changed = ch_template_apply_call(c);
  int same = changed ? json_equal(changed, c->self) : -1;
  json_decref(changed);
  return same;
}

int ch_template_test(const ch_template_call *c) {
  const char *name = c->name;
  const json_t *other = ch_template_argument(c, 0, "other");
  int type = test_type(name, c->self);
  if (type >= 0) return type;
  if (strcmp(name, "odd") == 0 || strcmp(name, "even") == 0 || strcmp(name, "divisibleby") == 0)
    return test_number(c);
  if (strcmp(name, "lower") == 0 || strcmp(name, "upper") == 0) return test_case(c);
  if (!other) return wrong(c, "needs a value to compare with");
  if (strcmp(name, "in") == 0) return test_in(c, other);
  if (strcmp(name, "ne") == 0) return !ch_template_equal(c->self, other);
  if (name[0] == 'l' || name[0] == 'g') return test_order(c, other);
  return ch_template_equal(c->self, other); /* eq, equalto, ==, sameas */
}

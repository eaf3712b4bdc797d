/* The table of methods and filters, and the methods and filters of lists, objects, numbers and any value. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "template/template_private.h"

typedef ch_template_call call;

const char *const ch_template_functions[] = {
    "strip",      "trim",       "lstrip",       "rstrip",        "split",
    "splitlines", "join",       "replace",      "regex_replace", "lower",
    "upper",      "capitalize", "title",        "startswith",    "endswith",
    "index",      "find",       "count",        "length",        "int",
    "float",      "abs",        "round",        "string",        "list",
    "values",     "keys",       "items",        "get",           "first",
    "last",       "map",        "select",       "reject",        "selectattr",
    "rejectattr", "attribute",  "literal",      "default",       "d",
    "tojson",     "dictsort",   "sort",         "unique",        "reverse",
    "sum",        "min",        "max",          "indent",        "safe",
    "escape",     "e",          "removeprefix", "removesuffix",  "isdigit",
    "isalpha",    "isspace",    "isalnum",      "isupper",       "islower",
    "rsplit",     "rfind",      "partition",    "rpartition",    NULL};

bool ch_template_knows(const char *name) {
  return name && ch_in_list(name, ch_template_functions);
}

static bool is_undefined(const json_t *value) {
  return value == ch_template_undefined();
}

/* Returns true if an argument is given and its value is true. */
static bool flag(const call *c, int position, const char *keyword) {
  const json_t *value = ch_template_argument(c, position, keyword);
  return value && ch_template_true(value);
}

/* --- numbers -------------------------------------------------------------------------------------------- */

/* Returns the result of int or float for a value that is not a number: the default or, in chat templates, 0. Tasks need
   a default. */
static json_t *without_number(const call *c, const char *what, json_t *zero) {
  json_t *value = ch_template_argument(c, 0, "default");
  if (!value && c->dialect == CH_TEMPLATE_CHAT) return zero;
  json_decref(zero);
  return value ? json_incref(value) : ch_template_refuse(c, what);
}

static json_t *whole_number(const call *c) {
  if (json_is_integer(c->self)) return json_incref(c->self);
  if (json_is_boolean(c->self)) return json_integer(json_is_true(c->self));
  if (json_is_real(c->self) && json_real_value(c->self) > -1e15 && json_real_value(c->self) < 1e15)
    return json_integer((int64_t)json_real_value(c->self));
  const char *text = json_string_value(c->self);
  char *after = NULL;
  long long whole = text ? strtoll(text, &after, 10) : 0;
  while (after && ch_is_white_space((unsigned char)*after)) after++;
  if (!text || after == text || *after || whole == LLONG_MAX || whole == LLONG_MIN)
    return without_number(c, "needs a whole number", json_integer(0));
  return json_integer(whole);
}

static json_t *real_number(const call *c) {
  const char *text = json_string_value(c->self);
  char *after = NULL;
  double value = text                       ? strtod(text, &after)
                 : json_is_boolean(c->self) ? json_is_true(c->self)
                                            : json_number_value(c->self);
  while (after && ch_is_white_space((unsigned char)*after)) after++;
  bool number = text ? after != text && !*after : json_is_number(c->self) || json_is_boolean(c->self);
  if (!number || !isfinite(value)) return without_number(c, "needs a number", json_real(0));
  return json_real(value);
}

static json_t *absolute(const call *c) {
  if (json_is_integer(c->self) && json_integer_value(c->self) > LLONG_MIN)
    return json_integer(llabs(json_integer_value(c->self)));
  return json_is_real(c->self) ? json_real(fabs(json_real_value(c->self)))
                               : ch_template_refuse(c, "needs a number");
}

/* Rounds half to even, as Python does, or by the method "ceil" or "floor". */
static json_t *rounded(const call *c) {
  const json_t *digits = ch_template_argument(c, 0, "precision");
  const char *way = ch_template_text_argument(c, 1, "method");
  json_int_t places = json_is_integer(digits) ? json_integer_value(digits) : 0;
  if (!json_is_number(c->self) || places < -300 || places > 300)
    return ch_template_refuse(c, "needs a number, and at most 300 digits");
  double scale = pow(10, (double)places), value = json_number_value(c->self), result;
  char text[400];
  if (way && strcmp(way, "ceil") == 0)
    result = ceil(value * scale) / scale;
  else if (way && strcmp(way, "floor") == 0)
    result = floor(value * scale) / scale;
  else if (places < 0)
    result = nearbyint(value * scale) / scale;
  else {
    /* correctly rounded, like Python's round */
    snprintf(text, sizeof text, "%.*f", places > 60 ? 60 : (int)places, value);
    result = strtod(text, NULL);
  }
  return isfinite(result) ? json_real(result) : ch_template_refuse(c, "has a result that is not finite");
}

/* --- elements and their fields -------------------------------------------------------------------------- */

/* Returns the field of a path such as "function.name", or undefined if there is none. The result is borrowed. */
static json_t *field_of(const json_t *value, const char *path) {
  char name[128];
  while (*path) {
    size_t size = strcspn(path, ".");
    if (size >= sizeof name) return ch_template_undefined();
    memcpy(name, path, size);
    name[size] = 0;
    char *after;
    long place = strtol(name, &after, 10);
    json_t *next = json_is_array(value) && !*after && size ? json_array_get(value, (size_t)place)
                                                           : json_object_get(value, name);
    if (!next) return ch_template_undefined();
    value = next;
    path += size + (path[size] == '.');
  }
  return (json_t *)(uintptr_t)value;
}

/* Returns the value of `attribute` in an element; without an attribute, the element itself. The result is borrowed. */
static json_t *looked_at(const json_t *element, const char *attribute) {
  return attribute ? field_of(element, attribute) : (json_t *)(uintptr_t)element;
}

/* Calls a filter (`test` false) or test by name on `self`, with the arguments from `first` on. */
static json_t *call_by_name(const call *c, const char *name, bool test, json_t *self, int first) {
  call inner = *c;
  inner.name = name;
  inner.self = self;
  inner.method = false;
  inner.in = c->in + first;
  inner.keywords = c->keywords ? c->keywords + first : NULL;
  inner.count = c->count > first ? c->count - first : 0;
  if (!test) return ch_template_apply_call(&inner);
  int holds = ch_template_test(&inner);
  return holds < 0 ? NULL : json_boolean(holds);
}

static json_t *map(const call *c, const json_t *list) {
  const char *attribute = ch_template_text_argument(c, -1, "attribute"),
             *name = ch_template_text_argument(c, 0, "filter");
  json_t *otherwise = ch_template_argument(c, -1, "default"), *result = json_array();
  if (!attribute && (!name || !ch_template_knows(name) || strcmp(name, "map") == 0)) {
    json_decref(result);
    return ch_template_refuse(c, "needs the name of a filter, or attribute='name'");
  }
  for (size_t i = 0; result && i < json_array_size(list); i++) {
    json_t *element = json_array_get(list, i), *value;
    if (attribute) {
      value = json_incref(looked_at(element, attribute));
      if (is_undefined(value) && otherwise) value = json_incref(otherwise);
      if (is_undefined(value) && c->dialect == CH_TEMPLATE_TASK)
        value = ch_template_refuse(c, "does not find the field in an element");
    } else {
      value = call_by_name(c, name, false, element, 1);
    }
    if (json_array_append_new(result, value) == 0) continue;
    json_decref(result);
    result = NULL;
  }
  return result;
}

/* Returns the elements for which the result of a test equals `wanted`. Without a test, the truth value is the result.
   The test examines the element or, if `by_field`, the field that the first argument names. */
static json_t *choose(const call *c, const json_t *list, bool by_field, bool wanted) {
  const char *attribute = by_field ? ch_template_text_argument(c, 0, "attribute") : NULL;
  const char *test = ch_template_text_argument(c, by_field, "test");
  json_t *result = json_array();
  if ((by_field && !attribute) || (test && !ch_template_knows_test(test))) {
    json_decref(result);
    return ch_template_refuse(c, by_field ? "needs the name of a field, and perhaps of a test"
                                          : "needs the name of a test");
  }
  for (size_t i = 0; result && i < json_array_size(list); i++) {
    json_t *element = json_array_get(list, i), *value = looked_at(element, attribute);
    json_t *holds =
        test ? call_by_name(c, test, true, value, by_field + 1) : json_boolean(ch_template_true(value));
    bool failed = !holds || (json_is_true(holds) == wanted && json_array_append(result, element) != 0);
    json_decref(holds);
    if (!failed) continue;
    json_decref(result);
    result = NULL;
  }
  return result;
}

/* --- order ---------------------------------------------------------------------------------------------- */

typedef struct sorted {
  json_t *key, *element;
  size_t place;
  bool *failed;
} sorted;

static int by_key(const void *left, const void *right) {
  const sorted *a = left, *b = right;
  double order = 0;
  if (!ch_template_order(a->key, b->key, &order)) *a->failed = true;
  if (order != 0) return order < 0 ? -1 : 1;
  return a->place < b->place ? -1 : 1; /* sorting is stable */
}

/* Returns the sort key of a value as a new value: in lower case if it is a text and case does not matter. */
static json_t *key_of(const call *c, json_t *value, bool case_sensitive) {
  if (!json_is_string(value) || case_sensitive) return json_incref(value);
  call lower = *c;
  lower.name = "lower";
  lower.self = value;
  lower.count = 0;
  return ch_template_apply_call(&lower);
}

/* Returns the elements sorted by their keys; keys[i] belongs to element i. Both lists are borrowed. */
static json_t *sort_by(const call *c, const json_t *list, const json_t *keys, bool reverse) {
  size_t count = json_array_size(list);
  sorted *all = calloc(count + 1, sizeof *all);
  json_t *result = all ? json_array() : NULL;
  bool failed = false;
  /* in reverse order, `place` counts down, so that equal elements stay in order */
  for (size_t i = 0; all && i < count; i++)
    all[i] = (sorted){.key = json_array_get(keys, i),
                      .element = json_array_get(list, i),
                      .place = reverse ? count - i : i,
                      .failed = &failed};
  if (all) qsort(all, count, sizeof *all, by_key);
  for (size_t i = 0; result && i < count; i++)
    if (json_array_append(result, all[reverse ? count - 1 - i : i].element) != 0) {
      json_decref(result);
      result = NULL;
    }
  free(all);
  if (!failed) return result;
  json_decref(result);
  return ch_template_refuse(c, "needs elements that are all numbers or all strings");
}

static json_t *keys_for_order(const call *c, const json_t *list, const char *attribute, bool case_sensitive) {
  json_t *keys = json_array();
  for (size_t i = 0; keys && i < json_array_size(list); i++)
    if (json_array_append_new(
            keys, key_of(c, looked_at(json_array_get(list, i), attribute), case_sensitive)) != 0) {
      json_decref(keys);
      keys = NULL;
    }
  return keys;
}

static json_t *sort(const call *c, const json_t *list) {
  json_t *keys =
      keys_for_order(c, list, ch_template_text_argument(c, 2, "attribute"), flag(c, 1, "case_sensitive"));
  json_t *result = keys ? sort_by(c, list, keys, flag(c, 0, "reverse")) : NULL;
  json_decref(keys);
  return result;
}

static json_t *unique(const call *c, const json_t *list) {
  json_t *keys =
      keys_for_order(c, list, ch_template_text_argument(c, 1, "attribute"), flag(c, 0, "case_sensitive"));
  json_t *result = keys ? json_array() : NULL;
  for (size_t i = 0; result && i < json_array_size(list); i++) {
    bool seen = false;
    if (!ch_template_spend(c->scope, i, c->error)) {
      json_decref(result);
      result = NULL;
      break;
    }
    for (size_t k = 0; k < i && !seen; k++)
      seen = ch_template_equal(json_array_get(keys, k), json_array_get(keys, i));
    if (seen || json_array_append(result, json_array_get(list, i)) == 0) continue;
    json_decref(result);
    result = NULL;
  }
  json_decref(keys);
  return result;
}

/* Returns the smallest or largest element, or undefined for an empty list. */
static json_t *extreme(const call *c, const json_t *list) {
  json_t *keys =
      keys_for_order(c, list, ch_template_text_argument(c, 1, "attribute"), flag(c, 0, "case_sensitive"));
  json_t *ordered = keys ? sort_by(c, list, keys, c->name[1] == 'a') : NULL;
  json_t *first = ordered ? json_array_get(ordered, 0) : NULL;
  json_t *result = !ordered ? NULL : first ? json_incref(first) : ch_template_undefined();
  json_decref(keys);
  json_decref(ordered);
  return result;
}

static json_t *sum(const call *c, const json_t *list) {
  const char *attribute = ch_template_text_argument(c, 0, "attribute");
  double real = 0;
  json_int_t whole = 0;
  bool is_whole = true;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = looked_at(json_array_get(list, i), attribute);
    if (!json_is_number(value)) return ch_template_refuse(c, "needs numbers");
    is_whole = is_whole && json_is_integer(value) &&
               !__builtin_add_overflow(whole, json_integer_value(value), &whole);
    real += json_number_value(value);
  }
  return is_whole ? json_integer(whole) : json_real(real);
}

/* --- lists ---------------------------------------------------------------------------------------------- */

static json_t *join(const call *c, const json_t *list) {
  ch_text text = {0};
  const json_t *between = ch_template_argument(c, 0, "d");
  const char *attribute = ch_template_text_argument(c, 1, "attribute"),
             *with = between ? json_string_value(between) : "";
  if (!with) return ch_template_refuse(c, "needs the string to put between the elements");
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_t *piece = ch_template_text(looked_at(json_array_get(list, i), attribute), c->error);
    bool fits = piece && ch_template_put(c, &text, with, i > 0 ? strlen(with) : 0) &&
                ch_template_put(c, &text, json_string_value(piece), json_string_length(piece));
    json_decref(piece);
    if (fits) continue;
    ch_text_free(&text);
    return NULL;
  }
  return ch_template_finish(c, &text);
}

static json_t *list_index(const call *c) {
  for (size_t i = 0; c->count == 1 && i < json_array_size(c->self); i++)
    if (ch_template_equal(json_array_get(c->self, i), c->in[0])) return json_integer((json_int_t)i);
  return ch_template_refuse(c, "does not find the element");
}

static json_t *count_equal(const call *c) {
  json_int_t count = 0;
  for (size_t i = 0; i < json_array_size(c->self); i++)
    count += ch_template_equal(json_array_get(c->self, i), c->in[0]);
  return json_integer(count);
}

static json_t *end_of(const call *c, const json_t *list, bool last) {
  size_t count = json_array_size(list);
  if (count > 0) return json_incref(json_array_get(list, last ? count - 1 : 0));
  return c->dialect == CH_TEMPLATE_CHAT ? ch_template_undefined()
                                        : ch_template_refuse(c, "is applied to an empty list");
}

static json_t *reverse(const call *c, const json_t *list) {
  json_t *result = json_array();
  for (size_t i = json_array_size(list); result && i-- > 0;)
    if (json_array_append(result, json_array_get(list, i)) != 0) {
      json_decref(result);
      return NULL;
    }
  if (!json_is_string(c->self) || !result) return result;
  json_t *none = json_string(""),
         *text = none ? ch_template_apply(c->scope, "join", result, &none, 1, c->error) : NULL;
  json_decref(none);
  json_decref(result);
  return text;
}

/* --- objects -------------------------------------------------------------------------------------------- */

/* Returns [[key, value] ...], or an empty list for undefined. */
static json_t *items(const json_t *object) {
  json_t *list = json_array(), *value;
  const char *key;
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    if (!list || json_array_append_new(list, json_pack("[o, O]", ch_template_key_value(key), value)) == 0)
      continue;
    json_decref(list);
    list = NULL;
  }
  return list;
}

static json_t *values(const json_t *object) {
  json_t *list = json_array(), *value;
  const char *key;
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    if (!list || json_array_append(list, value) == 0) continue;
    json_decref(list);
    list = NULL;
  }
  return list;
}

static json_t *get(const call *c) {
  char buffer[CH_TEMPLATE_KEY];
  json_t *given = ch_template_argument(c, 0, "key"), *otherwise = ch_template_argument(c, 1, "default");
  const char *key = given ? ch_template_key(given, buffer) : NULL;
  json_t *value = key ? json_object_get(c->self, key) : NULL;
  return value ? json_incref(value) : otherwise ? json_incref(otherwise) : json_null();
}

/* Sorts the items by key, or by value. */
static json_t *dictsort(const call *c) {
  const char *by = ch_template_text_argument(c, 1, "by");
  json_t *list = items(c->self),
         *keys = list ? keys_for_order(c, list, by && strcmp(by, "value") == 0 ? "1" : "0",
                                       flag(c, 0, "case_sensitive"))
                      : NULL;
  json_t *result = keys ? sort_by(c, list, keys, flag(c, 2, "reverse")) : NULL;
  json_decref(list);
  json_decref(keys);
  return result;
}

/* --- any value ------------------------------------------------------------------------------------------ */

static json_t *to_json(const call *c) {
  bool task = c->dialect == CH_TEMPLATE_TASK;
  const json_t *indent = ch_template_argument(c, task ? 0 : 1, "indent"),
               *ascii = ch_template_argument(c, task ? -1 : 0, "ensure_ascii");
  const json_t *ordered = ch_template_argument(c, -1, "sort_keys");
  ch_template_json how = {.indent = json_is_integer(indent) ? json_integer_value(indent) : -1,
                          .ascii = ascii ? ch_template_true(ascii) : task,
                          .sorted = ordered ? ch_template_true(ordered) : task,
                          .html = task};
  ch_text text = {0};
  if (how.indent > 100) return ch_template_refuse(c, "needs an indent of at most 100");
  if (ch_template_put_json(&text, c->self, &how)) return ch_template_finish(c, &text);
  bool memory = text.failed;
  ch_text_free(&text);
  return memory ? NULL : ch_template_refuse(c, "is applied to an undefined value");
}

static json_t *otherwise(const call *c) {
  json_t *value = ch_template_argument(c, 0, "default_value");
  bool absent = is_undefined(c->self) || (flag(c, 1, "boolean") && !ch_template_true(c->self));
  if (!absent) return json_incref(c->self);
  return value ? json_incref(value) : json_string("");
}

static json_t *length(const call *c) {
  if (json_is_array(c->self)) return json_integer((json_int_t)json_array_size(c->self));
  if (json_is_object(c->self)) return json_integer((json_int_t)json_object_size(c->self));
  if (is_undefined(c->self)) return json_integer(0);
  return json_is_string(c->self) ? json_integer(ch_utf8_count(json_string_value(c->self)))
                                 : ch_template_refuse(c, "needs a string, a list or an object");
}

static json_t *attribute(const call *c) {
  const char *name = ch_template_text_argument(c, 0, "name");
  json_t *value = name ? json_object_get(c->self, name) : NULL;
  return value ? json_incref(value) : ch_template_refuse(c, "does not find the field");
}

/* Applies a filter of elements to a list, which may be the characters of a text or the keys of an object. */
static json_t *of_elements(const call *c, const json_t *list) {
  const char *name = c->name;
  if (strcmp(name, "join") == 0) return join(c, list);
  if (strcmp(name, "map") == 0) return map(c, list);
  if (strcmp(name, "select") == 0 || strcmp(name, "reject") == 0)
    return choose(c, list, false, name[0] == 's');
  if (strcmp(name, "selectattr") == 0 || strcmp(name, "rejectattr") == 0)
    return choose(c, list, true, name[0] == 's');
  if (strcmp(name, "first") == 0 || strcmp(name, "last") == 0) return end_of(c, list, name[0] == 'l');
  if (strcmp(name, "sort") == 0) return sort(c, list);
  if (strcmp(name, "unique") == 0) return unique(c, list);
  if (strcmp(name, "reverse") == 0) return reverse(c, list);
  if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) return extreme(c, list);
  if (strcmp(name, "sum") == 0) return sum(c, list);
  return json_incref((json_t *)(uintptr_t)list); /* "list" */
}

static const char *const element_filters[] = {"join",  "map",  "select", "reject", "selectattr", "rejectattr",
                                              "first", "last", "sort",   "unique", "reverse",    "min",
                                              "max",   "sum",  "list",   NULL};

static json_t *on_elements(const call *c) {
  static const char *const choosing[] = {"map", "select", "reject", "selectattr", "rejectattr", NULL};
  /* for false values, even None, these filters return an empty list */
  bool none = !ch_template_true(c->self) && ch_in_list(c->name, choosing);
  json_t *list = ch_template_elements(none ? ch_template_undefined() : c->self, c->error),
         *result = list ? of_elements(c, list) : NULL;
  json_decref(list);
  return result;
}

/* Applies a method or filter of texts. Filters convert other values to text first, as in Jinja,
   but lists and objects only if their name is in `filters`. */
static json_t *on_text(const call *c) {
  static const char *const filters[] = {"trim",    "lower",  "upper", "capitalize", "title",
                                        "replace", "escape", "e",     NULL};
  bool value = json_is_array(c->self) || json_is_object(c->self), known = false;
  bool convert = !c->method && !json_is_string(c->self) && (!value || ch_in_list(c->name, filters));
  call text = *c;
  if (convert && !(text.self = ch_template_text(c->self, c->error))) return NULL;
  json_t *result = json_is_string(text.self) ? ch_template_apply_to_text(&text, &known) : NULL;
  if (convert) json_decref(text.self);
  return result || known
             ? result
             : ch_template_refuse(c, is_undefined(c->self) ? "is applied to an undefined value"
                                                           : "cannot be applied to this type of value");
}

static json_t *result_of(const call *c) {
  const char *name = c->name;
  json_t *self = c->self;
  bool join_method = c->method && strcmp(name, "join") == 0;
  if (strcmp(name, "default") == 0 || strcmp(name, "d") == 0) return otherwise(c);
  if (strcmp(name, "int") == 0) return whole_number(c);
  if (strcmp(name, "float") == 0) return real_number(c);
  if (strcmp(name, "abs") == 0) return absolute(c);
  if (strcmp(name, "round") == 0) return rounded(c);
  if (strcmp(name, "tojson") == 0) return to_json(c);
  if (strcmp(name, "string") == 0) return ch_template_text(self, c->error);
  if (strcmp(name, "safe") == 0) return json_incref(self);
  if (strcmp(name, "length") == 0 || (strcmp(name, "count") == 0 && c->count == 0)) return length(c);
  if (strcmp(name, "attribute") == 0 && json_is_object(self)) return attribute(c);
  if (strcmp(name, "literal") == 0 && json_is_array(self)) return json_incref(self);
  if (strcmp(name, "index") == 0 && json_is_array(self)) return list_index(c);
  if (strcmp(name, "count") == 0 && json_is_array(self)) return count_equal(c);
  if (json_is_object(self) || (is_undefined(self) && !c->method && strcmp(name, "items") == 0)) {
    if (strcmp(name, "items") == 0) return items(self);
    if (strcmp(name, "keys") == 0) return ch_template_elements(self, c->error);
    if (strcmp(name, "values") == 0) return values(self);
    if (strcmp(name, "get") == 0) return get(c);
    if (strcmp(name, "dictsort") == 0) return dictsort(c);
  }
  if (ch_in_list(name, element_filters) && !join_method) return on_elements(c);
  return on_text(c);
}

json_t *ch_template_apply_call(const call *c) {
  if (!ch_template_spend(c->scope, CH_TEMPLATE_ELEMENT_BYTES, c->error) ||
      !ch_template_spend_value(c->scope, c->self, c->error))
    return NULL;
  for (int i = 0; i < c->count; i++)
    if (!ch_template_spend_value(c->scope, c->in[i], c->error)) return NULL;
  json_t *result = result_of(c);
  if (!result || ch_template_spend_value(c->scope, result, c->error)) return result;
  json_decref(result);
  return NULL;
}

json_t *ch_template_apply(ch_template_scope *scope, const char *name, json_t *self, json_t *const *in,
                          int count, ch_error *error) {
  call c = {.scope = scope, .name = name, .self = self, .in = in, .count = count, .error = error};
  return ch_template_apply_call(&c);
}

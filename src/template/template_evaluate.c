/* Evaluates the expressions of templates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/utf8.h"
#include "template/template_private.h"

typedef ch_template_filling filling;

static bool spend(filling *f, size_t bytes) {
  if (ch_template_spend(f->scope, bytes, f->error)) return true;
  ch_template_wrong_in(f);
  return false;
}

static bool spend_value(filling *f, const json_t *value) {
  if (ch_template_spend_value(f->scope, value, f->error)) return true;
  ch_template_wrong_in(f);
  return false;
}

/* Returns the value if it is within the limits for values, else releases it and returns NULL. */
static json_t *checked(filling *f, json_t *value) {
  if (!value || spend_value(f, value)) return value;
  json_decref(value);
  return NULL;
}

static bool is_undefined(const json_t *value) {
  return value == ch_template_undefined();
}

/* --- names and elements --------------------------------------------------------------------------------- */

/* Returns undefined if undefined names are allowed. Fails otherwise, with `name` in the message `format`. */
static json_t *undefined_or(filling *f, const char *format, const char *name) {
  char message[160];
  if (f->template->dialect == CH_TEMPLATE_CHAT || f->lenient) return ch_template_undefined();
  snprintf(message, sizeof message, format, name);
  return ch_template_wrong(f, CH_ERROR_FORMAT, message);
}

static const char *const functions[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
enum { FUNCTIONS = sizeof functions / sizeof *functions, FUNCTIONS_OF_TASKS = 3 };

static bool is_function(const filling *f, const char *name) {
  int count = f->template->dialect == CH_TEMPLATE_CHAT ? FUNCTIONS : FUNCTIONS_OF_TASKS;
  for (int i = 0; i < count; i++)
    if (strcmp(functions[i], name) == 0) return true;
  return false;
}

json_t *ch_template_variable(const filling *f, const char *name) {
  json_t *value = NULL;
  for (int i = f->frame_count - 1; i >= f->first_frame && !value; i--)
    value = json_object_get(f->frames[i], name);
  if (!value) value = json_object_get(f->frames[0], name);
  for (int i = f->macro_count - 1; i >= 0 && !value; i--)
    if (strcmp(f->macros[i]->names[0], name) == 0) value = (json_t *)(uintptr_t)&f->macros[i]->value;
  return value ? value : json_object_get(f->scope->fields, name);
}

static json_t *name_value(filling *f, const char *name) {
  json_t *value = ch_template_variable(f, name);
  if (!value && is_function(f, name)) value = ch_template_callable();
  return value ? json_incref(value) : undefined_or(f, "the item has no field \"%.60s\"", name);
}

static json_t *member(filling *f, const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  if (value) return json_incref(value);
  char message[160];
  if (is_undefined(object)) {
    snprintf(message, sizeof message, "\"%.60s\" is read from an undefined value", name);
    return f->lenient ? ch_template_undefined() : ch_template_wrong(f, CH_ERROR_FORMAT, message);
  }
  return undefined_or(f,
                      json_is_object(object) ? "there is no field \"%.60s\""
                                             : "\"%.60s\" is read from a value without fields",
                      name);
}

/* Returns the number of bytes before character `index` of a text. */
static size_t byte_of(const char *text, size_t size, int64_t index) {
  const unsigned char *p = (const unsigned char *)text, *end = p + size;
  uint32_t c;
  for (; index > 0 && p < end; index--) {
    size_t length = ch_utf8_decode(p, end, &c);
    p += length ? length : 1;
  }
  return (size_t)(p - (const unsigned char *)text);
}

static int64_t length_of(const json_t *value) {
  if (json_is_string(value)) return ch_utf8_count(json_string_value(value));
  return json_is_array(value) ? (int64_t)json_array_size(value) : (int64_t)json_object_size(value);
}

/* Returns the elements or characters [from, to), which must exist. */
static json_t *part(const json_t *value, int64_t from, int64_t to) {
  if (json_is_string(value)) {
    const char *text = json_string_value(value);
    size_t size = json_string_length(value), first = byte_of(text, size, from),
           last = byte_of(text, size, to);
    return json_stringn(text + first, last - first);
  }
  json_t *list = json_array();
  for (int64_t i = from; list && i < to; i++)
    if (json_array_append(list, json_array_get(value, (size_t)i)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *index_value(filling *f, const json_t *value, const json_t *at) {
  char buffer[CH_TEMPLATE_KEY];
  json_t *field = json_is_object(value) && json_is_integer(at)
                      ? json_object_get(value, ch_template_key(at, buffer))
                      : NULL;
  if (field) return json_incref(field);
  if (json_is_string(at) || is_undefined(value))
    return member(f, value, json_is_string(at) ? json_string_value(at) : "an element");
  if (json_is_object(value)) return undefined_or(f, "%s", "an object has fields and cannot be indexed");
  if ((!json_is_string(value) && !json_is_array(value)) || !json_is_integer(at))
    return ch_template_wrong(f, CH_ERROR_FORMAT,
                             "only strings and lists can be indexed, and only by whole numbers");
  if (!spend(f, json_string_length(value))) return NULL; /* finding a character reads the text */
  int64_t count = length_of(value), place = json_integer_value(at);
  if (place < 0) place += count;
  if (place < 0 || place >= count) return undefined_or(f, "%s", "an index is out of range");
  if (json_is_array(value)) return json_incref(json_array_get(value, (size_t)place));
  return part(value, place, place + 1);
}

/* Returns an end of a slice as in Python, limited to the ends of the value. */
static int64_t clamp(int64_t place, int64_t count, int64_t low, int64_t high) {
  if (place < 0) place = place < -count ? low : place + count;
  return place < low ? low : place > high ? high : place;
}

/* Returns every `step`-th element from `from`, up or down, until `to`, which is excluded. */
static json_t *stride(filling *f, const json_t *value, int64_t from, int64_t to, int64_t step) {
  json_t *elements = ch_template_elements((json_t *)(uintptr_t)value, f->error),
         *list = elements ? json_array() : NULL;
  for (int64_t i = from; list && (step > 0 ? i < to : i > to); i += step)
    if (json_array_append(list, json_array_get(elements, (size_t)i)) != 0) {
      json_decref(list);
      list = NULL;
    }
  json_decref(elements);
  if (!list || json_is_array(value)) return list;
  json_t *none = json_string("");
  ch_template_call join = {
      .scope = f->scope, .name = "join", .self = list, .in = &none, .count = 1, .error = f->error};
  json_t *text = none ? ch_template_apply_call(&join) : NULL;
  json_decref(none);
  json_decref(list);
  return text ? text : ch_template_wrong_in(f);
}

static bool is_place(const json_t *value) {
  return !value || json_is_integer(value) || json_is_null(value);
}

static json_t *slice_value(filling *f, const json_t *value, const json_t *from, const json_t *to,
                           const json_t *by) {
  if (is_undefined(value)) return ch_template_wrong(f, CH_ERROR_FORMAT, "an undefined value is sliced");
  int64_t step = json_is_integer(by) ? json_integer_value(by) : 1;
  if ((!json_is_string(value) && !json_is_array(value)) || !is_place(from) || !is_place(to) ||
      !is_place(by) || step == 0)
    return ch_template_wrong(f, CH_ERROR_FORMAT,
                             "only strings and lists can be sliced, at whole numbers, and not with step 0");
  if (!spend_value(f, value)) return NULL;
  int64_t count = length_of(value), low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  int64_t first = json_is_integer(from) ? clamp(json_integer_value(from), count, low, high)
                  : step > 0            ? 0
                                        : count - 1;
  int64_t last = json_is_integer(to) ? clamp(json_integer_value(to), count, low, high)
                 : step > 0          ? count
                                     : -1;
  if (step == 1) return part(value, first, last > first ? last : first);
  if (step > count + 1) step = count + 1; /* avoids overflow, and selects the same elements */
  if (step < -count - 1) step = -count - 1;
  return stride(f, value, first, last, step);
}

/* --- operators ------------------------------------------------------------------------------------------ */

static json_t *join(filling *f, const json_t *a, const json_t *b) {
  size_t size = json_string_length(a), more = json_string_length(b);
  if (!ch_template_fits(size + more, f->error)) return ch_template_wrong_in(f);
  char *both = malloc(size + more + 1);
  if (!both) return ch_template_no_memory(f);
  memcpy(both, json_string_value(a), size);
  memcpy(both + size, json_string_value(b), more);
  json_t *text = json_stringn(both, size + more);
  free(both);
  return text;
}

static json_t *concatenate(filling *f, const json_t *a, const json_t *b) {
  json_t *x = ch_template_text(a, f->error), *y = x ? ch_template_text(b, f->error) : NULL;
  json_t *both = y ? join(f, x, y) : NULL;
  json_decref(x);
  json_decref(y);
  return both ? both : ch_template_wrong_in(f);
}

static json_t *add_lists(filling *f, const json_t *a, const json_t *b) {
  json_t *list = json_copy((json_t *)(uintptr_t)a);
  if (list && json_array_extend(list, (json_t *)(uintptr_t)b) == 0) return checked(f, list);
  json_decref(list);
  return NULL;
}

/* Repeats a text `times` times. */
static json_t *repeat(filling *f, const json_t *text, int64_t times) {
  size_t size = json_string_length(text);
  ch_text whole = {0};
  if (times > 0 && size > 0 &&
      ((uint64_t)times > CH_TEMPLATE_TEXT || !ch_template_fits(size * (size_t)times, f->error))) {
    if (f->error->status == CH_OK) ch_template_fits((size_t)CH_TEMPLATE_TEXT + 1, f->error);
    return ch_template_wrong_in(f);
  }
  for (int64_t i = 0; size > 0 && i < times; i++) ch_text_put(&whole, json_string_value(text), size);
  json_t *result = whole.failed ? NULL : json_stringn(whole.data ? whole.data : "", whole.size);
  ch_text_free(&whole);
  return checked(f, result);
}

static json_t *whole_arithmetic(filling *f, const char *sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool division = sign[0] == '/' || sign[0] == '%', bad = division && (b == 0 || b == -1);
  if (strcmp(sign, "**") == 0) {
    bad = b < 0 || b > 64;
    result = 1;
    for (int64_t i = 0; i < b && !bad; i++) bad = __builtin_mul_overflow(result, a, &result);
  } else {
    if (sign[0] == '+') bad = __builtin_add_overflow(a, b, &result);
    if (sign[0] == '-') bad = __builtin_sub_overflow(a, b, &result);
    if (sign[0] == '*') bad = __builtin_mul_overflow(a, b, &result);
  }
  if (bad && division && b == -1) return sign[0] == '%' ? json_integer(0) : whole_arithmetic(f, "-", 0, a);
  if (bad) return ch_template_wrong(f, CH_ERROR_FORMAT, "a division by zero, or a number beyond 64 bits");
  if (sign[0] == '/') result = a / b - (a % b != 0 && (a < 0) != (b < 0));
  if (sign[0] == '%') result = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
  return json_integer(result);
}

static json_t *real_arithmetic(filling *f, const char *sign, double a, double b) {
  double result = 0;
  if (strcmp(sign, "**") == 0)
    result = pow(a, b);
  else if (sign[0] == '+')
    result = a + b;
  else if (sign[0] == '-')
    result = a - b;
  else if (sign[0] == '*')
    result = a * b;
  else if (b == 0)
    result = NAN;
  else if (sign[0] == '%')
    result = a - floor(a / b) * b;
  else
    result = sign[1] == '/' ? floor(a / b) : a / b;
  if (!isfinite(result))
    return ch_template_wrong(f, CH_ERROR_FORMAT, "a division by zero, or a number that is not finite");
  return json_real(result);
}

static json_t *arithmetic(filling *f, const char *sign, const json_t *a, const json_t *b) {
  bool whole = json_is_integer(a) && json_is_integer(b) && strcmp(sign, "/") != 0;
  if (whole && !(strcmp(sign, "**") == 0 && json_integer_value(b) < 0))
    return whole_arithmetic(f, sign, json_integer_value(a), json_integer_value(b));
  return real_arithmetic(f, sign, json_number_value(a), json_number_value(b));
}

/* Returns the result of `piece in whole`, or -1 if `whole` cannot contain a value like `piece`. */
static int contains(const json_t *whole, const json_t *piece) {
  if (json_is_object(whole)) return ch_template_has_key(whole, piece);
  if (json_is_string(whole))
    return json_is_string(piece) ? strstr(json_string_value(whole), json_string_value(piece)) != NULL : -1;
  if (!json_is_array(whole) && !is_undefined(whole)) return -1;
  for (size_t i = 0; i < json_array_size(whole); i++)
    if (ch_template_equal(json_array_get(whole, i), piece)) return 1;
  return 0;
}

static json_t *search(filling *f, const json_t *piece, const json_t *whole, bool wanted) {
  int found = contains(whole, piece);
  if (found < 0)
    return ch_template_wrong(f, CH_ERROR_FORMAT, "\"in\" needs a list, an object, or a string in a string");
  return json_boolean((found == 1) == wanted);
}

static json_t *compare(filling *f, const char *sign, const json_t *a, const json_t *b) {
  double order;
  if (!ch_template_order(a, b, &order))
    return ch_template_wrong(f, CH_ERROR_FORMAT, "only two numbers or two strings can be compared");
  bool equal = sign[1] == '=' && order == 0;
  return json_boolean(equal || (sign[0] == '<' ? order < 0 : order > 0));
}

static json_t *operate(filling *f, const char *sign, const json_t *a, const json_t *b) {
  bool texts = json_is_string(a) && json_is_string(b);
  if (!spend_value(f, a) || !spend_value(f, b)) return NULL;
  if (strcmp(sign, "==") == 0) return json_boolean(ch_template_equal(a, b));
  if (strcmp(sign, "!=") == 0) return json_boolean(!ch_template_equal(a, b));
  if (strcmp(sign, "in") == 0) return search(f, a, b, true);
  if (strcmp(sign, "not in") == 0) return search(f, a, b, false);
  if (sign[0] == '~') return concatenate(f, a, b);
  if (is_undefined(a) || is_undefined(b))
    return ch_template_wrong(f, CH_ERROR_FORMAT, "an operator is applied to an undefined value");
  if (sign[0] == '<' || sign[0] == '>') return compare(f, sign, a, b);
  if (sign[0] == '+' && texts) return join(f, a, b);
  if (sign[0] == '+' && json_is_array(a) && json_is_array(b)) return add_lists(f, a, b);
  if (strcmp(sign, "*") == 0 && json_is_string(a) && json_is_integer(b))
    return repeat(f, a, json_integer_value(b));
  if (strcmp(sign, "*") == 0 && json_is_integer(a) && json_is_string(b))
    return repeat(f, b, json_integer_value(a));
  if (json_is_number(a) && json_is_number(b)) return arithmetic(f, sign, a, b);
  return ch_template_wrong(f, CH_ERROR_FORMAT, "an operator is applied to values of different types");
}

/* --- expressions ---------------------------------------------------------------------------------------- */

static json_t *list_value(filling *f, const ch_expression *e) {
  json_t *list = json_array();
  for (int i = 0; list && i < e->count; i++)
    if (json_array_append_new(list, ch_template_evaluate(f, e->in[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return checked(f, list);
}

static json_t *dict_value(filling *f, const ch_expression *e) {
  char buffer[CH_TEMPLATE_KEY];
  json_t *dict = json_object();
  for (int i = 0; dict && f->status == CH_OK && i < e->count; i += 2) {
    json_t *key = ch_template_evaluate(f, e->in[i]),
           *value = key ? ch_template_evaluate(f, e->in[i + 1]) : NULL;
    const char *name = key ? ch_template_key(key, buffer) : NULL;
    if (key && !name)
      ch_template_wrong(f, CH_ERROR_FORMAT, "the keys of an object must be strings or whole numbers");
    else if (value && json_object_set(dict, name, value) != 0)
      ch_template_no_memory(f);
    json_decref(key);
    json_decref(value);
  }
  if (f->status == CH_OK) return checked(f, dict);
  json_decref(dict);
  return NULL;
}

/* Evaluates the arguments of a call into in[e->count]. On failure, releases them and returns false with the status
   set. */
static bool arguments(filling *f, const ch_expression *e, json_t **in) {
  if (e->spread) {
    ch_template_wrong(f, CH_ERROR_FORMAT, "only a macro can be called with *");
    return false;
  }
  for (int i = 0; i < e->count; i++) {
    if ((in[i] = ch_template_evaluate(f, e->in[i]))) continue;
    while (i > 0) json_decref(in[--i]);
    return false;
  }
  return true;
}

/* Applies a method, filter or test to `self`. */
static json_t *apply(filling *f, const ch_expression *e, json_t *self) {
  json_t *in[CH_TEMPLATE_ARGUMENTS], *result;
  char message[128];
  if (e->kind == CH_TEST ? !ch_template_knows_test(e->name) : !ch_template_knows(e->name)) {
    snprintf(message, sizeof message, "there is no %s \"%.60s\"",
             e->kind == CH_TEST ? "test" : "filter or method", e->name);
    return ch_template_wrong(f, CH_ERROR_FORMAT, message);
  }
  if (!arguments(f, e, in)) return NULL;
  ch_template_call call = {.scope = f->scope,
                           .dialect = f->template->dialect,
                           .name = e->name,
                           .method = e->kind == CH_CALL,
                           .self = self,
                           .in = in,
                           .keywords = e->keywords,
                           .count = e->count,
                           .error = f->error};
  if (e->kind == CH_TEST) {
    int holds = ch_template_test(&call);
    result = holds < 0 ? NULL : json_boolean(holds);
  } else {
    result = ch_template_apply_call(&call);
  }
  if (!result) ch_template_wrong_in(f);
  for (int i = 0; i < e->count; i++) json_decref(in[i]);
  return result;
}

/* Evaluates range(stop), range(start, stop) or range(start, stop, step). */
static json_t *range(filling *f, json_t *const *in, int count) {
  int64_t part[3] = {0};
  char message[96];
  bool whole = count >= 1 && count <= 3;
  for (int i = 0; whole && i < count; i++) {
    whole = json_is_integer(in[i]);
    part[i] = json_integer_value(in[i]);
  }
  int64_t from = count > 1 ? part[0] : 0, to = count > 1 ? part[1] : part[0], step = count > 2 ? part[2] : 1;
  if (!whole || step == 0)
    return ch_template_wrong(f, CH_ERROR_FORMAT, "range needs one to three whole numbers, the step not 0");
  double turns = ceil(((double)to - (double)from) / (double)step);
  if (turns > CH_TEMPLATE_RANGE) {
    snprintf(message, sizeof message, "range goes up to %d, not to %.0f", CH_TEMPLATE_RANGE, turns);
    return ch_template_wrong(f, CH_ERROR_FORMAT, message);
  }
  json_t *list = json_array();
  for (int64_t i = 0; list && i < (int64_t)turns; i++)
    if (json_array_append_new(list, json_integer(from + i * step)) != 0) {
      json_decref(list);
      return NULL;
    }
  return checked(f, list);
}

/* Evaluates namespace(...) and dict(...): an object with the fields of an object argument and the keyword
   arguments. */
static json_t *object_of(filling *f, const ch_expression *e, json_t *const *in) {
  json_t *object = json_object();
  for (int i = 0; object && i < e->count; i++) {
    const char *keyword = e->keywords ? e->keywords[i] : NULL;
    bool failed = keyword ? json_object_set(object, keyword, in[i]) != 0
                          : !json_is_object(in[i]) || json_object_update(object, in[i]) != 0;
    if (!failed) continue;
    json_decref(object);
    return ch_template_wrong(f, CH_ERROR_FORMAT, "namespace and dict need keyword arguments or an object");
  }
  return object;
}

/* Registers a namespace, so that its members can be set, and returns it. Releases it on failure. */
static json_t *keep_namespace(filling *f, json_t *space) {
  if (!f->namespaces) f->namespaces = json_array();
  if (f->namespaces && json_array_append(f->namespaces, space) == 0) return space;
  json_decref(space);
  return NULL;
}

static json_t *time_text(filling *f, json_t *const *in, int count) {
  char text[256];
  time_t now = f->scope->now ? (time_t)f->scope->now : time(NULL);
  struct tm local;
  if (count != 1 || !json_is_string(in[0]) || json_string_length(in[0]) > 100 || !localtime_r(&now, &local))
    return ch_template_wrong(f, CH_ERROR_FORMAT, "strftime_now needs a format of at most 100 characters");
  size_t size = strftime(text, sizeof text, json_string_value(in[0]), &local);
  return json_stringn(text, size);
}

static json_t *function_value(filling *f, const ch_expression *e) {
  char message[128];
  json_t *in[CH_TEMPLATE_ARGUMENTS], *result = ch_template_call_macro(f, e);
  bool chat = f->template->dialect == CH_TEMPLATE_CHAT;
  if (result || f->status != CH_OK) return result;
  if (!e->name) return ch_template_wrong(f, CH_ERROR_FORMAT, "the value that is called is no macro");
  if (!arguments(f, e, in)) return NULL;
  if (strcmp(e->name, "range") == 0) {
    result = range(f, in, e->count);
  } else if (strcmp(e->name, "namespace") == 0 || strcmp(e->name, "dict") == 0) {
    result = object_of(f, e, in);
    if (result && e->name[0] == 'n') result = keep_namespace(f, result);
  } else if (chat && strcmp(e->name, "raise_exception") == 0) {
    /* the message is the template's own text */
    json_t *text = e->count > 0 ? ch_template_text(in[0], f->error) : NULL;
    f->status = ch_fail(f->error, CH_ERROR_ARGUMENT, "%s",
                        text ? json_string_value(text) : "the template raised an error");
    json_decref(text);
    result = NULL;
  } else if (chat && strcmp(e->name, "strftime_now") == 0) {
    result = time_text(f, in, e->count);
  } else {
    snprintf(message, sizeof message, "there is no function or macro \"%.60s\"", e->name);
    ch_template_wrong(f, CH_ERROR_FORMAT, message);
  }
  for (int i = 0; i < e->count; i++) json_decref(in[i]);
  return result;
}

static json_t *binary_value(filling *f, const ch_expression *e) {
  json_t *a = ch_template_evaluate(f, e->a);
  if (!a) return NULL;
  if (strcmp(e->name, "and") == 0 || strcmp(e->name, "or") == 0) {
    if (ch_template_true(a) == (e->name[0] == 'o')) return a;
    json_decref(a);
    return ch_template_evaluate(f, e->b);
  }
  json_t *b = ch_template_evaluate(f, e->b), *result = b ? operate(f, e->name, a, b) : NULL;
  json_decref(a);
  json_decref(b);
  return result;
}

static json_t *choice_value(filling *f, const ch_expression *e) {
  json_t *condition = ch_template_evaluate(f, e->b);
  bool chosen = condition && ch_template_true(condition);
  json_decref(condition);
  if (!condition) return NULL;
  if (chosen) return ch_template_evaluate(f, e->a);
  return e->c ? ch_template_evaluate(f, e->c) : ch_template_undefined();
}

/* Evaluates an index or slice of `a`. */
static json_t *place_value(filling *f, const ch_expression *e, const json_t *a) {
  const ch_expression *parts[3] = {e->b, e->c, e->d};
  json_t *in[3] = {NULL}, *result = NULL;
  for (int i = 0; i < 3 && f->status == CH_OK; i++)
    if (parts[i]) in[i] = ch_template_evaluate(f, parts[i]);
  if (f->status == CH_OK)
    result = e->kind == CH_INDEX ? index_value(f, a, in[0]) : slice_value(f, a, in[0], in[1], in[2]);
  for (int i = 0; i < 3; i++) json_decref(in[i]);
  return result;
}

static json_t *negative(filling *f, const json_t *a) {
  if (json_is_integer(a)) return whole_arithmetic(f, "-", 0, json_integer_value(a));
  return json_is_real(a) ? json_real(-json_real_value(a))
                         : ch_template_wrong(f, CH_ERROR_FORMAT, "- needs a number");
}

/* Evaluates an expression on the value of e->a. */
static json_t *unary_value(filling *f, const ch_expression *e) {
  /* filters and tests that accept undefined values */
  static const char *const names[] = {"defined", "undefined", "default", "d", NULL};
  bool accepts = (e->kind == CH_TEST || e->kind == CH_FILTER) && ch_in_list(e->name, names);
  f->lenient += accepts;
  json_t *a = ch_template_evaluate(f, e->a), *result;
  f->lenient -= accepts;
  if (!a) return NULL;
  switch (e->kind) {
  case CH_MEMBER:
    result = member(f, a, e->name);
    break;
  case CH_NOT:
    result = json_boolean(!ch_template_true(a));
    break;
  case CH_NEGATIVE:
    result = negative(f, a);
    break;
  case CH_INDEX:
  case CH_SLICE:
    result = place_value(f, e, a);
    break;
  default:
    result = apply(f, e, a);
  }
  json_decref(a);
  return result;
}

static json_t *value_of(filling *f, const ch_expression *e) {
  switch (e->kind) {
  case CH_LITERAL:
    return json_incref(e->value);
  case CH_NAME:
    return name_value(f, e->name);
  case CH_LIST:
    return list_value(f, e);
  case CH_DICT:
    return dict_value(f, e);
  case CH_FUNCTION:
    return function_value(f, e);
  case CH_BINARY:
    return binary_value(f, e);
  case CH_CHOICE:
    return choice_value(f, e);
  default:
    return unary_value(f, e);
  }
}

json_t *ch_template_evaluate(filling *f, const ch_expression *e) {
  json_t *value = NULL;
  if (++f->depth > CH_TEMPLATE_RECURSION)
    ch_template_wrong(f, CH_ERROR_FORMAT, "expressions and macros are nested too deeply");
  if (f->status == CH_OK && ch_template_step(f)) value = value_of(f, e);
  f->depth--;
  if (!value && f->status == CH_OK) ch_template_no_memory(f);
  return value;
}

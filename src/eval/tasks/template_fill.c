/* Templates: statements and expressions over the fields of an item. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "eval/tasks/template_private.h"
#include "base/utf8.h"

typedef struct filling {
  const ch_template *template;
  ch_template_scope *scope;
  ch_text *text;
  ch_error *error;
  ch_status status;
} filling;

static json_t *fail(filling *f, ch_status status, const char *what) {
  if (f->status == CH_OK) f->status = ch_fail(f->error, status, "%s: %s", f->template->where, what);
  return NULL;
}

/* For what wrote its message itself, and may have found no memory for its result without one. */
static json_t *fail_in(filling *f) {
  if (f->status != CH_OK) return NULL;
  if (f->error->status == CH_OK) return fail(f, CH_ERROR_MEMORY, "no memory for a value");
  f->status = ch_fail_in(f->error, f->template->where);
  return NULL;
}

static bool spend(filling *f, size_t bytes) {
  if (ch_template_spend(f->scope, bytes, f->error)) return true;
  fail_in(f);
  return false;
}

static bool spend_value(filling *f, const json_t *value) {
  if (ch_template_spend_value(f->scope, value, f->error)) return true;
  fail_in(f);
  return false;
}

/* The value, when it keeps the limits for values. */
static json_t *checked(filling *f, json_t *value) {
  if (!value || spend_value(f, value)) return value;
  json_decref(value);
  return NULL;
}

static bool take_step(filling *f) {
  if (f->scope->steps++ < CH_TEMPLATE_STEPS) return true;
  ch_fail(f->error, CH_ERROR_FORMAT, "%s: it takes more than %d steps for one item; make its loops shorter",
          f->template->where, CH_TEMPLATE_STEPS);
  f->status = CH_ERROR_FORMAT;
  return false;
}

static json_t *value_of(filling *f, const ch_expression *e);

/* --- names and places ---------------------------------------------------------------------------------------- */

static json_t *name_value(filling *f, const ch_expression *e) {
  json_t *value = f->scope->locals ? json_object_get(f->scope->locals, e->name) : NULL;
  if (!value) value = json_object_get(f->scope->fields, e->name);
  if (value) return json_incref(value);
  char message[160];
  snprintf(message, sizeof message, "the item has no field \"%.60s\"", e->name);
  return fail(f, CH_ERROR_FORMAT, message);
}

static json_t *member(filling *f, const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  if (value) return json_incref(value);
  char message[160];
  snprintf(message, sizeof message,
           json_is_object(object) ? "there is no field \"%.60s\""
                                  : "\"%.60s\" is asked of a value without fields",
           name);
  return fail(f, CH_ERROR_FORMAT, message);
}

/* Bytes before character `index` of a text. */
static size_t byte_of(const char *text, size_t size, int64_t index) {
  const unsigned char *p = (const unsigned char *)text, *end = p + size;
  uint32_t c;
  for (; index > 0 && p < end; index--) {
    size_t length = ch_utf8_decode(p, end, &c);
    p += length ? length : 1;
  }
  return (size_t)(p - (const unsigned char *)text);
}

static int64_t characters(const json_t *text) {
  const unsigned char *p = (const unsigned char *)json_string_value(text),
                      *end = p + json_string_length(text);
  int64_t count = 0;
  for (; p < end; p++) count += (*p & 0xc0) != 0x80;
  return count;
}

static int64_t length_of(const json_t *value) {
  if (json_is_string(value)) return characters(value);
  return json_is_array(value) ? (int64_t)json_array_size(value) : (int64_t)json_object_size(value);
}

/* Elements or characters [from, to), which lie inside. */
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
  if (json_is_string(at)) return member(f, value, json_string_value(at));
  if ((!json_is_string(value) && !json_is_array(value)) || !json_is_integer(at))
    return fail(f, CH_ERROR_FORMAT, "only texts and lists have places, which are whole numbers");
  if (!spend(f, json_string_length(value))) return NULL; /* characters are found by counting */
  int64_t count = length_of(value), place = json_integer_value(at);
  if (place < 0) place += count;
  if (place < 0 || place >= count) return fail(f, CH_ERROR_FORMAT, "a place lies outside its list or text");
  if (json_is_array(value)) return json_incref(json_array_get(value, (size_t)place));
  return part(value, place, place + 1);
}

/* An end of a slice as Python takes it. */
static int64_t clamp(int64_t place, int64_t count) {
  if (place < 0) place = place < -count ? 0 : place + count;
  return place < count ? place : count;
}

static json_t *slice_value(filling *f, const json_t *value, const json_t *from, const json_t *to) {
  if ((!json_is_string(value) && !json_is_array(value)) || (from && !json_is_integer(from)) ||
      (to && !json_is_integer(to)))
    return fail(f, CH_ERROR_FORMAT, "only texts and lists can be cut, at whole numbers");
  if (!spend_value(f, value)) return NULL;
  int64_t count = length_of(value);
  int64_t first = from ? clamp(json_integer_value(from), count) : 0;
  int64_t last = to ? clamp(json_integer_value(to), count) : count;
  return part(value, first, last > first ? last : first);
}

/* --- operators ----------------------------------------------------------------------------------------------- */

static json_t *join(filling *f, const json_t *a, const json_t *b) {
  size_t size = json_string_length(a), more = json_string_length(b);
  if (!ch_template_fits(size + more, f->error)) return fail_in(f);
  char *both = malloc(size + more + 1);
  if (!both) return fail(f, CH_ERROR_MEMORY, "no memory for a text");
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
  return both ? both : fail_in(f);
}

static json_t *add_lists(filling *f, const json_t *a, const json_t *b) {
  json_t *list = json_copy((json_t *)(uintptr_t)a);
  if (list && json_array_extend(list, (json_t *)(uintptr_t)b) == 0) return checked(f, list);
  json_decref(list);
  return NULL;
}

static json_t *arithmetic(filling *f, char sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool bad = (sign == '/' || sign == '%') && (b == 0 || b == -1);
  if (sign == '+') bad = __builtin_add_overflow(a, b, &result);
  if (sign == '-') bad = __builtin_sub_overflow(a, b, &result);
  if (sign == '*') bad = __builtin_mul_overflow(a, b, &result);
  if (bad) return fail(f, CH_ERROR_FORMAT, "a division by zero, or a number beyond 64 bits");
  if (sign == '/') result = a / b - (a % b != 0 && (a < 0) != (b < 0));
  if (sign == '%') result = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
  return json_integer(result);
}

static bool contains(const json_t *whole, const json_t *piece) {
  if (json_is_object(whole)) return json_is_string(piece) && json_object_get(whole, json_string_value(piece));
  if (json_is_string(whole))
    return json_is_string(piece) && strstr(json_string_value(whole), json_string_value(piece));
  for (size_t i = 0; i < json_array_size(whole); i++)
    if (json_equal(json_array_get(whole, i), piece)) return true;
  return false;
}

static json_t *compare(filling *f, const char *operator, const json_t * a, const json_t *b) {
  double x, y;
  if (json_is_string(a) && json_is_string(b)) {
    x = strcmp(json_string_value(a), json_string_value(b));
    y = 0;
  } else if (json_is_number(a) && json_is_number(b)) {
    x = json_number_value(a);
    y = json_number_value(b);
  } else {
    return fail(f, CH_ERROR_FORMAT, "only two numbers or two texts can be compared");
  }
  bool equal = operator[1] == '=' && x == y;
  return json_boolean(equal || (operator[0] == '<' ? x < y : x> y));
}

static json_t *operate(filling *f, const char *operator, const json_t * a, const json_t *b) {
  bool texts = json_is_string(a) && json_is_string(b);
  if (!spend_value(f, a) || !spend_value(f, b)) return NULL;
  if (strcmp(operator, "==") == 0) return json_boolean(json_equal(a, b));
  if (strcmp(operator, "!=") == 0) return json_boolean(!json_equal(a, b));
  if (strcmp(operator, "in") == 0) return json_boolean(contains(b, a));
  if (strcmp(operator, "not in") == 0) return json_boolean(!contains(b, a));
  if (operator[0] == '<' || operator[0] == '>') return compare(f, operator, a, b);
  if (operator[0] == '~') return concatenate(f, a, b);
  if (operator[0] == '+' && texts) return join(f, a, b);
  if (operator[0] == '+' && json_is_array(a) && json_is_array(b)) return add_lists(f, a, b);
  if (json_is_integer(a) && json_is_integer(b))
    return arithmetic(f, operator[0], json_integer_value(a), json_integer_value(b));
  return fail(f, CH_ERROR_FORMAT,
              "an operator does not fit its values: numbers with numbers, texts with texts");
}

/* --- expressions --------------------------------------------------------------------------------------------- */

static json_t *list_value(filling *f, const ch_expression *e) {
  json_t *list = json_array();
  for (int i = 0; list && i < e->count; i++)
    if (json_array_append_new(list, value_of(f, e->in[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return checked(f, list);
}

static json_t *apply(filling *f, const ch_expression *e, json_t *self) {
  json_t *in[CH_TEMPLATE_ARGUMENTS] = {0}, *result = NULL;
  int count = 0;
  for (; count < e->count; count++)
    if (!(in[count] = value_of(f, e->in[count]))) break;
  if (count == e->count) {
    result = ch_template_apply(f->scope, e->name, self, in, count, f->error);
    if (!result) fail_in(f);
  }
  for (int i = 0; i < count; i++) json_decref(in[i]);
  return result;
}

static json_t *binary_value(filling *f, const ch_expression *e) {
  json_t *a = value_of(f, e->a);
  if (!a) return NULL;
  if (strcmp(e->name, "and") == 0 || strcmp(e->name, "or") == 0) {
    if (ch_template_true(a) == (e->name[0] == 'o')) return a;
    json_decref(a);
    return value_of(f, e->b);
  }
  json_t *b = value_of(f, e->b), *result = b ? operate(f, e->name, a, b) : NULL;
  json_decref(a);
  json_decref(b);
  return result;
}

/* An expression with the operand `a`, and perhaps b and c. */
static json_t *unary_value(filling *f, const ch_expression *e) {
  json_t *a = value_of(f, e->a), *result = NULL;
  if (!a) return NULL;
  if (e->kind == CH_MEMBER) {
    result = member(f, a, e->name);
  } else if (e->kind == CH_NOT) {
    result = json_boolean(!ch_template_true(a));
  } else if (e->kind == CH_NEGATIVE) {
    result = json_is_integer(a) ? arithmetic(f, '-', 0, json_integer_value(a))
                                : fail(f, CH_ERROR_FORMAT, "- needs a whole number");
  } else if (e->kind == CH_CALL || e->kind == CH_FILTER) {
    result = apply(f, e, a);
  } else {
    json_t *b = e->b ? value_of(f, e->b) : NULL, *c = e->c && f->status == CH_OK ? value_of(f, e->c) : NULL;
    if (f->status == CH_OK) result = e->kind == CH_INDEX ? index_value(f, a, b) : slice_value(f, a, b, c);
    json_decref(b);
    json_decref(c);
  }
  json_decref(a);
  return result;
}

static json_t *evaluate(filling *f, const ch_expression *e) {
  switch (e->kind) {
  case CH_LITERAL:
    return json_incref(e->value);
  case CH_NAME:
    return name_value(f, e);
  case CH_LIST:
    return list_value(f, e);
  case CH_BINARY:
    return binary_value(f, e);
  case CH_CHOICE: {
    json_t *condition = value_of(f, e->b);
    bool chosen = condition && ch_template_true(condition);
    json_decref(condition);
    return condition ? value_of(f, chosen ? e->a : e->c) : NULL;
  }
  default:
    return unary_value(f, e);
  }
}

/* A new value, or NULL with f->status set. */
static json_t *value_of(filling *f, const ch_expression *e) {
  json_t *value = f->status == CH_OK && take_step(f) ? evaluate(f, e) : NULL;
  if (!value && f->status == CH_OK) fail(f, CH_ERROR_MEMORY, "no memory");
  return value;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static void run(filling *f, const ch_statement *first);

static void put_text(filling *f, const char *text, size_t size) {
  if (!spend(f, size)) return;
  if (!ch_template_fits(f->text->size + size, f->error)) {
    fail_in(f);
    return;
  }
  ch_text_put(f->text, text, size);
  if (f->text->failed) fail(f, CH_ERROR_MEMORY, "no memory for a text");
}

static void put_value(filling *f, const ch_statement *s) {
  json_t *value = value_of(f, s->expression), *text = value ? ch_template_text(value, f->error) : NULL;
  if (value && !text) fail_in(f);
  if (text) put_text(f, json_string_value(text), json_string_length(text));
  json_decref(value);
  json_decref(text);
}

static void give_name(filling *f, const char *name, json_t *value) {
  if (!f->scope->locals) f->scope->locals = json_object();
  if (json_object_set(f->scope->locals, name, value) != 0) fail(f, CH_ERROR_MEMORY, "no memory");
}

static void run_loop(filling *f, const ch_statement *s) {
  json_t *list = value_of(f, s->expression);
  if (list && !json_is_array(list)) fail(f, CH_ERROR_FORMAT, "for runs over a list");
  for (size_t i = 0; f->status == CH_OK && i < json_array_size(list) && take_step(f); i++) {
    give_name(f, s->name, json_array_get(list, i));
    run(f, s->body);
  }
  json_decref(list);
}

static void run(filling *f, const ch_statement *first) {
  for (const ch_statement *s = first; s && f->status == CH_OK && take_step(f); s = s->next) {
    if (s->kind == CH_TEXT) put_text(f, s->text, s->size);
    if (s->kind == CH_OUTPUT) put_value(f, s);
    if (s->kind == CH_FOR) run_loop(f, s);
    if (s->kind == CH_SET || s->kind == CH_IF) {
      json_t *value = value_of(f, s->expression);
      if (value && s->kind == CH_SET) give_name(f, s->name, value);
      if (value && s->kind == CH_IF) run(f, ch_template_true(value) ? s->body : s->orelse);
      json_decref(value);
    }
  }
}

ch_status ch_template_value(const ch_template *template, ch_template_scope *scope, json_t **value,
                            ch_error *error) {
  ch_text text = {0};
  ch_error own = {0};
  filling f = {.template = template, .scope = scope, .text = &text, .error = error ? error : &own};
  f.error->status = CH_OK; /* until something writes its message there */
  scope->steps = scope->bytes = 0;
  const ch_statement *s = template->first;
  *value = NULL;
  if (scope->locals) json_object_clear(scope->locals);
  while (s && s->kind == CH_SET) s = s->next; /* names may be given before the one expression */
  if (s && s->kind == CH_OUTPUT && !s->next) {
    for (const ch_statement *given = template->first; given != s && f.status == CH_OK; given = given->next) {
      json_t *named = value_of(&f, given->expression);
      if (named) give_name(&f, given->name, named);
      json_decref(named);
    }
    *value = value_of(&f, s->expression);
  } else {
    run(&f, template->first);
    if (f.status == CH_OK) {
      *value = json_stringn(text.data ? text.data : "", text.size);
      if (!*value) fail(&f, CH_ERROR_MEMORY, "no memory for a text");
    }
  }
  ch_text_free(&text);
  return f.status;
}

/* Parses the expressions of templates, by precedence. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/template_private.h"

typedef ch_template_parser parser;

static ch_expression *no_memory_for_expression(parser *p) {
  if (p->status == CH_OK) p->status = ch_no_memory(p->error);
  return NULL;
}

/* Updates the height of an expression. The height is limited, because filling recurses over the tree of
   expressions. */
static void count_height(parser *p, ch_expression *e, const ch_expression *child) {
  char message[128];
  if (!child || child->height < e->height) return;
  e->height = child->height + 1;
  if (e->height <= CH_TEMPLATE_HEIGHT) return;
  snprintf(message, sizeof message,
           "more than %d operators and filters are chained; name a part with {%% set %%}",
           CH_TEMPLATE_HEIGHT);
  ch_template_fail(p, message);
}

static ch_expression *new_expression(parser *p, ch_expression_kind kind, const char *name, ch_expression *a,
                                     ch_expression *b) {
  ch_expression *e = p->status == CH_OK ? ch_template_allocate(p, sizeof *e) : NULL;
  if (!e) return NULL;
  *e = (ch_expression){.kind = kind, .name = name, .a = a, .b = b};
  count_height(p, e, a);
  count_height(p, e, b);
  return e;
}

static ch_expression *literal(parser *p, json_t *value) {
  if (!value || json_array_append_new(p->template->literals, value) != 0) return no_memory_for_expression(p);
  ch_expression *e = new_expression(p, CH_LITERAL, NULL, NULL, NULL);
  if (e) e->value = value;
  return e;
}

/* Python's escapes of one character. Other escapes, such as "\d", are not changed. */
static const char escapes[][2] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'},  {'b', '\b'},  {'f', '\f'},
                                  {'v', '\v'}, {'a', '\a'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};

/* Reads `digits` hexadecimal digits after "\x", "\u" or "\U" and appends the character as UTF-8. Returns false and
   leaves p->at unchanged if they are not the digits of a character. */
static bool put_code(parser *p, ch_text *text, int digits) {
  uint32_t code = 0;
  unsigned char bytes[4];
  if (p->end - p->at < digits) return false;
  for (int i = 0; i < digits; i++) {
    unsigned char c = (unsigned char)p->at[i];
    if (!isxdigit(c)) return false;
    code = code * 16 + (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
  }
  if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  ch_text_put(text, (const char *)bytes, ch_utf8_encode(code, bytes));
  p->at += digits;
  return true;
}

static void put_escape(parser *p, ch_text *text) {
  char c = *p->at++;
  if (c == 'x' || c == 'u' || c == 'U') {
    if (put_code(p, text, c == 'x' ? 2 : c == 'u' ? 4 : 8)) return;
  }
  for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
    if (escapes[i][0] == c) {
      ch_text_put(text, &escapes[i][1], 1);
      return;
    }
  if (c == '\n') return;
  ch_text_put(text, "\\", 1);
  ch_text_put(text, &c, 1);
}

static ch_expression *quoted(parser *p) {
  ch_text text = {0};
  ch_expression *e = NULL;
  do { /* adjacent strings are joined */
    char quote = *p->at++;
    while (p->at < p->end && *p->at != quote) {
      char c = *p->at++;
      if (c == '\\' && p->at < p->end)
        put_escape(p, &text);
      else
        ch_text_put(&text, &c, 1);
    }
    if (p->at >= p->end) {
      ch_template_fail(p, "a string does not end");
      break;
    }
    p->at++;
    while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
  } while (p->at < p->end && (*p->at == '\'' || *p->at == '"'));
  if (p->status == CH_OK)
    e = text.failed ? no_memory_for_expression(p)
                    : literal(p, json_stringn(text.data ? text.data : "", text.size));
  ch_text_free(&text);
  return e;
}

/* Reads a number: 7, 1_000, 0.5, 1e-3. */
static ch_expression *number(parser *p) {
  char digits[64], *after;
  size_t size = 0;
  bool real = false;
  const char *at = p->at;
  for (; at < p->end && size < sizeof digits - 1; at++) {
    bool fraction = *at == '.' && !real && at + 1 < p->end && isdigit((unsigned char)at[1]);
    bool exponent = (*at == 'e' || *at == 'E') && at + 1 < p->end &&
                    (isdigit((unsigned char)at[1]) ||
                     ((at[1] == '-' || at[1] == '+') && at + 2 < p->end && isdigit((unsigned char)at[2])));
    if (*at == '_') continue;
    if (!isdigit((unsigned char)*at) && !fraction && !exponent) break;
    digits[size++] = *at;
    real |= fraction || exponent;
    if (exponent && !isdigit((unsigned char)at[1])) digits[size++] = *++at;
  }
  digits[size] = 0;
  errno = 0;
  long long whole = real ? 0 : strtoll(digits, &after, 10);
  double value = real ? strtod(digits, &after) : 0;
  if (errno || *after) return ch_template_fail(p, "a number is beyond 64 bits");
  p->at = at;
  return literal(p, real ? json_real(value) : json_integer(whole));
}

static ch_expression *parse_condition(parser *p, bool with_if);
static ch_expression *parse_unary(parser *p, bool with_filters);

/* Arguments or elements during parsing. */
typedef struct values {
  ch_expression *in[CH_TEMPLATE_ARGUMENTS];
  const char *keywords[CH_TEMPLATE_ARGUMENTS];
  int count, spread;
  bool named;
} values;

static void add_value(parser *p, values *v, const char *keyword, ch_expression *value) {
  char message[80];
  if (!value) return;
  if (v->count == CH_TEMPLATE_ARGUMENTS) {
    snprintf(message, sizeof message, "more than %d values in brackets; join shorter lists with +",
             CH_TEMPLATE_ARGUMENTS);
    ch_template_fail(p, message);
    return;
  }
  if (!keyword && (v->named || v->spread))
    ch_template_fail(p, "an argument without a name follows one with a name, or *");
  v->named |= keyword != NULL;
  v->keywords[v->count] = keyword;
  v->in[v->count++] = value;
}

/* Moves the values into the expression. */
static ch_expression *give_values(parser *p, ch_expression *e, const values *v) {
  if (!e || p->status != CH_OK) return NULL;
  e->count = v->count;
  e->spread = v->spread;
  if (v->count == 0) return e;
  e->in = ch_template_allocate(p, (size_t)v->count * sizeof *e->in);
  if (v->named) e->keywords = ch_template_allocate(p, (size_t)v->count * sizeof *e->keywords);
  if (p->status != CH_OK) return NULL;
  memcpy(e->in, v->in, (size_t)v->count * sizeof *e->in);
  if (v->named) memcpy(e->keywords, v->keywords, (size_t)v->count * sizeof *e->keywords);
  for (int i = 0; i < v->count; i++) count_height(p, e, e->in[i]);
  return e;
}

/* Reads "name =" of a keyword argument. If there is none, returns NULL and leaves p->at unchanged. */
static const char *take_keyword(parser *p) {
  const char *before = p->at, *name = NULL;
  while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
  if (p->at < p->end && (isalpha((unsigned char)*p->at) || *p->at == '_')) {
    const char *from = p->at;
    while (p->at < p->end && (isalnum((unsigned char)*p->at) || *p->at == '_')) p->at++;
    while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
    if (p->at + 1 < p->end && p->at[0] == '=' && p->at[1] != '=') {
      p->at = from;
      name = ch_template_take_name(p);
      if (name) ch_template_take(p, "=");
      return name;
    }
  }
  p->at = before;
  return NULL;
}

/* Parses values up to the closing bracket. In calls they may have keywords, and one may be *list. */
static ch_expression *parse_values(parser *p, const char *closing, bool call, ch_expression *e) {
  values v = {.count = 0};
  while (p->status == CH_OK && !ch_template_take(p, closing)) {
    const bool spread = call && ch_template_take(p, "*");
    const char *keyword = call && !spread ? take_keyword(p) : NULL;
    add_value(p, &v, keyword, ch_template_expression(p));
    if (spread) v.spread = v.count;
    if (p->status != CH_OK || ch_template_take(p, closing)) break;
    ch_template_need(p, ",");
  }
  return give_values(p, e, &v);
}

static ch_expression *parse_dict(parser *p) {
  values v = {.count = 0};
  while (p->status == CH_OK && !ch_template_take(p, "}")) {
    add_value(p, &v, NULL, ch_template_expression(p));
    if (p->status == CH_OK && ch_template_need(p, ":")) add_value(p, &v, NULL, ch_template_expression(p));
    if (p->status != CH_OK || ch_template_take(p, "}")) break;
    ch_template_need(p, ",");
  }
  return give_values(p, new_expression(p, CH_DICT, NULL, NULL, NULL), &v);
}

/* Parses the rest of "(": an expression, or a tuple, which becomes a list. */
static ch_expression *parse_brackets(parser *p) {
  values v = {.count = 0};
  bool tuple = ch_template_take(p, ")");
  if (!tuple) {
    ch_expression *e = ch_template_expression(p);
    if (p->status == CH_OK && ch_template_take(p, ")")) return e;
    add_value(p, &v, NULL, e);
    while (p->status == CH_OK && !tuple) {
      tuple = ch_template_take(p, ")");
      if (tuple || !ch_template_need(p, ",")) break;
      tuple = ch_template_take(p, ")");
      if (!tuple) add_value(p, &v, NULL, ch_template_expression(p));
    }
  }
  return give_values(p, new_expression(p, CH_LIST, NULL, NULL, NULL), &v);
}

static ch_expression *parse_primary(parser *p) {
  ch_template_take(p, "");
  if (p->at >= p->end) return ch_template_fail(p, "a value is missing");
  if (*p->at == '\'' || *p->at == '"') return quoted(p);
  if (isdigit((unsigned char)*p->at)) return number(p);
  if (ch_template_take(p, "(")) return parse_brackets(p);
  if (ch_template_take(p, "["))
    return parse_values(p, "]", false, new_expression(p, CH_LIST, NULL, NULL, NULL));
  if (ch_template_take(p, "{")) return parse_dict(p);
  if (ch_template_take(p, "true") || ch_template_take(p, "True")) return literal(p, json_true());
  if (ch_template_take(p, "false") || ch_template_take(p, "False")) return literal(p, json_false());
  if (ch_template_take(p, "none") || ch_template_take(p, "None")) return literal(p, json_null());
  const char *name = ch_template_take_name(p);
  if (!name) return NULL;
  p->loops += strcmp(name, "loop") == 0;
  if (!ch_template_take(p, "(")) return new_expression(p, CH_NAME, name, NULL, NULL);
  return parse_values(p, ")", true, new_expression(p, CH_FUNCTION, name, NULL, NULL));
}

/* Fails if the name of `e` in a task's template is not known, and suggests the nearest of `names`. */
static ch_expression *check_name(parser *p, ch_expression *e, bool known, const char *what,
                                 const char *const *names) {
  /* in chat templates, Jinja looks the name up when it evaluates the call */
  if (!e || known || p->template->dialect == CH_TEMPLATE_CHAT) return e;
  const char *near = ch_nearest_name(e->name, names);
  char message[160];
  snprintf(message, sizeof message, "there is no %s \"%.40s\"%s%s%s", what, e->name,
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return ch_template_fail(p, message);
}

static ch_expression *parse_index(parser *p, ch_expression *a) {
  ch_expression *part[3] = {NULL};
  int colons = 0;
  while (p->status == CH_OK && !ch_template_take(p, "]")) {
    if (ch_template_take(p, ":")) {
      if (++colons > 2) return ch_template_fail(p, "a slice has at most three parts");
    } else if (part[colons]) {
      return ch_template_fail(p, "] is missing");
    } else {
      part[colons] = ch_template_expression(p);
    }
  }
  if (p->status != CH_OK) return NULL;
  if (colons == 0 && !part[0]) return ch_template_fail(p, "an index is missing");
  if (colons == 0) return new_expression(p, CH_INDEX, NULL, a, part[0]);
  ch_expression *e = new_expression(p, CH_SLICE, NULL, a, part[0]);
  if (!e) return NULL;
  e->c = part[1];
  e->d = part[2];
  count_height(p, e, e->c);
  count_height(p, e, e->d);
  return e;
}

/* Parses .name, .name(...), .0, [...] and [...](...) after a value. */
static ch_expression *parse_postfix(parser *p, ch_expression *e) {
  while (e && p->status == CH_OK) {
    if (ch_template_take(p, ".")) {
      if (p->at < p->end && isdigit((unsigned char)*p->at)) { /* list.0 */
        e = new_expression(p, CH_INDEX, NULL, e, number(p));
        continue;
      }
      e = new_expression(p, CH_MEMBER, ch_template_take_name(p), e, NULL);
      if (e && ch_template_take(p, "(")) {
        e->kind = CH_CALL;
        e = parse_values(p, ")", true, e);
        if (e) e = check_name(p, e, ch_template_knows(e->name), "filter or method", ch_template_functions);
      }
    } else if (ch_template_take(p, "[")) {
      e = parse_index(p, e);
    } else if (e->kind == CH_INDEX && ch_template_take(p, "(")) {
      e = parse_values(p, ")", true, new_expression(p, CH_FUNCTION, NULL, e, NULL));
    } else {
      break;
    }
  }
  return p->status == CH_OK ? e : NULL;
}

/* Returns true if the next word or sign can begin a test's argument without brackets. */
static bool begins_argument(parser *p) {
  static const char *const others[] = {"else", "or", "and", "is", "if", "in", "not"};
  const char *before = p->at;
  ch_template_take(p, "");
  bool begins = p->at < p->end && (isalnum((unsigned char)*p->at) || strchr("_'\"[{", *p->at));
  for (size_t i = 0; begins && i < sizeof others / sizeof *others; i++)
    if (ch_template_take(p, others[i])) begins = false;
  p->at = before;
  return begins;
}

/* Parses the test after "is". */
static ch_expression *parse_test(parser *p, ch_expression *a) {
  bool negated = ch_template_take(p, "not");
  const char *name = ch_template_take(p, "==") ? "==" : ch_template_take_name(p);
  ch_expression *e = new_expression(p, CH_TEST, name, a, NULL);
  e = e ? check_name(p, e, ch_template_knows_test(e->name), "test", ch_template_tests) : NULL;
  if (!e) return NULL;
  if (ch_template_take(p, "(")) {
    e = parse_values(p, ")", true, e);
  } else if (begins_argument(p)) {
    values v = {.count = 0};
    add_value(p, &v, NULL, parse_postfix(p, parse_primary(p)));
    e = give_values(p, e, &v);
  }
  return e && negated ? new_expression(p, CH_NOT, NULL, e, NULL) : e;
}

/* Parses the filter after "|". */
static ch_expression *parse_filter(parser *p, ch_expression *a) {
  ch_expression *e = new_expression(p, CH_FILTER, ch_template_take_name(p), a, NULL);
  e = e ? check_name(p, e, ch_template_knows(e->name), "filter or method", ch_template_functions) : NULL;
  return e && ch_template_take(p, "(") ? parse_values(p, ")", true, e) : e;
}

static ch_expression *parse_filters(parser *p, ch_expression *e) {
  while (e && p->status == CH_OK) {
    if (ch_template_take(p, "|")) {
      e = parse_filter(p, e);
    } else if (ch_template_take(p, "is")) {
      e = parse_test(p, e);
    } else {
      break;
    }
  }
  return p->status == CH_OK ? e : NULL;
}

ch_expression *ch_template_body_filters(parser *p) {
  return parse_filters(p, parse_filter(p, new_expression(p, CH_NAME, CH_TEMPLATE_BODY, NULL, NULL)));
}

/* Returns true if closing brackets follow. A "-" or "+" before closing brackets is part of them, not an operator. */
static bool closes(const parser *p) {
  return p->at + 1 < p->end && (p->at[0] == '}' || p->at[0] == '%') && p->at[1] == '}';
}

static ch_expression *parse_unary(parser *p, bool with_filters) {
  ch_expression *e;
  const char *before = p->at;
  bool negative = ch_template_take(p, "-"), sign = negative || ch_template_take(p, "+");
  if (sign && closes(p)) {
    p->at = before;
    return ch_template_fail(p, "a value is missing");
  }
  if (sign) {
    if (!ch_template_enter(p, "signs")) return NULL;
    e = parse_unary(p, false);
    p->depth--;
    if (e && negative) e = new_expression(p, CH_NEGATIVE, NULL, e, NULL);
  } else {
    e = parse_primary(p);
  }
  e = parse_postfix(p, e);
  return with_filters ? parse_filters(p, e) : e;
}

/* Operators of one precedence per row, loosest first. A longer operator comes before its prefix. */
static const char *const operators[][9] = {
    {"or"},     {"and"}, {"==", "!=", "<=", ">=", "<", ">", "in", "not in"},
    {"+", "-"}, {"~"},   {"*", "//", "/", "%"},
    {"**"}};
enum { LEVELS = sizeof operators / sizeof *operators, COMPARISON = 2 };

static const char *take_operator(parser *p, int level) {
  for (int i = 0; i < 9 && operators[level][i]; i++) {
    const char *before = p->at, *sign = operators[level][i];
    bool taken = strcmp(sign, "not in") == 0 ? ch_template_take(p, "not") && ch_template_take(p, "in")
                                             : ch_template_take(p, sign);
    bool longer = taken && sign[0] == '*' && !sign[1] && p->at < p->end && *p->at == '*';
    bool bracket = taken && (closes(p) || (sign[0] == '%' && p->at < p->end && *p->at == '}'));
    if (taken && !longer && !bracket) return sign;
    p->at = before;
  }
  return NULL;
}

static ch_expression *parse_level(parser *p, int level) {
  if (level == LEVELS) return parse_unary(p, true);
  if (level == COMPARISON && ch_template_take(p, "not")) {
    if (!ch_template_enter(p, "\"not\"s")) return NULL;
    ch_expression *a = parse_level(p, level);
    p->depth--;
    return a ? new_expression(p, CH_NOT, NULL, a, NULL) : NULL;
  }
  ch_expression *e = parse_level(p, level + 1), *left = e;
  const char *sign;
  for (int n = 0; e && p->status == CH_OK && (sign = take_operator(p, level)); n++) {
    ch_expression *b = parse_level(p, level + 1);
    if (!b) return NULL;
    if (level == COMPARISON && n > 0) { /* a < b < c is a < b and b < c */
      ch_expression *next = new_expression(p, CH_BINARY, sign, left, b);
      e = next ? new_expression(p, CH_BINARY, "and", e, next) : NULL;
    } else {
      e = new_expression(p, CH_BINARY, sign, e, b);
    }
    left = b;
  }
  return p->status == CH_OK ? e : NULL;
}

static ch_expression *parse_condition(parser *p, bool with_if) {
  if (!ch_template_enter(p, "brackets")) return NULL;
  ch_expression *e = parse_level(p, 0);
  while (e && with_if && p->status == CH_OK && ch_template_take(p, "if")) {
    ch_expression *condition = parse_level(p, 0), *other = NULL;
    if (p->status == CH_OK && ch_template_take(p, "else")) other = parse_condition(p, true);
    e = p->status == CH_OK ? new_expression(p, CH_CHOICE, NULL, e, condition) : NULL;
    if (!e) break;
    e->c = other;
    count_height(p, e, other);
  }
  p->depth--;
  return p->status == CH_OK ? e : NULL;
}

ch_expression *ch_template_expression(parser *p) {
  return parse_condition(p, true);
}

static ch_expression *parse_tuple(parser *p, bool with_if) {
  ch_expression *e = parse_condition(p, with_if);
  if (!e || !ch_template_take(p, ",")) return e;
  values v = {.count = 0};
  add_value(p, &v, NULL, e);
  do {
    const char *before = p->at;
    ch_template_take(p, "-"); /* also skips white space */
    bool over = closes(p);
    p->at = before;
    if (over) break;
    add_value(p, &v, NULL, parse_condition(p, with_if));
  } while (p->status == CH_OK && ch_template_take(p, ","));
  return give_values(p, new_expression(p, CH_LIST, NULL, NULL, NULL), &v);
}

ch_expression *ch_template_tuple(parser *p) {
  return parse_tuple(p, true);
}

ch_expression *ch_template_expression_before_if(parser *p) {
  return parse_tuple(p, false);
}

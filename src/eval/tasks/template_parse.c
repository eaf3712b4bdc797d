/* Templates: text into statements, expressions by precedence. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "eval/tasks/template_private.h"

typedef struct parser {
  ch_template *template;
  const char *start, *at, *end; /* end: of the brackets while inside, else of the text */
  int depth;
  ch_status status;
  ch_error *error;
} parser;

/* --- errors and memory --------------------------------------------------------------------------------------- */

static void *fail(parser *p, const char *what) {
  if (p->status == CH_OK)
    p->status = ch_fail(p->error, CH_ERROR_FORMAT, "%s, at character %zu: %s", p->template->where,
                        (size_t)(p->at - p->start) + 1, what);
  return NULL;
}

static void *no_memory(parser *p) {
  if (p->status == CH_OK) p->status = ch_fail(p->error, CH_ERROR_MEMORY, "no memory for a template");
  return NULL;
}

static void *allocate(parser *p, size_t size) {
  void *memory = ch_arena_alloc(&p->template->arena, size);
  return memory ? memory : no_memory(p);
}

/* What recurses while it is parsed; every success needs a `p->depth--`. */
static bool enter(parser *p, const char *what) {
  char message[96];
  if (p->depth < CH_TEMPLATE_DEPTH) return ++p->depth;
  snprintf(message, sizeof message, "%s are nested more than %d deep; name an inner part by {%% set %%}",
           what, CH_TEMPLATE_DEPTH);
  fail(p, message);
  return false;
}

/* Filling recurses over the tree of expressions, so its height has a limit. */
static void count_height(parser *p, ch_expression *e, const ch_expression *child) {
  char message[128];
  if (!child || child->height < e->height) return;
  e->height = child->height + 1;
  if (e->height <= CH_TEMPLATE_HEIGHT) return;
  snprintf(message, sizeof message,
           "more than %d operators and filters take each other's results; name a part of them by {%% set %%}",
           CH_TEMPLATE_HEIGHT);
  fail(p, message);
}

static ch_expression *expression_of(parser *p, ch_expression_kind kind, const char *name, ch_expression *a,
                                    ch_expression *b) {
  ch_expression *e = p->status == CH_OK ? allocate(p, sizeof *e) : NULL;
  if (!e) return NULL;
  *e = (ch_expression){.kind = kind, .name = name, .a = a, .b = b};
  count_height(p, e, a);
  count_height(p, e, b);
  return e;
}

static void give_third(parser *p, ch_expression *e, ch_expression *c) {
  e->c = c;
  count_height(p, e, c);
}

static ch_expression *literal(parser *p, json_t *value) {
  if (!value || json_array_append_new(p->template->literals, value) != 0) return no_memory(p);
  ch_expression *e = expression_of(p, CH_LITERAL, NULL, NULL, NULL);
  if (e) e->value = value;
  return e;
}

/* --- words --------------------------------------------------------------------------------------------------- */

static void skip_space(parser *p) {
  while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* Takes a sign or a word, if it stands next. */
static bool take(parser *p, const char *what) {
  skip_space(p);
  size_t size = strlen(what);
  if ((size_t)(p->end - p->at) < size || strncmp(p->at, what, size) != 0) return false;
  if (is_word(what[0]) && p->at + size < p->end && is_word(p->at[size])) return false;
  p->at += size;
  return true;
}

static bool need(parser *p, const char *what) {
  if (take(p, what)) return true;
  char message[48];
  snprintf(message, sizeof message, "%s is missing", what);
  fail(p, message);
  return false;
}

static const char *take_name(parser *p) {
  skip_space(p);
  const char *from = p->at;
  if (p->at < p->end && (isalpha((unsigned char)*p->at) || *p->at == '_'))
    while (p->at < p->end && is_word(*p->at)) p->at++;
  if (p->at == from) return fail(p, "a name is missing");
  char *name = allocate(p, (size_t)(p->at - from) + 1);
  if (name) memcpy(name, from, (size_t)(p->at - from));
  return name;
}

static ch_expression *quoted(parser *p) {
  char quote = *p->at++;
  ch_text text = {0};
  while (p->at < p->end && *p->at != quote) {
    char c = *p->at++;
    if (c == '\\' && p->at < p->end) {
      char escaped = *p->at++;
      c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
      if (!strchr("ntr\\'\"", escaped)) ch_text_put(&text, "\\", 1); /* as in Python: "\d" stays */
    }
    ch_text_put(&text, &c, 1);
  }
  ch_expression *e = NULL;
  if (p->at >= p->end)
    fail(p, "a string does not end");
  else if (p->at++, !text.failed)
    e = literal(p, json_stringn(text.data ? text.data : "", text.size));
  else
    no_memory(p);
  ch_text_free(&text);
  return e;
}

/* --- expressions --------------------------------------------------------------------------------------------- */

static ch_expression *parse_expression(parser *p);

static void add_to_list(parser *p, ch_expression *e, ch_expression *value) {
  char message[80];
  if (!value) return;
  if (e->count == CH_TEMPLATE_ARGUMENTS) {
    snprintf(message, sizeof message, "more than %d values in brackets; join shorter lists by +",
             CH_TEMPLATE_ARGUMENTS);
    fail(p, message);
    return;
  }
  e->in[e->count++] = value;
  count_height(p, e, value);
}

/* Values up to the closing bracket, which `e` takes. */
static void parse_list(parser *p, const char *closing, ch_expression *e) {
  if (take(p, closing)) return;
  do {
    const char *before = p->at; /* map(attribute='text') is map('attribute', 'text') */
    if (e->count == 0 && take(p, "attribute") && take(p, "="))
      add_to_list(p, e, literal(p, json_string("attribute")));
    else
      p->at = before;
    add_to_list(p, e, parse_expression(p));
  } while (p->status == CH_OK && take(p, ","));
  if (p->status == CH_OK) need(p, closing);
}

static ch_expression *parse_atom(parser *p) {
  skip_space(p);
  if (p->at >= p->end) return fail(p, "a value is missing");
  if (*p->at == '\'' || *p->at == '"') return quoted(p);
  if (isdigit((unsigned char)*p->at)) {
    char *after;
    errno = 0;
    long long whole = strtoll(p->at, &after, 10);
    if (errno) return fail(p, "a number is beyond 64 bits");
    p->at = after;
    return literal(p, json_integer(whole));
  }
  if (take(p, "(")) {
    ch_expression *e = parse_expression(p);
    if (p->status == CH_OK) need(p, ")");
    return e;
  }
  if (take(p, "[")) {
    ch_expression *e = expression_of(p, CH_LIST, NULL, NULL, NULL);
    if (e) parse_list(p, "]", e);
    return e;
  }
  if (take(p, "true") || take(p, "True")) return literal(p, json_true());
  if (take(p, "false") || take(p, "False")) return literal(p, json_false());
  if (take(p, "none") || take(p, "None")) return literal(p, json_null());
  const char *name = take_name(p);
  if (!name || strcmp(name, "range") != 0 || !take(p, "("))
    return name ? expression_of(p, CH_NAME, name, NULL, NULL) : NULL;
  ch_expression *most = parse_expression(p);
  return most && need(p, ")") ? expression_of(p, CH_FILTER, name, most, NULL) : NULL;
}

static ch_expression *check_function(parser *p, ch_expression *e) {
  if (!e || ch_template_knows(e->name)) return e;
  const char *near = ch_nearest_name(e->name, ch_template_functions);
  char message[160];
  snprintf(message, sizeof message, "there is no filter or method \"%.40s\"%s%s%s", e->name,
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return fail(p, message);
}

static ch_expression *parse_index(parser *p, ch_expression *a) {
  ch_expression *from = NULL, *to = NULL;
  if (!take(p, ":")) {
    from = parse_expression(p);
    if (p->status != CH_OK) return NULL;
    if (take(p, "]")) return expression_of(p, CH_INDEX, NULL, a, from);
    if (!need(p, ":")) return NULL;
  }
  if (!take(p, "]")) {
    to = parse_expression(p);
    if (p->status != CH_OK || !need(p, "]")) return NULL;
  }
  ch_expression *e = expression_of(p, CH_SLICE, NULL, a, from);
  if (e) give_third(p, e, to);
  return e;
}

/* a.name, a.name(...), a[...], and filters: those bind tighter than any operator. */
static ch_expression *parse_postfix(parser *p) {
  ch_expression *e = parse_atom(p);
  while (e && p->status == CH_OK) {
    if (take(p, ".")) {
      e = expression_of(p, CH_MEMBER, take_name(p), e, NULL);
      if (e && take(p, "(")) {
        e->kind = CH_CALL;
        parse_list(p, ")", e);
        e = check_function(p, e);
      }
    } else if (take(p, "[")) {
      e = parse_index(p, e);
    } else if (take(p, "|")) {
      e = check_function(p, expression_of(p, CH_FILTER, take_name(p), e, NULL));
      if (e && take(p, "(")) parse_list(p, ")", e);
    } else {
      break;
    }
  }
  return p->status == CH_OK ? e : NULL;
}

static ch_expression *parse_negative(parser *p) {
  if (!take(p, "-")) return parse_postfix(p);
  ch_expression *a = parse_postfix(p);
  return a ? expression_of(p, CH_NEGATIVE, NULL, a, NULL) : NULL;
}

/* Operators of one precedence per row, loosest first; a longer one before one that begins it. */
static const char *const operators[][9] = {
    {"or"}, {"and"}, {"==", "!=", "<=", ">=", "<", ">", "in", "not in"}, {"+", "-", "~"}, {"*", "//", "%"}};
enum { LEVELS = sizeof operators / sizeof *operators, COMPARISON = 2 };

/* Whether closing brackets follow: the sign before them is theirs. */
static bool closes(const parser *p) {
  return p->at[0] == '}' || (p->at[0] == '%' && p->at[1] == '}');
}

static const char *take_operator(parser *p, int level) {
  for (int i = 0; i < 9 && operators[level][i]; i++) {
    const char *before = p->at;
    if (strcmp(operators[level][i], "not in") == 0) {
      if (take(p, "not") && take(p, "in")) return operators[level][i];
      p->at = before;
    } else if (take(p, operators[level][i]) && !closes(p)) {
      return operators[level][i];
    } else {
      p->at = before;
    }
  }
  return NULL;
}

static ch_expression *parse_level(parser *p, int level) {
  if (level == LEVELS) return parse_negative(p);
  if (level == COMPARISON && take(p, "not")) {
    if (!enter(p, "\"not\"s")) return NULL;
    ch_expression *a = parse_level(p, level);
    p->depth--;
    return a ? expression_of(p, CH_NOT, NULL, a, NULL) : NULL;
  }
  ch_expression *e = parse_level(p, level + 1);
  const char *operator;
  while (e && p->status == CH_OK && (operator= take_operator(p, level))) {
    ch_expression *b = parse_level(p, level + 1);
    e = b ? expression_of(p, CH_BINARY, operator, e, b) : NULL;
  }
  return p->status == CH_OK ? e : NULL;
}

static ch_expression *parse_expression(parser *p) {
  if (!enter(p, "brackets")) return NULL;
  ch_expression *e = parse_level(p, 0);
  if (e && take(p, "if")) {
    ch_expression *condition = parse_level(p, 0), *other = NULL;
    if (p->status == CH_OK && need(p, "else")) other = parse_expression(p);
    e = other ? expression_of(p, CH_CHOICE, NULL, e, condition) : NULL;
    if (e) give_third(p, e, other);
  }
  p->depth--;
  return p->status == CH_OK ? e : NULL;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

/* The place of the next "{{" or "{%"; the end where there is none. */
static const char *next_bracket(const parser *p) {
  for (const char *at = p->at; at + 1 < p->end; at++)
    if (at[0] == '{' && (at[1] == '{' || at[1] == '%')) return at;
  return p->end;
}

static ch_statement *add(parser *p, ch_statement ***tail, ch_statement_kind kind) {
  ch_statement *s = p->status == CH_OK ? allocate(p, sizeof *s) : NULL;
  if (!s) return NULL;
  *s = (ch_statement){.kind = kind};
  **tail = s;
  *tail = &s->next;
  return s;
}

/* Closes the brackets, which may take the white space after them along. */
static void close_brackets(parser *p, const char *closing, const char *text_end) {
  p->end = text_end;
  if (p->status != CH_OK) return;
  skip_space(p);
  bool strip = take(p, "-");
  if (strncmp(p->at, closing, 2) != 0) {
    fail(p, closing[0] == '}' ? "}} is missing, or what stands before it is not understood"
                              : "%} is missing, or what stands before it is not understood");
    return;
  }
  p->at += 2;
  while (strip && p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
}

static void put_text(parser *p, ch_statement ***tail, const char *until) {
  const char *end = until;
  if (until + 2 < p->end && until[2] == '-')
    while (end > p->at && isspace((unsigned char)end[-1])) end--;
  if (end > p->at) {
    ch_statement *s = add(p, tail, CH_TEXT);
    if (s) s->text = p->at, s->size = (size_t)(end - p->at);
  }
  p->at = until;
}

typedef enum ending { ENDS_TEXT, ENDS_FOR, ENDS_ELIF, ENDS_ELSE, ENDS_IF } ending;
static ending parse_body(parser *p, ch_statement **first);

/* Behind "{% if" or "{% elif". */
static void parse_if(parser *p, ch_statement *s, const char *text_end) {
  s->expression = parse_expression(p);
  close_brackets(p, "%}", text_end);
  ending end = parse_body(p, &s->body);
  if (p->status != CH_OK) return;
  if (end == ENDS_ELIF) {
    ch_statement **tail = &s->orelse, *other = add(p, &tail, CH_IF);
    if (!other || !enter(p, "elif branches")) return;
    parse_if(p, other, text_end);
    p->depth--;
    return;
  }
  if (end == ENDS_ELSE) {
    close_brackets(p, "%}", text_end);
    end = parse_body(p, &s->orelse);
  }
  if (p->status == CH_OK && end != ENDS_IF) fail(p, "{% endif %} is missing");
  close_brackets(p, "%}", text_end);
}

static void parse_for(parser *p, ch_statement *s, const char *text_end) {
  s->name = take_name(p);
  if (p->status == CH_OK && need(p, "in")) s->expression = parse_expression(p);
  close_brackets(p, "%}", text_end);
  ending end = parse_body(p, &s->body);
  if (p->status == CH_OK && end != ENDS_FOR) fail(p, "{% endfor %} is missing");
  close_brackets(p, "%}", text_end);
}

static void parse_set(parser *p, ch_statement *s, const char *text_end) {
  s->name = take_name(p);
  if (p->status == CH_OK && need(p, "=")) s->expression = parse_expression(p);
  close_brackets(p, "%}", text_end);
}

/* One statement in brackets; true when it ends the list of statements, with the closing bracket still to be read. */
static bool parse_statement(parser *p, ch_statement ***tail, ending *end) {
  const char *text_end = p->end;
  ch_statement *s;
  if (take(p, "set")) {
    if ((s = add(p, tail, CH_SET))) parse_set(p, s, text_end);
  } else if (take(p, "for")) {
    if ((s = add(p, tail, CH_FOR))) parse_for(p, s, text_end);
  } else if (take(p, "if")) {
    if ((s = add(p, tail, CH_IF))) parse_if(p, s, text_end);
  } else if (take(p, "endfor")) {
    *end = ENDS_FOR;
    return true;
  } else if (take(p, "elif")) {
    *end = ENDS_ELIF;
    return true;
  } else if (take(p, "else")) {
    *end = ENDS_ELSE;
    return true;
  } else if (take(p, "endif")) {
    *end = ENDS_IF;
    return true;
  } else {
    fail(p, "a statement is set, for or if");
  }
  return false;
}

static ending parse_body(parser *p, ch_statement **first) {
  ch_statement **tail = first;
  ending end = ENDS_TEXT;
  if (!enter(p, "statements")) return end;
  while (p->status == CH_OK && p->at < p->end) {
    const char *text_end = p->end, *bracket = next_bracket(p);
    put_text(p, &tail, bracket);
    if (bracket == p->end) break;
    bool output = bracket[1] == '{';
    p->at = bracket + 2;
    if (p->at < p->end && *p->at == '-') p->at++;
    if (output) {
      ch_statement *s = add(p, &tail, CH_OUTPUT);
      if (s) s->expression = parse_expression(p);
      close_brackets(p, "}}", text_end);
    } else if (parse_statement(p, &tail, &end)) {
      break;
    }
  }
  p->depth--;
  return end;
}

ch_status ch_template_parse(const char *text, const char *where, ch_template **result, ch_error *error) {
  *result = NULL;
  ch_template *template = calloc(1, sizeof *template);
  if (!template) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a template");
  const char *copy = ch_arena_strdup(&template->arena, text);
  template->where = ch_arena_strdup(&template->arena, where);
  template->literals = json_array();
  ch_status status = CH_OK;
  if (!copy || !template->where || !template->literals)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory for a template");
  if (status == CH_OK) {
    parser p = {.template = template, .start = copy, .at = copy, .end = copy + strlen(copy), .error = error};
    if (parse_body(&p, &template->first) != ENDS_TEXT) fail(&p, "an end or else without its beginning");
    status = p.status;
  }
  if (status == CH_OK)
    *result = template;
  else
    ch_template_free(template);
  return status;
}

void ch_template_free(ch_template *template) {
  if (!template) return;
  json_decref(template->literals);
  ch_arena_free(&template->arena);
  free(template);
}

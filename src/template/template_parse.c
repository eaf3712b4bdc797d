/* Parses templates: text, statements, and the white space between them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/template_private.h"

typedef ch_template_parser parser;

/* --- white space ---------------------------------------------------------------------------------------- */

static bool trims(const parser *p) {
  return p->template->dialect == CH_TEMPLATE_CHAT;
}

/* Returns the end of a text without its trailing white space, like str.rstrip. */
static const char *strip_right(const char *from, const char *to) {
  while (to > from) {
    const char *last = to - 1;
    uint32_t code;
    while (last > from && (*last & 0xc0) == 0x80) last--;
    if (!ch_utf8_decode((const unsigned char *)last, (const unsigned char *)to, &code) ||
        !ch_is_white_space(code))
      break;
    to = last;
  }
  return to;
}

static const char *strip_left(const char *from, const char *to) {
  for (uint32_t code; from < to;) {
    size_t size = ch_utf8_decode((const unsigned char *)from, (const unsigned char *)to, &code);
    if (!size || !ch_is_white_space(code)) break;
    from += size;
  }
  return from;
}

/* Moves past the white space that closing brackets before p->at remove. `sign`: the sign before the brackets, '-', '+'
   or 0. In chat templates, the line break after a block or comment is removed. */
static void finish_brackets(parser *p, char sign, bool block) {
  if (sign == '-')
    p->at = strip_left(p->at, p->end);
  else if (sign != '+' && block && trims(p) && p->at < p->end && *p->at == '\n')
    p->at++;
}

/* Reads the closing brackets, which must be next. `block`: in chat templates, a line break after them is removed. */
static void close_as(parser *p, const char *closing, bool block) {
  if (p->status != CH_OK) return;
  char sign = ch_template_take(p, "-") ? '-' : ch_template_take(p, "+") ? '+' : 0;
  if (p->end - p->at < 2 || strncmp(p->at, closing, 2) != 0) {
    ch_template_fail(p, closing[0] == '}' ? "}} is missing, or the text before it is not an expression"
                                          : "%} is missing, or the text before it is not a statement");
    return;
  }
  p->at += 2;
  finish_brackets(p, sign, block);
}

static void close_brackets(parser *p, const char *closing) {
  close_as(p, closing, closing[0] == '%');
}

static ch_statement *add(parser *p, ch_statement ***tail, ch_statement_kind kind) {
  ch_statement *s = p->status == CH_OK ? ch_template_allocate(p, sizeof *s) : NULL;
  if (!s) return NULL;
  *s = (ch_statement){.kind = kind};
  **tail = s;
  *tail = &s->next;
  return s;
}

/* Returns a pointer to the next "{{", "{%" or "{#", or to the end if there is none. */
static const char *next_bracket(const parser *p) {
  for (const char *at = p->at; at + 1 < p->end; at++)
    if (at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')) return at;
  return p->end;
}

/* Adds the text up to a bracket, without the white space that the bracket removes. */
static void put_text(parser *p, ch_statement ***tail, const char *until) {
  const char *end = until, *line = until;
  char sign = until + 2 < p->end ? until[2] : 0;
  if (sign == '-') {
    end = strip_right(p->at, until);
  } else if (trims(p) && sign != '+' && until < p->end && until[1] != '{') {
    /* removes blanks between the beginning of the line and the bracket */
    while (line > p->at && line[-1] != '\n') line--;
    bool begins = line > p->at || line == p->start || line[-1] == '\n';
    if (begins && strip_left(line, until) == until) end = line;
  }
  if (end > p->at) {
    ch_statement *s = add(p, tail, CH_TEXT);
    if (s) s->text = p->at, s->size = (size_t)(end - p->at);
  }
  p->at = until;
}

/* --- statements ----------------------------------------------------------------------------------------- */

static const char *const endings[] = {"endfor", "elif",     "else",      "endif",
                                      "endset", "endmacro", "endfilter", "endgeneration"};
typedef enum ending {
  ENDS_FOR,
  ENDS_ELIF,
  ENDS_ELSE,
  ENDS_IF,
  ENDS_SET,
  ENDS_MACRO,
  ENDS_FILTER,
  ENDS_GENERATION,
  ENDS_TEXT
} ending;
static ending parse_body(parser *p, ch_statement **first);

/* Closes the brackets of a statement, and parses its body, which must end with `want`. */
static void parse_block(parser *p, ch_statement **first, ending want) {
  char message[48];
  close_brackets(p, "%}");
  ending end = parse_body(p, first);
  if (end != want) {
    snprintf(message, sizeof message, "{%% %s %%} is missing", endings[want]);
    ch_template_fail(p, message);
  }
  close_brackets(p, "%}");
}

/* Parses the rest of "{% if" or "{% elif". */
static void parse_if(parser *p, ch_statement *s) {
  s->expression = ch_template_tuple(p);
  close_brackets(p, "%}");
  ending end = parse_body(p, &s->body);
  if (p->status != CH_OK) return;
  if (end == ENDS_ELIF) {
    ch_statement **tail = &s->orelse, *other = add(p, &tail, CH_IF);
    if (!other || !ch_template_enter(p, "elif branches")) return;
    parse_if(p, other);
    p->depth--;
  } else if (end == ENDS_ELSE) {
    parse_block(p, &s->orelse, ENDS_IF);
  } else {
    if (end != ENDS_IF) ch_template_fail(p, "{% endif %} is missing");
    close_brackets(p, "%}");
  }
}

/* Parses names separated by commas, with or without brackets. */
static void parse_names(parser *p, ch_statement *s) {
  const char *names[CH_TEMPLATE_ARGUMENTS];
  int count = 0;
  bool brackets = ch_template_take(p, "(");
  do {
    if (count == CH_TEMPLATE_ARGUMENTS)
      ch_template_fail(p, "too many names");
    else
      names[count++] = ch_template_take_name(p);
  } while (p->status == CH_OK && ch_template_take(p, ","));
  if (brackets && p->status == CH_OK) ch_template_need(p, ")");
  s->names = p->status == CH_OK ? ch_template_allocate(p, (size_t)count * sizeof *s->names) : NULL;
  if (!s->names) return;
  memcpy(s->names, names, (size_t)count * sizeof *names);
  s->name_count = count;
}

static void parse_for(parser *p, ch_statement *s) {
  parse_names(p, s);
  if (p->status == CH_OK && ch_template_need(p, "in")) s->expression = ch_template_expression_before_if(p);
  if (p->status == CH_OK && ch_template_take(p, "if")) s->condition = ch_template_expression(p);
  if (p->status == CH_OK && ch_template_take(p, "recursive"))
    ch_template_fail(p, "loops cannot be recursive; write a macro");
  close_brackets(p, "%}");
  int loops = p->loops;
  ending end = parse_body(p, &s->body);
  s->uses_loop = p->loops > loops;
  if (end == ENDS_ELSE) {
    parse_block(p, &s->orelse, ENDS_FOR);
  } else {
    if (end != ENDS_FOR) ch_template_fail(p, "{% endfor %} is missing");
    close_brackets(p, "%}");
  }
}

static void parse_set(parser *p, ch_statement *s) {
  parse_names(p, s);
  if (p->status == CH_OK && s->name_count == 1 && ch_template_take(p, "."))
    s->member = ch_template_take_name(p);
  if (p->status == CH_OK && ch_template_take(p, "=")) {
    s->expression = ch_template_tuple(p);
    close_brackets(p, "%}");
  } else if (s->name_count > 1 || s->member) {
    ch_template_need(p, "=");
  } else {
    parse_block(p, &s->body, ENDS_SET);
  }
}

static void parse_macro(parser *p, ch_statement *s) {
  const char *names[CH_TEMPLATE_ARGUMENTS];
  ch_expression *defaults[CH_TEMPLATE_ARGUMENTS];
  int count = 1;
  names[0] = ch_template_take_name(p);
  defaults[0] = NULL;
  if (p->status == CH_OK) ch_template_need(p, "(");
  while (p->status == CH_OK && !ch_template_take(p, ")")) {
    if (count == CH_TEMPLATE_ARGUMENTS) {
      ch_template_fail(p, "a macro has too many parameters");
      break;
    }
    names[count] = ch_template_take_name(p);
    defaults[count++] = p->status == CH_OK && ch_template_take(p, "=") ? ch_template_expression(p) : NULL;
    if (p->status != CH_OK || ch_template_take(p, ")")) break;
    ch_template_need(p, ",");
  }
  s->names = p->status == CH_OK ? ch_template_allocate(p, (size_t)count * sizeof *s->names) : NULL;
  s->defaults = p->status == CH_OK ? ch_template_allocate(p, (size_t)count * sizeof *s->defaults) : NULL;
  if (p->status != CH_OK) return;
  memcpy(s->names, names, (size_t)count * sizeof *names);
  memcpy(s->defaults, defaults, (size_t)count * sizeof *defaults);
  s->name_count = count;
  s->value = *ch_template_callable();
  parse_block(p, &s->body, ENDS_MACRO);
}

static void parse_filtered(parser *p, ch_statement *s) {
  s->expression = ch_template_body_filters(p);
  parse_block(p, &s->body, ENDS_FILTER);
}

/* Parses the rest of "{% raw": the text up to {% endraw %}, which may have brackets. The text includes the line
   break after {% raw %}. */
static void parse_raw(parser *p, ch_statement ***tail) {
  close_as(p, "%}", false);
  if (p->status != CH_OK) return;
  const char *from = p->at;
  for (const char *at = from; at + 1 < p->end; at++) {
    if (at[0] != '{' || at[1] != '%') continue;
    p->at = at + 2;
    if (p->at < p->end && (*p->at == '-' || *p->at == '+')) p->at++;
    if (!ch_template_take(p, "endraw")) continue;
    const char *behind = p->at;
    p->at = from;
    put_text(p, tail, at);
    p->at = behind;
    close_brackets(p, "%}");
    return;
  }
  p->at = from;
  ch_template_fail(p, "{% endraw %} is missing");
}

/* Parses one statement after "{%". Returns true if the statement ends the list of statements. Its closing
   bracket has then not been read. */
static bool parse_statement(parser *p, ch_statement ***tail, ending *end) {
  static const struct {
    const char *word;
    ch_statement_kind kind;
    void (*parse)(parser *p, ch_statement *s);
  } statements[] = {{"set", CH_SET, parse_set},
                    {"for", CH_FOR, parse_for},
                    {"if", CH_IF, parse_if},
                    {"macro", CH_MACRO, parse_macro},
                    {"break", CH_BREAK, NULL},
                    {"continue", CH_CONTINUE, NULL},
                    {"filter", CH_FILTERED, parse_filtered}};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (ch_template_take(p, endings[i])) {
      *end = (ending)i;
      return true;
    }
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    if (!ch_template_take(p, statements[i].word)) continue;
    ch_statement *s = add(p, tail, statements[i].kind);
    if (s && statements[i].parse)
      statements[i].parse(p, s);
    else
      close_brackets(p, "%}");
    return false;
  }
  if (ch_template_take(p, "raw")) {
    parse_raw(p, tail);
  } else if (trims(p) && ch_template_take(p, "generation")) {
    ch_statement *s = add(p, tail, CH_IF);
    if (s) parse_block(p, &s->body, ENDS_GENERATION);
  } else {
    ch_template_fail(p, "unknown statement; use set, for, if, macro, filter, break, continue or raw");
  }
  return false;
}

static void parse_comment(parser *p) {
  for (const char *at = p->at; at + 1 < p->end; at++)
    if (at[0] == '#' && at[1] == '}') {
      char sign = at > p->at ? at[-1] : 0;
      p->at = at + 2;
      finish_brackets(p, sign == '-' || sign == '+' ? sign : 0, true);
      return;
    }
  ch_template_fail(p, "#} is missing");
}

static ending parse_body(parser *p, ch_statement **first) {
  ch_statement **tail = first;
  ending end = ENDS_TEXT;
  if (!ch_template_enter(p, "statements")) return end;
  while (p->status == CH_OK && p->at < p->end) {
    const char *bracket = next_bracket(p);
    put_text(p, &tail, bracket);
    if (bracket == p->end) break;
    p->at = bracket + 2;
    if (p->at < p->end && (*p->at == '-' || *p->at == '+')) p->at++;
    if (bracket[1] == '{') {
      ch_statement *s = add(p, &tail, CH_OUTPUT);
      if (s) s->expression = ch_template_tuple(p);
      close_brackets(p, "}}");
    } else if (bracket[1] == '#') {
      parse_comment(p);
    } else if (parse_statement(p, &tail, &end)) {
      break;
    }
  }
  p->depth--;
  return end;
}

/* Copies a source as Jinja reads it: every line break becomes \n, and in chat templates a line break at the end is
   removed. */
static char *read_source(ch_template *template, const char *text) {
  char *copy = ch_arena_strdup(&template->arena, text), *to = copy;
  if (!copy) return NULL;
  for (const char *from = copy; *from; from++) {
    if (*from == '\r' && from[1] == '\n') continue;
    *to++ = *from == '\r' ? '\n' : *from;
  }
  if (template->dialect == CH_TEMPLATE_CHAT && to > copy && to[-1] == '\n') to--;
  *to = 0;
  return copy;
}

ch_status ch_template_parse(const char *text, ch_template_dialect dialect, const char *where,
                            ch_template **result, ch_error *error) {
  *result = NULL;
  ch_template *template = calloc(1, sizeof *template);
  if (!template) return ch_no_memory(error);
  template->dialect = dialect;
  const char *copy = read_source(template, text);
  template->where = ch_arena_strdup(&template->arena, where);
  template->literals = json_array();
  ch_status status = CH_OK;
  if (!copy || !template->where || !template->literals) status = ch_no_memory(error);
  if (status == CH_OK) {
    parser p = {.template = template, .start = copy, .at = copy, .end = copy + strlen(copy), .error = error};
    ending end = parse_body(&p, &template->first);
    if (end != ENDS_TEXT) ch_template_fail(&p, "an end or else without its beginning");
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

/* Parsed templates, and the parts of the engine that fill them. */
#ifndef CH_TEMPLATE_PRIVATE_H
#define CH_TEMPLATE_PRIVATE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/text.h"
#include "template/template.h"
#include "template/template_limits.h"

typedef enum ch_expression_kind {
  CH_LITERAL,  /* value */
  CH_NAME,     /* name */
  CH_MEMBER,   /* a.name */
  CH_INDEX,    /* a[b] */
  CH_SLICE,    /* a[b:c:d]; b, c and d may be missing */
  CH_CALL,     /* a.name(in ...) */
  CH_FUNCTION, /* name(in ...), or a(in ...) if a macro is a value */
  CH_FILTER,   /* a | name(in ...) */
  CH_TEST,     /* a is name(in ...) */
  CH_LIST,     /* [in ...] */
  CH_DICT,     /* {in: in, ...} */
  CH_BINARY,   /* a name b */
  CH_NOT,      /* not a */
  CH_NEGATIVE, /* -a */
  CH_CHOICE    /* a if b else c; c may be missing */
} ch_expression_kind;

typedef struct ch_expression {
  ch_expression_kind kind;
  const char *name; /* name of a field, method, filter, test or function; or an operator */
  json_t *value;
  struct ch_expression *a, *b, *c, *d;
  struct ch_expression **in; /* [count] arguments or elements */
  const char **keywords;     /* [count] keyword of each argument, or NULL; NULL: no argument has one */
  int count;
  int spread; /* 1 + index of the argument *list, whose elements become arguments; 0: none */
  int height; /* height of the tree below; 0 for a leaf */
} ch_expression;

typedef enum ch_statement_kind {
  CH_TEXT,
  CH_OUTPUT,
  CH_SET,      /* sets names, or a namespace's member, to the expression or the text of the body */
  CH_FOR,      /* for names in expression if condition */
  CH_IF,       /* runs the body if the expression is true, or always without an expression */
  CH_MACRO,    /* names[0] is its name, the others are its parameters */
  CH_FILTERED, /* writes the expression, in which CH_TEMPLATE_BODY names the text of the body */
  CH_BREAK,
  CH_CONTINUE
} ch_statement_kind;

typedef struct ch_statement {
  ch_statement_kind kind;
  const char *text; /* CH_TEXT: [size] the text */
  size_t size;
  const char **names; /* [name_count] */
  int name_count;
  const char *member;        /* CH_SET: member of names[0], or NULL */
  ch_expression *expression; /* NULL in a CH_SET of the body's text */
  ch_expression *condition;  /* CH_FOR: condition, or NULL */
  ch_expression **defaults;  /* CH_MACRO: [name_count] defaults of parameters, NULL for those without */
  json_t value;              /* CH_MACRO: value of the macro's name, recognised by its address */
  struct ch_statement *body, *orelse; /* first statements of lists */
  bool uses_loop;                     /* CH_FOR: true if the body names `loop` */
  struct ch_statement *next;
} ch_statement;

/* The name of the text that a {% filter %} is applied to. Because of the space, no name in a template equals it. */
#define CH_TEMPLATE_BODY " body"

struct ch_template {
  ch_arena arena;
  ch_template_dialect dialect;
  const char *where;
  ch_statement *first;
  json_t *literals; /* list that owns the literals' values */
};

/* --- parsing -------------------------------------------------------------------------------------------- */

typedef struct ch_template_parser {
  ch_template *template;
  const char *start, *at, *end;
  int depth;
  int loops; /* number of times that `loop` was named */
  ch_status status;
  ch_error *error;
} ch_template_parser;

/* Records the first error; returns NULL. */
void *ch_template_fail(ch_template_parser *p, const char *what);
/* Returns zeroed memory of the template; NULL with the status set if out of memory. */
void *ch_template_allocate(ch_template_parser *p, size_t size);
/* Counts a level of recursion. After true the caller must decrement p->depth. */
bool ch_template_enter(ch_template_parser *p, const char *what);
/* Skips white space. If the word or sign `what` is next, moves past it and returns true. */
bool ch_template_take(ch_template_parser *p, const char *what);
/* Moves past the word or sign `what`, which must be next. */
bool ch_template_need(ch_template_parser *p, const char *what);
/* Reads a name into the arena. */
const char *ch_template_take_name(ch_template_parser *p);
/* Parses an expression. Returns NULL with the status set on failure. */
ch_expression *ch_template_expression(ch_template_parser *p);
/* Parses an expression, or a tuple without brackets. */
ch_expression *ch_template_tuple(ch_template_parser *p);
/* Parses the filters of {% filter trim | upper %}, applied to CH_TEMPLATE_BODY. */
ch_expression *ch_template_body_filters(ch_template_parser *p);
/* Parses an expression without "if", for the list of {% for %}. */
ch_expression *ch_template_expression_before_if(ch_template_parser *p);

/* --- filling -------------------------------------------------------------------------------------------- */

typedef struct ch_template_filling {
  const ch_template *template;
  ch_template_scope *scope;
  ch_text *text;                      /* output of statements */
  json_t *frames[CH_TEMPLATE_FRAMES]; /* [frame_count] variables by scope, innermost last */
  int frame_count;
  int first_frame;             /* in a macro: first frame after frame 0 that is visible */
  const ch_statement **macros; /* [macro_count] defined macros */
  int macro_count;
  json_t *namespaces; /* list of the results of namespace(), or NULL */
  int depth;
  int lenient;              /* above 0 while undefined names are allowed */
  bool leaving, continuing; /* true after break, true after continue */
  ch_error *error;
  ch_status status;
} ch_template_filling;

/* Evaluates an expression. Returns a new value, or NULL with f->status set. */
json_t *ch_template_evaluate(ch_template_filling *f, const ch_expression *e);
/* Records the first error. Returns NULL. */
json_t *ch_template_wrong(ch_template_filling *f, ch_status status, const char *what);
/* Records that memory ran out. Returns NULL. */
json_t *ch_template_no_memory(ch_template_filling *f);
/* Sets the status after a callee filled f->error, or ran out of memory without filling it. Returns NULL. */
json_t *ch_template_wrong_in(ch_template_filling *f);
/* Counts a step. Returns false with the status set if there were too many. */
bool ch_template_step(ch_template_filling *f);
/* Returns the value of a variable, macro or field by name, borrowed; NULL if there is none. */
json_t *ch_template_variable(const ch_template_filling *f, const char *name);
/* Calls a macro. Returns a new string, or NULL with the status set. If there is no such macro, returns NULL and
   f->status is CH_OK. */
json_t *ch_template_call_macro(ch_template_filling *f, const ch_expression *call);

/* --- limits --------------------------------------------------------------------------------------------- */

/* Counts `bytes` of values that are built or read. Returns false with *error filled if a filling exceeds its
   limit. */
bool ch_template_spend(ch_template_scope *scope, size_t bytes, ch_error *error);
/* Counts the size of a value, and checks the limits for values. */
bool ch_template_spend_value(ch_template_scope *scope, const json_t *value, ch_error *error);
/* Returns true if a text may have that many bytes, else false with *error filled. */
bool ch_template_fits(size_t bytes, ch_error *error);

/* --- functions, tests, values --------------------------------------------------------------------------- */

/* A call of a method, filter or test on the value `self`. All values belong to the caller. */
typedef struct ch_template_call {
  ch_template_scope *scope;
  ch_template_dialect dialect;
  const char *name;
  bool method; /* true: self.name(...); false: self | name(...) */
  json_t *self, *const *in;
  const char *const *keywords; /* see ch_expression.keywords */
  int count;
  ch_error *error;
} ch_template_call;

/* Returns the argument at a position or with that keyword, or NULL if there is none. */
json_t *ch_template_argument(const ch_template_call *c, int position, const char *keyword);
/* Fails with the message "NAME WHAT". Returns NULL. */
json_t *ch_template_refuse(const ch_template_call *c, const char *what);
/* Returns *text as a new JSON string, or NULL with the error filled. Frees *text. */
json_t *ch_template_finish(const ch_template_call *c, ch_text *text);
/* Appends bytes to a text. Returns false with the error filled if the text exceeds the limit. */
bool ch_template_put(const ch_template_call *c, ch_text *text, const char *bytes, size_t size);

/* Applies a method or filter. Returns a new value, or NULL with the error filled. */
json_t *ch_template_apply_call(const ch_template_call *c);
/* Applies a filter without keywords in the dialect of tasks, as ch_template_apply_call does. */
json_t *ch_template_apply(ch_template_scope *scope, const char *name, json_t *self, json_t *const *in,
                          int count, ch_error *error);
/* Applies a method or filter of texts; self is a text. Sets *known to true if there is one of that name. Otherwise
   sets it to false and returns NULL without an error. */
json_t *ch_template_apply_to_text(const ch_template_call *c, bool *known);
/* Returns an argument's text, or NULL if there is none or it is not text. */
const char *ch_template_text_argument(const ch_template_call *c, int position, const char *keyword);
/* Returns true if there is a method or filter of that name. */
bool ch_template_knows(const char *name);
/* The names of methods and filters, NULL-terminated. */
extern const char *const ch_template_functions[];

/* Returns the result of a test, 0 or 1; -1 with the error filled. */
int ch_template_test(const ch_template_call *c);
bool ch_template_knows_test(const char *name);
/* The names of tests, NULL-terminated. */
extern const char *const ch_template_tests[];

/* Returns the value of undefined names: a JSON null other than json_null(), recognised by its address. It has no
   reference count and is never freed. */
json_t *ch_template_undefined(void);
/* Returns the value of the names of functions, which is never freed. A macro's value is in its statement. */
json_t *ch_template_callable(void);
bool ch_template_is_callable(const json_t *value);
/* Returns the key of an object for a text or an integer, or NULL for other values. The key of an integer is written
   to `buffer`. Its first byte is 1, which distinguishes it from the keys of texts. */
enum { CH_TEMPLATE_KEY = 24 };
const char *ch_template_key(const json_t *value, char buffer[CH_TEMPLATE_KEY]);
/* Returns true if an object has a text or an integer as a key. */
bool ch_template_has_key(const json_t *object, const json_t *value);
/* Returns a key as a value: a new text or integer. */
json_t *ch_template_key_value(const char *key);
/* Returns Python's str() of a value as a new string, "" for undefined. NULL with *error filled if out of memory. */
json_t *ch_template_text(const json_t *value, ch_error *error);
/* Returns the truth value of Python's bool(). */
bool ch_template_true(const json_t *value);
/* Returns the result of Python's ==. */
bool ch_template_equal(const json_t *a, const json_t *b);
/* Compares two numbers or two texts: *order is below, equal to or above 0. Returns false for other values. */
bool ch_template_order(const json_t *a, const json_t *b, double *order);
/* Settings of Python's json.dumps. `indent` below 0: one line. `ascii`: escapes characters beyond ASCII.
   `sorted`: sorts keys. `html`: escapes < > & '. */
typedef struct ch_template_json {
  int64_t indent;
  bool ascii, sorted, html;
} ch_template_json;
/* Appends the JSON of a value. Returns false if out of memory, with text->failed set, or if the value contains
   undefined. */
bool ch_template_put_json(ch_text *text, const json_t *value, const ch_template_json *how);
/* Returns a list: the characters of a text, the keys of an object, nothing for undefined, or the value itself if it
   is a list. The caller releases it. Returns NULL with *error filled for other values or if out of memory. */
json_t *ch_template_elements(json_t *value, ch_error *error);

/* Returns a new text in which all matches of a pattern are replaced. In the replacement, \1 stands for the first
   group. */
json_t *ch_template_regex(ch_template_scope *scope, const json_t *text, const char *pattern,
                          const char *replacement, ch_error *error);
/* Returns a new list of all matches, as lm-evaluation-harness's regex filter does. An entry is the whole match or, if
   the pattern has one group, that group. If it has several, the entry is the first group that is not empty, or null. */
json_t *ch_template_find_all(ch_template_scope *scope, const json_t *text, const char *pattern,
                             ch_error *error);
/* Fails if a pattern cannot be compiled. */
ch_status ch_template_regex_check(const char *pattern, ch_error *error);

#endif

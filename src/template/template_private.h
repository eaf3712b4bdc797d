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
  CH_SLICE,    /* a[b:c:d], each may be missing */
  CH_CALL,     /* a.name(in ...) */
  CH_FUNCTION, /* name(in ...), or a(in ...) for a macro that is a value */
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
  const char *name; /* of a field, method, filter, test or function; an operator */
  json_t *value;
  struct ch_expression *a, *b, *c, *d;
  struct ch_expression **in; /* arguments or elements, [count] */
  const char **keywords;     /* of the arguments, NULL for one without; NULL if none has one */
  int count;
  int spread; /* in[spread - 1] is *list: its elements are arguments; 0: none is */
  int height; /* of the tree below: 0 for a leaf */
} ch_expression;

typedef enum ch_statement_kind {
  CH_TEXT,
  CH_OUTPUT,
  CH_SET,      /* names = expression, or a namespace's member, or the text of the body */
  CH_FOR,      /* for names in expression if condition */
  CH_IF,       /* without an expression: the body always runs */
  CH_MACRO,    /* names[0] is its own name, the others its parameters */
  CH_FILTERED, /* the value of the expression, in which CH_TEMPLATE_BODY names the text of the body */
  CH_BREAK,
  CH_CONTINUE
} ch_statement_kind;

typedef struct ch_statement {
  ch_statement_kind kind;
  const char *text; /* CH_TEXT */
  size_t size;
  const char **names; /* [name_count] */
  int name_count;
  const char *member;                 /* CH_SET of names[0].member; or NULL */
  ch_expression *expression;          /* CH_SET without one: of the body's text */
  ch_expression *condition;           /* CH_FOR; or NULL */
  ch_expression **defaults;           /* CH_MACRO: of each name, NULL without one */
  json_t value;                       /* CH_MACRO: what its name is, recognised by its address */
  struct ch_statement *body, *orelse; /* first of a list */
  bool uses_loop;                     /* CH_FOR: the body names `loop` */
  struct ch_statement *next;
} ch_statement;

/* A name that no template can spell. */
#define CH_TEMPLATE_BODY " body"

struct ch_template {
  ch_arena arena;
  ch_template_dialect dialect;
  const char *where;
  ch_statement *first;
  json_t *literals; /* a list that owns the literals' values */
};

/* --- parsing -------------------------------------------------------------------------------------------- */

typedef struct ch_template_parser {
  ch_template *template;
  const char *start, *at, *end;
  int depth;
  int loops; /* how often `loop` was named */
  ch_status status;
  ch_error *error;
} ch_template_parser;

/* Records the first error; returns NULL. */
void *ch_template_fail(ch_template_parser *p, const char *what);
/* Returns zeroed memory of the template; NULL with the status set if out of memory. */
void *ch_template_allocate(ch_template_parser *p, size_t size);
/* Counts a level of recursion. After true the caller must decrement p->depth. */
bool ch_template_enter(ch_template_parser *p, const char *what);
/* Skips white space; if the word or sign `what` is next, moves past it and returns true. */
bool ch_template_take(ch_template_parser *p, const char *what);
bool ch_template_need(ch_template_parser *p, const char *what);
/* Reads a name into the arena. */
const char *ch_template_take_name(ch_template_parser *p);
/* Parses an expression. Returns NULL with the status set. ch_template_tuple also reads a tuple without
   brackets. */
ch_expression *ch_template_expression(ch_template_parser *p);
ch_expression *ch_template_tuple(ch_template_parser *p);
/* Filters applied to CH_TEMPLATE_BODY, as in {% filter trim | upper %}. */
ch_expression *ch_template_body_filters(ch_template_parser *p);
/* Parses an expression without "if", for the list of {% for %}. */
ch_expression *ch_template_expression_before_if(ch_template_parser *p);

/* --- filling -------------------------------------------------------------------------------------------- */

typedef struct ch_template_filling {
  const ch_template *template;
  ch_template_scope *scope;
  ch_text *text;                      /* where statements write */
  json_t *frames[CH_TEMPLATE_FRAMES]; /* names by scope, innermost last */
  int frame_count;
  int first_frame;             /* in a macro: the first frame after frame 0 that it can see */
  const ch_statement **macros; /* [macro_count] */
  int macro_count;
  json_t *namespaces; /* a list of what namespace() gave; NULL before the first */
  int depth;
  int lenient;              /* above 0: undefined names are allowed */
  bool leaving, continuing; /* after break, after continue */
  ch_error *error;
  ch_status status;
} ch_template_filling;

/* Returns a new value, or NULL with f->status set. */
json_t *ch_template_evaluate(ch_template_filling *f, const ch_expression *e);
/* Records the first error; returns NULL. */
json_t *ch_template_wrong(ch_template_filling *f, ch_status status, const char *what);
json_t *ch_template_no_memory(ch_template_filling *f);
/* Sets the status for callees that wrote f->error, or that ran out of memory without a message. Returns
   NULL. */
json_t *ch_template_wrong_in(ch_template_filling *f);
/* Counts a step; false with the status set when there were too many. */
bool ch_template_step(ch_template_filling *f);
/* Returns the value of a variable, macro or field by name, borrowed; NULL if there is none. */
json_t *ch_template_variable(const ch_template_filling *f, const char *name);
/* Calls a macro. Returns a new string, or NULL with the status set. NULL with f->status CH_OK if there is no
   macro of that name. */
json_t *ch_template_call_macro(ch_template_filling *f, const ch_expression *call);

/* --- limits --------------------------------------------------------------------------------------------- */

/* Counts `bytes` of values that are built or read. Returns false with *error filled when a filling exceeds
   its limit. */
bool ch_template_spend(ch_template_scope *scope, size_t bytes, ch_error *error);
/* Counts the size of a value, and checks the limits for values. */
bool ch_template_spend_value(ch_template_scope *scope, const json_t *value, ch_error *error);
/* Returns true if a text may have that many bytes, else false with *error filled. */
bool ch_template_fits(size_t bytes, ch_error *error);

/* --- functions, tests, values --------------------------------------------------------------------------- */

/* A call of a method, filter or test: `self` is the value it is applied to. All values are the caller's. */
typedef struct ch_template_call {
  ch_template_scope *scope;
  ch_template_dialect dialect;
  const char *name;
  bool method; /* self.name(...), not self | name(...) */
  json_t *self, *const *in;
  const char *const *keywords; /* as of ch_expression */
  int count;
  ch_error *error;
} ch_template_call;

/* Returns the argument at a position or with that keyword, or NULL if there is none. */
json_t *ch_template_argument(const ch_template_call *c, int position, const char *keyword);
/* Writes "name: what" as the error; returns NULL. */
json_t *ch_template_refuse(const ch_template_call *c, const char *what);
/* Takes over *text, which is freed: a new JSON string, or NULL with the error filled. */
json_t *ch_template_finish(const ch_template_call *c, ch_text *text);
/* Appends bytes to a text that may outgrow what it is built from; false with the error filled beyond the
   limit. */
bool ch_template_put(const ch_template_call *c, ch_text *text, const char *bytes, size_t size);

/* Applies a method or filter. Returns a new value, or NULL with the error filled. */
json_t *ch_template_apply_call(const ch_template_call *c);
/* Like ch_template_apply_call, without keywords, in the dialect of tasks. */
json_t *ch_template_apply(ch_template_scope *scope, const char *name, json_t *self, json_t *const *in,
                          int count, ch_error *error);
/* Applies methods and filters of texts; self is a text. *known: there is one of that name, else it returns
   NULL without an error. */
json_t *ch_template_apply_to_text(const ch_template_call *c, bool *known);
/* Returns an argument's text, or NULL if there is none or it is not text. */
const char *ch_template_text_argument(const ch_template_call *c, int position, const char *keyword);
/* Returns true if there is a method or filter of that name. */
bool ch_template_knows(const char *name);
extern const char *const ch_template_functions[]; /* NULL-terminated */

/* Returns the result of a test, 0 or 1; -1 with the error filled. */
int ch_template_test(const ch_template_call *c);
bool ch_template_knows_test(const char *name);
extern const char *const ch_template_tests[]; /* NULL-terminated */

/* Returns the value of undefined names: a JSON null other than json_null(), recognised by its address. It is
   not counted and never freed. */
json_t *ch_template_undefined(void);
/* Returns the value of the names of functions; it is never freed either. A macro's value is in its
   statement. */
json_t *ch_template_callable(void);
bool ch_template_is_callable(const json_t *value);
/* The key of an object for a text or a whole number; NULL for other values. Whole numbers become a text in
   `buffer` that no text of a template equals. */
enum { CH_TEMPLATE_KEY = 24 };
const char *ch_template_key(const json_t *value, char buffer[CH_TEMPLATE_KEY]);
/* Returns a key as a value: a new text or whole number. */
json_t *ch_template_key_value(const char *key);
/* Returns Python's str() as a new string; "" for undefined. NULL with *error filled if out of memory. */
json_t *ch_template_text(const json_t *value, ch_error *error);
/* Returns Python's truth of a value. */
bool ch_template_true(const json_t *value);
/* Returns the result of Python's ==. */
bool ch_template_equal(const json_t *a, const json_t *b);
/* Compares two numbers or two texts: *order is below, equal to or above 0. Returns false if the values have
   no order. */
bool ch_template_order(const json_t *a, const json_t *b, double *order);
/* Python's json.dumps. `indent` below 0: one line. */
typedef struct ch_template_json {
  int64_t indent;
  bool ascii, sorted, html;
} ch_template_json;
bool ch_template_put_json(ch_text *text, const json_t *value, const ch_template_json *how);
/* Returns the characters of a text, the elements of a list (the list itself), or the keys of an object, as a
   new list. NULL with *error filled for other values. */
json_t *ch_template_elements(json_t *value, ch_error *error);

/* Replaces a pattern in a text, with \1 for groups. */
json_t *ch_template_regex(ch_template_scope *scope, const json_t *text, const char *pattern,
                          const char *replacement, ch_error *error);
/* Returns a new list of all matches, as lm-evaluation-harness's regex filter does: the whole match, or its
   one group, or of several groups the first that is not empty (null: all are). */
json_t *ch_template_find_all(ch_template_scope *scope, const json_t *text, const char *pattern,
                             ch_error *error);
/* Fails if a pattern cannot be compiled. */
ch_status ch_template_regex_check(const char *pattern, ch_error *error);

#endif

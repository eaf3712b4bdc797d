/* Fills templates: runs their statements, and holds their variables. */
#include <stdlib.h>
#include <string.h>

#include "template/template_private.h"

typedef ch_template_filling filling;

/* --- names ---------------------------------------------------------------------------------------------- */

static bool push_frame(filling *f) {
  json_t *frame = f->frame_count < CH_TEMPLATE_FRAMES ? json_object() : NULL;
  if (!frame) {
    if (f->frame_count == CH_TEMPLATE_FRAMES)
      ch_template_wrong(f, CH_ERROR_FORMAT,
                        "loops and macros are nested too deeply; a macro must not call itself without end");
    else
      ch_template_no_memory(f);
    return false;
  }
  f->frames[f->frame_count++] = frame;
  return true;
}

static void pop_frame(filling *f) {
  json_decref(f->frames[--f->frame_count]);
}

static void give_name(filling *f, const char *name, json_t *value) {
  if (json_object_set(f->frames[f->frame_count - 1], name, value) != 0) ch_template_no_memory(f);
}

/* Assigns a value to one name, or the elements of a list to several names. */
static void give_names(filling *f, const char *const *names, int count, json_t *value) {
  if (count == 1) {
    give_name(f, names[0], value);
    return;
  }
  if (!json_is_array(value) || json_array_size(value) != (size_t)count) {
    ch_template_wrong(f, CH_ERROR_FORMAT, "several names need a list with a value for each");
    return;
  }
  for (int i = 0; i < count; i++) give_name(f, names[i], json_array_get(value, (size_t)i));
}

/* --- statements ----------------------------------------------------------------------------------------- */

static void run(filling *f, const ch_statement *first);

static void put_text(filling *f, const char *text, size_t size) {
  if (!ch_template_spend(f->scope, size, f->error) || !ch_template_fits(f->text->size + size, f->error)) {
    ch_template_wrong_in(f);
    return;
  }
  ch_text_put(f->text, text, size);
  if (f->text->failed) ch_template_no_memory(f);
}

static void put_value(filling *f, const ch_statement *s) {
  json_t *value = ch_template_evaluate(f, s->expression),
         *text = value ? ch_template_text(value, f->error) : NULL;
  if (value && !text) ch_template_wrong_in(f);
  if (text) put_text(f, json_string_value(text), json_string_length(text));
  json_decref(value);
  json_decref(text);
}

/* Runs statements and returns their text as a new string, or NULL with the status set. */
static json_t *captured(filling *f, const ch_statement *first) {
  ch_text text = {0}, *outer = f->text;
  json_t *result = NULL;
  f->text = &text;
  run(f, first);
  f->text = outer;
  if (f->status == CH_OK && !(result = json_stringn(text.data ? text.data : "", text.size)))
    ch_template_no_memory(f);
  ch_text_free(&text);
  return result;
}

/* Returns true if `value` is `object` or contains it. The limits for values bound the recursion. */
static bool holds(const json_t *value, const json_t *object) {
  const char *key;
  json_t *field;
  if (value == object) return true;
  for (size_t i = 0; i < json_array_size(value); i++)
    if (holds(json_array_get(value, i), object)) return true;
  json_object_foreach((json_t *)(uintptr_t)value, key, field) {
    if (holds(field, object)) return true;
  }
  return false;
}

static void set_member(filling *f, const ch_statement *s, json_t *value) {
  json_t *space = NULL;
  for (int i = f->frame_count - 1; i >= 0 && !space; i--) space = json_object_get(f->frames[i], s->names[0]);
  bool settable = false;
  for (size_t i = 0; i < json_array_size(f->namespaces); i++)
    settable |= json_array_get(f->namespaces, i) == space;
  if (!space || !settable)
    ch_template_wrong(f, CH_ERROR_FORMAT, "only members of a namespace() can be set");
  else if (!ch_template_spend_value(f->scope, value, f->error))
    ch_template_wrong_in(f);
  else if (holds(value, space))
    ch_template_wrong(f, CH_ERROR_FORMAT, "a namespace cannot contain itself");
  else if (json_object_set(space, s->member, value) != 0)
    ch_template_no_memory(f);
}

static void run_set(filling *f, const ch_statement *s) {
  json_t *value = s->expression ? ch_template_evaluate(f, s->expression) : captured(f, s->body);
  if (value && s->member) {
    set_member(f, s, value);
  } else if (value) {
    give_names(f, s->names, s->name_count, value);
  }
  json_decref(value);
}

/* Sets the variable `loop` of iteration `i`. */
static void give_loop(filling *f, const json_t *list, size_t i) {
  json_int_t count = (json_int_t)json_array_size(list), at = (json_int_t)i;
  json_t *before = i > 0 ? json_array_get(list, i - 1) : ch_template_undefined();
  json_t *after = at + 1 < count ? json_array_get(list, i + 1) : ch_template_undefined();
  json_t *loop = json_pack("{s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:O, s:O}", "index0", at, "index", at + 1,
                           "revindex0", count - at - 1, "revindex", count - at, "first", at == 0, "last",
                           at + 1 == count, "length", count, "previtem", before, "nextitem", after);
  if (!loop || json_object_set(f->frames[f->frame_count - 1], "loop", loop) != 0) ch_template_no_memory(f);
  json_decref(loop);
}

/* Returns the elements of a loop that satisfy its condition. */
static json_t *loop_list(filling *f, const ch_statement *s) {
  json_t *value = ch_template_evaluate(f, s->expression);
  json_t *list = value ? ch_template_elements(value, f->error) : NULL;
  if (value && !list) ch_template_wrong_in(f);
  json_decref(value);
  if (!list || !s->condition) return list;
  json_t *chosen = json_array();
  for (size_t i = 0; chosen && f->status == CH_OK && i < json_array_size(list) && ch_template_step(f); i++) {
    if (!push_frame(f)) break;
    give_names(f, s->names, s->name_count, json_array_get(list, i));
    json_t *condition = f->status == CH_OK ? ch_template_evaluate(f, s->condition) : NULL;
    if (condition && ch_template_true(condition) && json_array_append(chosen, json_array_get(list, i)) != 0)
      ch_template_no_memory(f);
    json_decref(condition);
    pop_frame(f);
  }
  if (!chosen) ch_template_no_memory(f);
  json_decref(list);
  return chosen;
}

static void run_loop(filling *f, const ch_statement *s) {
  json_t *list = loop_list(f, s);
  size_t turns = 0;
  for (size_t i = 0; f->status == CH_OK && !f->leaving && i < json_array_size(list) && ch_template_step(f);
       i++, turns++) {
    if (!push_frame(f)) break;
    give_names(f, s->names, s->name_count, json_array_get(list, i));
    if (s->uses_loop) give_loop(f, list, i);
    run(f, s->body);
    f->continuing = false;
    pop_frame(f);
  }
  f->leaving = false;
  if (f->status == CH_OK && turns == 0) run(f, s->orelse);
  json_decref(list);
}

static void run_if(filling *f, const ch_statement *s) {
  json_t *condition = s->expression ? ch_template_evaluate(f, s->expression) : json_true();
  if (condition) run(f, ch_template_true(condition) ? s->body : s->orelse);
  json_decref(condition);
}

static void run_filtered(filling *f, const ch_statement *s) {
  if (!push_frame(f)) return;
  json_t *body = captured(f, s->body);
  if (body) give_name(f, CH_TEMPLATE_BODY, body);
  json_decref(body);
  if (f->status == CH_OK) put_value(f, s);
  pop_frame(f);
}

static void add_macro(filling *f, const ch_statement *s) {
  const ch_statement **more = realloc(f->macros, (size_t)(f->macro_count + 1) * sizeof *more);
  if (more) f->macros = more;
  if (more)
    f->macros[f->macro_count++] = s;
  else
    ch_template_no_memory(f);
}

static void run_one(filling *f, const ch_statement *s) {
  switch (s->kind) {
  case CH_TEXT:
    put_text(f, s->text, s->size);
    break;
  case CH_OUTPUT:
    put_value(f, s);
    break;
  case CH_SET:
    run_set(f, s);
    break;
  case CH_FOR:
    run_loop(f, s);
    break;
  case CH_IF:
    run_if(f, s);
    break;
  case CH_MACRO:
    add_macro(f, s);
    break;
  case CH_FILTERED:
    run_filtered(f, s);
    break;
  case CH_BREAK:
    f->leaving = true;
    break;
  case CH_CONTINUE:
    f->continuing = true;
    break;
  }
}

static void run(filling *f, const ch_statement *first) {
  if (++f->depth > CH_TEMPLATE_RECURSION)
    ch_template_wrong(f, CH_ERROR_FORMAT, "statements and macros are nested too deeply");
  for (const ch_statement *s = first;
       s && f->status == CH_OK && !f->leaving && !f->continuing && ch_template_step(f); s = s->next)
    run_one(f, s);
  f->depth--;
}

/* --- macros --------------------------------------------------------------------------------------------- */

/* The evaluated arguments of a call. */
typedef struct arguments {
  json_t *in[CH_TEMPLATE_ARGUMENTS];
  const char *keywords[CH_TEMPLATE_ARGUMENTS]; /* [count] NULL for an argument without a keyword */
  int count;
} arguments;

/* Adds an argument to the list, which takes ownership of the value. */
static void add_argument(filling *f, arguments *g, const char *keyword, json_t *value) {
  if (!value) return;
  if (g->count == CH_TEMPLATE_ARGUMENTS) {
    ch_template_wrong(f, CH_ERROR_FORMAT, "a macro is called with too many arguments");
    json_decref(value);
    return;
  }
  g->keywords[g->count] = keyword;
  g->in[g->count++] = value;
}

static void evaluate_arguments(filling *f, const ch_expression *call, arguments *g) {
  for (int k = 0; k < call->count && f->status == CH_OK; k++) {
    json_t *value = ch_template_evaluate(f, call->in[k]);
    if (k + 1 != call->spread) {
      add_argument(f, g, call->keywords ? call->keywords[k] : NULL, value);
      continue;
    }
    json_t *list = value ? ch_template_elements(value, f->error) : NULL;
    if (value && !list) ch_template_wrong_in(f);
    for (size_t i = 0; f->status == CH_OK && i < json_array_size(list); i++)
      add_argument(f, g, NULL, json_incref(json_array_get(list, i)));
    json_decref(list);
    json_decref(value);
  }
}

/* Sets the parameters of a macro. Defaults are evaluated inside the macro. */
static void give_arguments(filling *f, const ch_statement *macro, const arguments *g) {
  for (int i = 1; i < macro->name_count && f->status == CH_OK; i++) {
    json_t *value = NULL;
    for (int k = 0; k < g->count; k++)
      if (g->keywords[k] ? strcmp(g->keywords[k], macro->names[i]) == 0 : k == i - 1)
        value = json_incref(g->in[k]);
    if (!value && macro->defaults[i]) value = ch_template_evaluate(f, macro->defaults[i]);
    if (f->status == CH_OK) give_name(f, macro->names[i], value ? value : ch_template_undefined());
    json_decref(value);
  }
}

static bool check_arguments(filling *f, const ch_statement *macro, const arguments *g) {
  char message[128];
  for (int k = 0; k < g->count; k++) {
    const char *keyword = g->keywords[k];
    bool known = !keyword && k < macro->name_count - 1;
    for (int i = 1; keyword && i < macro->name_count; i++) known |= strcmp(keyword, macro->names[i]) == 0;
    if (known) continue;
    snprintf(message, sizeof message, "macro \"%.40s\" has no parameter for argument %d", macro->names[0],
             k + 1);
    ch_template_wrong(f, CH_ERROR_FORMAT, message);
    return false;
  }
  return true;
}

/* Returns the called macro, or NULL if the called value is not a macro. */
static const ch_statement *macro_of(filling *f, const ch_expression *call) {
  const ch_statement *macro = NULL;
  json_t *value = call->a ? ch_template_evaluate(f, call->a) : ch_template_variable(f, call->name);
  for (int i = 0; i < f->macro_count; i++)
    if (value == &f->macros[i]->value) macro = f->macros[i];
  if (call->a) json_decref(value);
  return macro;
}

json_t *ch_template_call_macro(filling *f, const ch_expression *call) {
  const ch_statement *macro = macro_of(f, call);
  arguments g = {.count = 0};
  json_t *result = NULL;
  if (!macro || f->status != CH_OK) return NULL;
  evaluate_arguments(f, call, &g);
  int outer = f->first_frame;
  if (f->status == CH_OK && check_arguments(f, macro, &g) && push_frame(f)) {
    f->first_frame = f->frame_count - 1;
    give_arguments(f, macro, &g);
    if (f->status == CH_OK) result = captured(f, macro->body);
    f->first_frame = outer;
    pop_frame(f);
  }
  while (g.count > 0) json_decref(g.in[--g.count]);
  return result;
}

/* --- whole templates ------------------------------------------------------------------------------------ */

/* Returns the value of a template that is one expression after assignments. Returns NULL without an error for any
   other template. */
static json_t *only_value(filling *f) {
  const ch_statement *s = f->template->first;
  while (s && s->kind == CH_SET && !s->member && s->expression) s = s->next;
  if (!s || s->kind != CH_OUTPUT || s->next) return NULL;
  for (const ch_statement *given = f->template->first; given != s && f->status == CH_OK; given = given->next)
    run_one(f, given);
  return f->status == CH_OK ? ch_template_evaluate(f, s->expression) : NULL;
}

ch_status ch_template_value(const ch_template *template, ch_template_scope *scope, json_t **value,
                            ch_error *error) {
  ch_error own = {0};
  filling f = {.template = template, .scope = scope, .first_frame = 1, .error = error ? error : &own};
  f.error->status = CH_OK; /* no message yet */
  scope->steps = scope->bytes = 0;
  *value = NULL;
  if (push_frame(&f)) *value = only_value(&f);
  if (f.status == CH_OK && !*value) *value = captured(&f, template->first);
  while (f.frame_count > 0) pop_frame(&f);
  free(f.macros);
  json_decref(f.namespaces);
  if (*value == ch_template_undefined()) *value = json_string("");
  if (f.status == CH_OK && !*value) ch_template_no_memory(&f);
  return f.status;
}

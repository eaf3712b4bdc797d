/* Turns items into questions: the form that fits an item, its templates filled in, and solved examples before it. The
 * texts are those of lm-evaluation-harness byte for byte, down to the draws of its random generator. */
#include "eval/tasks/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "eval/perplexity.h"
#include "template/python_literal.h"
#include "eval/tasks/python_random.h"
#include "template/template_private.h"

enum { FEWSHOT_SEED = 1234 /* the harness's */ };
static const size_t most_bytes = (size_t)1 << 30; /* limit for the texts of all questions together */

/* State shared by all questions. */
typedef struct question_writer {
  const ch_task *task;
  const ch_items *items;
  const ch_fewshot *fewshot;
  ch_arena *arena;
  ch_template_scope scope;
  ch_python_random random;
  const char **examples;       /* [pool]: texts of examples with answers; NULL before the first use */
  const char **example_groups; /* [pool]: groups of examples; NULL before the first use */
  size_t bytes;                /* bytes of all texts so far */
} question_writer;

/* Counts a text that the questions keep. */
static ch_status take_bytes(question_writer *m, size_t size, ch_error *error) {
  m->bytes += size;
  if (m->bytes <= most_bytes) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "the questions are more than %zu MiB of text; use fewer items or fewer examples",
                 most_bytes >> 20);
}

/* --- forms --------------------------------------------------------------------------------------------------- */

/* Returns the member whose name is the first `size` bytes of a text, or NULL. Jansson has such a function only since
   version 2.14. */
static const json_t *member(const json_t *fields, const char *text, size_t size) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)fields, name, value) {
    if (strlen(name) == size && memcmp(name, text, size) == 0) return value;
  }
  return NULL;
}

/* Returns true if there is a field at a path such as "choices.text". */
static bool has_field(const json_t *fields, const char *path) {
  const char *dot;
  for (; fields && (dot = strchr(path, '.')); path = dot + 1)
    fields = member(fields, path, (size_t)(dot - path));
  return json_object_get(fields, path) != NULL;
}

static bool fits(const ch_task_form *form, const json_t *fields) {
  for (size_t i = 0; i < json_array_size(form->fields); i++)
    if (!has_field(fields, json_string_value(json_array_get(form->fields, i)))) return false;
  return true;
}

static ch_status no_form(const ch_task *task, const ch_items *items, int64_t index, ch_error *error) {
  ch_text text = {0};
  char place[4096];
  for (int f = 0; f < task->form_count; f++) {
    if (f > 0) ch_text_puts(&text, ", or ");
    for (size_t i = 0; i < json_array_size(task->forms[f].fields); i++)
      ch_text_printf(&text, "%s%s", i > 0 ? " " : "",
                     json_string_value(json_array_get(task->forms[f].fields, i)));
  }
  ch_text_put(&text, "", 1);
  ch_fail(error, CH_ERROR_FORMAT, "%s: not an item of %s, which needs the fields %s",
          ch_item_place(items, index, place, sizeof place), task->name, text.data ? text.data : "");
  ch_text_free(&text);
  return CH_ERROR_FORMAT;
}

static const ch_task_form *form_of(const ch_task *task, const json_t *fields) {
  for (int i = 0; i < task->form_count; i++)
    if (fits(&task->forms[i], fields)) return &task->forms[i];
  return NULL;
}

/* --- values -------------------------------------------------------------------------------------------------- */

/* Fills a template for the item in the scope. */
static ch_status fill_template(question_writer *m, const ch_template *template, json_t **value,
                               ch_error *error) {
  return ch_template_value(template, &m->scope, value, error);
}

static ch_status keep_text(question_writer *m, const json_t *value, const char *what, const char **text,
                           ch_error *error) {
  if (!json_is_string(value)) return ch_fail(error, CH_ERROR_FORMAT, "%s is not a string", what);
  CH_TRY(take_bytes(m, json_string_length(value), error));
  *text = ch_arena_strdup(m->arena, json_string_value(value));
  return *text ? CH_OK : ch_no_memory(error);
}

static ch_status fill_text(question_writer *m, const ch_template *template, const char *what,
                           const char **text, ch_error *error) {
  json_t *value;
  *text = "";
  if (!template) return CH_OK;
  CH_TRY(fill_template(m, template, &value, error));
  ch_status status = keep_text(m, value, what, text, error);
  json_decref(value);
  return status;
}

static int64_t characters_of(const char *text) {
  int64_t count = 0;
  for (; *text; text++) count += (*text & 0xc0) != 0x80;
  return count;
}

/* Fills choices [*count], in the arena. */
static ch_status fill_choices(question_writer *m, const ch_task_form *form, const char ***choices, int *count,
                              ch_error *error) {
  json_t *list = NULL;
  ch_status status = CH_OK;
  if (form->choices) CH_TRY(fill_template(m, form->choices, &list, error));
  size_t found = form->choices ? json_array_size(list) : (size_t)form->choice_count;
  *choices = ch_arena_alloc(m->arena, (found + 1) * sizeof **choices);
  if (found < 1 || found > CH_TASK_MOST_CHOICES)
    status = ch_fail(error, CH_ERROR_FORMAT, "doc_to_choice gives %zu choices; 1 to %d are allowed", found,
                     CH_TASK_MOST_CHOICES);
  if (status == CH_OK && !*choices) status = ch_no_memory(error);
  for (size_t i = 0; status == CH_OK && i < found; i++)
    status = list ? keep_text(m, json_array_get(list, i), "a choice", &(*choices)[i], error)
                  : fill_text(m, form->choice[i], "a choice", &(*choices)[i], error);
  json_decref(list);
  *count = (int)found;
  return status;
}

/* Reads the index of the right choice, which is an integer, a boolean or a string of digits. */
static ch_status fill_gold(question_writer *m, const ch_template *template, int count, int *gold,
                           ch_error *error) {
  json_t *value;
  CH_TRY(fill_template(m, template, &value, error));
  int64_t index = -1;
  const char *text = json_string_value(value);
  if (json_is_integer(value)) index = json_integer_value(value);
  if (json_is_boolean(value)) index = json_is_true(value);
  if (text && text[0] >= '0' && text[0] <= '9' && strspn(text, "0123456789") == strlen(text))
    index = atoll(text);
  json_decref(value);
  if (index < 0 || index >= count)
    return ch_fail(error, CH_ERROR_FORMAT, "the right choice must be a number from 0 to %d", count - 1);
  *gold = (int)index;
  return CH_OK;
}

/* --- parts of a question ------------------------------------------------------------------------------------- */

static ch_status fill_truths(question_writer *m, const ch_template *template, ch_question *question,
                             ch_error *error) {
  json_t *list;
  CH_TRY(fill_template(m, template, &list, error));
  char *truths = ch_arena_alloc(m->arena, (size_t)question->count);
  ch_status status = truths ? CH_OK : ch_no_memory(error);
  if (status == CH_OK && json_array_size(list) != (size_t)question->count)
    status = ch_fail(error, CH_ERROR_FORMAT, "there are %d choices and %zu labels", question->count,
                     json_array_size(list));
  for (int i = 0; status == CH_OK && i < question->count; i++) {
    json_t *label = json_array_get(list, (size_t)i);
    if (!json_is_integer(label) || json_integer_value(label) < 0 || json_integer_value(label) > 1)
      status = ch_fail(error, CH_ERROR_FORMAT, "a label must be 0 or 1");
    else
      truths[i] = (char)json_integer_value(label);
  }
  json_decref(list);
  question->truths = truths;
  return status;
}

static ch_status join_words(question_writer *m, const char *a, const char *b, const char **both,
                            ch_error *error) {
  CH_TRY(take_bytes(m, strlen(a) + strlen(b), error));
  *both = ch_arena_printf(m->arena, "%s%s", a, b);
  return *both ? CH_OK : ch_no_memory(error);
}

/* Fills the requests of a question with choices. Contexts are without the description and the examples. */
static ch_status make_choices(question_writer *m, const ch_task_form *form, ch_question *q, ch_error *error) {
  const char **choices, *text = "", *target = "";
  bool inputs = m->task->output == CH_TASK_INPUTS;
  CH_TRY(fill_choices(m, form, &choices, &q->count, error));
  if (inputs) {
    CH_TRY(fill_gold(m, form->text, q->count, &q->gold, error));
    CH_TRY(fill_text(m, form->target, "doc_to_target", &target, error));
  } else {
    CH_TRY(fill_text(m, form->text, "doc_to_text", &text, error));
    if (form->labels)
      CH_TRY(fill_truths(m, form->labels, q, error));
    else
      CH_TRY(fill_gold(m, form->target, q->count, &q->gold, error));
  }
  q->requests = ch_arena_alloc(m->arena, (size_t)q->count * sizeof *q->requests);
  if (!q->requests) return ch_no_memory(error);
  for (int i = 0; i < q->count; i++) {
    q->requests[i] =
        (ch_question_request){.context = inputs ? choices[i] : text, .characters = characters_of(choices[i])};
    CH_TRY(join_words(m, m->task->target_delimiter, inputs ? target : choices[i],
                      &q->requests[i].continuation, error));
  }
  return CH_OK;
}

static ch_status make_target(question_writer *m, const ch_task_form *form, ch_question *q, ch_error *error) {
  const char *counted;
  q->count = 1;
  q->requests = ch_arena_alloc(m->arena, sizeof *q->requests);
  if (!q->requests) return ch_no_memory(error);
  CH_TRY(fill_text(m, form->text, "doc_to_text", &q->requests->context, error));
  CH_TRY(fill_text(m, form->target, "doc_to_target", &q->requests->continuation, error));
  if (m->task->output != CH_TASK_ROLLING) return CH_OK;
  counted = q->requests->continuation;
  if (form->counted) CH_TRY(fill_text(m, form->counted, "doc_to_counted", &counted, error));
  q->words = ch_count_words(counted, strlen(counted));
  q->bytes = (int64_t)strlen(counted);
  if (q->bytes == 0) return ch_fail(error, CH_ERROR_FORMAT, "the text is empty");
  return CH_OK;
}

/* Returns the right answers as a list of values. A text that is a list in Python's spelling becomes that
 * list, as in the harness. Steals the value. */
static json_t *answers_of(json_t *value, ch_error *error) {
  const char *text = json_string_value(value);
  size_t size = json_string_length(value);
  ch_error why = {0};
  json_t *list = text && size >= 2 && text[0] == '[' && text[size - 1] == ']'
                     ? ch_python_literal(text, size, &why)
                     : NULL;
  if (json_is_array(value)) return value;
  if (list) {
    json_decref(value);
    return list;
  }
  list = json_pack("[o]", value);
  if (!list) ch_no_memory(error);
  return list;
}

static ch_status keep_answers(question_writer *m, const json_t *list, ch_question *q, ch_error *error) {
  size_t count = json_array_size(list);
  if (count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "doc_to_target gives an empty list; it needs an answer");
  const char **targets = ch_arena_alloc(m->arena, count * sizeof *targets);
  if (!targets) return ch_no_memory(error);
  for (size_t i = 0; i < count; i++) {
    json_t *text = ch_template_text(json_array_get(list, i), error);
    if (!text)
      return ch_fail(error, CH_ERROR_FORMAT, "doc_to_target must give a string or a list of strings");
    ch_status status = keep_text(m, text, "an answer", &targets[i], error);
    json_decref(text);
    CH_TRY(status);
  }
  q->targets = targets;
  q->target_count = (int)count;
  return CH_OK;
}

static ch_status make_answer(question_writer *m, const ch_task_form *form, ch_question *q, ch_error *error) {
  json_t *value;
  q->count = 1;
  q->requests = ch_arena_alloc(m->arena, sizeof *q->requests);
  if (!q->requests) return ch_no_memory(error);
  CH_TRY(fill_text(m, form->text, "doc_to_text", &q->requests->context, error));
  CH_TRY(fill_text(m, form->prefix, "gen_prefix", &q->prefix, error));
  CH_TRY(fill_template(m, form->target, &value, error));
  json_t *list = answers_of(value, error);
  if (!list) return CH_ERROR_MEMORY;
  ch_status status = keep_answers(m, list, q, error);
  json_decref(list);
  if (status == CH_OK) q->requests->continuation = q->targets[0];
  return status;
}

static ch_status make_bare(question_writer *m, const ch_items *items, int64_t index, ch_question *q,
                           const char **description, ch_error *error) {
  json_t *fields = items->data[index].fields;
  const ch_task_form *form = form_of(m->task, fields);
  *q = (ch_question){.gold = -1};
  if (!form) return no_form(m->task, items, index, error);
  m->scope.fields = fields;
  ch_status status = m->task->output == CH_TASK_CHOICES || m->task->output == CH_TASK_INPUTS
                         ? make_choices(m, form, q, error)
                     : m->task->output == CH_TASK_GENERATE ? make_answer(m, form, q, error)
                                                           : make_target(m, form, q, error);
  if (status == CH_OK) status = fill_text(m, form->description, "description", description, error);
  if (status == CH_OK && form->group) status = fill_text(m, form->group, "group", &q->group, error);
  if (status == CH_OK || status == CH_ERROR_MEMORY) return status;
  char place[4096];
  return ch_fail_in(error, ch_item_place(items, index, place, sizeof place));
}

/* --- examples ------------------------------------------------------------------------------------------------ */

static bool is_space_at(const char *text, bool end) {
  const unsigned char *from = (const unsigned char *)text, *stop = from + strlen(text), *at = from;
  uint32_t c = 0;
  if (end && stop > from)
    for (at = stop - 1; at > from && (*at & 0xc0) == 0x80;) at--;
  return at < stop && ch_utf8_decode(at, stop, &c) > 0 && ch_is_white_space(c);
}

/* Returns true if two texts need a delimiter: neither is empty, and no white space is between them. */
static bool touch(const char *before, const char *after) {
  return *before && *after && !is_space_at(before, true) && !is_space_at(after, false);
}

/* Returns the text between a question and the beginning of its answer. */
static const char *before_prefix(const question_writer *m, const ch_question *q) {
  return touch(q->requests->context, q->prefix) ? m->task->target_delimiter : "";
}

/* Returns the example of a CH_TASK_GENERATE question: its context, the prefix of the answer if there is one, and the
 * answer. */
static char *written_example(question_writer *m, const ch_question *q) {
  const ch_question_request *r = q->requests;
  bool answered = *r->continuation != 0, prefixed = *q->prefix != 0;
  const char *delimiter = prefixed ? before_prefix(m, q) : answered ? m->task->target_delimiter : "";
  return ch_arena_printf(m->arena, "%s%s%s%s%s%s", r->context, delimiter, q->prefix,
                         touch(q->prefix, r->continuation) ? " " : "", r->continuation,
                         answered ? m->task->fewshot_delimiter : "");
}

/* Sets *text to example `index` with its answer and the delimiter after it. */
static ch_status example_of(question_writer *m, int64_t index, const char **text, ch_error *error) {
  if (m->examples[index]) {
    *text = m->examples[index];
    return CH_OK;
  }
  ch_question q;
  const char *description;
  CH_TRY(make_bare(m, m->fewshot->pool, index, &q, &description, error));
  const ch_question_request *r = &q.requests[q.gold > 0 ? q.gold : 0];
  const char *delimiter = m->task->output == CH_TASK_TARGET ? m->task->target_delimiter : "";
  CH_TRY(take_bytes(m, strlen(r->context) + strlen(r->continuation), error));
  m->examples[index] = m->task->output == CH_TASK_GENERATE
                           ? written_example(m, &q)
                           : ch_arena_printf(m->arena, "%s%s%s%s", r->context, delimiter, r->continuation,
                                             m->task->fewshot_delimiter);
  if (!m->examples[index]) return ch_no_memory(error);
  *text = m->examples[index];
  return CH_OK;
}

/* Returns true if two items have the same fields. Their positions in the file may differ. */
static bool same_item(const json_t *a, const json_t *b) {
  return a == b || json_equal(a, b);
}

static ch_status too_few(const question_writer *m, int64_t found, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "{examples} is %d, but there are only %lld examples; give a file with more in {example_file}",
      m->fewshot->count, (long long)found);
}

/* Sets *group to the group of an example, or NULL. */
static ch_status item_group(question_writer *m, int64_t index, const char **group, ch_error *error) {
  const ch_items *pool = m->fewshot->pool;
  const ch_task_form *form = form_of(m->task, pool->data[index].fields);
  *group = NULL;
  if (!form) return no_form(m->task, pool, index, error);
  if (!form->group) return CH_OK;
  if (!m->example_groups[index]) {
    m->scope.fields = pool->data[index].fields;
    CH_TRY(fill_text(m, form->group, "group", &m->example_groups[index], error));
  }
  *group = m->example_groups[index];
  return CH_OK;
}

/* Chooses the first examples of the item's group, except the item itself. */
static ch_status choose_first(question_writer *m, const json_t *fields, const char *group, int64_t *chosen,
                              ch_error *error) {
  const ch_items *pool = m->fewshot->pool;
  int found = 0;
  for (int64_t i = 0; i < pool->count && found < m->fewshot->count; i++) {
    const char *own;
    CH_TRY(item_group(m, i, &own, error));
    if ((group && own && strcmp(group, own) != 0) || same_item(pool->data[i].fields, fields)) continue;
    chosen[found++] = i;
  }
  return found == m->fewshot->count ? CH_OK : too_few(m, found, error);
}

/* Draws examples from the items of the pool that differ from the item `fields`. */
static ch_status draw_others(question_writer *m, const json_t *fields, int64_t *chosen, ch_error *error) {
  const ch_items *pool = m->fewshot->pool;
  int64_t *others = malloc(((size_t)pool->count + 1) * sizeof *others), count = 0;
  if (!others) return ch_no_memory(error);
  for (int64_t i = 0; i < pool->count; i++)
    if (!same_item(pool->data[i].fields, fields)) others[count++] = i;
  ch_status status = CH_OK;
  if (count < m->fewshot->count)
    status = too_few(m, count, error);
  else if (!ch_python_sample(&m->random, count, m->fewshot->count, chosen))
    status = ch_no_memory(error);
  for (int i = 0; status == CH_OK && i < m->fewshot->count; i++) chosen[i] = others[chosen[i]];
  free(others);
  return status;
}

/* Draws examples as the harness does. If the item itself may be drawn, one more example is drawn. If several
 * copies of the item are drawn, draw_others draws again without them. */
static ch_status choose_random(question_writer *m, const json_t *fields, int64_t *chosen, ch_error *error) {
  const ch_items *pool = m->fewshot->pool;
  bool extra = m->task->fewshot_extra || m->fewshot->own;
  int64_t drawn = m->fewshot->count + extra, found = 0;
  if (drawn > pool->count) return too_few(m, pool->count - extra, error);
  if (!ch_python_sample(&m->random, pool->count, drawn, chosen)) return ch_no_memory(error);
  for (int64_t i = 0; i < drawn && found < m->fewshot->count; i++)
    if (!extra || !same_item(pool->data[chosen[i]].fields, fields)) chosen[found++] = chosen[i];
  return found == m->fewshot->count ? CH_OK : draw_others(m, fields, chosen, error);
}

static ch_status put_examples(question_writer *m, int64_t index, const char *group, ch_text *text,
                              ch_error *error) {
  const json_t *fields = m->items->data[index].fields;
  int64_t *chosen = malloc(((size_t)m->fewshot->count + 1) * sizeof *chosen);
  if (!chosen) return ch_no_memory(error);
  ch_status status = m->task->fewshot_first ? choose_first(m, fields, group, chosen, error)
                                            : choose_random(m, fields, chosen, error);
  for (int i = 0; status == CH_OK && i < m->fewshot->count; i++) {
    const char *example = "";
    status = example_of(m, chosen[i], &example, error);
    if (status == CH_OK && text->size + strlen(example) > most_bytes)
      status = take_bytes(m, most_bytes, error);
    if (status == CH_OK) ch_text_puts(text, example);
  }
  free(chosen);
  return status;
}

/* --- all questions ------------------------------------------------------------------------------------------- */

/* Puts the description and the examples before every context. Requests with the same context continue to share it. */
static ch_status put_before(question_writer *m, const char *before, ch_question *q, ch_error *error) {
  if (!*before) return CH_OK;
  for (int i = q->count - 1; i >= 0; i--) {
    bool shared = i + 1 < q->count && m->task->output == CH_TASK_CHOICES;
    if (shared)
      q->requests[i].context = q->requests[i + 1].context;
    else
      CH_TRY(join_words(m, before, q->requests[i].context, &q->requests[i].context, error));
  }
  return CH_OK;
}

static ch_status make_one(question_writer *m, int64_t index, ch_question *q, ch_text *before,
                          ch_error *error) {
  const char *description;
  CH_TRY(make_bare(m, m->items, index, q, &description, error));
  before->size = 0;
  ch_text_puts(before, description);
  if (m->fewshot->count > 0) CH_TRY(put_examples(m, index, q->group, before, error));
  ch_text_put(before, "", 1);
  if (before->failed) return ch_no_memory(error);
  if (m->task->output == CH_TASK_GENERATE && *q->prefix) {
    const char *between = before_prefix(m, q);
    CH_TRY(join_words(m, q->requests->context, between, &q->requests->context, error));
    CH_TRY(join_words(m, q->requests->context, q->prefix, &q->requests->context, error));
  }
  return put_before(m, before->data, q, error);
}

ch_status ch_questions_make(const ch_task *task, const ch_items *items, const ch_fewshot *fewshot,
                            ch_arena *arena, ch_question **questions, ch_error *error) {
  question_writer m = {.task = task, .items = items, .fewshot = fewshot, .arena = arena};
  ch_text before = {0};
  ch_status status = CH_OK;
  size_t pool = fewshot->count > 0 ? (size_t)fewshot->pool->count : 0;
  m.examples = ch_arena_alloc(arena, (pool + 1) * sizeof *m.examples);
  m.example_groups = ch_arena_alloc(arena, (pool + 1) * sizeof *m.example_groups);
  *questions = ch_arena_alloc(arena, ((size_t)items->count + 1) * sizeof **questions);
  if (!*questions || !m.examples || !m.example_groups) return ch_no_memory(error);
  ch_python_seed(&m.random, FEWSHOT_SEED);
  for (int64_t i = 0; status == CH_OK && i < items->count; i++)
    status = make_one(&m, i, &(*questions)[i], &before, error);
  ch_text_free(&before);
  ch_template_scope_free(&m.scope);
  return status;
}

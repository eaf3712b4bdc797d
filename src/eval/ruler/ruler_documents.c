/* Reads documents with questions in the formats of SQuAD and HotpotQA. questions.c generates the questions of a plain
 * text. */
#include <stdlib.h>
#include <string.h>

#include "eval/ruler/ruler_private.h"

/* The file that is being read. */
typedef struct source {
  ch_ruler_writer *m;
  const char *path;
  ch_error *error;
} source;

static ch_status wrong_source(const source *s, const char *what) {
  return ch_fail(s->error, CH_ERROR_FORMAT, "%s %s; use the format of SQuAD or HotpotQA, or a plain text",
                 s->path, what);
}

/* Returns the index of a document, found by binary search in the sorted documents; -1 if it is not there. */
static int64_t document_index(const ch_ruler_writer *m, const char *document) {
  const char **found =
      document && m->documents.count
          ? bsearch(&document, m->documents.data, (size_t)m->documents.count, sizeof *found, ch_ruler_by_text)
          : NULL;
  return found ? found - m->documents.data : -1;
}

static ch_status add_copy(const source *s, ch_ruler_texts *texts, const json_t *text, const char *what) {
  if (!json_is_string(text)) return wrong_source(s, what);
  return ch_ruler_add(s->m, texts, ch_arena_strdup(&s->m->arena, json_string_value(text)), s->error);
}

static ch_status add_squad_question(const source *s, const json_t *article, const json_t *paragraph,
                                    const json_t *qa) {
  ch_ruler_question q = {.context_count = 1};
  ch_ruler_writer *m = s->m;
  const json_t *other, *answer;
  size_t i;
  int64_t own = document_index(m, json_string_value(json_object_get(paragraph, "context")));
  if (json_is_true(json_object_get(qa, "is_impossible"))) return CH_OK;
  q.context = ch_arena_alloc(&m->arena, sizeof *q.context);
  q.more = ch_arena_alloc(&m->arena,
                          (json_array_size(json_object_get(article, "paragraphs")) + 1) * sizeof *q.more);
  if (!q.context || !q.more) return ch_no_memory(s->error);
  q.context[0] = own;
  json_array_foreach(json_object_get(article, "paragraphs"), i, other) {
    int64_t place = document_index(m, json_string_value(json_object_get(other, "context")));
    if (place >= 0 && place != own) q.more[q.more_count++] = place;
  }
  ch_ruler_texts query = {0};
  CH_TRY(add_copy(s, &query, json_object_get(qa, "question"), "has a question that is not a string"));
  q.query = query.data[0];
  json_array_foreach(json_object_get(qa, "answers"), i, answer)
      CH_TRY(add_copy(s, &q.answers, json_object_get(answer, "text"), "has an answer that is not a string"));
  return q.answers.count > 0 ? ch_ruler_add_question(m, &q, s->error)
                             : wrong_source(s, "has a question without answers");
}

/* Reads {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers": [{"text"}]}]}]}]} */
static ch_status read_squad(const source *s, const json_t *articles) {
  const json_t *article, *paragraph, *qa;
  size_t a, p, q;
  json_array_foreach(articles, a, article)
      json_array_foreach(json_object_get(article, "paragraphs"), p, paragraph) CH_TRY(add_copy(
          s, &s->m->documents, json_object_get(paragraph, "context"), "has a paragraph without context"));
  ch_ruler_sort_unique(&s->m->documents);
  json_array_foreach(articles, a, article)
      json_array_foreach(json_object_get(article, "paragraphs"), p, paragraph)
          json_array_foreach(json_object_get(paragraph, "qas"), q, qa)
              CH_TRY(add_squad_question(s, article, paragraph, qa));
  return CH_OK;
}

/* Returns the document [title, [sentence ...]] as "title\nsentences". Returns NULL if `pair` has another form or memory
 * runs out. */
static const char *hotpot_document(const source *s, const json_t *pair) {
  const char *title = json_string_value(json_array_get(pair, 0));
  const json_t *sentences = json_array_get(pair, 1), *sentence;
  ch_text text = {0};
  size_t i;
  if (!title || !json_is_array(sentences)) return NULL;
  ch_text_printf(&text, "%s\n", title);
  json_array_foreach(sentences, i, sentence)
      ch_text_puts(&text, json_is_string(sentence) ? json_string_value(sentence) : "");
  ch_text_put(&text, "", 1);
  const char *copy = text.failed ? NULL : ch_arena_strdup(&s->m->arena, text.data);
  ch_text_free(&text);
  return copy;
}

/* Reads [{"question", "answer", "context": [[title, [sentence ...]] ...]} ...] */
static ch_status read_hotpot(const source *s, const json_t *list) {
  const json_t *item, *pair;
  size_t i, k;
  json_array_foreach(list, i, item) json_array_foreach(json_object_get(item, "context"), k, pair) {
    const char *document = hotpot_document(s, pair);
    if (!document) return wrong_source(s, "has a context that is not a list of titles with their sentences");
    CH_TRY(ch_ruler_add(s->m, &s->m->documents, document, s->error));
  }
  ch_ruler_sort_unique(&s->m->documents);
  json_array_foreach(list, i, item) {
    const json_t *context = json_object_get(item, "context");
    ch_ruler_question q = {0};
    ch_ruler_texts query = {0};
    q.context = ch_arena_alloc(&s->m->arena, (json_array_size(context) + 1) * sizeof *q.context);
    if (!q.context) return ch_no_memory(s->error);
    json_array_foreach(context, k, pair) q.context[q.context_count++] =
        document_index(s->m, hotpot_document(s, pair));
    CH_TRY(add_copy(s, &query, json_object_get(item, "question"), "has a question that is not a string"));
    CH_TRY(add_copy(s, &q.answers, json_object_get(item, "answer"), "has an answer that is not a string"));
    q.query = query.data[0];
    CH_TRY(ch_ruler_add_question(s->m, &q, s->error));
  }
  return CH_OK;
}

ch_status ch_ruler_read_documents(ch_ruler_writer *m, ch_error *error) {
  CH_TRY(ch_ruler_read_text(m, error));
  const char *at = m->text + strspn(m->text, " \t\r\n");
  if (*at != '{' && *at != '[') return ch_ruler_questions_of_text(m, error);
  const source s = {.m = m, .path = m->request->text ? m->request->text : "the text", .error = error};
  json_error_t why;
  json_t *root = json_loads(at, JSON_REJECT_DUPLICATES, &why);
  if (!root && *at == '[')
    return ch_ruler_questions_of_text(m, error); /* a plain text may begin with a bracket */
  if (!root) return wrong_source(&s, "is no JSON");
  ch_status status = json_is_array(root) ? read_hotpot(&s, root)
                     : json_is_array(json_object_get(root, "data"))
                         ? read_squad(&s, json_object_get(root, "data"))
                         : wrong_source(&s, "has no \"data\"");
  json_decref(root);
  if (status == CH_OK && m->question_count == 0) status = wrong_source(&s, "has no question");
  return status;
}

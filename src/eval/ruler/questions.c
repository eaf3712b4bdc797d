/* Writes items of CH_RULER_QUESTIONS: chooses the documents of an item, and generates questions from a plain text. */
#include <stdlib.h>
#include <string.h>

#include "eval/ruler/ruler_private.h"

/* --- an item ------------------------------------------------------------------------------------------------- */

static bool has_place(const int64_t *places, int64_t count, int64_t place) {
  for (int64_t i = 0; i < count; i++)
    if (places[i] == place) return true;
  return false;
}

/* Draws `count` elements of `from` [population] into places [count]. Returns false when out of memory. */
static bool draw_from(ch_ruler_writer *m, const int64_t *from, int64_t population, int64_t count,
                      int64_t *places) {
  int64_t *drawn = malloc(((size_t)count + 1) * sizeof *drawn);
  bool done = drawn && ch_python_sample(&m->random, population, count, drawn);
  for (int64_t i = 0; done && i < count; i++) places[i] = from[drawn[i]];
  free(drawn);
  return done;
}

/* Chooses the documents of a question, then those near it, then others, up to `size`. `others` is scratch memory with
 * room for the indices of all documents. */
static bool choose_documents(ch_ruler_writer *m, const ch_ruler_question *q, int64_t size, int64_t *places,
                             int64_t *others) {
  int64_t left = size - q->context_count, population = 0;
  memcpy(places, q->context, (size_t)q->context_count * sizeof *places);
  places += q->context_count;
  if (left <= q->more_count) return draw_from(m, q->more, q->more_count, left, places);
  if (q->more_count > 0) memcpy(places, q->more, (size_t)q->more_count * sizeof *places);
  for (int64_t i = 0; i < m->documents.count; i++)
    if (!has_place(q->context, q->context_count, i) && !has_place(q->more, q->more_count, i))
      others[population++] = i;
  if (left - q->more_count > population) return false;
  return draw_from(m, others, population, left - q->more_count, places + q->more_count);
}

static ch_status put_documents(ch_ruler_writer *m, const ch_ruler_question *q, int64_t size, ch_text *text,
                               ch_error *error) {
  int64_t *places = malloc((size_t)size * sizeof *places),
          *others = malloc((size_t)m->documents.count * sizeof *others);
  int64_t *order = ch_ruler_shuffled(m, size);
  bool done = places && others && order;
  if (done && size < m->documents.count) done = choose_documents(m, q, size, places, others);
  if (done && size >= m->documents.count) /* documents repeat */
    for (int64_t i = 0; i < size; i++) places[i] = i % m->documents.count;
  for (int64_t i = 0; done && i < size; i++)
    ch_text_printf(text, "%sDocument %lld:\n%s", i ? "\n\n" : "", (long long)i + 1,
                   m->documents.data[places[order[i]]]);
  free(places);
  free(others);
  free(order);
  return done ? CH_OK : ch_no_memory(error);
}

ch_status ch_ruler_questions(ch_ruler_writer *m, int64_t size, int64_t index, ch_ruler_item *made,
                             ch_error *error) {
  static const char task[] = "Answer the question based on the given documents. Only give me the answer and "
                             "do not output any other words.";
  const ch_ruler_question *q = &m->questions[index];
  ch_text_printf(&made->input, "%s\n\nThe following are given documents.\n\n", task);
  CH_TRY(put_documents(m, q, size, &made->input, error));
  ch_text_printf(&made->input, "\n\n%s\n\nQuestion: %s", task, q->query);
  made->answer = made->input.size;
  ch_text_puts(&made->input, " Answer:");
  made->outputs = json_array();
  for (int64_t i = 0; i < q->answers.count; i++)
    json_array_append_new(made->outputs, json_string(q->answers.data[i]));
  return CH_OK;
}

/* --- questions of a plain text ------------------------------------------------------------------------------- */

enum { DOCUMENT_WORDS = 80, SENTENCE_WORDS = 6, ANSWER_LETTERS = 4, MOST_WORD = 64 };

/* Writes the letters of a word in lower case, without the punctuation around them. *from and *size become their
 * place in the word. Returns false if other characters are between the letters, or there are too few or too many. */
static bool letters_of(const char *word, char letters[MOST_WORD], size_t *from, size_t *size) {
  size_t end = strlen(word), begin = 0;
  while (begin < end && strchr("\"'([", word[begin])) begin++;
  while (end > begin && strchr("\"')].,;:!?", word[end - 1])) end--;
  *from = begin;
  *size = end - begin;
  if (*size < ANSWER_LETTERS || *size >= MOST_WORD) return false;
  for (size_t i = 0; i < *size; i++) {
    char c = word[begin + i];
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) return false;
    letters[i] = (char)(c | 0x20);
  }
  letters[*size] = 0;
  return true;
}

/* Collects the words of the text that letters_of accepts, in its form, and sorts them. */
static ch_status sorted_words(ch_ruler_writer *m, ch_ruler_texts *sorted, ch_error *error) {
  for (int64_t i = 0; i < m->haystack.count; i++) {
    char letters[MOST_WORD];
    size_t from, size;
    if (!letters_of(m->haystack.data[i], letters, &from, &size)) continue;
    CH_TRY(ch_ruler_add(m, sorted, ch_arena_strdup(&m->arena, letters), error));
  }
  if (sorted->count) qsort(sorted->data, (size_t)sorted->count, sizeof *sorted->data, ch_ruler_by_text);
  return CH_OK;
}

static bool occurs_once(const ch_ruler_texts *sorted, const char *letters) {
  const char **found =
      sorted->count ? bsearch(&letters, sorted->data, (size_t)sorted->count, sizeof *found, ch_ruler_by_text)
                    : NULL;
  if (!found) return false;
  int64_t at = found - sorted->data;
  return (at == 0 || strcmp(found[-1], letters) != 0) &&
         (at + 1 == sorted->count || strcmp(found[1], letters) != 0);
}

/* Returns words from ... to - 1 of the text as a string in the arena, with word `gap` replaced by ____ (-1: none).
 * Returns NULL when out of memory. */
static const char *words_of(ch_ruler_writer *m, int64_t from, int64_t to, int64_t gap) {
  ch_text text = {0};
  for (int64_t i = from; i < to; i++) {
    const char *word = m->haystack.data[i];
    char letters[MOST_WORD];
    size_t begin = 0, size = 0;
    if (i == gap) letters_of(word, letters, &begin, &size);
    ch_text_puts(&text, i > from ? " " : "");
    if (i == gap)
      ch_text_printf(&text, "%.*s____%s", (int)begin, word, word + begin + size);
    else
      ch_text_puts(&text, word);
  }
  ch_text_put(&text, "", 1);
  const char *copy = text.failed ? NULL : ch_arena_strdup(&m->arena, text.data);
  ch_text_free(&text);
  return copy;
}

/* Returns the index of the longest word of a document that occurs once in the text and is in a sentence that is long
 * enough; -1 if there is none. *sentence and *end become the indices of the first word of that sentence and of the word
 * after it. */
static int64_t find_gap(const ch_ruler_writer *m, const ch_ruler_texts *sorted, int64_t from, int64_t to,
                        int64_t *sentence, int64_t *end) {
  int64_t best = -1, begin = from;
  size_t longest = 0;
  for (int64_t i = from; i < to; i++) {
    if (!ch_ruler_ends_sentence(m->haystack.data[i]) && i + 1 < to) continue;
    for (int64_t k = begin; k <= i && i + 1 - begin >= SENTENCE_WORDS; k++) {
      char letters[MOST_WORD];
      size_t at, size;
      if (!letters_of(m->haystack.data[k], letters, &at, &size) || size <= longest ||
          !occurs_once(sorted, letters))
        continue;
      longest = size;
      best = k;
      *sentence = begin;
      *end = i + 1;
    }
    begin = i + 1;
  }
  return best;
}

static ch_status add_document(ch_ruler_writer *m, const ch_ruler_texts *sorted, int64_t from, int64_t to,
                              ch_error *error) {
  int64_t sentence = 0, end = 0, gap = find_gap(m, sorted, from, to, &sentence, &end);
  ch_ruler_question q = {.context_count = 1};
  CH_TRY(ch_ruler_add(m, &m->documents, words_of(m, from, to, -1), error));
  if (gap < 0) return CH_OK;
  char letters[MOST_WORD];
  size_t begin, size;
  letters_of(m->haystack.data[gap], letters, &begin, &size);
  const char *with_gap = words_of(m, sentence, end, gap);
  q.query = with_gap ? ch_arena_printf(&m->arena, "Which word is missing in \"%s\"?", with_gap) : NULL;
  q.context = ch_arena_alloc(&m->arena, sizeof *q.context);
  if (!q.query || !q.context) return ch_no_memory(error);
  q.context[0] = m->documents.count - 1;
  CH_TRY(ch_ruler_add(m, &q.answers,
                      ch_arena_printf(&m->arena, "%.*s", (int)size, m->haystack.data[gap] + begin), error));
  return ch_ruler_add_question(m, &q, error);
}

ch_status ch_ruler_questions_of_text(ch_ruler_writer *m, ch_error *error) {
  ch_ruler_texts sorted = {0};
  CH_TRY(ch_ruler_read_haystack(m, error));
  CH_TRY(sorted_words(m, &sorted, error));
  int64_t begin = 0;
  for (int64_t i = 0; i < m->haystack.count; i++) {
    bool last = i + 1 == m->haystack.count;
    if (!last && (i + 1 - begin < DOCUMENT_WORDS || !ch_ruler_ends_sentence(m->haystack.data[i]))) continue;
    CH_TRY(add_document(m, &sorted, begin, i + 1, error));
    begin = i + 1;
  }
  if (m->question_count > 0) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s has no sentence of %d words with a word that occurs once, so no question can be generated",
      m->request->text ? m->request->text : "the text", SENTENCE_WORDS);
}

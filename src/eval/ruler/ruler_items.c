/* Functions that the generators of all kinds of items share: lists of texts and of questions, counts of tokens, random
 * words, and the finished item. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "eval/ruler/ruler_private.h"

const char ch_ruler_noise[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

ch_status ch_ruler_add(ch_ruler_writer *m, ch_ruler_texts *texts, const char *text, ch_error *error) {
  if (texts->count == texts->capacity) {
    int64_t capacity = texts->capacity ? 2 * texts->capacity : 64;
    const char **data = ch_arena_alloc(&m->arena, (size_t)capacity * sizeof *data);
    if (!data) return ch_no_memory(error);
    if (texts->count) memcpy(data, texts->data, (size_t)texts->count * sizeof *data);
    texts->data = data;
    texts->capacity = capacity;
  }
  texts->data[texts->count++] = text;
  return text ? CH_OK : ch_no_memory(error);
}

int ch_ruler_by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void ch_ruler_sort_unique(ch_ruler_texts *texts) {
  int64_t kept = 0;
  if (texts->count) qsort(texts->data, (size_t)texts->count, sizeof *texts->data, ch_ruler_by_text);
  for (int64_t i = 0; i < texts->count; i++)
    if (kept == 0 || strcmp(texts->data[kept - 1], texts->data[i]) != 0) texts->data[kept++] = texts->data[i];
  texts->count = kept;
}

ch_status ch_ruler_tokens(ch_ruler_writer *m, const char *text, int64_t *tokens, ch_error *error) {
  const ch_ruler_request *r = m->request;
  if (r->progress && !r->progress(m->done < m->total ? m->done : m->total, m->total, r->user))
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while items were generated");
  m->ids.size = 0; /* RULER does not count the tokens that a tokenizer puts around a text */
  CH_TRY(ch_encoder_encode(m->encoder, text, strlen(text), CH_TEXT_SPECIAL | CH_TEXT_BARE, &m->ids, error));
  *tokens = (int64_t)m->ids.size;
  return CH_OK;
}

int64_t *ch_ruler_shuffled(const ch_ruler_writer *m, int64_t count) {
  int64_t *places = malloc(((size_t)count + 1) * sizeof *places);
  ch_python_random random;
  if (!places) return NULL;
  for (int64_t i = 0; i < count; i++) places[i] = i;
  ch_python_seed(&random, m->seed);
  ch_python_shuffle(&random, places, count);
  return places;
}

void ch_ruler_letters(ch_ruler_writer *m, char first, int count, char *letters) {
  for (int i = 0; i < count; i++) letters[i] = (char)(first + (int)(ch_python_uniform(&m->random) * 26));
  letters[count] = 0;
}

ch_status ch_ruler_too_short(const ch_ruler_writer *m, int64_t least, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s needs at least %lld tokens with this tokenizer, %lld of them for the answer; the length is %lld",
      m->request->name, (long long)least, (long long)m->request->written, (long long)m->length);
}

ch_status ch_ruler_put(ch_ruler_writer *m, json_t *list, ch_ruler_item *made, int64_t tokens,
                       ch_error *error) {
  json_t *item = json_pack("{s:I, s:s#, s:s, s:O, s:I, s:I}", "index", (json_int_t)json_array_size(list),
                           "input", made->input.data, made->answer, "answer_prefix",
                           made->input.data + made->answer, "outputs", made->outputs, "length",
                           (json_int_t)(tokens + m->request->written), "max_length", (json_int_t)m->length);
  m->done += m->length;
  return item && json_array_append_new(list, item) == 0 ? CH_OK : ch_no_memory(error);
}

ch_status ch_ruler_add_question(ch_ruler_writer *m, const ch_ruler_question *question, ch_error *error) {
  if (m->question_count == m->question_room) {
    int64_t room = m->question_room ? 2 * m->question_room : 64;
    ch_ruler_question *questions = ch_arena_alloc(&m->arena, (size_t)room * sizeof *questions);
    if (!questions) return ch_no_memory(error);
    if (m->question_count) memcpy(questions, m->questions, (size_t)m->question_count * sizeof *questions);
    m->questions = questions;
    m->question_room = room;
  }
  m->questions[m->question_count++] = *question;
  return CH_OK;
}

bool ch_ruler_ends_sentence(const char *word) {
  size_t size = strlen(word);
  while (size > 0 && strchr("\"')]", word[size - 1])) size--;
  return size > 0 && strchr(".!?", word[size - 1]);
}

/* Writes items about words that occur more often than others: in a numbered list (CH_RULER_COMMON), and in a text of
 * generated words (CH_RULER_FREQUENT). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/ruler/ruler_private.h"

/* --- common words -------------------------------------------------------------------------------------------- */

static const char common_question[] =
    "Below is a numbered list of words. In these words, some appear more often than "
    "others. Memorize the ones that appear most often.\n";

/* Writes word `place` of all words or, if `pairs` is true, of all pairs of adjective and noun. */
static void put_word(const ch_ruler_writer *m, bool pairs, int64_t place, ch_text *text) {
  if (pairs)
    ch_text_printf(text, "%s-%s", m->adjectives.data[place / m->nouns.count],
                   m->nouns.data[place % m->nouns.count]);
  else
    ch_text_puts(text, m->words.data[place]);
}

/* Writes a list of `count` different words with its question. The first num_cw occur `often` times, the others `seldom`
 * times. *answer becomes the offset of the answer. If `solved` is true, the numbered answer follows; otherwise
 * `outputs` receives the words of the answer. */
static ch_status put_list(ch_ruler_writer *m, int64_t count, int often, int seldom, bool solved,
                          ch_text *text, size_t *answer, json_t *outputs, ch_error *error) {
  int64_t common = m->ruler->num_cw, total = common * often + (count - common) * seldom;
  bool pairs = count > m->words.count;
  int64_t population = pairs ? m->adjectives.count * m->nouns.count : m->words.count;
  int64_t *chosen = malloc((size_t)count * sizeof *chosen), *order = ch_ruler_shuffled(m, total);
  ch_status status = chosen && order ? CH_OK : ch_no_memory(error);
  if (status == CH_OK && count > population)
    status = ch_fail(error, CH_ERROR_ARGUMENT, "the length needs more than the %lld words that are available",
                     (long long)population);
  if (status == CH_OK && !ch_python_sample(&m->random, population, count, chosen))
    status = ch_no_memory(error);
  if (status == CH_OK) ch_text_puts(text, common_question);
  for (int64_t i = 0; status == CH_OK && i < total; i++) {
    int64_t at = order[i];
    ch_text_printf(text, "%s%lld. ", i ? " " : "", (long long)i + 1);
    put_word(m, pairs,
             chosen[at < common * often ? at % common : common + (at - common * often) % (count - common)],
             text);
  }
  if (status == CH_OK) {
    ch_text_printf(text, "\nQuestion: What are the %d most common words in the above list?",
                   m->ruler->num_cw);
    *answer = text->size;
    ch_text_printf(text,
                   " Answer: The top %d words that appear most often in the list are:", m->ruler->num_cw);
  }
  for (int64_t i = 0; status == CH_OK && i < common; i++) {
    ch_text word = {0};
    put_word(m, pairs, chosen[i], &word);
    ch_text_put(&word, "", 1);
    if (word.failed)
      status = ch_no_memory(error);
    else if (solved)
      ch_text_printf(text, " %lld. %s", (long long)i + 1, word.data);
    else
      json_array_append_new(outputs, json_string(word.data));
    ch_text_free(&word);
  }
  free(chosen);
  free(order);
  return status;
}

ch_status ch_ruler_common(ch_ruler_writer *m, int64_t size, int64_t index, ch_ruler_item *made,
                          ch_error *error) {
  bool small = m->length < 4096;
  const ch_ruler *r = m->ruler;
  (void)index;
  made->outputs = json_array();
  CH_TRY(put_list(m, small ? 20 : 40, small ? 3 : 10, small ? 1 : 3, true, &made->input, &made->answer, NULL,
                  error));
  ch_text_puts(&made->input, "\n");
  return put_list(m, size, small ? 6 : r->freq_cw, small ? 1 : r->freq_ucw, false, &made->input,
                  &made->answer, made->outputs, error);
}

/* --- frequent words ------------------------------------------------------------------------------------------ */

enum { CODED = 6 /* letters of a generated word */, ANSWERS = 3, LEAST_WORDS = 53, LEAST_VOCABULARY = 5 };
typedef char coded_word[CODED + 1];

/* An item's generated words, the most frequent first. */
typedef struct vocabulary {
  coded_word *words; /* [count] */
  int64_t count;
} vocabulary;

static int by_letters(const void *a, const void *b) {
  return strcmp(*(const coded_word *)a, *(const coded_word *)b);
}

static ch_status draw_vocabulary(ch_ruler_writer *m, int64_t count, vocabulary *v, ch_error *error) {
  coded_word *drawn = malloc((size_t)count * sizeof *drawn), *words = malloc((size_t)count * sizeof *words);
  int64_t *order = ch_ruler_shuffled(m, count), have = 0;
  ch_status status = drawn && words && order ? CH_OK : ch_no_memory(error);
  while (status == CH_OK && have < count) { /* until `count` different words are drawn */
    for (; have < count; have++) ch_ruler_letters(m, 'a', CODED, drawn[have]);
    qsort(drawn, (size_t)count, sizeof *drawn, by_letters);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
      if (kept == 0 || strcmp(drawn[kept - 1], drawn[i]) != 0)
        memmove(drawn[kept++], drawn[i], sizeof *drawn);
    have = kept;
  }
  for (int64_t i = 0; status == CH_OK && i < count; i++) strcpy(words[i], drawn[order[i]]);
  if (status == CH_OK) strcpy(words[0], "..."); /* the most frequent word is noise */
  free(drawn);
  free(order);
  *v = (vocabulary){.words = words, .count = count};
  return status;
}

/* Returns how often the word of a rank, from 1, occurs among `count` words: Zipf's law with the exponent
 * 2. */
static int64_t occurrences(int64_t count, int64_t rank) {
  return (int64_t)((double)count * pow((double)rank, -2.0) / (M_PI * M_PI / 6));
}

static bool answers_stand_out(int64_t count, const vocabulary *v) {
  return v->count > ANSWERS + 1 && occurrences(count, ANSWERS + 1) > occurrences(count, ANSWERS + 2);
}

static ch_status put_coded(ch_ruler_writer *m, const vocabulary *v, int64_t count, ch_ruler_item *made,
                           ch_error *error) {
  int64_t total = 0, at = 0;
  made->input.size = 0;
  for (int64_t i = 0; i < v->count; i++) total += count > 0 ? occurrences(count, i + 1) : 0;
  int64_t *order = ch_ruler_shuffled(m, total), *ranks = malloc(((size_t)total + 1) * sizeof *ranks);
  if (order && ranks)
    for (int64_t i = 0; i < v->count; i++)
      for (int64_t k = count > 0 ? occurrences(count, i + 1) : 0; k > 0; k--) ranks[at++] = i;
  ch_text_puts(&made->input,
               "Read the following coded text and track the frequency of each coded word. Find the three "
               "most frequently appeared coded words. ");
  for (int64_t i = 0; order && ranks && i < total; i++)
    ch_text_printf(&made->input, "%s%s", i ? " " : "", v->words[ranks[order[i]]]);
  ch_text_puts(&made->input,
               "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the "
               "three most frequently appeared words in the above coded text?");
  made->answer = made->input.size;
  ch_text_puts(&made->input,
               " Answer: According to the coded text above, the three most frequently appeared words "
               "are:");
  ch_text_put(&made->input, "", 1);
  bool made_all = order && ranks && !made->input.failed;
  free(order);
  free(ranks);
  return made_all ? CH_OK : ch_no_memory(error);
}

/* Generates an item of *count words, or of as many as fit if *count is 0. Words are removed in steps until the item
 * fits; *count receives the number of words left. *stands_out becomes true if the item fits and the three answers are
 * more frequent than all other words. */
static ch_status make_coded(ch_ruler_writer *m, int64_t room, int64_t *count, ch_ruler_item *made,
                            int64_t *tokens, bool *stands_out, ch_error *error) {
  vocabulary v;
  int64_t step = room / 32 > 0 ? room / 32 : 1;
  ch_status status =
      draw_vocabulary(m, room / 50 > LEAST_VOCABULARY ? room / 50 : LEAST_VOCABULARY, &v, error);
  if (status != CH_OK) goto done;
  if (*count == 0) {
    *count = room / CODED;
    for (;; *count += step) {
      CH_TRY_GOTO(put_coded(m, &v, *count, made, error));
      CH_TRY_GOTO(ch_ruler_tokens(m, made->input.data, tokens, error));
      if (*tokens >= room) break;
    }
    *count -= step;
  }
  for (;; *count -= step) {
    CH_TRY_GOTO(put_coded(m, &v, *count, made, error));
    CH_TRY_GOTO(ch_ruler_tokens(m, made->input.data, tokens, error));
    if (*tokens <= room || *count <= 0) break;
  }
  *stands_out = *tokens <= room && answers_stand_out(*count, &v);
  made->outputs = json_array();
  for (int i = 1; i <= ANSWERS; i++) json_array_append_new(made->outputs, json_string(v.words[i]));
done:
  free(v.words);
  return status;
}

/* Fails because the length is too short for the fewest words of which three stand out. */
static ch_status too_short(ch_ruler_writer *m, ch_ruler_item *made, ch_error *error) {
  vocabulary v;
  int64_t tokens, least = 50 * LEAST_VOCABULARY;
  ch_status status = draw_vocabulary(m, LEAST_VOCABULARY, &v, error);
  if (status == CH_OK) status = put_coded(m, &v, LEAST_WORDS, made, error);
  if (status == CH_OK) status = ch_ruler_tokens(m, made->input.data, &tokens, error);
  free(v.words);
  CH_TRY(status);
  return ch_ruler_too_short(m, (tokens > least ? tokens : least) + m->request->written, error);
}

ch_status ch_ruler_frequent(ch_ruler_writer *m, int64_t items, json_t *list, ch_error *error) {
  ch_ruler_item made = {0};
  int64_t room = m->most - m->request->written, fitting = 0, tokens;
  bool stands_out;
  ch_status status = make_coded(m, room, &fitting, &made, &tokens, &stands_out, error);
  for (int64_t i = 0; status == CH_OK && i < items; i++) {
    int64_t count = fitting;
    json_decref(made.outputs);
    made.outputs = NULL;
    status = count > 0 ? make_coded(m, room, &count, &made, &tokens, &stands_out, error) : CH_OK;
    if (status == CH_OK && (count <= 0 || !stands_out)) status = too_short(m, &made, error);
    if (status == CH_OK) status = ch_ruler_put(m, list, &made, tokens, error);
  }
  json_decref(made.outputs);
  ch_text_free(&made.input);
  return status;
}

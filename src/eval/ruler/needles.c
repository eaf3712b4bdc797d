/* Writes items of CH_RULER_NEEDLES. A needle is a sentence that gives the value of a key. The needles are hidden in
 * noise, in a text, or among needles with other keys. */
#include <stdlib.h>
#include <string.h>

#include "eval/ruler/ruler_private.h"

static const char *const contents[] = {
    [CH_RULER_WORDS] = "words", [CH_RULER_NUMBERS] = "numbers", [CH_RULER_UUIDS] = "uuids"};
static const char *const one_of_contents[] = {
    [CH_RULER_WORDS] = "word", [CH_RULER_NUMBERS] = "number", [CH_RULER_UUIDS] = "uuid"};
/* The depths at which needles may be put into a text, in percent of its sentences: round(100 i / 39). */
static const int places_in_text[CH_RULER_MOST_NEEDLES] = {
    0,  3,  5,  8,  10, 13, 15, 18, 21, 23, 26, 28, 31, 33, 36, 38, 41, 44, 46, 49,
    51, 54, 56, 59, 62, 64, 67, 69, 72, 74, 77, 79, 82, 85, 87, 90, 92, 95, 97, 100};

enum { MOST_CONTENT = 128 };
typedef char content[MOST_CONTENT];

/* The needles of an item. */
typedef struct needles {
  /* keys [keys_count] and their values [keys_count, num_needle_v] */
  content keys[CH_RULER_MOST_NEEDLES], values[CH_RULER_MOST_NEEDLES];
  int keys_count, count;            /* numbers of keys and of needles */
  int order[CH_RULER_MOST_NEEDLES]; /* [count]: indices of the needles in random order */
} needles;

/* --- contents ------------------------------------------------------------------------------------------------ */

/* Draws str(uuid.UUID(int = random.getrandbits(128), version = 4)). */
static void draw_uuid(ch_ruler_writer *m, char *text) {
  uint64_t low = ch_python_word(&m->random);
  low |= (uint64_t)ch_python_word(&m->random) << 32;
  uint64_t high = ch_python_word(&m->random);
  high |= (uint64_t)ch_python_word(&m->random) << 32;
  low = (low & ~(UINT64_C(0xc000) << 48)) | UINT64_C(0x8000) << 48; /* the variant */
  high = (high & ~UINT64_C(0xf000)) | UINT64_C(4) << 12;            /* the version */
  snprintf(text, MOST_CONTENT, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long)(high >> 32),
           (unsigned long long)(high >> 16 & 0xffff), (unsigned long long)(high & 0xffff),
           (unsigned long long)(low >> 48), (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

static void draw_needle(ch_ruler_writer *m, ch_ruler_content kind, char *text) {
  if (kind == CH_RULER_UUIDS) {
    draw_uuid(m, text);
  } else if (kind == CH_RULER_NUMBERS) {
    snprintf(text, MOST_CONTENT, "%lld", (long long)(1000000 + ch_python_below(&m->random, 9000000)));
  } else { /* one of all pairs of an adjective and a noun, in the order of the sorted lists */
    int64_t pair = ch_python_below(&m->random, m->adjectives.count * m->nouns.count);
    snprintf(text, MOST_CONTENT, "%s-%s", m->adjectives.data[pair / m->nouns.count],
             m->nouns.data[pair % m->nouns.count]);
  }
}

/* Draws a key or value that differs from all before it, so that the question has one answer. */
static void draw_other(ch_ruler_writer *m, ch_ruler_content kind, content *before, int count, char *text) {
  for (int i = 0; i <= count; i++) {
    if (i == 0) draw_needle(m, kind, text);
    if (i < count && strcmp(before[i], text) == 0) i = -1;
  }
}

static void put_needle(const ch_ruler_writer *m, const char *key, const char *value, ch_text *text) {
  ch_text_printf(text, "One of the special magic %s for %s is: %s.", contents[m->ruler->type_needle_v], key,
                 value);
}

static void put(const ch_ruler_writer *m, const needles *n, int place, ch_text *text) {
  int which = n->order[place];
  put_needle(m, n->keys[which / m->ruler->num_needle_v], n->values[which], text);
}

static ch_status draw_needles(ch_ruler_writer *m, needles *n, ch_error *error) {
  const ch_ruler *r = m->ruler;
  n->keys_count = r->num_needle_k > r->num_needle_q ? r->num_needle_k : r->num_needle_q;
  n->count = n->keys_count * r->num_needle_v;
  for (int k = 0; k < n->keys_count; k++) {
    draw_other(m, r->type_needle_k, n->keys, k, n->keys[k]);
    for (int v = k * r->num_needle_v; v < (k + 1) * r->num_needle_v; v++)
      draw_other(m, r->type_needle_v, n->values, v, n->values[v]);
  }
  int64_t *order = ch_ruler_shuffled(m, n->count);
  if (!order) return ch_no_memory(error);
  for (int i = 0; i < n->count; i++) n->order[i] = (int)order[i];
  free(order);
  return CH_OK;
}

/* --- the haystack -------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Writes `size` lines of noise or of needles with other keys, and the item's needles before some of them. */
static ch_status put_lines(ch_ruler_writer *m, const needles *n, int64_t size, ch_text *text,
                           ch_error *error) {
  content *others = NULL;
  int64_t places[CH_RULER_MOST_NEEDLES];
  if (m->ruler->type_haystack == CH_RULER_NEEDLE) {
    others = malloc(2 * (size_t)size * sizeof *others);
    if (!others) return ch_no_memory(error);
    for (int64_t i = 0; i < size; i++) {
      draw_other(m, m->ruler->type_needle_k, (content *)(uintptr_t)n->keys, n->keys_count, others[2 * i]);
      draw_needle(m, m->ruler->type_needle_v, others[2 * i + 1]);
    }
  }
  if (!ch_python_sample(&m->random, size, n->count, places)) {
    free(others);
    return ch_no_memory(error);
  }
  qsort(places, (size_t)n->count, sizeof *places, by_number);
  int next = 0; /* the needles are put in the reverse of `order` */
  for (int64_t i = 0; i < size; i++) {
    if (i > 0) ch_text_puts(text, "\n");
    if (next < n->count && places[next] == i) {
      put(m, n, n->count - 1 - next++, text);
      ch_text_puts(text, "\n");
    }
    if (others)
      put_needle(m, others[2 * i], others[2 * i + 1], text);
    else
      ch_text_puts(text, ch_ruler_noise);
  }
  free(others);
  return CH_OK;
}

static const char *word_at(const ch_ruler_writer *m, int64_t index) {
  return m->haystack.data[index % m->haystack.count];
}

/* Writes `size` words of the text with needles between its sentences. */
static ch_status put_essay(ch_ruler_writer *m, const needles *n, int64_t size, ch_text *text,
                           ch_error *error) {
  int64_t places[CH_RULER_MOST_NEEDLES], sentences = 0, sentence = 0;
  int next = 0;
  if (!ch_python_sample(&m->random, CH_RULER_MOST_NEEDLES, n->count, places)) return ch_no_memory(error);
  for (int64_t i = 0; i < size; i++) sentences += i + 1 == size || ch_ruler_ends_sentence(word_at(m, i));
  for (int i = 0; i < n->count; i++)
    places[i] = (int64_t)((double)sentences * ((double)places_in_text[places[i]] / 100));
  qsort(places, (size_t)n->count, sizeof *places, by_number);
  /* Each needle has a space on both sides, so two spaces separate needles at one place. */
  bool begun = false;
  for (int64_t i = 0; i <= size; i++) {
    bool begins = i == 0 || i == size || ch_ruler_ends_sentence(word_at(m, i - 1));
    for (; begins && next < n->count && places[next] == sentence; next++) {
      ch_text_puts(text, " ");
      put(m, n, next, text);
      ch_text_puts(text, " ");
      begun = false;
    }
    if (i == size) break;
    if (begun) ch_text_puts(text, " ");
    ch_text_puts(text, word_at(m, i));
    begun = true;
    sentence += i + 1 == size || ch_ruler_ends_sentence(word_at(m, i));
  }
  return CH_OK;
}

/* --- the question -------------------------------------------------------------------------------------------- */

static ch_status put_question(ch_ruler_writer *m, const needles *n, ch_ruler_item *made, ch_error *error) {
  const ch_ruler *r = m->ruler;
  int64_t asked[CH_RULER_MOST_NEEDLES];
  ch_text names = {0};
  if (!ch_python_sample(&m->random, n->keys_count, r->num_needle_q, asked)) return ch_no_memory(error);
  made->outputs = json_array();
  for (int i = 0; i < r->num_needle_q; i++) {
    const char *before = i == 0 ? "" : i + 1 < r->num_needle_q ? ", " : ", and ";
    ch_text_printf(&names, "%s%s", before, n->keys[asked[i]]);
    for (int v = 0; v < r->num_needle_v; v++)
      json_array_append_new(made->outputs, json_string(n->values[asked[i] * r->num_needle_v + v]));
  }
  bool one = r->num_needle_q * r->num_needle_v == 1;
  const char *what = (one ? one_of_contents : contents)[r->type_needle_v];
  ch_text_put(&names, "", 1);
  if (!names.failed) {
    ch_text_printf(&made->input, "\nWhat %s the special magic %s for %s mentioned in the provided text?",
                   one ? "is" : "are all", what, names.data);
    made->answer = made->input.size;
    ch_text_printf(&made->input, " The special magic %s for %s mentioned in the provided text %s", what,
                   names.data, one ? "is" : "are");
  }
  ch_status status = names.failed ? ch_no_memory(error) : CH_OK;
  ch_text_free(&names);
  return status;
}

ch_status ch_ruler_needles(ch_ruler_writer *m, int64_t size, int64_t index, ch_ruler_item *made,
                           ch_error *error) {
  const ch_ruler *r = m->ruler;
  bool one = r->num_needle_q * r->num_needle_v == 1;
  const char *what = (one ? one_of_contents : contents)[r->type_needle_v];
  needles *n = malloc(sizeof *n);
  (void)index;
  if (!n) return ch_no_memory(error);
  ch_status status;
  CH_TRY_GOTO(draw_needles(m, n, error));
  ch_text_printf(
      &made->input,
      "%s special magic %s %s hidden within the following text. Make sure to memorize it. I will quiz you "
      "about the %s afterwards.\n",
      one ? "A" : "Some", what, one ? "is" : "are", what);
  CH_TRY_GOTO(r->type_haystack == CH_RULER_ESSAY ? put_essay(m, n, size, &made->input, error)
                                                 : put_lines(m, n, size, &made->input, error));
  status = put_question(m, n, made, error);
done:
  free(n);
  return status;
}

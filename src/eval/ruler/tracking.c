/* Writes items of CH_RULER_TRACKING: chains of assignments between lines of noise, after a solved example. */
#include <stdlib.h>
#include <string.h>

#include "eval/ruler/ruler_private.h"

static const char example_value[] = "12345";

enum { MOST_NAMES = CH_RULER_MOST_CHAINS * (CH_RULER_MOST_HOPS + 1), LETTERS = 5, EXAMPLE_LETTERS = 3 };

typedef struct chains {
  char names[MOST_NAMES][LETTERS + 1]; /* [chains, hops + 1] */
  char values[CH_RULER_MOST_CHAINS][16];
  int length; /* hops + 1 */
} chains;

static void draw_name(ch_ruler_writer *m, chains *c, int index, int letters) {
  for (int i = 0; i <= index; i++) {
    if (i == 0) ch_ruler_letters(m, 'A', letters, c->names[index]);
    if (i < index && strcmp(c->names[i], c->names[index]) == 0) i = -1; /* names differ */
  }
}

static void draw_chains(ch_ruler_writer *m, bool example, chains *c) {
  c->length = m->ruler->num_hops + 1;
  for (int i = 0; i < c->length * m->ruler->num_chains; i++)
    draw_name(m, c, i, example ? EXAMPLE_LETTERS : LETTERS);
  for (int i = 0; i < m->ruler->num_chains; i++)
    if (example)
      strcpy(c->values[i], example_value);
    else
      snprintf(c->values[i], sizeof c->values[i], "%lld",
               (long long)ch_numpy_randint(&m->numbers, 10000, 99999));
}

/* Sets *lines [*count] (malloc'd) to the content of each line: -1 for noise, else the index of an assignment in
 * chains.names. */
static ch_status place_lines(ch_ruler_writer *m, const chains *c, int64_t size, int **lines, int64_t *count,
                             ch_error *error) {
  int64_t most = size + (int64_t)m->ruler->num_chains * c->length;
  int64_t *places = malloc((size_t)most * sizeof *places);
  *lines = malloc((size_t)most * sizeof **lines);
  ch_status status = places && *lines ? CH_OK : ch_no_memory(error);
  *count = size;
  for (int64_t i = 0; status == CH_OK && i < size; i++) (*lines)[i] = -1;
  for (int chain = 0; status == CH_OK && chain < m->ruler->num_chains; chain++) {
    if (!ch_python_sample(&m->random, *count, c->length, places)) status = ch_no_memory(error);
    /* The places are sorted because the assignments of a chain follow one another. */
    for (int i = 1; status == CH_OK && i < c->length; i++)
      for (int k = i; k > 0 && places[k - 1] > places[k]; k--) {
        int64_t kept = places[k];
        places[k] = places[k - 1];
        places[k - 1] = kept;
      }
    for (int i = 0; status == CH_OK && i < c->length; i++) {
      int64_t at = places[i] + i;
      memmove(*lines + at + 1, *lines + at, (size_t)(*count - at) * sizeof **lines);
      (*lines)[at] = chain * c->length + i;
      (*count)++;
    }
  }
  free(places);
  return status;
}

static void put_chain_line(const chains *c, int line, ch_text *text) {
  if (line < 0)
    ch_text_puts(text, ch_ruler_noise);
  else if (line % c->length == 0)
    ch_text_printf(text, "VAR %s = %s", c->names[line], c->values[line / c->length]);
  else
    ch_text_printf(text, "VAR %s = VAR %s ", c->names[line], c->names[line - 1]);
}

/* --- the solved example -------------------------------------------------------------------------------------- */

/* Replaces a string everywhere in *text. */
static ch_status replace(ch_text *text, const char *from, const char *to, ch_error *error) {
  ch_text changed = {0};
  const char *at = text->data, *next;
  for (; (next = strstr(at, from)); at = next + strlen(from)) {
    ch_text_put(&changed, at, (size_t)(next - at));
    ch_text_puts(&changed, to);
  }
  ch_text_put(&changed, at, strlen(at) + 1);
  ch_text_free(text);
  *text = changed;
  return text->failed ? ch_no_memory(error) : CH_OK;
}

/* Writes the solved example with newly drawn names and a newly drawn value. */
static ch_status put_example(ch_ruler_writer *m, ch_text *to, ch_error *error) {
  ch_text text = {0};
  ch_text_put(&text, m->example, strlen(m->example) + 1);
  ch_status status = text.failed ? ch_no_memory(error) : CH_OK;
  for (int64_t i = 0; status == CH_OK && i < m->example_names.count; i++) {
    char other[LETTERS + 1];
    ch_ruler_letters(m, 'A', EXAMPLE_LETTERS, other);
    status = replace(&text, m->example_names.data[i], other, error);
  }
  char value[16];
  snprintf(value, sizeof value, "%lld", (long long)ch_numpy_randint(&m->numbers, 10000, 99999));
  if (status == CH_OK) status = replace(&text, example_value, value, error);
  if (status == CH_OK) ch_text_printf(to, "%s\n", text.data);
  ch_text_free(&text);
  return status;
}

/* --- an item ------------------------------------------------------------------------------------------------- */

ch_status ch_ruler_tracking(ch_ruler_writer *m, int64_t size, int64_t index, ch_ruler_item *made,
                            ch_error *error) {
  chains c;
  int *lines = NULL;
  int64_t count;
  ch_text context = {0};
  ch_status status;
  (void)index;
  draw_chains(m, !m->example, &c);
  CH_TRY_GOTO(place_lines(m, &c, size, &lines, &count, error));
  for (int64_t i = 0; i < count; i++) {
    if (i > 0) ch_text_puts(&context, "\n");
    put_chain_line(&c, lines[i], &context);
  }
  ch_text_put(&context, "", 1);
  if (context.failed) CH_TRY_GOTO(ch_no_memory(error));
  if (m->example && !m->searches) CH_TRY_GOTO(put_example(m, &made->input, error));
  ch_text_printf(
      &made->input,
      "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n%s\n"
      "Question: Find all variables that are assigned the value %s in the text above.",
      context.data, c.values[0]);
  made->answer = made->input.size;
  ch_text_printf(
      &made->input,
      " Answer: According to the chain(s) of variable assignment in the text above, %d variables are "
      "assigned the value %s, they are: ",
      c.length, c.values[0]);
  made->outputs = json_array();
  for (int i = 0; i < c.length; i++) json_array_append_new(made->outputs, json_string(c.names[i]));
done:
  free(lines);
  ch_text_free(&context);
  return status;
}

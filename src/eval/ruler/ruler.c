/* Generates RULER's items. For each length, it encodes trial items to find the largest size that fits, and then
 * generates items of that size. needles.c, tracking.c, words.c and questions.c write the texts. */
#include "eval/ruler/ruler.h"

#include <stdlib.h>
#include <string.h>

#include "base/file_bytes.h"
#include "base/json.h"
#include "eval/ruler/ruler_private.h"

enum {
  USUAL_ITEMS = 100,
  USUAL_LENGTH = 4096,
  MOST_LENGTH = 1 << 24,
  MOST_LENGTHS = 64,
  EXAMPLE_LENGTH = 500
};

/* --- fitting ------------------------------------------------------------------------------------------------- */

static void clear(ch_ruler_item *made) {
  made->input.size = 0;
  json_decref(made->outputs);
  made->outputs = NULL;
}

static void release_item(ch_ruler_item *made) {
  clear(made);
  ch_text_free(&made->input);
}

/* Generates an item and counts the tokens of its input. */
static ch_status make_item(ch_ruler_writer *m, const ch_ruler_fit *f, int64_t size, int64_t index,
                           ch_ruler_item *made, int64_t *tokens, ch_error *error) {
  clear(made);
  CH_TRY(f->make(m, size, index, made, error));
  ch_text_put(&made->input, "", 1);
  if (made->input.failed || !made->outputs) return ch_no_memory(error);
  return ch_ruler_tokens(m, made->input.data, tokens, error);
}

/* Sets *found to the largest size from `low` to `high` that fits, or to 0 if none does. */
static ch_status search(ch_ruler_writer *m, const ch_ruler_fit *f, int64_t low, int64_t high,
                        ch_ruler_item *made, int64_t *found, ch_error *error) {
  *found = 0;
  while (low <= high) {
    int64_t middle = (low + high) / 2, tokens;
    CH_TRY(make_item(m, f, middle, 0, made, &tokens, error));
    bool fits = tokens + f->extra + f->written <= f->length;
    if (fits) *found = middle;
    if (fits)
      low = middle + 1;
    else
      high = middle - 1;
  }
  return CH_OK;
}

/* Sets *size to the largest size that fits. If none does, *size becomes 0, and *least becomes the number of tokens that
 * an item of the least size needs. */
static ch_status find_size(ch_ruler_writer *m, const ch_ruler_fit *f, int64_t *size, int64_t *least,
                           ch_error *error) {
  ch_ruler_item made = {0};
  int64_t tokens;
  ch_status status;
  *size = 0;
  m->searches = true;
  CH_TRY_GOTO(make_item(m, f, f->sample, 0, &made, &tokens, error));
  double of_part = (double)tokens / (double)f->sample;
  int64_t most =
      f->halves ? (int64_t)((double)f->length / of_part) * 2 : (int64_t)((double)f->length / of_part * 3);
  if (most < 2 * f->step) most = 2 * f->step;
  CH_TRY_GOTO(search(m, f, f->step, most, &made, size, error));
  if (*size == 0) CH_TRY_GOTO(search(m, f, f->least, f->step - 1, &made, size, error));
  if (*size == 0) {
    CH_TRY_GOTO(make_item(m, f, f->least, 0, &made, &tokens, error));
    *least = tokens + f->extra + f->written;
  }
done:
  m->searches = false;
  release_item(&made);
  return status;
}

/* Generates items of this size. An item that turns out too long is generated again with a smaller size. */
static ch_status make_items(ch_ruler_writer *m, const ch_ruler_fit *f, int64_t size, int64_t count,
                            json_t *list, ch_error *error) {
  ch_ruler_item made = {0};
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < count; i++) {
    int64_t used = size, tokens = 0;
    for (;;) {
      CH_TRY_GOTO(make_item(m, f, used, i, &made, &tokens, error));
      if (tokens + f->written <= f->length) break;
      if (used <= f->least) CH_TRY_GOTO(ch_ruler_too_short(m, tokens + f->written, error));
      used = used > f->step ? used - f->step : used - 1;
      if (used < f->least) used = f->least;
    }
    status = ch_ruler_put(m, list, &made, tokens, error);
  }
done:
  release_item(&made);
  return status;
}

static ch_status fit_items(ch_ruler_writer *m, const ch_ruler_fit *f, int64_t count, json_t *list,
                           ch_error *error) {
  int64_t size, least = 0;
  CH_TRY(find_size(m, f, &size, &least, error));
  if (size == 0) return ch_ruler_too_short(m, least, error);
  return make_items(m, f, size, count, list, error);
}

/* --- kinds --------------------------------------------------------------------------------------------------- */

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static ch_status make_needles(ch_ruler_writer *m, int64_t count, json_t *list, ch_error *error) {
  const ch_ruler *r = m->ruler;
  int64_t needles = larger(r->num_needle_k, r->num_needle_q) * r->num_needle_v;
  ch_ruler_fit fit = {.make = ch_ruler_needles, .length = m->most, .written = m->request->written};
  if (r->type_haystack == CH_RULER_ESSAY) CH_TRY(ch_ruler_read_haystack(m, error));
  fit.step = r->type_haystack == CH_RULER_ESSAY ? 500 : m->length < 4096 ? 5 : 25;
  fit.least = needles;
  fit.step = larger(fit.step, fit.least);
  fit.sample = fit.step;
  return fit_items(m, &fit, count, list, error);
}

/* Writes the solved example of CH_RULER_TRACKING. */
static ch_status make_example(ch_ruler_writer *m, ch_error *error) {
  ch_ruler_item made = {0};
  int64_t size, least;
  int64_t names = m->ruler->num_hops + 1;
  ch_ruler_fit fit = {.make = ch_ruler_tracking,
                      .sample = larger(5, names),
                      .step = larger(5, names),
                      .least = names,
                      .length = EXAMPLE_LENGTH};
  ch_text text = {0};
  ch_status status;
  m->example = NULL;
  CH_TRY_GOTO(find_size(m, &fit, &size, &least, error));
  CH_TRY_GOTO(make_item(m, &fit, size ? size : fit.least, 0, &made, &least, error));
  ch_text_puts(&text, made.input.data);
  m->example_names.count = 0;
  for (int64_t i = 0; i < names; i++) {
    const char *name = ch_arena_strdup(&m->arena, json_string_value(json_array_get(made.outputs, (size_t)i)));
    CH_TRY_GOTO(ch_ruler_add(m, &m->example_names, name, error));
    ch_text_printf(&text, " %s", name);
  }
  ch_text_put(&text, "\n", 2);
  if (!text.failed) m->example = ch_arena_strdup(&m->arena, text.data);
  status = m->example ? ch_ruler_tokens(m, m->example, &m->example_tokens, error) : ch_no_memory(error);
done:
  release_item(&made);
  ch_text_free(&text);
  return status;
}

static ch_status make_tracking(ch_ruler_writer *m, int64_t count, json_t *list, ch_error *error) {
  CH_TRY(make_example(m, error));
  ch_ruler_fit fit = {.make = ch_ruler_tracking,
                      .step = m->length < 4096 ? 5 : 10,
                      .least = m->ruler->num_hops + 1,
                      .length = m->most,
                      .written = m->request->written,
                      .extra = m->example_tokens};
  fit.step = larger(fit.step, fit.least);
  fit.sample = fit.step;
  return fit_items(m, &fit, count, list, error);
}

static ch_status make_common(ch_ruler_writer *m, int64_t count, json_t *list, ch_error *error) {
  const ch_ruler_fit fit = {.make = ch_ruler_common,
                            .sample = 4096,
                            .step = larger(10, m->ruler->num_cw),
                            .least = m->ruler->num_cw,
                            .length = m->most,
                            .written = m->request->written,
                            .halves = true};
  return fit_items(m, &fit, count, list, error);
}

static ch_status make_questions(ch_ruler_writer *m, int64_t count, json_t *list, ch_error *error) {
  if (!m->questions) CH_TRY(ch_ruler_read_documents(m, error));
  if (count > m->question_count) count = m->question_count;
  int64_t least = 1;
  for (int64_t i = 0; i < count; i++) least = larger(least, m->questions[i].context_count);
  const ch_ruler_fit fit = {.make = ch_ruler_questions,
                            .sample = larger(10, least),
                            .step = larger(10, least),
                            .least = least,
                            .length = m->most,
                            .written = m->request->written};
  return fit_items(m, &fit, count, list, error);
}

/* --- lengths ------------------------------------------------------------------------------------------------- */

/* Parses a length in tokens such as "4096", "4k" (k is 1024) or "1m" (m is 1024 * 1024). */
static bool parse_length(const char *text, size_t size, int64_t *length) {
  int64_t value = 0, unit = 1;
  if (size > 1 && strchr("kKmM", text[size - 1])) unit = strchr("kK", text[--size]) ? 1024 : 1024 * 1024;
  if (size < 1 || size > 9) return false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = 10 * value + text[i] - '0';
  }
  *length = value * unit;
  return *length > 0 && *length <= MOST_LENGTH;
}

static ch_status read_lengths(const ch_ruler_request *r, int64_t *lengths, int *count, ch_error *error) {
  const char *at = r->lengths ? r->lengths : "4096";
  *count = 0;
  for (;; at++) {
    size_t size = strcspn(at, ",");
    int64_t length;
    if (*count == MOST_LENGTHS || !parse_length(at, size, &length))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "the length \"%.40s\" must be from 1 to 16M tokens (k is 1024), or up to 64 such "
                     "numbers separated by commas",
                     r->lengths ? r->lengths : "");
    if (length > r->window)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "%s of %lld tokens is longer than the %lld tokens that the model sees at once; give a "
                     "smaller length",
                     r->name, (long long)length, (long long)r->window);
    for (int i = 0; i < *count; i++)
      if (lengths[i] == length)
        return ch_fail(error, CH_ERROR_ARGUMENT, "the lengths contain %lld twice", (long long)length);
    lengths[(*count)++] = length;
    at += size;
    if (!*at) return CH_OK;
  }
}

static ch_status make_length(ch_ruler_writer *m, int64_t count, json_t *list, ch_error *error) {
  static ch_status (*const makers[])(ch_ruler_writer *, int64_t, json_t *,
                                     ch_error *) = {[CH_RULER_NEEDLES] = make_needles,
                                                    [CH_RULER_TRACKING] = make_tracking,
                                                    [CH_RULER_COMMON] = make_common,
                                                    [CH_RULER_FREQUENT] = ch_ruler_frequent,
                                                    [CH_RULER_QUESTIONS] = make_questions};
  ch_python_seed(&m->random, m->seed);
  ch_numpy_seed(&m->numbers, m->seed);
  CH_TRY(ch_ruler_read_words(m, error));
  if (m->most <= m->request->written) return ch_ruler_too_short(m, m->request->written + 1, error);
  return makers[m->ruler->kind](m, count, list, error);
}

static ch_status count_around(ch_ruler_writer *m, int64_t *count, ch_error *error) {
  m->ids.size = 0;
  CH_TRY(ch_encoder_encode(m->encoder, "", 0, CH_TEXT_WHOLE, &m->ids, error));
  *count = (int64_t)m->ids.size;
  return CH_OK;
}

ch_status ch_ruler_make(const ch_ruler_request *request, json_t **items, ch_error *error) {
  int64_t lengths[MOST_LENGTHS], count = request->limit > 0 ? request->limit : USUAL_ITEMS;
  int length_count;
  *items = NULL;
  if (request->seed > UINT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{seed} is %llu; it must be below 4294967296",
                   (unsigned long long)request->seed);
  CH_TRY(read_lengths(request, lengths, &length_count, error));
  ch_ruler_writer m = {.request = request, .ruler = request->ruler, .seed = (uint32_t)request->seed};
  for (int i = 0; i < length_count; i++) m.total += lengths[i] * count;
  json_t *list = json_array();
  ch_status status = list ? ch_encoder_new(request->tokenizer, &m.encoder, error) : ch_no_memory(error);
  int64_t around = 0; /* tokens that the tokenizer puts around a text */
  if (status == CH_OK) status = count_around(&m, &around, error);
  for (int i = 0; status == CH_OK && i < length_count; i++) {
    m.length = lengths[i];
    m.most = m.length < request->window - around ? m.length : request->window - around;
    status = make_length(&m, count, list, error);
  }
  ch_encoder_free(m.encoder);
  ch_ids_free(&m.ids);
  ch_arena_free(&m.arena);
  free(m.text);
  if (status == CH_OK)
    *items = list;
  else
    json_decref(list);
  return status;
}

/* --- items of a file ----------------------------------------------------------------------------------------- */

ch_status ch_ruler_holds_items(const char *path, bool *holds, ch_error *error) {
  ch_file_bytes bytes;
  *holds = false;
  if (!path) return CH_OK;
  if (ch_is_directory(path)) {
    *holds = true;
    return CH_OK;
  }
  CH_TRY(ch_file_bytes_open(path, &bytes, error));
  const char *line = (const char *)bytes.data, *end = bytes.size ? memchr(line, '\n', bytes.size) : NULL;
  json_t *first = bytes.size ? json_loadb(line, end ? (size_t)(end - line) : bytes.size, 0, NULL) : NULL;
  *holds = json_is_string(json_object_get(first, "input"));
  json_decref(first);
  ch_file_bytes_close(&bytes);
  return CH_OK;
}

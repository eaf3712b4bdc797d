/* Choosing the validation part, and reading texts part by part. */
#include "text/division.h"

#include <stdlib.h>
#include <string.h>

#include "text/hash.h"

enum {
  HASHED_BYTES = 1 << 20,    /* most bytes of a document that are hashed */
  RELEASED_BYTES = 16 << 20, /* at a time */
  FEWEST_DOCUMENTS = 20      /* below this the texts' tail validates */
};

void ch_source_text_release(ch_source_text *text, size_t place) {
  if (place < text->released + RELEASED_BYTES && place < text->file.size) return;
  ch_text_file_release(&text->file, text->released, place);
  text->released = place;
}

/* --- choosing ------------------------------------------------------------------------------------------------ */

/* The hash of a document's length and first part. */
static uint64_t hash_document(const char *text, size_t size, uint64_t seed) {
  size_t part = size < HASHED_BYTES ? size : HASHED_BYTES;
  return ch_hash_mix(ch_hash_bytes((const unsigned char *)text, part, seed), size);
}

static int ascending(const void *pa, const void *pb) {
  uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
  return (a > b) - (a < b);
}

typedef struct hashes {
  uint64_t *hash;
  size_t count, capacity;
} hashes;

static ch_status add_hash(hashes *list, uint64_t hash, ch_error *error) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 1024;
    uint64_t *more = realloc(list->hash, capacity * sizeof *more);
    if (!more) return ch_fail(error, CH_ERROR_MEMORY, "no memory to split %zu documents", list->count);
    list->hash = more;
    list->capacity = capacity;
  }
  list->hash[list->count++] = hash;
  return CH_OK;
}

static ch_status hash_documents(ch_division *d, hashes *list, ch_error *error) {
  for (int i = 0; i < d->count; i++) {
    ch_source_text *text = &d->texts[i];
    const char *document = NULL;
    size_t place = 0, size = 0;
    text->released = 0;
    while (ch_next_document(text->separator, text->file.text, text->file.size, &place, &document, &size)) {
      CH_TRY(add_hash(list, hash_document(document, size, d->options->seed), error));
      ch_source_text_release(text, place);
    }
  }
  return CH_OK;
}

/* The hash up to which the wanted share of documents lies; or where the tail begins. */
static ch_status choose(ch_division *d, const char *first_path, ch_error *error) {
  hashes list = {0};
  ch_status status = hash_documents(d, &list, error);
  double wanted = d->options->validation * (double)list.count;
  d->by_document = wanted > 0 ? list.count >= FEWEST_DOCUMENTS : true;
  if (d->by_document && list.hash && wanted > 0) {
    qsort(list.hash, list.count, sizeof *list.hash, ascending);
    d->threshold = list.hash[wanted < 1 ? 0 : (size_t)wanted - 1];
  }
  d->tail_start = (uint64_t)((1 - d->options->validation) * (double)d->bytes);
  free(list.hash);
  if (status == CH_OK && list.count == 0)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s holds no document; it must hold text", first_path);
  return status;
}

static ch_status check_share(const ch_corpus_options *options, ch_error *error) {
  if (options->validation >= 0 && options->validation <= 0.5) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "the validation share must lie between 0 and 0.5");
}

ch_status ch_division_open(ch_division *d, const char *const *paths, int count,
                           const ch_corpus_options *options, ch_error *error) {
  *d = (ch_division){.options = options};
  CH_TRY(check_share(options, error));
  d->texts = calloc((size_t)count, sizeof *d->texts);
  if (!d->texts) return ch_fail(error, CH_ERROR_MEMORY, "no memory to open the texts");
  for (; d->count < count; d->count++) {
    ch_source_text *text = &d->texts[d->count];
    CH_TRY(ch_text_file_open(&text->file, paths[d->count], error));
    text->separator = ch_separator_resolve(options->separator, text->file.text, text->file.size);
    text->before = d->bytes;
    d->bytes += text->file.size;
  }
  return choose(d, paths[0], error);
}

void ch_division_close(ch_division *d) {
  for (int i = 0; i < d->count; i++) ch_text_file_close(&d->texts[i].file);
  free(d->texts);
  *d = (ch_division){0};
}

/* --- going through ------------------------------------------------------------------------------------------- */

/* A document that the tail begins in becomes two parts, cut after a line. */
static void cut_document(ch_text_part *part, size_t cut, ch_text_part *rest) {
  const char *text = part->text, *newline = memchr(text + cut, '\n', part->size - cut);
  if (newline && (size_t)(newline - text) + 1 < part->size)
    cut = (size_t)(newline - text) + 1;
  else
    while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--; /* never inside a character */
  ch_text_part tail = {text + cut, part->size - cut, CH_SPLIT_VALIDATION};
  if (cut == 0) {
    *part = tail;
    return;
  }
  *part = (ch_text_part){text, cut, CH_SPLIT_TRAIN};
  *rest = tail;
}

bool ch_division_next(const ch_division *d, int number, ch_division_walk *walk, ch_text_part *part) {
  const ch_source_text *text = &d->texts[number];
  *part = walk->rest;
  walk->rest.size = 0;
  if (part->size > 0) return true;
  if (!ch_next_document(text->separator, text->file.text, text->file.size, &walk->place, &part->text,
                        &part->size))
    return false;
  uint64_t position = text->before + (uint64_t)(part->text - text->file.text);
  bool validates = d->by_document ? hash_document(part->text, part->size, d->options->seed) <= d->threshold
                                  : position >= d->tail_start;
  part->split = validates ? CH_SPLIT_VALIDATION : CH_SPLIT_TRAIN;
  if (!d->by_document && !validates && position + part->size > d->tail_start)
    cut_document(part, (size_t)(d->tail_start - position), &walk->rest);
  return true;
}

ch_status ch_division_validation(ch_division *d, ch_text_spans **result, ch_error *error) {
  ch_text_spans *spans = calloc((size_t)d->count, sizeof *spans);
  bool failed = !spans;
  for (int i = 0; i < d->count && !failed; i++) {
    ch_source_text *text = &d->texts[i];
    ch_division_walk walk = {0};
    text->released = 0;
    for (ch_text_part part; !failed && ch_division_next(d, i, &walk, &part);) {
      size_t begin = (size_t)(part.text - text->file.text);
      if (part.split == CH_SPLIT_VALIDATION) failed = !ch_text_spans_add(&spans[i], begin, begin + part.size);
      ch_source_text_release(text, begin);
    }
  }
  *result = spans;
  if (!failed) return CH_OK;
  ch_text_spans_free(spans, d->count);
  *result = NULL;
  return ch_fail(error, CH_ERROR_MEMORY, "no memory to split the texts");
}

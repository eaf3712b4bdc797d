/* Chooses the part of the texts that validates, and reads texts part by part.
 *
 * A document is chosen by the hash of its contents, so that equal documents are on the same side. If the
 * hashes do not give about the wanted share, documents are chosen by hash and size, and only the tails of
 * long documents validate. If documents are few, the texts' tail validates. */
#include "text/division.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/hash.h"

enum {
  HASHED_BYTES = 1 << 20,    /* maximum number of bytes of a document that are hashed */
  RELEASED_BYTES = 16 << 20, /* text released at a time */
  FEWEST_DOCUMENTS = 20,     /* with fewer documents the texts' tail validates */
  FAR_BYTES = 4096           /* a longer tail is searched for the end of a line only in its first half */
};

void ch_source_text_release(ch_source_text *text, size_t place) {
  if (place < text->released + RELEASED_BYTES && place < text->file.size) return;
  ch_text_file_release(&text->file, text->released, place);
  text->released = place;
}

/* --- choosing ------------------------------------------------------------------------------------------- */

/* Returns the hash of a document's length and first part. */
static uint64_t hash_document(const char *text, size_t size, uint64_t seed) {
  size_t part = size < HASHED_BYTES ? size : HASHED_BYTES;
  return ch_hash_mix(ch_hash_bytes((const unsigned char *)text, part, seed), size);
}

/* A document, or several equal ones. */
typedef struct document_group {
  uint64_t hash;
  size_t size, count; /* size: bytes of one document; count: number of equal documents */
} document_group;

typedef struct documents {
  document_group *list;
  size_t count, capacity;
  double bytes; /* total size */
} documents;

static int by_hash(const void *pa, const void *pb) {
  uint64_t a = ((const document_group *)pa)->hash, b = ((const document_group *)pb)->hash;
  return (a > b) - (a < b);
}

static ch_status add_document(documents *all, uint64_t hash, size_t size, ch_error *error) {
  if (all->count == all->capacity) {
    size_t capacity = all->capacity ? 2 * all->capacity : 1024;
    document_group *more = realloc(all->list, capacity * sizeof *more);
    if (!more) return ch_no_memory(error);
    all->list = more;
    all->capacity = capacity;
  }
  all->list[all->count++] = (document_group){hash, size, 1};
  all->bytes += (double)size;
  return CH_OK;
}

static ch_status find_documents(ch_division *d, documents *all, ch_error *error) {
  for (int i = 0; i < d->count; i++) {
    ch_source_text *text = &d->texts[i];
    const char *document = NULL;
    size_t place = 0, size = 0;
    text->released = 0;
    while (ch_next_document(text->separator, text->file.text, text->file.size, &place, &document, &size)) {
      CH_TRY(add_document(all, hash_document(document, size, d->options->seed), size, error));
      ch_source_text_release(text, place);
    }
  }
  if (all->count > 0) qsort(all->list, all->count, sizeof *all->list, by_hash);
  return CH_OK;
}

/* Chooses the documents with the lowest hashes, a share of all. Returns true if they also have about that
   share of the bytes, as is usual if no document is long and few are equal. */
static bool choose_lowest(ch_division *d, const documents *all) {
  double share = d->options->validation, wanted = share * (double)all->count, bytes = 0;
  d->threshold = all->list[wanted < 1 ? 0 : (size_t)wanted - 1].hash;
  for (size_t i = 0; i < all->count && all->list[i].hash <= d->threshold; i++)
    bytes += (double)all->list[i].size;
  return fabs(bytes - share * all->bytes) <= 0.25 * share * all->bytes;
}

static void join_equal(documents *all) {
  size_t kinds = 0;
  for (size_t i = 0; i < all->count; i++)
    if (kinds > 0 && all->list[kinds - 1].hash == all->list[i].hash)
      all->list[kinds - 1].count++;
    else
      all->list[kinds++] = all->list[i];
  all->count = kinds;
}

/* Returns true for a document without duplicates that is longer than two validation parts of `wanted` bytes. */
static bool is_long(const document_group *f, double wanted) {
  return f->count == 1 && (double)f->size > 2 * wanted;
}

/* Chooses validation documents by size. A document longer than two validation parts gives its own tail. Of
   the others, those with the lowest hashes that still fit validate, and one more if that is nearer. Equal
   documents stay together. Returns true if the result is about the wanted share. */
static bool choose_by_size(ch_division *d, documents *all) {
  double wanted = d->options->validation * all->bytes, bytes = 0, nearest;
  size_t chosen = 0, last = SIZE_MAX;
  join_equal(all);
  for (size_t i = 0; i < all->count; i++)
    if (is_long(&all->list[i], wanted)) bytes += d->options->validation * (double)all->list[i].size;
  for (size_t i = 0; i < all->count; i++) {
    const document_group *f = &all->list[i];
    double size = (double)f->size * (double)f->count;
    bool cut = is_long(f, wanted), fits = !cut && bytes + size <= wanted * (1 + 1e-9);
    if (fits) bytes += size;
    if (fits || cut) d->chosen[chosen++] = (ch_chosen_document){f->hash, cut};
  }
  nearest = fabs(wanted - bytes);
  for (size_t i = 0, c = 0; i < all->count; i++) {
    const document_group *f = &all->list[i];
    while (c < chosen && d->chosen[c].hash < f->hash) c++;
    double off = fabs(bytes + (double)f->size * (double)f->count - wanted);
    if ((c < chosen && d->chosen[c].hash == f->hash) || off >= nearest) continue;
    nearest = off;
    last = i;
  }
  if (last != SIZE_MAX) {
    size_t at = chosen++;
    for (; at > 0 && d->chosen[at - 1].hash > all->list[last].hash; at--) d->chosen[at] = d->chosen[at - 1];
    d->chosen[at] = (ch_chosen_document){all->list[last].hash, false};
  }
  d->chosen_count = chosen;
  return nearest <= wanted / 2;
}

/* Chooses the documents that validate, or the place where the tail begins. */
static ch_status choose(ch_division *d, const char *first_path, ch_error *error) {
  documents all = {0};
  ch_status status = find_documents(d, &all, error);
  bool some = d->options->validation > 0;
  d->tail_start = (uint64_t)((1 - d->options->validation) * (double)d->bytes);
  d->by_document = !some || all.count >= FEWEST_DOCUMENTS;
  if (status == CH_OK && all.count == 0)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s holds no document; it must hold text", first_path);
  if (status == CH_OK && some && d->by_document && !choose_lowest(d, &all)) {
    d->chosen = malloc(all.count * sizeof *d->chosen);
    /* choose_by_size returns false if too many documents are equal: the tail is fairer */
    if (d->chosen)
      d->by_document = choose_by_size(d, &all);
    else
      status = ch_no_memory(error);
  }
  free(all.list);
  return status;
}

ch_status ch_division_open(ch_division *d, const char *const *paths, int count,
                           const ch_corpus_options *options, ch_error *error) {
  *d = (ch_division){.options = options};
  if (options->validation_count > 0 && options->validation != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a validation text and a share for validation exclude each other");
  if (!(options->validation >= 0 && options->validation <= 0.5))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the validation share must be between 0 and 0.5");
  int all = count + options->validation_count;
  d->training = count;
  d->texts = calloc((size_t)all, sizeof *d->texts);
  if (!d->texts) return ch_no_memory(error);
  for (; d->count < all; d->count++) {
    ch_source_text *text = &d->texts[d->count];
    const char *path = d->count < count ? paths[d->count] : options->validation_paths[d->count - count];
    CH_TRY(ch_text_file_open(&text->file, path, error));
    text->separator = text->file.documents
                          ? CH_DOCUMENTS_MARKER
                          : ch_separator_resolve(options->separator, text->file.text, text->file.size);
    text->before = d->bytes;
    d->bytes += text->file.size;
    if (d->count < count) d->training_bytes += text->file.size;
  }
  return choose(d, paths[0], error);
}

void ch_division_close(ch_division *d) {
  for (int i = 0; i < d->count; i++) ch_text_file_close(&d->texts[i].file);
  free(d->texts);
  free(d->chosen);
  *d = (ch_division){0};
}

/* --- iterating over parts ------------------------------------------------------------------------------- */

/* Cuts a document whose tail validates into two parts, after a line if one ends early enough in the tail. */
static void cut_document(ch_text_part *part, size_t cut, ch_text_part *rest) {
  size_t tail = part->size - cut, near = tail > FAR_BYTES ? tail / 2 : tail;
  const char *text = part->text, *newline = memchr(text + cut, '\n', near);
  if (newline && (size_t)(newline - text) + 1 < part->size)
    cut = (size_t)(newline - text) + 1;
  else /* never inside a character */
    while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
  ch_text_part after = {text + cut, part->size - cut, CH_SPLIT_VALIDATION};
  if (cut == 0) {
    *part = after;
    return;
  }
  *part = (ch_text_part){text, cut, CH_SPLIT_TRAIN};
  *rest = after;
}

static int chosen_by_hash(const void *pa, const void *pb) {
  uint64_t a = *(const uint64_t *)pa, b = ((const ch_chosen_document *)pb)->hash;
  return (a > b) - (a < b);
}

/* Returns the offset in a document at which its validation part begins: 0 if all of it validates, its size if
   nothing does. position: the offset of the document in all texts. */
static size_t validation_start(const ch_division *d, const ch_text_part *part, uint64_t position) {
  if (!d->by_document) {
    if (position >= d->tail_start) return 0;
    return position + part->size > d->tail_start ? (size_t)(d->tail_start - position) : part->size;
  }
  if (d->options->validation == 0) return part->size;
  uint64_t hash = hash_document(part->text, part->size, d->options->seed);
  if (!d->chosen) return hash <= d->threshold ? 0 : part->size;
  const ch_chosen_document *one =
      bsearch(&hash, d->chosen, d->chosen_count, sizeof *d->chosen, chosen_by_hash);
  if (!one) return part->size;
  return one->tail ? (size_t)((1 - d->options->validation) * (double)part->size) : 0;
}

bool ch_division_next(const ch_division *d, int number, ch_division_walk *walk, ch_text_part *part) {
  const ch_source_text *text = &d->texts[number];
  *part = walk->rest;
  walk->rest.size = 0;
  if (part->size > 0) return true;
  if (!ch_next_document(text->separator, text->file.text, text->file.size, &walk->place, &part->text,
                        &part->size))
    return false;
  size_t start = number >= d->training
                     ? 0
                     : validation_start(d, part, text->before + (uint64_t)(part->text - text->file.text));
  part->split = start == 0 ? CH_SPLIT_VALIDATION : CH_SPLIT_TRAIN;
  if (start > 0 && start < part->size) cut_document(part, start, &walk->rest);
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
  return ch_no_memory(error);
}

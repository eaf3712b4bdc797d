/* Writes token files: cuts texts into documents, encodes them on all cores and writes the ids in the order
 * of the text.
 *
 * division.c decides which documents validate. The file does not depend on the number of threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/corpus_file.h"
#include "text/division.h"
#include "text/packing.h"

enum {
  SEGMENT_BYTES = 1 << 20, /* approximate size of the parts in which longer documents are encoded */
  ROUND_BYTES = 16 << 20,  /* bytes of text after which a round ends and its ids are written */
  ROUND_ITEMS = 8192,
  STAGED_IDS = 1 << 16,
  KEPT_IDS = 1 << 14 /* maximum ids of an item's buffer that is reused in the next round */
};

/* A stretch of text encoded by one thread. */
typedef struct item {
  const char *text;
  size_t size;
  ch_corpus_split split;
  bool continued, ends_document;
  ch_ids ids;
  ch_status status;
} item;

/* Ids on their way into a file. */
typedef struct stream {
  FILE *file;
  const char *path;
  uint32_t id_bytes;
  uint64_t tokens, hash;
  unsigned char *staged; /* [STAGED_IDS * 4] */
  size_t staged_ids;
  ch_packer packer; /* used only for packed files */
  ch_ids pending;   /* the document being packed */
} stream;

typedef struct preparation {
  const ch_tokenizer *tokenizer;
  const ch_corpus_options *options;
  int32_t end_token;
  ch_division division;
  ch_source_text *current; /* the text that items are taken from */
  size_t current_place;    /* offset in `current` at which the next round begins */
  uint64_t done_bytes, documents;
  stream streams[2];
  item *items;
  int item_count;
  size_t round_bytes;
  ch_encoder **encoders;
  int threads;
  ch_corpus_progress progress;
  void *context;
} preparation;

void ch_corpus_options_default(ch_corpus_options *options) {
  *options = (ch_corpus_options){.separator = CH_DOCUMENTS_AUTO, .validation = 0.05};
}

/* --- writing ids ---------------------------------------------------------------------------------------- */

static ch_status flush_stream(stream *s, ch_error *error) {
  size_t bytes = s->staged_ids * s->id_bytes;
  s->staged_ids = 0;
  if (bytes && fwrite(s->staged, 1, bytes, s->file) != bytes)
    return ch_fail(error, CH_ERROR_IO, "cannot write %s: the disk may be full", s->path);
  return CH_OK;
}

static ch_status write_ids(void *context, const int32_t *ids, int64_t count, ch_error *error) {
  stream *s = context;
  for (int64_t i = 0; i < count; i++) {
    uint32_t id = (uint32_t)ids[i];
    unsigned char *p = s->staged + s->staged_ids++ * s->id_bytes;
    for (uint32_t b = 0; b < s->id_bytes; b++) p[b] = (unsigned char)(id >> (8 * b));
    s->hash = (s->hash ^ id) * 0x100000001b3u;
    if (s->staged_ids == STAGED_IDS) CH_TRY(flush_stream(s, error));
  }
  s->tokens += (uint64_t)count;
  return CH_OK;
}

static ch_status open_stream(preparation *p, stream *s, FILE *file, const char *path, ch_error *error) {
  uint32_t id_bytes = ch_tokenizer_vocab_size(p->tokenizer) <= 65536 ? 2 : 4;
  *s = (stream){.file = file, .path = path, .id_bytes = id_bytes, .hash = 0xcbf29ce484222325u};
  s->staged = malloc(STAGED_IDS * 4);
  if (!s->staged) return ch_no_memory(error);
  if (p->options->pack_length > 0)
    return ch_packer_init(&s->packer, p->options->pack_length, p->end_token, write_ids, s, error);
  return CH_OK;
}

/* --- encoding a round of items -------------------------------------------------------------------------- */

static ch_status encode_items(preparation *p, ch_error *error) {
  ch_error *errors = calloc((size_t)p->threads, sizeof *errors);
  if (!errors) return ch_no_memory(error);
#pragma omp parallel for schedule(dynamic, 4) num_threads(p->threads)
  for (int i = 0; i < p->item_count; i++) {
    item *it = &p->items[i];
    int thread = omp_get_thread_num();
    it->ids.size = 0;
    it->status = CH_OK;
    if (p->options->begin && !it->continued)
      it->status = ch_encoder_prefix(p->encoders[thread], &it->ids, &errors[thread]);
    if (it->status == CH_OK)
      it->status = ch_encoder_encode(p->encoders[thread], it->text, it->size,
                                     it->continued ? 0 : CH_TEXT_BARE, &it->ids, &errors[thread]);
    if (it->status == CH_OK && it->ends_document)
      it->status = ch_ids_put(&it->ids, p->end_token, &errors[thread]);
  }
  ch_status status = CH_OK;
  for (int t = 0; t < p->threads && status == CH_OK; t++)
    if (errors[t].status != CH_OK) status = ch_fail_as(error, errors[t].status, &errors[t]);
  free(errors);
  return status;
}

/* Adds an item to a packed file. Packing needs whole documents, so parts are joined first. Of an unfinished
   document, the tokens that fill no whole window wait for the next part. */
static ch_status pack_item(stream *s, const item *it, ch_error *error) {
  ch_ids *document = &s->pending;
  if (!ch_ids_reserve(document, it->ids.size)) return ch_no_memory(error);
  memcpy(document->data + document->size, it->ids.data, it->ids.size * sizeof *it->ids.data);
  document->size += it->ids.size;
  size_t length = (size_t)s->packer.length;
  size_t ready = it->ends_document ? document->size : document->size / length * length;
  CH_TRY(ch_packer_add(&s->packer, document->data, (int64_t)ready, error));
  document->size -= ready;
  memmove(document->data, document->data + ready, document->size * sizeof *document->data);
  return CH_OK;
}

static ch_status write_items(preparation *p, ch_error *error) {
  for (int i = 0; i < p->item_count; i++) {
    item *it = &p->items[i];
    stream *s = &p->streams[it->split];
    if (p->options->pack_length > 0)
      CH_TRY(pack_item(s, it, error));
    else
      CH_TRY(write_ids(s, it->ids.data, (int64_t)it->ids.size, error));
    if (it->ids.capacity > KEPT_IDS) ch_ids_free(&it->ids);
  }
  return CH_OK;
}

static ch_status finish_round(preparation *p, ch_error *error) {
  if (p->item_count > 0) {
    const item *last = &p->items[p->item_count - 1];
    p->current_place = (size_t)(last->text - p->current->file.text) + last->size;
  }
  CH_TRY(encode_items(p, error));
  CH_TRY(write_items(p, error));
  p->item_count = 0;
  p->round_bytes = 0;
  ch_source_text_release(p->current, p->current_place);
  int64_t tokens = (int64_t)(p->streams[0].tokens + p->streams[1].tokens);
  if (p->progress && p->progress(p->context, p->done_bytes, p->division.bytes, tokens))
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while preparing the text; nothing was written");
  return CH_OK;
}

/* --- from documents to items ---------------------------------------------------------------------------- */

static void add_item(preparation *p, const char *text, size_t size, ch_corpus_split split, bool continued,
                     bool ends) {
  item *it = &p->items[p->item_count++];
  ch_ids kept = it->ids; /* its memory is reused */
  *it = (item){
      .text = text, .size = size, .split = split, .continued = continued, .ends_document = ends, .ids = kept};
  p->round_bytes += size;
}

static ch_status add_document(preparation *p, const char *text, size_t size, ch_corpus_split split,
                              ch_error *error) {
  for (size_t first = 0; first < size;) {
    size_t cut = size;
    if (size - first > SEGMENT_BYTES)
      CH_TRY(ch_encoder_safe_cut(p->encoders[0], text, size, first + SEGMENT_BYTES, &cut, error));
    add_item(p, text + first, cut - first, split, first > 0, cut == size);
    first = cut;
    if (p->item_count == ROUND_ITEMS || p->round_bytes >= ROUND_BYTES) CH_TRY(finish_round(p, error));
  }
  return CH_OK;
}

static ch_status encode_texts(preparation *p, ch_error *error) {
  for (int i = 0; i < p->division.count; i++) {
    ch_source_text *text = p->current = &p->division.texts[i];
    ch_division_walk walk = {0};
    text->released = 0;
    for (ch_text_part part; ch_division_next(&p->division, i, &walk, &part);) {
      p->done_bytes = text->before + walk.place;
      p->documents += walk.rest.size == 0; /* a document in two parts is counted with its second part */
      CH_TRY(add_document(p, part.text, part.size, part.split, error));
    }
    CH_TRY(finish_round(p, error)); /* a round never holds items of two texts */
    ch_source_text_release(text, text->file.size);
  }
  p->done_bytes = p->division.bytes;
  return CH_OK;
}

/* --- the token file ------------------------------------------------------------------------------------- */

static ch_status create_workers(preparation *p, ch_error *error) {
  p->threads = omp_get_max_threads();
  p->items = calloc(ROUND_ITEMS, sizeof *p->items);
  p->encoders = calloc((size_t)p->threads, sizeof *p->encoders);
  if (!p->items || !p->encoders) return ch_no_memory(error);
  for (int t = 0; t < p->threads; t++) CH_TRY(ch_encoder_new(p->tokenizer, &p->encoders[t], error));
  p->end_token = ch_tokenizer_eos(p->tokenizer);
  if (p->end_token < 0)
    p->end_token = ch_tokenizer_find(p->tokenizer, CH_DOCUMENT_MARKER, sizeof CH_DOCUMENT_MARKER - 1);
  if (p->end_token < 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "the tokenizer names no end token and has no %s; documents need one", CH_DOCUMENT_MARKER);
  return CH_OK;
}

/* Appends the validation ids from their own file and writes the header in front. */
static ch_status join(preparation *p, ch_writer *writer, FILE *validation, ch_error *error) {
  for (int s = 0; s < 2; s++) {
    if (p->options->pack_length > 0) CH_TRY(ch_packer_finish(&p->streams[s].packer, error));
    CH_TRY(flush_stream(&p->streams[s], error));
  }
  if (fflush(validation) != 0 || fseek(validation, 0, SEEK_SET) != 0)
    return ch_fail(error, CH_ERROR_IO, "cannot write %s: the disk may be full", writer->path);
  unsigned char *buffer = p->streams[0].staged;
  for (size_t got; (got = fread(buffer, 1, STAGED_IDS, validation)) > 0;)
    CH_TRY(ch_writer_put(writer, buffer, got, error));
  if (ferror(validation))
    return ch_fail(error, CH_ERROR_IO, "cannot read a temporary file of %s: %s", writer->path,
                   strerror(errno));
  ch_corpus_header header = {.version = CH_CORPUS_VERSION,
                             .id_bytes = p->streams[0].id_bytes,
                             .vocab_size = (uint64_t)ch_tokenizer_vocab_size(p->tokenizer),
                             .train_tokens = p->streams[CH_SPLIT_TRAIN].tokens,
                             .validation_tokens = p->streams[CH_SPLIT_VALIDATION].tokens,
                             .documents = p->documents,
                             .text_bytes = p->division.training_bytes,
                             .pack_length = (uint64_t)p->options->pack_length,
                             .tokenizer = ch_tokenizer_fingerprint(p->tokenizer),
                             .content = p->streams[0].hash * 31 + p->streams[1].hash,
                             .end_token = p->end_token};
  memcpy(header.magic, CH_CORPUS_MAGIC, sizeof header.magic);
  if (fseek(writer->file, 0, SEEK_SET) != 0)
    return ch_fail(error, CH_ERROR_IO, "cannot write %s: %s", writer->path,
                   errno == ESPIPE ? "it must be an ordinary file" : strerror(errno));
  return ch_writer_put(writer, &header, sizeof header, error);
}

/* Opens a file without a name in the directory of `path`. */
static ch_status open_nameless(const char *path, FILE **file, ch_error *error) {
  char *name = NULL;
  *file = NULL;
  if (asprintf(&name, "%s.tmp.validation.%ld", path, (long)getpid()) >= 0) {
    *file = fopen(name, "w+be");
    if (*file) unlink(name);
    free(name);
  }
  return *file ? CH_OK : ch_fail(error, CH_ERROR_IO, "cannot create a temporary file next to %s", path);
}

static ch_status write_corpus(preparation *p, const char *out, ch_error *error) {
  ch_writer writer;
  CH_TRY(ch_writer_open(&writer, out, error));
  FILE *validation = NULL;
  ch_corpus_header blank = {0};
  ch_status status = open_nameless(out, &validation, error);
  if (status == CH_OK) status = ch_writer_put(&writer, &blank, sizeof blank, error);
  if (status == CH_OK) status = open_stream(p, &p->streams[CH_SPLIT_TRAIN], writer.file, out, error);
  if (status == CH_OK) status = open_stream(p, &p->streams[CH_SPLIT_VALIDATION], validation, out, error);
  if (status == CH_OK) status = encode_texts(p, error);
  if (status == CH_OK) status = join(p, &writer, validation, error);
  if (validation) fclose(validation);
  if (status == CH_OK) return ch_writer_commit(&writer, error);
  ch_writer_abort(&writer);
  return status;
}

static void release(preparation *p) {
  for (int t = 0; p->encoders && t < p->threads; t++) ch_encoder_free(p->encoders[t]);
  for (int i = 0; p->items && i < ROUND_ITEMS; i++) ch_ids_free(&p->items[i].ids);
  for (int s = 0; s < 2; s++) {
    free(p->streams[s].staged);
    ch_packer_free(&p->streams[s].packer);
    ch_ids_free(&p->streams[s].pending);
  }
  ch_division_close(&p->division);
  free(p->encoders);
  free(p->items);
}

ch_status ch_corpus_prepare(const char *const *paths, int count, const ch_tokenizer *tokenizer,
                            const ch_corpus_options *options, const char *out, ch_corpus_progress progress,
                            void *context, ch_error *error) {
  if (options->pack_length != 0 && (options->pack_length < 2 || options->pack_length > 1 << 24))
    return ch_fail(error, CH_ERROR_ARGUMENT, "documents can be packed into windows of 2 to 16777216 tokens");
  preparation p = {.tokenizer = tokenizer, .options = options, .progress = progress, .context = context};
  ch_status status = ch_division_open(&p.division, paths, count, options, error);
  if (status == CH_OK) status = create_workers(&p, error);
  if (status == CH_OK) status = write_corpus(&p, out, error);
  release(&p);
  return status;
}

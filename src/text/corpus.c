/* Reads token files: windows of tokens at random access, in an order that depends on the seed and the
 * epoch alone. */
#include "text/corpus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"
#include "text/corpus_file.h"

enum { MOST_COUNTED = 1 << 24 };

struct ch_corpus {
  ch_map map;
  ch_corpus_header header;
  const unsigned char *ids[2]; /* ids of the training and of the validation part */
};

/* --- opening -------------------------------------------------------------------------------------------- */

static ch_status check_header(const ch_corpus_header *h, size_t size, const char *path, ch_error *error) {
  if (memcmp(h->magic, CH_CORPUS_MAGIC, sizeof h->magic) != 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s is not a token file; prepare one from text", path);
  if (h->version != CH_CORPUS_VERSION)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has token file version %u where %d is known; prepare it again",
                   path, h->version, CH_CORPUS_VERSION);
  const uint64_t most = UINT64_C(1) << 40;
  bool sane = (h->id_bytes == 2 || h->id_bytes == 4) && h->vocab_size >= 1 && h->vocab_size <= INT32_MAX &&
              h->train_tokens < most && h->validation_tokens < most && h->pack_length < most &&
              (h->id_bytes == 4 || h->vocab_size <= 65536) && h->end_token >= 0 &&
              (uint64_t)h->end_token < h->vocab_size;
  if (!sane) return ch_fail(error, CH_ERROR_FORMAT, "%s has an impossible header; prepare it again", path);
  uint64_t bytes = sizeof *h + (h->train_tokens + h->validation_tokens) * h->id_bytes;
  if (bytes != size)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s has %zu bytes where its header promises %llu; prepare it again", path, size,
                   (unsigned long long)bytes);
  return CH_OK;
}

ch_status ch_corpus_open(const char *path, ch_corpus **result, ch_error *error) {
  *result = NULL;
  ch_corpus *corpus = calloc(1, sizeof *corpus);
  if (!corpus) return ch_no_memory(error);
  ch_status status = ch_map_open(path, &corpus->map, error);
  if (status == CH_OK && corpus->map.size < sizeof corpus->header)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s is too short for a token file; prepare one from text", path);
  if (status == CH_OK) {
    memcpy(&corpus->header, corpus->map.data, sizeof corpus->header);
    status = check_header(&corpus->header, corpus->map.size, path, error);
  }
  if (status != CH_OK) {
    ch_corpus_close(corpus);
    return status;
  }
  corpus->ids[CH_SPLIT_TRAIN] = corpus->map.data + sizeof corpus->header;
  corpus->ids[CH_SPLIT_VALIDATION] =
      corpus->ids[CH_SPLIT_TRAIN] + corpus->header.train_tokens * corpus->header.id_bytes;
  *result = corpus;
  return CH_OK;
}

void ch_corpus_close(ch_corpus *corpus) {
  if (!corpus) return;
  ch_map_close(&corpus->map);
  free(corpus);
}

bool ch_corpus_recognise(const char *path) {
  char magic[8] = {0};
  if (!ch_is_file(path)) return false;
  FILE *file = fopen(path, "rb");
  bool is = file && fread(magic, 1, sizeof magic, file) == sizeof magic &&
            memcmp(magic, CH_CORPUS_MAGIC, sizeof magic) == 0;
  if (file) fclose(file);
  return is;
}

void ch_corpus_describe(const ch_corpus *corpus, ch_corpus_info *info) {
  const ch_corpus_header *h = &corpus->header;
  *info = (ch_corpus_info){.train_tokens = (int64_t)h->train_tokens,
                           .validation_tokens = (int64_t)h->validation_tokens,
                           .documents = (int64_t)h->documents,
                           .vocab_size = (int64_t)h->vocab_size,
                           .pack_length = (int64_t)h->pack_length,
                           .text_bytes = h->text_bytes,
                           .tokenizer = h->tokenizer,
                           .content = h->content,
                           .end_token = h->end_token};
}

/* --- windows -------------------------------------------------------------------------------------------- */

static int64_t split_tokens(const ch_corpus *corpus, ch_corpus_split split) {
  return (int64_t)(split == CH_SPLIT_TRAIN ? corpus->header.train_tokens : corpus->header.validation_tokens);
}

int64_t ch_corpus_windows(const ch_corpus *corpus, ch_corpus_split split, int64_t length) {
  int64_t tokens = split_tokens(corpus, split), packed = (int64_t)corpus->header.pack_length;
  if (length <= 0) return 0;
  if (packed) return length == packed ? tokens / packed : 0;
  if (split == CH_SPLIT_VALIDATION) return tokens < 2 ? 0 : (tokens - 2) / length + 1;
  return (tokens - 1) / length;
}

/* Returns the offset of window `index` of the training stream. Concatenated text is cut at another offset
   every epoch; this leaves one window of each pass unused. */
static int64_t train_offset(const ch_corpus *corpus, uint64_t seed, int64_t index, int64_t length) {
  int64_t windows = ch_corpus_windows(corpus, CH_SPLIT_TRAIN, length), shift = 0;
  bool shifted = corpus->header.pack_length == 0 && windows > 1;
  if (shifted) windows--;
  ch_random random;
  ch_random_seed(&random, seed, (uint64_t)(index / windows));
  uint64_t key = ch_random_u64(&random);
  if (shifted) shift = (int64_t)ch_random_below(&random, (uint64_t)length);
  return shift + length * (int64_t)ch_random_permute((uint64_t)(index % windows), (uint64_t)windows, key);
}

static int32_t id_at(const ch_corpus *corpus, ch_corpus_split split, int64_t place) {
  const unsigned char *p = corpus->ids[split] + (uint64_t)place * corpus->header.id_bytes;
  if (corpus->header.id_bytes == 2) return (int32_t)(p[0] | p[1] << 8);
  return (int32_t)(p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
}

int64_t ch_corpus_padding(const ch_corpus *corpus, ch_corpus_split split) {
  int64_t length = (int64_t)corpus->header.pack_length, total = split_tokens(corpus, split), padding = 0;
  int32_t end = corpus->header.end_token;
  for (int64_t first = 0; length > 0 && first < total; first += length)
    for (int64_t last = first + length - 1; last > first && last < total; last--) {
      if (id_at(corpus, split, last) != end || id_at(corpus, split, last - 1) != end) break;
      padding++;
    }
  return padding;
}

double ch_corpus_token_entropy(const ch_corpus *corpus) {
  int64_t total = split_tokens(corpus, CH_SPLIT_TRAIN), vocab_size = (int64_t)corpus->header.vocab_size,
          *counts;
  if (total > MOST_COUNTED) total = MOST_COUNTED;
  counts = calloc((size_t)vocab_size, sizeof *counts);
  if (!counts) return NAN;
  for (int64_t i = 0; i < total; i++) {
    int32_t id = id_at(corpus, CH_SPLIT_TRAIN, i);
    if (id >= 0 && id < vocab_size) counts[id]++; /* ch_corpus_batch refuses other ids */
  }
  double entropy = 0;
  for (int64_t id = 0; id < vocab_size; id++)
    if (counts[id]) entropy -= (double)counts[id] / (double)total * log((double)counts[id] / (double)total);
  free(counts);
  return entropy;
}

/* Fills one window from `offset`. Places past the split's end hold the end token and predict nothing. Returns
   false if the file holds an id past its vocabulary. */
static bool fill_window(const ch_corpus *corpus, ch_corpus_split split, int64_t offset, int64_t length,
                        int32_t *tokens, int32_t *targets, int32_t *document_start) {
  int64_t total = split_tokens(corpus, split);
  int32_t end = corpus->header.end_token, start = 0;
  uint32_t vocab_size = (uint32_t)corpus->header.vocab_size;
  bool packed = corpus->header.pack_length > 0, apart = packed || document_start;
  for (int64_t t = 0; t < length; t++) {
    int64_t place = offset + t;
    tokens[t] = place < total ? id_at(corpus, split, place) : end;
    bool last = packed && t + 1 == length;
    bool predicts = place + 1 < total && !last;
    targets[t] = predicts ? id_at(corpus, split, place + 1) : -1;
    if ((uint32_t)tokens[t] >= vocab_size || (predicts && (uint32_t)targets[t] >= vocab_size)) return false;
    if (apart && tokens[t] == end) targets[t] = -1;
    if (document_start) document_start[t] = start;
    if (tokens[t] == end) start = (int32_t)t + 1;
  }
  return true;
}

ch_status ch_corpus_batch(const ch_corpus *corpus, ch_corpus_split split, uint64_t seed, int64_t first,
                          int64_t sequences, int64_t length, int32_t *tokens, int32_t *targets,
                          int32_t *document_start, ch_error *error) {
  int64_t windows = ch_corpus_windows(corpus, split, length);
  if (first < 0 || sequences < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "cannot read a batch of %lld sequences from number %lld",
                   (long long)sequences, (long long)first);
  if (windows < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the %s text has %lld tokens%s, too few for a sequence of %lld; use more text or shorter sequences",
        split == CH_SPLIT_TRAIN ? "training" : "validation", (long long)split_tokens(corpus, split),
        corpus->header.pack_length ? " in packed windows of another length" : "", (long long)length);
  for (int64_t s = 0; s < sequences; s++) {
    int64_t window = first + s, offset = split_tokens(corpus, split);
    if (split == CH_SPLIT_TRAIN)
      offset = train_offset(corpus, seed, window, length);
    else if (window < windows)
      offset = window * length;
    if (!fill_window(corpus, split, offset, length, tokens + s * length, targets + s * length,
                     document_start ? document_start + s * length : NULL))
      return ch_fail(error, CH_ERROR_FORMAT,
                     "the token file is damaged: near token %lld of the %s part, an id exceeds the "
                     "vocabulary of %lld; prepare it again",
                     (long long)offset, split == CH_SPLIT_TRAIN ? "training" : "validation",
                     (long long)corpus->header.vocab_size);
  }
  return CH_OK;
}

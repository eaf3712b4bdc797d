/* Prepares a text for training: its tokenizer, its token file, and a record of their sources. Another run
 * with the same text and settings reuses them; one process at a time prepares a directory. */
#define _GNU_SOURCE
#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "text/bpe_train.h"
#include "text/division.h"

static const double usual_validation = 0.05;

struct ch_data_parts {
  const ch_data_options *options; /* valid while opening */
  char *directory;
  char *tokens_path, *tokenizer_path, *record_path;
  char **texts;            /* [text_count]: paths of the text files; NULL for a token file */
  char **validation_texts; /* [validation_count]: paths of separate validation texts; NULL: none */
  size_t text_count, validation_count;
  json_t *record; /* record of the texts and settings that were requested */
  ch_tokenizer *tokenizer;
  ch_corpus *corpus;
  uint64_t seed;
};

/* --- the sources of the files --------------------------------------------------------------------------- */

static bool report_text(void *context, const char *stage, double done, double total) {
  const ch_data_options *options = context;
  return !options->report || options->report(options->context, stage, done, total);
}

static json_t *hex(uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%016" PRIx64, number);
  return json_string(text);
}

/* Reads the texts once, for their sizes and hashes. */
static ch_status describe_texts(struct ch_data_parts *p, char *const *texts, size_t count, json_t *list,
                                ch_error *error) {
  for (size_t i = 0; i < count; i++) {
    ch_text_file file;
    if (!report_text((void *)(uintptr_t)p->options, "reading the text", (double)i, (double)count))
      return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while reading the text");
    CH_TRY(ch_text_file_open(&file, texts[i], error));
    json_t *text = json_pack("{sI so}", "bytes", (json_int_t)file.size, "hash", hex(file.hash));
    ch_text_file_close(&file);
    if (json_array_append_new(list, text) != 0) return ch_no_memory(error);
  }
  return CH_OK;
}

static double share_of(const ch_data_options *o) {
  return o->validation_text ? 0 : o->validation > 0 ? o->validation : usual_validation;
}

/* Fills p->record with everything that the tokenizer and the token file depend on: for a trained tokenizer
   the text and the requested vocabulary size, for a given one its content. */
static ch_status describe(struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  static const char *const separators[] = {"auto", "marker", "blank-lines", "none"};
  double validation = share_of(o);
  json_t *texts = json_array();
  p->record = json_pack("{si so sI sf ss}", "version", 1, "texts", texts, "packed",
                        (json_int_t)(o->documents ? o->sequence : 0), "validation", validation, "separator",
                        separators[o->separator]);
  if (!p->record) return ch_no_memory(error);
  CH_TRY(describe_texts(p, p->texts, p->text_count, texts, error));
  if (p->validation_texts) {
    json_t *validating = json_array();
    if (json_object_set_new(p->record, "validation_texts", validating) != 0) return ch_no_memory(error);
    CH_TRY(describe_texts(p, p->validation_texts, p->validation_count, validating, error));
  }
  if (o->begin && json_object_set_new(p->record, "begins", json_true()) != 0) return ch_no_memory(error);
  int failed;
  if (o->tokenizer)
    failed = json_object_set_new(p->record, "tokenizer", hex(ch_tokenizer_fingerprint(p->tokenizer)));
  else
    failed = json_object_set_new(
        p->record, "trained",
        json_pack("{sI ss}", "vocab_size", (json_int_t)o->vocab_size, "on", "training part"));
  return failed ? ch_no_memory(error) : CH_OK;
}

/* Reads the record in the directory; NULL if there is none or it cannot be read. */
static json_t *stored_record(const struct ch_data_parts *p) {
  enum { MOST = 1 << 20 };
  json_t *record = NULL;
  return ch_json_read(p->record_path, MOST, &record, NULL) == CH_OK ? record : NULL;
}

/* Returns true if `stored` has the texts, the settings and the tokenizer of p->record. A resumed run that
 * names no tokenizer uses the directory's. */
static bool same_origin(const struct ch_data_parts *p, const json_t *stored) {
  static const char *const keys[] = {"version", "texts", "packed", "validation", "separator"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!json_equal(json_object_get(stored, keys[i]), json_object_get(p->record, keys[i]))) return false;
  const json_t *validating = json_object_get(p->record, "validation_texts"),
               *before = json_object_get(stored, "validation_texts");
  if ((validating || before) && !json_equal(validating, before)) return false;
  if (p->options->fixed && !p->options->tokenizer) return true;
  bool begins = json_is_true(json_object_get(stored, "begins"));
  if (!p->options->fixed && begins != p->options->begin) return false;
  const json_t *given = json_object_get(p->record, "tokenizer");
  return given ? json_equal(json_object_get(stored, "tokenizer"), given)
               : json_equal(json_object_get(stored, "trained"), json_object_get(p->record, "trained"));
}

/* Returns true if the directory's files match p->record and have not changed since they were written. */
static bool files_fit(const struct ch_data_parts *p) {
  json_t *stored = stored_record(p);
  ch_corpus *corpus = NULL;
  bool fit = stored && same_origin(p, stored) && ch_corpus_open(p->tokens_path, &corpus, NULL) == CH_OK;
  if (fit) {
    ch_corpus_info info;
    ch_corpus_describe(corpus, &info);
    json_t *now = hex(info.content);
    fit = json_equal(now, json_object_get(stored, "content"));
    json_decref(now);
  }
  ch_corpus_close(corpus);
  json_decref(stored);
  return fit;
}

/* --- preparing the files -------------------------------------------------------------------------------- */

static ch_corpus_options corpus_options(const struct ch_data_parts *p) {
  const ch_data_options *o = p->options;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  options.separator = o->separator;
  options.validation = share_of(o);
  options.validation_paths = (const char *const *)p->validation_texts;
  options.validation_count = (int)p->validation_count;
  options.begin = o->begin;
  options.pack_length = o->documents ? o->sequence : 0;
  return options;
}

static bool report_tokenizer(const char *stage, double share, void *options) {
  return report_text(options, stage, share, 1);
}

/* Trains a tokenizer on the training part alone. Otherwise it could have tokens that occur only in the validation
   part, which the model would never see in training. */
static ch_status train_tokenizer(struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  if (o->vocab_size < CH_BPE_FIRST_MERGE)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "a vocabulary of %lld is too small to train a tokenizer, which needs at least %d (256 "
                   "bytes and the end token); raise vocab_size or give a {tokenizer}",
                   (long long)o->vocab_size, CH_BPE_FIRST_MERGE);
  const char *const *texts = (const char *const *)p->texts;
  ch_corpus_options options = corpus_options(p);
  options.validation_count = 0; /* separate validation texts are not trained on anyway */
  ch_text_spans *validation = NULL;
  ch_division division;
  ch_status status = ch_division_open(&division, texts, (int)p->text_count, &options, error);
  if (status == CH_OK) status = ch_division_validation(&division, &validation, error);
  ch_division_close(&division);
  if (status == CH_OK) {
    ch_tokenizer_train_settings settings;
    ch_tokenizer_report report;
    ch_tokenizer_train_defaults(&settings);
    settings.vocab_size = (int32_t)o->vocab_size;
    settings.progress = report_tokenizer;
    settings.user = (void *)(uintptr_t)o;
    status = ch_bpe_train(texts, p->text_count, validation, &settings, p->tokenizer_path, &report, error);
  }
  ch_text_spans_free(validation, (int)p->text_count);
  return status;
}

static bool report_corpus(void *context, uint64_t done, uint64_t total, int64_t tokens) {
  (void)tokens;
  return !report_text(context, "tokenizing", (double)done, (double)total);
}

static ch_status write_record(struct ch_data_parts *p, ch_error *error) {
  ch_corpus *corpus;
  ch_corpus_info info;
  CH_TRY(ch_corpus_open(p->tokens_path, &corpus, error));
  ch_corpus_describe(corpus, &info);
  ch_corpus_close(corpus);
  json_t *whole = json_copy(p->record);
  char *text = NULL;
  if (whole && json_object_set_new(whole, "content", hex(info.content)) == 0)
    text = ch_json_dump(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
  ch_status status = text ? ch_write_file(p->record_path, text, strlen(text), error) : ch_no_memory(error);
  free(text);
  json_decref(whole);
  return status;
}

/* Copies the tokenizer unless the directory has it already. */
static ch_status give_tokenizer(const struct ch_data_parts *p, const char *directory, ch_error *error) {
  ch_tokenizer *present = NULL;
  bool same = ch_tokenizer_open(directory, &present, NULL) == CH_OK &&
              ch_tokenizer_fingerprint(present) == ch_tokenizer_fingerprint(p->tokenizer);
  ch_tokenizer_free(present);
  return same ? CH_OK : ch_tokenizer_copy_to(p->tokenizer, directory, error);
}

/* Locks the directory until *descriptor is closed (-1: the directory cannot be locked). */
static ch_status lock_directory(const struct ch_data_parts *p, int *descriptor, ch_error *error) {
  static const struct timespec nap = {.tv_nsec = 50000000};
  const ch_data_options *o = p->options;
  bool waits = o->waits;
  *descriptor = open(p->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*descriptor < 0) return CH_OK;
  do {
    if (flock(*descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return CH_OK;
    if (waits) nanosleep(&nap, NULL);
  } while (waits && (!o->report || o->report(o->context, "waiting for the text", 0, 1)));
  close(*descriptor);
  if (waits) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  return ch_fail(error, CH_ERROR_IO, "%s is in use: another run is preparing its text there", p->directory);
}

/* Prepares the files. The record is removed first and written last, because files without a record are
 * written anew. */
static ch_status make_files_alone(struct ch_data_parts *p, ch_error *error) {
  static const char *const written_files[] = {CH_DATA_TOKENS, CH_DATA_RECORD, "tokenizer.json", NULL};
  ch_remove_leftovers(p->directory, written_files);
  if (unlink(p->record_path) != 0 && ch_is_file(p->record_path))
    return ch_fail(error, CH_ERROR_IO, "cannot remove %s, which belongs to another text", p->record_path);
  if (p->options->tokenizer) {
    CH_TRY(give_tokenizer(p, p->directory, error));
  } else {
    CH_TRY(train_tokenizer(p, error));
    CH_TRY(ch_tokenizer_open(p->tokenizer_path, &p->tokenizer, error));
  }
  const ch_corpus_options options = corpus_options(p);
  CH_TRY(ch_corpus_prepare((const char *const *)p->texts, (int)p->text_count, p->tokenizer, &options,
                           p->tokens_path, report_corpus, (void *)(uintptr_t)p->options, error));
  return write_record(p, error);
}

static ch_status check_tokenizer(const struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  long long has = ch_tokenizer_vocab_size(p->tokenizer);
  if (o->vocab_size > 0 && has > o->vocab_size)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "the tokenizer has %lld tokens, more than the model's vocab_size of %lld; raise vocab_size or give "
        "another tokenizer",
        has, (long long)o->vocab_size);
  return CH_OK;
}

static ch_status make_files(struct ch_data_parts *p, ch_error *error) {
  int lock;
  CH_TRY(lock_directory(p, &lock, error));
  bool made = p->options->waits && files_fit(p); /* another run may have prepared the files meanwhile */
  ch_status status = CH_OK;
  if (!made)
    status = make_files_alone(p, error);
  else if (!p->tokenizer)
    status = ch_tokenizer_open(p->directory, &p->tokenizer, error);
  if (lock >= 0) close(lock);
  return status;
}

/* --- texts and token files ------------------------------------------------------------------------------ */

static ch_status set_tokens_path(struct ch_data_parts *p, const char *path, ch_error *error) {
  free(p->tokens_path);
  p->tokens_path = strdup(path);
  return p->tokens_path ? CH_OK : ch_no_memory(error);
}

/* Opens the files of the directory, or the token file that its record names, if `fixed` is set and no text is
 * named. */
static ch_status take_directory(struct ch_data_parts *p, ch_error *error) {
  if (p->options->validation_text)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{validation} needs {data}; leave both out to continue with the text of %s", p->directory);
  json_t *stored = stored_record(p);
  const char *elsewhere = json_string_value(json_object_get(stored, "token_file"));
  ch_status status = CH_OK;
  if (!stored)
    status = ch_fail(error, CH_ERROR_ARGUMENT, "%s holds no text of an earlier run; name it with {data}",
                     p->directory);
  else if (elsewhere)
    status = set_tokens_path(p, elsewhere, error);
  json_decref(stored);
  CH_TRY(status);
  return ch_tokenizer_open(p->options->tokenizer ? p->options->tokenizer : p->directory, &p->tokenizer,
                           error);
}

/* Finds the validation texts, which must be neither training texts nor token files. */
static ch_status find_validation_texts(struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  if (!o->validation_text) return CH_OK;
  CH_TRY(ch_text_paths(o->validation_text, &p->validation_texts, &p->validation_count, error));
  for (size_t i = 0; i < p->validation_count; i++) {
    const char *path = p->validation_texts[i];
    if (ch_corpus_recognise(path))
      return ch_fail(error, CH_ERROR_ARGUMENT, "%s is a token file; {validation} must be a text", path);
    for (size_t t = 0; t < p->text_count; t++)
      if (ch_same_file(path, p->texts[t]))
        return ch_fail(error, CH_ERROR_ARGUMENT,
                       "%s is both training and validation text; give another text in {validation}, or a "
                       "share of this one",
                       path);
  }
  return CH_OK;
}

static ch_status take_text(struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  CH_TRY(ch_text_paths(o->data, &p->texts, &p->text_count, error));
  CH_TRY(find_validation_texts(p, error));
  if (o->tokenizer) CH_TRY(ch_tokenizer_open(o->tokenizer, &p->tokenizer, error));
  if (o->tokenizer) CH_TRY(check_tokenizer(p, error));
  CH_TRY(describe(p, error));
  if (files_fit(p)) {
    return p->tokenizer ? CH_OK : ch_tokenizer_open(p->directory, &p->tokenizer, error);
  }
  if (o->fixed)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s comes from another text or tokenizer than %s; continue with its own, or choose "
                   "another directory",
                   p->tokens_path, o->data);
  return make_files(p, error);
}

static ch_status open_tokenizer_of(struct ch_data_parts *p, ch_error *error) {
  const ch_data_options *o = p->options;
  if (o->tokenizer) return ch_tokenizer_open(o->tokenizer, &p->tokenizer, error);
  char *beside = ch_path_directory(o->data);
  if (!beside) return ch_no_memory(error);
  ch_status status = ch_tokenizer_open(beside, &p->tokenizer, NULL);
  free(beside);
  return status == CH_OK
             ? CH_OK
             : ch_fail(error, CH_ERROR_ARGUMENT,
                       "%s is a token file, but its directory has no tokenizer; name it with {tokenizer}",
                       o->data);
}

/* Uses a token file from elsewhere. It is not copied; the record names it. */
static ch_status take_token_file(struct ch_data_parts *p, ch_error *error) {
  if (p->options->validation_text)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s is a token file, which holds its validation part; leave {validation} out, or give the text",
        p->options->data);
  char *path = realpath(p->options->data, NULL);
  ch_status status = set_tokens_path(p, path ? path : p->options->data, error);
  free(path);
  CH_TRY(status);
  CH_TRY(open_tokenizer_of(p, error));
  CH_TRY(check_tokenizer(p, error));
  if (p->options->fixed) return CH_OK;
  p->record = json_pack("{si ss}", "version", 1, "token_file", p->tokens_path);
  if (!p->record) return ch_no_memory(error);
  CH_TRY(give_tokenizer(p, p->directory, error));
  return write_record(p, error);
}

/* --- opening -------------------------------------------------------------------------------------------- */

static ch_status fill_train(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const struct ch_data_parts *p = context;
  return ch_corpus_batch(p->corpus, CH_SPLIT_TRAIN, p->seed, first, batch->sequences, batch->length,
                         batch->tokens, batch->targets, batch->document_start, error);
}

static ch_status fill_validation(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const struct ch_data_parts *p = context;
  return ch_corpus_batch(p->corpus, CH_SPLIT_VALIDATION, p->seed, first, batch->sequences, batch->length,
                         batch->tokens, batch->targets, batch->document_start, error);
}

static ch_status check_corpus(const struct ch_data_parts *p, const ch_corpus_info *info, ch_error *error) {
  const ch_data_options *o = p->options;
  if (info->tokenizer != ch_tokenizer_fingerprint(p->tokenizer))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s comes from another tokenizer than the one given; name the right one with {tokenizer}",
                   p->tokens_path);
  int64_t packed = o->documents ? o->sequence : 0;
  if (info->pack_length != packed && info->pack_length > 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s holds documents packed into windows of %lld tokens; train with {documents_apart} "
                   "{sequence} %lld, or "
                   "prepare it again",
                   p->tokens_path, (long long)info->pack_length, (long long)info->pack_length);
  if (ch_corpus_windows(p->corpus, CH_SPLIT_TRAIN, o->sequence) < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the training text has %lld tokens, too few for one sequence of %lld; use more text or a "
                   "shorter {sequence}",
                   (long long)info->train_tokens, (long long)o->sequence);
  if (ch_corpus_windows(p->corpus, CH_SPLIT_VALIDATION, o->sequence) < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        o->validation_text
            ? "the validation text is too short (%lld tokens); use more text"
            : "the text is too short to hold out a part of it for validation (%lld tokens); use more text",
        (long long)info->validation_tokens);
  return CH_OK;
}

static ch_status make_source(struct ch_data_parts *p, ch_data *data, ch_error *error) {
  ch_corpus_info info;
  const ch_data_options *o = p->options;
  CH_TRY(ch_corpus_open(p->tokens_path, &p->corpus, error));
  ch_corpus_describe(p->corpus, &info);
  CH_TRY(check_corpus(p, &info, error));
  data->text_bytes = (int64_t)info.text_bytes;
  data->train_tokens = info.train_tokens - ch_corpus_padding(p->corpus, CH_SPLIT_TRAIN);
  data->validation_tokens = info.validation_tokens - ch_corpus_padding(p->corpus, CH_SPLIT_VALIDATION);
  data->train_sequences = ch_corpus_windows(p->corpus, CH_SPLIT_TRAIN, o->sequence);
  data->vocab_size = ch_tokenizer_vocab_size(p->tokenizer);
  data->bos = ch_tokenizer_bos(p->tokenizer);
  data->eos = info.end_token;
  data->source = (ch_batch_source){.context = p,
                                   .train = fill_train,
                                   .validate = fill_validation,
                                   .validation_sequences =
                                       ch_corpus_windows(p->corpus, CH_SPLIT_VALIDATION, o->sequence)};
  snprintf(data->source.fingerprint, sizeof data->source.fingerprint, "%016" PRIx64 "-%016" PRIx64,
           info.content, info.tokenizer);
  return CH_OK;
}

static ch_status open_parts(struct ch_data_parts *p, ch_data *data, ch_error *error) {
  const ch_data_options *o = p->options;
  p->seed = o->seed;
  p->directory = strdup(o->directory);
  p->tokens_path = ch_path_join(o->directory, CH_DATA_TOKENS);
  p->tokenizer_path = ch_path_join(o->directory, "tokenizer.json");
  p->record_path = ch_path_join(o->directory, CH_DATA_RECORD);
  if (!p->directory || !p->tokens_path || !p->tokenizer_path || !p->record_path) return ch_no_memory(error);
  if (!o->fixed) CH_TRY(ch_make_directory(o->directory, error));
  if (!o->data)
    CH_TRY(take_directory(p, error));
  else if (ch_corpus_recognise(o->data))
    CH_TRY(take_token_file(p, error));
  else
    CH_TRY(take_text(p, error));
  CH_TRY(check_tokenizer(p, error));
  return make_source(p, data, error);
}

ch_status ch_data_open(const ch_data_options *options, ch_data *data, ch_error *error) {
  *data = (ch_data){.bos = -1, .eos = -1};
  data->parts = calloc(1, sizeof *data->parts);
  if (!data->parts) return ch_no_memory(error);
  data->parts->options = options;
  ch_status status = open_parts(data->parts, data, error);
  data->parts->options = NULL;
  return status;
}

void ch_data_reseed(ch_data *data, uint64_t seed) {
  data->parts->seed = seed;
}

double ch_data_token_entropy(const ch_data *data) {
  return data->parts ? ch_corpus_token_entropy(data->parts->corpus) : 0;
}

void ch_data_close(ch_data *data) {
  struct ch_data_parts *p = data->parts;
  if (!p) return;
  ch_corpus_close(p->corpus);
  ch_tokenizer_free(p->tokenizer);
  json_decref(p->record);
  free(p->directory);
  free(p->tokens_path);
  free(p->tokenizer_path);
  free(p->record_path);
  free(p->texts);
  free(p->validation_texts);
  free(p);
  *data = (ch_data){0};
}

const ch_tokenizer *ch_data_tokenizer(const ch_data *data) {
  return data->parts->tokenizer;
}

ch_status ch_data_give_tokenizer(const ch_data *data, const char *directory, ch_error *error) {
  return give_tokenizer(data->parts, directory, error);
}

/* Reads GGUF files. A file has a magic number, version, counts, key-value pairs and tensor descriptions, then the data
   of the tensors at multiples of the alignment. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mistaken.h"

enum { MOST_NAME = 1024, DEFAULT_ALIGNMENT = 32, MOST_ALIGNMENT = 1 << 20 };

static const struct {
  const char *name, *several;
  size_t size; /* bytes; 0: not fixed */
} types[CH_GGUF_TYPES] = {{"a byte", "bytes", 1},
                          {"a signed byte", "signed bytes", 1},
                          {"a 16-bit number", "16-bit numbers", 2},
                          {"a 16-bit number", "16-bit numbers", 2},
                          {"a number", "numbers", 4},
                          {"a number", "numbers", 4},
                          {"a number", "numbers", 4},
                          {"true or false", "truth values", 1},
                          {"a string", "strings", 0},
                          {"a list", "lists", 0},
                          {"a number", "numbers", 8},
                          {"a number", "numbers", 8},
                          {"a number", "numbers", 8}};

/* --- reading the header --------------------------------------------------------------------------------- */

typedef struct reader {
  ch_gguf *file;
  const unsigned char *start, *at, *end;
  int64_t value_room, tensor_room;
  ch_error *error;
} reader;

static ch_status bad(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static ch_status bad(const reader *r, const char *format, ...) {
  char what[400];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return ch_fail(r->error, CH_ERROR_FORMAT, "%s: %s", r->file->where, what);
}

static ch_status truncated(const reader *r) {
  return bad(r, "the GGUF header ends in the middle of a value at byte %zu; the file is truncated or damaged",
             (size_t)(r->at - r->start));
}

static size_t left(const reader *r) {
  return (size_t)(r->end - r->at);
}

static uint64_t unsigned_at(const unsigned char *p, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | p[i];
  return value;
}

static ch_status take_number(reader *r, size_t bytes, uint64_t *value) {
  *value = 0;
  if (left(r) < bytes) return truncated(r);
  *value = unsigned_at(r->at, bytes);
  r->at += bytes;
  return CH_OK;
}

static ch_status skip_string(reader *r) {
  uint64_t size;
  CH_TRY(take_number(r, 8, &size));
  if (size > left(r)) return truncated(r);
  r->at += size;
  return CH_OK;
}

/* Reads the name of a key or tensor: text without NUL, of a sensible length. */
static ch_status take_name(reader *r, const char *of, char **name) {
  const unsigned char *at = r->at;
  CH_TRY(skip_string(r));
  ch_gguf_string string = ch_gguf_next_string(&at);
  if (string.size == 0 || string.size > MOST_NAME || memchr(string.data, 0, string.size))
    return bad(r, "the name of a %s at byte %zu is empty, too long or holds a NUL byte", of,
               (size_t)(string.data - (const char *)r->start));
  *name = strndup(string.data, string.size);
  return *name ? CH_OK : ch_no_memory(r->error);
}

/* Makes room for one more element. Memory grows with the elements read, not with the counts in the header. */
static ch_status reserve(reader *r, void **list, int64_t count, int64_t *room, size_t size) {
  if (count < *room) return CH_OK;
  int64_t more = *room ? *room * 2 : 64;
  void *grown = realloc(*list, (size_t)more * size);
  if (!grown) return ch_no_memory(r->error);
  *list = grown;
  *room = more;
  return CH_OK;
}

static ch_status skip_values(reader *r, ch_gguf_value *value) {
  char quoted[100];
  size_t size = types[value->type].size;
  if (value->type == CH_GGUF_STRING) {
    for (uint64_t i = 0; i < value->count; i++) CH_TRY(skip_string(r));
    return CH_OK;
  }
  if (value->count > left(r) / size)
    return bad(r, "the list %s has %" PRIu64 " elements, more than the file has room for",
               ch_json_quote(value->key, quoted, sizeof quoted), value->count);
  r->at += value->count * size;
  return CH_OK;
}

static ch_status take_type(reader *r, ch_gguf_value *value) {
  char quoted[100];
  uint64_t type;
  CH_TRY(take_number(r, 4, &type));
  value->list = type == CH_GGUF_ARRAY && !value->list;
  if (value->list) {
    CH_TRY(take_number(r, 4, &type));
    CH_TRY(take_number(r, 8, &value->count));
  }
  if (type >= CH_GGUF_TYPES || type == CH_GGUF_ARRAY)
    return bad(r, "%s is of type %" PRIu64 "%s; 0 to 12 are known",
               ch_json_quote(value->key, quoted, sizeof quoted), type,
               type == CH_GGUF_ARRAY ? ", a list of lists" : "");
  value->type = (ch_gguf_type)type;
  return CH_OK;
}

static ch_status take_value(reader *r) {
  ch_gguf *file = r->file;
  CH_TRY(reserve(r, (void **)&file->values, file->value_count, &r->value_room, sizeof *file->values));
  ch_gguf_value *value = &file->values[file->value_count];
  *value = (ch_gguf_value){.count = 1};
  CH_TRY(take_name(r, "key", &value->key));
  file->value_count++;
  CH_TRY(take_type(r, value));
  value->data = r->at;
  return skip_values(r, value);
}

static ch_status take_shape(reader *r, ch_gguf_tensor *tensor) {
  char quoted[100];
  uint64_t rank, size, total = 1;
  ch_json_quote(tensor->name, quoted, sizeof quoted);
  CH_TRY(take_number(r, 4, &rank));
  if (rank < 1 || rank > CH_GGUF_MAX_RANK)
    return bad(r, "tensor %s has %" PRIu64 " dimensions; 1 to %d are possible", quoted, rank,
               CH_GGUF_MAX_RANK);
  tensor->rank = (int)rank;
  for (int i = 0; i < tensor->rank; i++) {
    CH_TRY(take_number(r, 8, &size));
    if (size == 0 || size > INT64_MAX || __builtin_mul_overflow(total, size, &total) || total > INT64_MAX / 8)
      return bad(r, "tensor %s has a size of 0 or one that overflows", quoted);
    tensor->shape[tensor->rank - 1 - i] = (int64_t)size;
  }
  return CH_OK;
}

/* Reads the description of a tensor and its offset. The address of its data is set once the start of the data
   is known. */
static ch_status take_tensor(reader *r, uint64_t *offset) {
  ch_gguf *file = r->file;
  char quoted[100];
  CH_TRY(reserve(r, (void **)&file->tensors, file->tensor_count, &r->tensor_room, sizeof *file->tensors));
  ch_gguf_tensor *tensor = &file->tensors[file->tensor_count];
  *tensor = (ch_gguf_tensor){0};
  CH_TRY(take_name(r, "tensor", &tensor->name));
  file->tensor_count++;
  uint64_t type;
  CH_TRY(take_shape(r, tensor));
  CH_TRY(take_number(r, 4, &type));
  CH_TRY(take_number(r, 8, offset));
  ch_json_quote(tensor->name, quoted, sizeof quoted);
  tensor->format = ch_block_format_of((uint32_t)type);
  if (!tensor->format)
    return bad(r, "tensor %s is of ggml type %" PRIu64 ", which is not supported; %s are", quoted, type,
               ch_block_names);
  if (tensor->shape[tensor->rank - 1] % tensor->format->values != 0)
    return bad(r,
               "tensor %s has rows of %" PRId64 " elements, which %s cannot hold: its blocks have %" PRId64,
               quoted, tensor->shape[tensor->rank - 1], tensor->format->name, tensor->format->values);
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
  tensor->bytes = (size_t)(count / tensor->format->values) * tensor->format->bytes;
  return CH_OK;
}

/* --- checks of the whole file --------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  return strcmp(((const ch_gguf_value *)a)->key, ((const ch_gguf_value *)b)->key);
}

int ch_gguf_by_name(const void *a, const void *b) {
  return strcmp(((const ch_gguf_tensor *)a)->name, ((const ch_gguf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b) {
  const ch_gguf_tensor *x = a, *y = b;
  return x->data < y->data ? -1 : x->data > y->data;
}

static ch_status check_values(const reader *r) {
  ch_gguf *file = r->file;
  char quoted[100];
  if (file->value_count) qsort(file->values, (size_t)file->value_count, sizeof *file->values, by_key);
  for (int64_t i = 1; i < file->value_count; i++)
    if (strcmp(file->values[i - 1].key, file->values[i].key) == 0)
      return bad(r, "the key %s appears twice", ch_json_quote(file->values[i].key, quoted, sizeof quoted));
  return CH_OK;
}

static ch_status check_tensors(const reader *r) {
  ch_gguf *file = r->file;
  ch_gguf_tensor *t = file->tensors;
  char quoted[100];
  if (file->tensor_count) qsort(t, (size_t)file->tensor_count, sizeof *t, by_place);
  for (int64_t i = 1; i < file->tensor_count; i++)
    if (t[i - 1].data + t[i - 1].bytes > t[i].data)
      return bad(r, "tensor %s overlaps the data of another one",
                 ch_json_quote(t[i].name, quoted, sizeof quoted));
  if (file->tensor_count) qsort(t, (size_t)file->tensor_count, sizeof *t, ch_gguf_by_name);
  for (int64_t i = 1; i < file->tensor_count; i++)
    if (strcmp(t[i - 1].name, t[i].name) == 0)
      return bad(r, "tensor %s appears twice", ch_json_quote(t[i].name, quoted, sizeof quoted));
  return CH_OK;
}

static ch_status find_alignment(const reader *r, uint64_t *alignment) {
  int64_t value = DEFAULT_ALIGNMENT;
  CH_TRY(ch_gguf_whole(r->file, "general.alignment", false, &value, r->error));
  if (value < 1 || value > MOST_ALIGNMENT || (value & (value - 1)) != 0)
    return bad(r, "\"general.alignment\" is %" PRId64 "; it must be a power of two", value);
  *alignment = (uint64_t)value;
  return CH_OK;
}

/* Sets the tensors' data. `offsets` and tensors have the order of the file. */
static ch_status place_tensors(reader *r, const uint64_t *offsets, uint64_t alignment) {
  char quoted[100];
  uint64_t header = (uint64_t)(r->at - r->start), start = (header + alignment - 1) / alignment * alignment;
  uint64_t size = (uint64_t)(r->end - r->start), room = start < size ? size - start : 0;
  for (int64_t i = 0; i < r->file->tensor_count; i++) {
    ch_gguf_tensor *tensor = &r->file->tensors[i];
    ch_json_quote(tensor->name, quoted, sizeof quoted);
    if (offsets[i] % alignment != 0)
      return bad(r, "tensor %s begins at %" PRIu64 ", which is not a multiple of the alignment, %" PRIu64,
                 quoted, offsets[i], alignment);
    if (offsets[i] > room || tensor->bytes > room - offsets[i])
      return bad(r,
                 "tensor %s needs %zu bytes from %" PRIu64 " on, but the file has only %" PRIu64
                 " bytes of data; it is truncated or damaged",
                 quoted, tensor->bytes, offsets[i], room);
    tensor->data = r->start + start + offsets[i];
  }
  return CH_OK;
}

static ch_status parse_header(reader *r, uint64_t *tensors, uint64_t *values) {
  uint64_t version;
  if (left(r) < 4 || memcmp(r->at, "GGUF", 4) != 0) {
    CH_TRY(ch_refuse_mistaken(r->file->where, r->at, left(r), true, r->error));
    return bad(r, "this is not a GGUF file: it does not begin with GGUF");
  }
  r->at += 4;
  CH_TRY(take_number(r, 4, &version));
  if (version != 2 && version != 3)
    return bad(r, "GGUF version %" PRIu64 "%s is not supported; 2 and 3 are", version,
               version & 0xffff ? "" : " (a file of the other byte order)");
  CH_TRY(take_number(r, 8, tensors));
  return take_number(r, 8, values);
}

static ch_status parse_tensors(reader *r, uint64_t count) {
  uint64_t *offsets = NULL, alignment = DEFAULT_ALIGNMENT;
  int64_t room = 0;
  ch_status status = CH_OK;
  for (uint64_t i = 0; i < count && status == CH_OK; i++) {
    status = reserve(r, (void **)&offsets, (int64_t)i, &room, sizeof *offsets);
    if (status == CH_OK) status = take_tensor(r, &offsets[i]);
  }
  if (status == CH_OK) status = find_alignment(r, &alignment);
  if (status == CH_OK) status = place_tensors(r, offsets, alignment);
  free(offsets);
  return status;
}

ch_status ch_gguf_parse(const void *data, size_t size, const char *where, ch_gguf *file, ch_error *error) {
  *file = (ch_gguf){.where = strdup(where)};
  if (!file->where) return ch_no_memory(error);
  reader r = {.file = file, .start = data, .at = data, .error = error};
  r.end = r.start + size;
  uint64_t tensors = 0, values = 0;
  CH_TRY(parse_header(&r, &tensors, &values));
  for (uint64_t i = 0; i < values; i++) CH_TRY(take_value(&r));
  CH_TRY(check_values(&r));
  CH_TRY(parse_tensors(&r, tensors));
  return check_tensors(&r);
}

ch_status ch_gguf_open(const char *path, ch_gguf *file, ch_error *error) {
  *file = (ch_gguf){0};
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  ch_status status = ch_gguf_parse(map.data, map.size, path, file, error);
  file->map = map;
  return status;
}

void ch_gguf_close(ch_gguf *file) {
  for (int64_t i = 0; i < file->value_count; i++) free(file->values[i].key);
  for (int64_t i = 0; i < file->tensor_count; i++) free(file->tensors[i].name);
  for (int64_t i = 0; i < file->part_count; i++) ch_gguf_close(&file->parts[i]);
  free(file->parts);
  free(file->values);
  free(file->tensors);
  free(file->where);
  ch_map_close(&file->map);
  *file = (ch_gguf){0};
}

void ch_gguf_forget(const ch_gguf *file, const void *data, size_t bytes) {
  ch_map_forget(&file->map, data, bytes);
  for (int64_t i = 0; i < file->part_count; i++) ch_map_forget(&file->parts[i].map, data, bytes);
}

/* --- values --------------------------------------------------------------------------------------------- */

const ch_gguf_value *ch_gguf_find(const ch_gguf *file, const char *key) {
  ch_gguf_value wanted = {.key = (char *)key};
  return file->value_count ? bsearch(&wanted, file->values, (size_t)file->value_count, sizeof wanted, by_key)
                           : NULL;
}

const ch_gguf_tensor *ch_gguf_find_tensor(const ch_gguf *file, const char *name) {
  ch_gguf_tensor wanted = {.name = (char *)name};
  return file->tensor_count
             ? bsearch(&wanted, file->tensors, (size_t)file->tensor_count, sizeof wanted, ch_gguf_by_name)
             : NULL;
}

double ch_gguf_number_at(const ch_gguf_value *value, uint64_t i) {
  const unsigned char *p = value->data + i * types[value->type].size;
  uint64_t bits = unsigned_at(p, types[value->type].size);
  uint32_t narrow = (uint32_t)bits;
  float single;
  double wide;
  switch (value->type) {
  case CH_GGUF_I8:
    return (int8_t)bits;
  case CH_GGUF_I16:
    return (int16_t)bits;
  case CH_GGUF_I32:
    return (int32_t)bits;
  case CH_GGUF_I64:
    return (double)(int64_t)bits;
  case CH_GGUF_F32:
    memcpy(&single, &narrow, sizeof single);
    return single;
  case CH_GGUF_F64:
    memcpy(&wide, &bits, sizeof wide);
    return wide;
  default:
    return (double)bits;
  }
}

bool ch_gguf_whole_at(const ch_gguf_value *value, uint64_t i, int64_t *whole) {
  const double most = 9007199254740992.0; /* 2^53: sizes and ids are far below */
  double number = ch_gguf_number_at(value, i);
  if (value->type == CH_GGUF_F32 || value->type == CH_GGUF_F64 || value->type == CH_GGUF_BOOL) return false;
  if (!(fabs(number) <= most)) return false;
  *whole = (int64_t)number;
  return true;
}

ch_gguf_string ch_gguf_next_string(const unsigned char **at) {
  ch_gguf_string string = {(const char *)*at + 8, (size_t)unsigned_at(*at, 8)};
  *at += 8 + string.size;
  return string;
}

static ch_status wrong(const ch_gguf *file, const char *key, const char *needed, ch_error *error) {
  const ch_gguf_value *value = ch_gguf_find(file, key);
  if (!value)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no \"%s\"; it must be %s", file->where, key, needed);
  return ch_fail(error, CH_ERROR_FORMAT, "%s: \"%s\" is %s%s; it must be %s", file->where, key,
                 value->list ? "a list of " : "",
                 value->list ? types[value->type].several : types[value->type].name, needed);
}

ch_status ch_gguf_whole(const ch_gguf *file, const char *key, bool required, int64_t *whole,
                        ch_error *error) {
  const ch_gguf_value *value = ch_gguf_find(file, key);
  if (!value && !required) return CH_OK;
  if (!value || value->list || value->type == CH_GGUF_STRING || !ch_gguf_whole_at(value, 0, whole))
    return wrong(file, key, "a whole number", error);
  return CH_OK;
}

ch_status ch_gguf_number(const ch_gguf *file, const char *key, bool required, double *number,
                         ch_error *error) {
  const ch_gguf_value *value = ch_gguf_find(file, key);
  if (!value && !required) return CH_OK;
  if (!value || value->list || value->type == CH_GGUF_STRING || value->type == CH_GGUF_BOOL ||
      !isfinite(ch_gguf_number_at(value, 0)))
    return wrong(file, key, "a finite number", error);
  *number = ch_gguf_number_at(value, 0);
  return CH_OK;
}

ch_status ch_gguf_bool(const ch_gguf *file, const char *key, bool *flag, ch_error *error) {
  const ch_gguf_value *value = ch_gguf_find(file, key);
  int64_t whole = 0;
  if (!value) return CH_OK;
  bool truth = !value->list && value->type == CH_GGUF_BOOL;
  /* some programs write a number */
  bool number = !truth && !value->list && value->type != CH_GGUF_STRING &&
                ch_gguf_whole_at(value, 0, &whole) && (whole == 0 || whole == 1);
  if (!truth && !number) return wrong(file, key, "true or false", error);
  *flag = truth ? *value->data != 0 : whole == 1;
  return CH_OK;
}

ch_status ch_gguf_text(const ch_gguf *file, const char *key, bool required, ch_gguf_string *text,
                       ch_error *error) {
  const ch_gguf_value *value = ch_gguf_find(file, key);
  if (!value && !required) return CH_OK;
  if (!value || value->list || value->type != CH_GGUF_STRING) return wrong(file, key, "a string", error);
  const unsigned char *at = value->data;
  *text = ch_gguf_next_string(&at);
  return CH_OK;
}

ch_status ch_gguf_list(const ch_gguf *file, const char *key, ch_gguf_type type, bool required,
                       const ch_gguf_value **list, ch_error *error) {
  char needed[60];
  const ch_gguf_value *value = ch_gguf_find(file, key);
  *list = value;
  if (!value && !required) return CH_OK;
  snprintf(needed, sizeof needed, "a list of %s", type == CH_GGUF_STRING ? "strings" : "numbers");
  bool texts = value && value->type == CH_GGUF_STRING,
       numbers = value && !texts && value->type != CH_GGUF_BOOL;
  if (!value || !value->list || (type == CH_GGUF_STRING ? !texts : !numbers))
    return wrong(file, key, needed, error);
  return CH_OK;
}

bool ch_gguf_is(ch_gguf_string text, const char *word) {
  return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

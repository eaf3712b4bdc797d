/* Reads and writes safetensors files: 8 bytes of header length, a JSON header, tensor data without holes.
 *
 * Files are untrusted: names, shapes, types and offsets are checked before a tensor is used. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mistaken.h"

enum { MOST_HEADER_BYTES = 100 * 1000 * 1000, MOST_ENTRY_BYTES = 64 << 10, MOST_METADATA_BYTES = 8 << 20 };

/* The state of a parse. jansson parses one entry of the header at a time, so that a hostile header cannot fill the
   memory with JSON values. */
typedef struct reader {
  const char *where;
  const char *at, *end; /* rest of the header */
  const unsigned char *data;
  uint64_t data_size;
  ch_safetensors *file;
  int64_t capacity;
  ch_error *error;
} reader;

static ch_status bad_header(const reader *r, const char *what) {
  return ch_fail(r->error, CH_ERROR_FORMAT, "%s: the safetensors header %s", r->where, what);
}

/* --- tokens of the top level ---------------------------------------------------------------------------- */

static char next_token(reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
  return r->at < r->end ? *r->at : 0;
}

/* Returns the end of the string that starts at `p`, after its closing quote, or NULL if it does not end. */
static const char *skip_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : NULL;
}

/* Returns the end of the object that starts at `p`, or NULL if it does not end or nests deeper than an entry does. */
static const char *skip_object(const char *p, const char *end) {
  int depth = 0;
  while (p < end) {
    if (*p == '"') {
      p = skip_string(p, end);
      if (!p) return NULL;
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    if (*p == '}' || *p == ']') depth--;
    p++;
    if (depth == 0) return p;
    if (depth > 2) return NULL;
  }
  return NULL;
}

static char *parse_name(const char *start, const char *end) {
  if ((size_t)(end - start) > MOST_ENTRY_BYTES) return NULL;
  json_t *name = json_loadb(start, (size_t)(end - start), JSON_DECODE_ANY, NULL);
  char *copy = json_is_string(name) ? strdup(json_string_value(name)) : NULL;
  json_decref(name);
  return copy;
}

/* --- one tensor ----------------------------------------------------------------------------------------- */

static ch_status bad_tensor(const reader *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static ch_status bad_tensor(const reader *r, const char *name, const char *format, ...) {
  char quoted[100], what[300];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return ch_fail(r->error, CH_ERROR_FORMAT, "%s: tensor %s %s", r->where,
                 ch_json_quote(name, quoted, sizeof quoted), what);
}

/* Types of the format that models cannot have. A file with a tensor of such a type is accepted, because the model may
   not need the tensor. */
static const struct foreign {
  const char *name;
  int bits;
} foreign_types[] = {{"BOOL", 8},        {"I8", 8},          {"U16", 16},    {"I16", 16},    {"U32", 32},
                     {"U64", 64},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
                     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}};

static const struct foreign *foreign_named(const char *name) {
  for (size_t i = 0; i < sizeof foreign_types / sizeof *foreign_types; i++)
    if (strcmp(foreign_types[i].name, name) == 0) return &foreign_types[i];
  return NULL;
}

/* Reads a shape. *bytes receives the size of the tensor, whose elements have `bits` bits. */
static ch_status parse_shape(const reader *r, const char *name, const json_t *shape, int bits,
                             ch_tensor *tensor, uint64_t *bytes) {
  if (!json_is_array(shape)) return bad_tensor(r, name, "has no \"shape\", a list of sizes");
  if (json_array_size(shape) > CH_MAX_RANK)
    return bad_tensor(r, name, "has %zu dimensions; at most %d are read", json_array_size(shape),
                      CH_MAX_RANK);
  tensor->rank = (int)json_array_size(shape);
  int64_t total = bits;
  for (int i = 0; i < tensor->rank; i++) {
    const json_t *size = json_array_get(shape, (size_t)i);
    if (!json_is_integer(size) || json_integer_value(size) < 0) {
      char shown[80];
      return bad_tensor(r, name, "has %s in its shape; sizes must be whole numbers from 0",
                        ch_json_show(size, shown, sizeof shown));
    }
    tensor->shape[i] = json_integer_value(size);
    if (__builtin_mul_overflow(total, tensor->shape[i], &total))
      return bad_tensor(r, name, "has a shape whose size overflows; its data must fit the file");
  }
  if (total % 8 != 0) return bad_tensor(r, name, "has a shape whose elements do not fill whole bytes");
  *bytes = (uint64_t)total / 8;
  return CH_OK;
}

static ch_status parse_offsets(const reader *r, const char *name, const json_t *offsets, uint64_t bytes,
                               uint64_t *begin) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return bad_tensor(r, name, "has no \"data_offsets\", a list of two whole numbers");
  int64_t from = json_integer_value(first), to = json_integer_value(last);
  if (from < 0 || to < from)
    return bad_tensor(r, name, "has data_offsets [%" PRId64 ", %" PRId64 "]; they must rise from 0 or more",
                      from, to);
  if ((uint64_t)to > r->data_size)
    return bad_tensor(
        r, name, "ends at byte %" PRId64 " of the data, of which the file has %" PRIu64 "; it is truncated",
        to, r->data_size);
  if ((uint64_t)(to - from) != bytes)
    return bad_tensor(r, name, "has %" PRId64 " bytes of data where its shape and type need %" PRIu64,
                      to - from, bytes);
  *begin = (uint64_t)from;
  return CH_OK;
}

static ch_status parse_tensor(const reader *r, const char *name, const json_t *entry,
                              ch_stored_tensor *stored) {
  ch_tensor *tensor = &stored->tensor;
  const json_t *dtype = json_object_get(entry, "dtype");
  if (!json_is_string(dtype) || json_object_size(entry) != 3)
    return bad_tensor(r, name, "must have exactly \"dtype\", \"shape\" and \"data_offsets\"");
  const struct foreign *foreign = foreign_named(json_string_value(dtype));
  if (!foreign && (!ch_dtype_parse(json_string_value(dtype), &tensor->dtype) ||
                   ch_dtype_is_block_quantised(tensor->dtype))) {
    char shown[80];
    return bad_tensor(
        r, name,
        "has type %s, which safetensors does not have; F32, F64, F16, BF16, I32, I64 and U8 are read",
        ch_json_show(dtype, shown, sizeof shown));
  }
  int bits = foreign ? foreign->bits : 8 * (int)ch_dtype_size(tensor->dtype);
  uint64_t bytes = 0, begin = 0;
  CH_TRY(parse_shape(r, name, json_object_get(entry, "shape"), bits, tensor, &bytes));
  CH_TRY(parse_offsets(r, name, json_object_get(entry, "data_offsets"), bytes, &begin));
  if (foreign) {
    *tensor = (ch_tensor){.dtype = CH_U8, .rank = 1, .shape = {(int64_t)bytes}};
    stored->foreign = foreign->name;
  }
  tensor->data = (void *)(r->data + begin);
  return CH_OK;
}

/* Adds a tensor. Takes over `name`. */
static ch_status add_tensor(reader *r, char *name, const json_t *entry) {
  ch_safetensors *file = r->file;
  if (file->count == r->capacity) {
    int64_t capacity = r->capacity ? 2 * r->capacity : 64;
    ch_stored_tensor *tensors = realloc(file->tensors, (size_t)capacity * sizeof *tensors);
    if (!tensors) {
      free(name);
      return ch_no_memory(r->error);
    }
    file->tensors = tensors;
    r->capacity = capacity;
  }
  ch_stored_tensor *stored = &file->tensors[file->count++];
  *stored = (ch_stored_tensor){.name = name};
  return parse_tensor(r, name, entry, stored);
}

static bool all_strings(const json_t *object) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    if (!json_is_string(value)) return false;
  }
  return true;
}

static ch_status add_metadata(reader *r, const json_t *entry, const char *start, const char *end) {
  if (r->file->metadata) return bad_header(r, "has __metadata__ twice");
  if (!all_strings(entry)) return bad_header(r, "has a __metadata__ that is not an object of strings");
  r->file->metadata = strndup(start, (size_t)(end - start));
  return r->file->metadata ? CH_OK : ch_no_memory(r->error);
}

/* Reads "name": {...}. */
static ch_status parse_entry(reader *r) {
  const char *start = r->at, *end = next_token(r) == '"' ? skip_string(r->at, r->end) : NULL;
  if (!end) return bad_header(r, "is not valid JSON: a tensor's name is needed");
  char *name = parse_name(start, end);
  if (!name) return bad_header(r, "is not valid JSON: a tensor's name is broken or too long");
  bool metadata = strcmp(name, "__metadata__") == 0;
  r->at = end;
  bool colon = next_token(r) == ':';
  r->at += colon;
  start = colon && next_token(r) == '{' ? r->at : NULL;
  end = start ? skip_object(start, r->end) : NULL;
  ch_status status = CH_OK;
  json_t *entry = NULL;
  if (!end)
    status = bad_tensor(r, name, "is not described by a JSON object that ends");
  else if ((size_t)(end - start) > (metadata ? MOST_METADATA_BYTES : MOST_ENTRY_BYTES))
    status = bad_tensor(r, name, "has a description of %zu bytes, which is too long", (size_t)(end - start));
  else
    status = ch_json_parse(start, (size_t)(end - start), name, &entry, NULL);
  if (status != CH_OK && end && !entry)
    status = bad_tensor(r, name, "has a description that is not valid JSON");
  if (status == CH_OK && metadata) status = add_metadata(r, entry, start, end);
  if (status == CH_OK && !metadata) {
    status = add_tensor(r, name, entry);
    name = NULL; /* add_tensor took it over */
  }
  json_decref(entry);
  free(name);
  r->at = end ? end : r->end;
  return status;
}

static ch_status parse_header(reader *r) {
  if (next_token(r) != '{') return bad_header(r, "is not a JSON object");
  r->at++;
  if (next_token(r) == '}')
    r->at++;
  else
    for (char separator = ','; separator == ',';) {
      next_token(r);
      CH_TRY(parse_entry(r));
      separator = next_token(r);
      if (separator != ',' && separator != '}')
        return bad_header(r, "is not valid JSON: \",\" or \"}\" is needed");
      r->at++;
    }
  next_token(r);
  return r->at == r->end ? CH_OK : bad_header(r, "has bytes after its JSON object");
}

/* --- the whole file ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const ch_stored_tensor *)a)->name, ((const ch_stored_tensor *)b)->name);
}

/* Orders by place in the file. An empty tensor comes before another tensor at the same place. */
static int by_place(const void *a, const void *b) {
  const ch_tensor *x = &((const ch_stored_tensor *)a)->tensor, *y = &((const ch_stored_tensor *)b)->tensor;
  if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
  size_t nx = ch_tensor_bytes(x), ny = ch_tensor_bytes(y);
  return nx < ny ? -1 : nx > ny;
}

/* Fails if tensors overlap or leave bytes unused. The official readers require this too. */
static ch_status check_tiling(const reader *r) {
  ch_safetensors *file = r->file;
  if (file->count) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_place);
  const unsigned char *place = r->data;
  for (int64_t i = 0; i < file->count; i++) {
    const ch_stored_tensor *stored = &file->tensors[i];
    const unsigned char *start = stored->tensor.data;
    if (start < place) return bad_tensor(r, stored->name, "overlaps the data of another one");
    if (start > place)
      return bad_tensor(r, stored->name, "leaves %zu unused bytes before its data", (size_t)(start - place));
    place = start + ch_tensor_bytes(&stored->tensor);
  }
  size_t left = (size_t)(r->data + r->data_size - place);
  if (left > 0)
    return ch_fail(r->error, CH_ERROR_FORMAT, "%s: %zu bytes after the last tensor belong to none", r->where,
                   left);
  return CH_OK;
}

static ch_status check_names(const reader *r) {
  ch_safetensors *file = r->file;
  if (file->count) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_name);
  for (int64_t i = 1; i < file->count; i++)
    if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
      return bad_tensor(r, file->tensors[i].name, "appears twice");
  return CH_OK;
}

/* Sets the types of block-quantised matrices, which are in the metadata under their names. */
static ch_status find_blocks(const reader *r) {
  json_t *metadata = NULL, *value;
  const char *name;
  if (!r->file->metadata) return CH_OK;
  CH_TRY(ch_json_parse(r->file->metadata, strlen(r->file->metadata), r->where, &metadata, r->error));
  ch_status status = CH_OK;
  json_object_foreach(metadata, name, value) {
    ch_stored_tensor *stored = (ch_stored_tensor *)ch_safetensors_find(r->file, name);
    ch_dtype dtype;
    if (status != CH_OK || !stored || !ch_dtype_parse(json_string_value(value), &dtype) ||
        !ch_dtype_is_block_quantised(dtype))
      continue;
    ch_tensor *tensor = &stored->tensor;
    int64_t bytes = (int64_t)ch_dtype_bytes(dtype, ch_dtype_block(dtype));
    if (tensor->dtype != CH_U8 || tensor->rank != 2 || tensor->shape[1] % bytes != 0) {
      status = bad_tensor(r, name,
                          "is said to be %s, so it must be U8 [rows, bytes] with whole blocks of %" PRId64
                          " bytes in a row",
                          ch_dtype_name(dtype), bytes);
      continue;
    }
    tensor->dtype = dtype;
    tensor->shape[1] = tensor->shape[1] / bytes * ch_dtype_block(dtype);
  }
  json_decref(metadata);
  return status;
}

static ch_status parse_file(const unsigned char *bytes, uint64_t size, reader *r) {
  if (size < 8)
    return ch_fail(r->error, CH_ERROR_FORMAT, "%s has %" PRIu64 " bytes; a safetensors file has at least 8",
                   r->where, size);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
  if (length > size - 8 || length > MOST_HEADER_BYTES) {
    if (memcmp(bytes, "GGUF", 4) == 0)
      return ch_fail(
          r->error, CH_ERROR_FORMAT,
          "%s is a GGUF file, not safetensors; convert it to a model directory with `crosshead import`",
          r->where);
    CH_TRY(ch_refuse_mistaken(r->where, bytes, size, false, r->error));
    return ch_fail(r->error, CH_ERROR_FORMAT,
                   "%s is truncated or not a safetensors file: it announces a header of %" PRIu64
                   " bytes and has %" PRIu64 " (the limit is %d)",
                   r->where, length, size - 8, MOST_HEADER_BYTES);
  }
  r->at = (const char *)bytes + 8;
  r->end = r->at + length;
  r->data = bytes + 8 + length;
  r->data_size = size - 8 - length;
  CH_TRY(parse_header(r));
  CH_TRY(check_tiling(r));
  CH_TRY(check_names(r));
  return find_blocks(r);
}

ch_status ch_safetensors_parse(const void *data, size_t size, const char *where, ch_safetensors *file,
                               ch_error *error) {
  *file = (ch_safetensors){0};
  reader r = {.where = where, .file = file, .error = error};
  ch_status status = parse_file(data, size, &r);
  if (status != CH_OK) ch_safetensors_close(file);
  return status;
}

ch_status ch_safetensors_open(const char *path, ch_safetensors *file, ch_error *error) {
  *file = (ch_safetensors){0};
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  ch_status status = ch_safetensors_parse(map.data, map.size, path, file, error);
  if (status != CH_OK) ch_map_close(&map);
  file->map = map;
  return status;
}

void ch_safetensors_close(ch_safetensors *file) {
  for (int64_t i = 0; i < file->count; i++) free(file->tensors[i].name);
  free(file->tensors);
  free(file->metadata);
  ch_map_close(&file->map);
  *file = (ch_safetensors){0};
}

const ch_stored_tensor *ch_safetensors_find(const ch_safetensors *file, const char *name) {
  ch_stored_tensor key = {.name = (char *)name};
  return file->count ? bsearch(&key, file->tensors, (size_t)file->count, sizeof key, by_name) : NULL;
}

/* --- writing -------------------------------------------------------------------------------------------- */

/* Fills `order`: tensors with wider elements first, then in their given order. Blocks count as two bytes wide, because
   they begin with 16-bit scales. */
static void lay_out(const ch_stored_tensor *tensors, int64_t count, int64_t *order) {
  int64_t n = 0;
  for (size_t size = 8; size > 0; size /= 2)
    for (int64_t i = 0; i < count; i++) {
      ch_dtype dtype = tensors[i].tensor.dtype;
      if ((ch_dtype_is_block_quantised(dtype) ? 2 : ch_dtype_size(dtype)) == size) order[n++] = i;
    }
}

/* Writes the metadata, an object of strings or NULL, and adds the types of block-quantised tensors. */
static void put_metadata(const char *metadata, const ch_stored_tensor *tensors, int64_t count,
                         ch_text *json) {
  size_t length = metadata ? strlen(metadata) : 0;
  bool empty = length <= 2;
  int64_t in_blocks = 0;
  for (int64_t i = 0; i < count; i++) in_blocks += ch_dtype_is_block_quantised(tensors[i].tensor.dtype);
  if (!metadata && !in_blocks) return;
  ch_text_puts(json, "\"__metadata__\":");
  ch_text_put(json, metadata ? metadata : "{}", metadata ? length - 1 : 1); /* without its last brace */
  for (int64_t i = 0; i < count; i++) {
    if (!ch_dtype_is_block_quantised(tensors[i].tensor.dtype)) continue;
    if (!empty) ch_text_puts(json, ",");
    empty = false;
    ch_json_put_string(json, tensors[i].name);
    ch_text_printf(json, ":\"%s\"", ch_dtype_name(tensors[i].tensor.dtype));
  }
  ch_text_puts(json, count ? "}," : "}");
}

/* Writes the shape as it is in the header, where blocks count in bytes. */
static const char *stored_shape(ch_tensor tensor, char *buffer, size_t size) {
  if (ch_dtype_is_block_quantised(tensor.dtype))
    tensor.shape[tensor.rank - 1] = (int64_t)ch_dtype_bytes(tensor.dtype, tensor.shape[tensor.rank - 1]);
  return ch_shape_text(tensor.rank, tensor.shape, buffer, size);
}

ch_status ch_safetensors_layout(const ch_stored_tensor *tensors, int64_t count, const char *metadata,
                                ch_text *header, int64_t *order, ch_error *error) {
  lay_out(tensors, count, order);
  ch_text json = {0};
  ch_text_puts(&json, "{");
  put_metadata(metadata, tensors, count, &json);
  uint64_t offset = 0;
  for (int64_t i = 0; i < count; i++) {
    const ch_stored_tensor *stored = &tensors[order[i]];
    uint64_t end = offset + ch_tensor_bytes(&stored->tensor);
    char shape[128];
    if (i) ch_text_puts(&json, ",");
    ch_json_put_string(&json, stored->name);
    ch_text_printf(&json, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                   ch_dtype_is_block_quantised(stored->tensor.dtype) ? "U8"
                                                                     : ch_dtype_name(stored->tensor.dtype),
                   stored_shape(stored->tensor, shape, sizeof shape), offset, end);
    offset = end;
  }
  ch_text_puts(&json, "}");
  while (!json.failed && json.size % 64 != 64 - 8) ch_text_puts(&json, " ");
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)json.size >> 8 * i);
  ch_text_put(header, (const char *)length, sizeof length);
  ch_text_put(header, json.data, json.failed ? 0 : json.size);
  bool failed = json.failed || header->failed, large = json.size > MOST_HEADER_BYTES;
  ch_text_free(&json);
  if (failed) return ch_no_memory(error);
  if (large)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the header of %" PRId64 " tensors is too large", count);
  return CH_OK;
}

static ch_status given(void *context, int64_t index, const void **data, ch_error *error) {
  const ch_stored_tensor *tensors = context;
  (void)error;
  *data = tensors[index].tensor.data;
  return CH_OK;
}

ch_status ch_safetensors_write(const char *path, const ch_stored_tensor *tensors, int64_t count,
                               const char *metadata, ch_error *error) {
  return ch_safetensors_write_made(path, tensors, count, metadata, given, (void *)(uintptr_t)tensors, error);
}

ch_status ch_safetensors_write_made(const char *path, const ch_stored_tensor *tensors, int64_t count,
                                    const char *metadata, ch_tensor_maker make, void *context,
                                    ch_error *error) {
  ch_text header = {0};
  ch_writer writer = {0};
  int64_t *order = malloc(((size_t)count + 1) * sizeof *order);
  ch_status status = CH_OK;
  if (!order) return ch_no_memory(error);
  CH_TRY_GOTO(ch_safetensors_layout(tensors, count, metadata, &header, order, error));
  CH_TRY_GOTO(ch_writer_open(&writer, path, error));
  CH_TRY_GOTO(ch_writer_put(&writer, header.data, header.size, error));
  for (int64_t i = 0; i < count; i++) {
    const void *data;
    CH_TRY_GOTO(make(context, order[i], &data, error));
    CH_TRY_GOTO(ch_writer_put(&writer, data, ch_tensor_bytes(&tensors[order[i]].tensor), error));
  }
  status = ch_writer_commit(&writer, error);
done:
  ch_writer_abort(&writer);
  ch_text_free(&header);
  free(order);
  return status;
}

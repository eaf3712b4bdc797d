/* GGUF files: metadata by name, and tensors in ggml's element types. Files are memory-mapped and checked, so that
   hostile ones are safe to open. */
#ifndef CH_FORMATS_GGUF_H
#define CH_FORMATS_GGUF_H

#include "base/file.h"
#include "formats/blocks.h"

/* Type numbers of GGUF files. */
typedef enum ch_gguf_type {
  CH_GGUF_U8,
  CH_GGUF_I8,
  CH_GGUF_U16,
  CH_GGUF_I16,
  CH_GGUF_U32,
  CH_GGUF_I32,
  CH_GGUF_F32,
  CH_GGUF_BOOL,
  CH_GGUF_STRING,
  CH_GGUF_ARRAY,
  CH_GGUF_U64,
  CH_GGUF_I64,
  CH_GGUF_F64,
  CH_GGUF_TYPES
} ch_gguf_type;

/* Bytes in the file, not NUL-terminated. */
typedef struct ch_gguf_string {
  const char *data;
  size_t size;
} ch_gguf_string;

typedef struct ch_gguf_value {
  char *key;
  ch_gguf_type type; /* type of the value, or of a list's elements */
  bool list;
  uint64_t count; /* number of elements; 1 if the value is not a list */
  const unsigned char *data;
} ch_gguf_value;

enum { CH_GGUF_MAX_RANK = 4 };

typedef struct ch_gguf_tensor {
  char *name;
  const ch_block_format *format;
  int rank;
  int64_t shape[CH_GGUF_MAX_RANK]; /* [rank], the last dimension contiguous (reversed in files) */
  const unsigned char *data;
  size_t bytes;
} ch_gguf_tensor;

typedef struct ch_gguf {
  char *where; /* name for messages */
  ch_map map;
  ch_gguf_value *values; /* sorted by key */
  int64_t value_count;
  ch_gguf_tensor *tensors; /* sorted by name */
  int64_t tensor_count;
  struct ch_gguf *parts; /* the other files of a split model, or NULL; `tensors` includes their tensors */
  int64_t part_count;
} ch_gguf;

/* Opens and checks a file: counts, lengths and types must fit its size, keys and names be unique, and tensors be
   in range without overlap. Memory grows with the number of keys and tensors. Release with ch_gguf_close, also
   after a failure. */
ch_status ch_gguf_open(const char *path, ch_gguf *file, ch_error *error);
/* Opens a model that may be split over several files; `path` is the first. The others are found by their
   names, NAME-00002-of-00003.gguf. Each must exist and be the part that its name gives. */
ch_status ch_gguf_open_parts(const char *path, ch_gguf *file, ch_error *error);
/* Parses a file in memory. `data` must outlive `file`. `where` is for messages. */
ch_status ch_gguf_parse(const void *data, size_t size, const char *where, ch_gguf *file, ch_error *error);
void ch_gguf_close(ch_gguf *file);
/* Releases mapped memory of the file or part that it belongs to, like ch_map_forget. */
void ch_gguf_forget(const ch_gguf *file, const void *data, size_t bytes);

/* Returns the value of a key, or NULL if there is none. */
const ch_gguf_value *ch_gguf_find(const ch_gguf *file, const char *key);
const ch_gguf_tensor *ch_gguf_find_tensor(const ch_gguf *file, const char *name);
/* Returns true if a string of the file is `word`. */
bool ch_gguf_is(ch_gguf_string text, const char *word);
/* Compares two ch_gguf_tensor by name, for qsort and bsearch. */
int ch_gguf_by_name(const void *a, const void *b);

/* The next four functions read the value of a key. If the key is absent, they fail if `required`; otherwise the result
   does not change. A list, or a value of another type, is an error, but ch_gguf_bool accepts the numbers 0 and 1. */
ch_status ch_gguf_whole(const ch_gguf *file, const char *key, bool required, int64_t *value, ch_error *error);
ch_status ch_gguf_number(const ch_gguf *file, const char *key, bool required, double *value, ch_error *error);
ch_status ch_gguf_bool(const ch_gguf *file, const char *key, bool *value, ch_error *error);
ch_status ch_gguf_text(const ch_gguf *file, const char *key, bool required, ch_gguf_string *text,
                       ch_error *error);
/* Finds a list of strings (`type` CH_GGUF_STRING) or of numbers of any type (any other `type`). *value is NULL
   if the list is absent and not required. */
ch_status ch_gguf_list(const ch_gguf *file, const char *key, ch_gguf_type type, bool required,
                       const ch_gguf_value **value, ch_error *error);

/* Returns element i of a list of numbers of any type as a double. */
double ch_gguf_number_at(const ch_gguf_value *value, uint64_t i);
/* Reads element i of a value or list of integers. Returns false for floats, booleans and numbers beyond 2^53. */
bool ch_gguf_whole_at(const ch_gguf_value *value, uint64_t i, int64_t *whole);
/* Returns the string at *at, and moves *at past it. */
ch_gguf_string ch_gguf_next_string(const unsigned char **at);

#endif

/* Mapping, and inflating with zlib. */
#include "images/file_bytes.h"

#include <stdlib.h>
#include <stdint.h>
#include <zlib.h>

static const size_t most_inflated = (size_t)4 << 30;
enum { FIRST_ROOM = 1 << 16, GZIP_WINDOW = 15 + 16 /* with a gzip header */ };

/* zlib counts in 32 bits: some of what is left. */
static unsigned some_of(size_t left) {
  return left < (1u << 30) ? (unsigned)left : 1u << 30;
}

/* Twice the room, or an error. */
static ch_status grow(ch_file_bytes *bytes, size_t *room, const char *where, ch_error *error) {
  size_t larger = *room ? 2 * *room : FIRST_ROOM;
  if (*room >= most_inflated)
    return ch_fail(error, CH_ERROR_FORMAT, "%s inflates to more than 4 GiB, which no set of images here does",
                   where);
  void *data = realloc(bytes->inflated, larger);
  if (!data) return ch_fail(error, CH_ERROR_MEMORY, "no memory to inflate %s", where);
  bytes->inflated = data;
  *room = larger;
  return CH_OK;
}

/* One member after another, as gzip allows. */
static ch_status inflate_all(z_stream *stream, const unsigned char *data, size_t size, const char *where,
                             ch_file_bytes *bytes, ch_error *error) {
  size_t taken = 0, room = 0;
  for (;;) {
    if (bytes->size == room) CH_TRY(grow(bytes, &room, where, error));
    stream->next_in = (unsigned char *)(uintptr_t)(data + taken);
    stream->avail_in = some_of(size - taken);
    stream->next_out = (unsigned char *)bytes->inflated + bytes->size;
    stream->avail_out = some_of(room - bytes->size);
    unsigned in = stream->avail_in, out = stream->avail_out;
    int result = inflate(stream, Z_NO_FLUSH);
    taken += in - stream->avail_in;
    bytes->size += out - stream->avail_out;
    if (result == Z_STREAM_END && taken == size) return CH_OK;
    if (result == Z_STREAM_END) result = inflateReset(stream);
    bool stuck = in == stream->avail_in && out == stream->avail_out;
    if (result != Z_OK || (stuck && taken == size))
      return ch_fail(error, CH_ERROR_FORMAT, "%s is a damaged gzip file, or cut short; fetch it again",
                     where);
  }
}

ch_status ch_file_bytes_of(const void *data, size_t size, const char *where, ch_file_bytes *bytes,
                           ch_error *error) {
  static const unsigned char magic[] = {0x1f, 0x8b};
  const unsigned char *given = data;
  *bytes = (ch_file_bytes){.data = given, .size = size};
  if (size < sizeof magic || given[0] != magic[0] || given[1] != magic[1]) return CH_OK;
  z_stream stream = {0};
  bytes->size = 0;
  if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory to inflate %s", where);
  ch_status status = inflate_all(&stream, given, size, where, bytes, error);
  inflateEnd(&stream);
  bytes->data = bytes->inflated;
  return status;
}

ch_status ch_file_bytes_open(const char *path, ch_file_bytes *bytes, ch_error *error) {
  *bytes = (ch_file_bytes){0};
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  ch_status status = ch_file_bytes_of(map.data, map.size, path, bytes, error);
  if (bytes->inflated)
    ch_map_close(&map); /* nothing of it is needed any more */
  else
    bytes->map = map;
  return status;
}

void ch_file_bytes_close(ch_file_bytes *bytes) {
  ch_map_close(&bytes->map);
  free(bytes->inflated);
  *bytes = (ch_file_bytes){0};
}

/* Maps a file, or decompresses it into memory with zlib or libbz2. The format is recognised by the first bytes, not by
 * the name. */
#include "base/file_bytes.h"

#include <bzlib.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

static const size_t most_inflated = (size_t)4 << 30;
enum { FIRST_ROOM = 1 << 16, GZIP_WINDOW = 15 + 16 /* zlib: + 16 reads gzip headers */ };

/* Returns `left`, limited to 2^30: zlib and libbz2 count in 32 bits. */
static unsigned some_of(size_t left) {
  return left < (1u << 30) ? (unsigned)left : 1u << 30;
}

/* Doubles the memory of the unpacked bytes. Fails if the file unpacks to more than 4 GiB. */
static ch_status grow(ch_file_bytes *bytes, size_t *room, const char *where, ch_error *error) {
  size_t larger = *room ? 2 * *room : FIRST_ROOM;
  if (*room >= most_inflated)
    return ch_fail(error, CH_ERROR_FORMAT, "%s unpacks to more than 4 GiB, the limit for data sets", where);
  void *data = realloc(bytes->inflated, larger);
  if (!data) return ch_no_memory(error);
  bytes->inflated = data;
  *room = larger;
  return CH_OK;
}

/* Unpacks one member after another, as gzip allows. */
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
      return ch_fail(error, CH_ERROR_FORMAT, "%s is a damaged or truncated gzip file; download it again",
                     where);
  }
}

static ch_status inflate_gzip(const unsigned char *data, size_t size, const char *where, ch_file_bytes *bytes,
                              ch_error *error) {
  z_stream stream = {0};
  if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK) return ch_no_memory(error);
  ch_status status = inflate_all(&stream, data, size, where, bytes, error);
  inflateEnd(&stream);
  return status;
}

/* Unpacks one stream after another, as bzip2 allows. */
static ch_status unpack_bzip2(const unsigned char *data, size_t size, const char *where, ch_file_bytes *bytes,
                              ch_error *error) {
  size_t taken = 0, room = 0;
  ch_status status = CH_OK;
  while (status == CH_OK && taken < size) {
    bz_stream stream = {0};
    int result = BZ2_bzDecompressInit(&stream, 0, 0);
    if (result != BZ_OK) return ch_no_memory(error);
    while (status == CH_OK && result != BZ_STREAM_END) {
      if (bytes->size == room) CH_TRY_GOTO(grow(bytes, &room, where, error));
      stream.next_in = (char *)(uintptr_t)(data + taken);
      stream.avail_in = some_of(size - taken);
      stream.next_out = (char *)bytes->inflated + bytes->size;
      stream.avail_out = some_of(room - bytes->size);
      unsigned in = stream.avail_in, out = stream.avail_out;
      result = BZ2_bzDecompress(&stream);
      taken += in - stream.avail_in;
      bytes->size += out - stream.avail_out;
      bool stuck = in == stream.avail_in && out == stream.avail_out;
      if ((result != BZ_OK && result != BZ_STREAM_END) || (stuck && result == BZ_OK))
        status = ch_fail(error, CH_ERROR_FORMAT, "%s is a damaged or truncated bzip2 file; download it again",
                         where);
    }
  done:
    BZ2_bzDecompressEnd(&stream);
  }
  return status;
}

ch_status ch_file_bytes_of(const void *data, size_t size, const char *where, ch_file_bytes *bytes,
                           ch_error *error) {
  const unsigned char *given = data;
  *bytes = (ch_file_bytes){.data = given, .size = size};
  bool gzip = size >= 2 && given[0] == 0x1f && given[1] == 0x8b;
  bool bzip2 = size >= 10 && memcmp(given, "BZh", 3) == 0 && given[3] >= '1' && given[3] <= '9' &&
               (memcmp(given + 4, "1AY&SY", 6) == 0 || memcmp(given + 4, "\x17rE8P\x90", 6) == 0);
  if (!gzip && !bzip2) return CH_OK;
  bytes->size = 0;
  ch_status status =
      gzip ? inflate_gzip(given, size, where, bytes, error) : unpack_bzip2(given, size, where, bytes, error);
  bytes->data = bytes->inflated;
  return status;
}

ch_status ch_file_bytes_open(const char *path, ch_file_bytes *bytes, ch_error *error) {
  *bytes = (ch_file_bytes){0};
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  ch_status status = ch_file_bytes_of(map.data, map.size, path, bytes, error);
  if (bytes->inflated)
    ch_map_close(&map);
  else
    bytes->map = map;
  return status;
}

void ch_file_bytes_close(ch_file_bytes *bytes) {
  ch_map_close(&bytes->map);
  free(bytes->inflated);
  *bytes = (ch_file_bytes){0};
}

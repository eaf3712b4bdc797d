/* The bytes of a file: mapped, or decompressed in memory if the file is compressed with gzip or bzip2. */
#ifndef CH_BASE_FILE_BYTES_H
#define CH_BASE_FILE_BYTES_H

#include "base/file.h"

typedef struct ch_file_bytes {
  const unsigned char *data;
  size_t size;
  ch_map map;     /* mapping of a file that is not compressed */
  void *inflated; /* decompressed contents of a compressed file, or NULL */
} ch_file_bytes;

/* Opens a file. Release with ch_file_bytes_close, also after a failure. Fails if a compressed file is damaged or
   truncated, or decompresses to more than 4 GiB. */
ch_status ch_file_bytes_open(const char *path, ch_file_bytes *bytes, ch_error *error);
/* Like ch_file_bytes_open, for memory, which must outlive `bytes`. `where` names it in messages. */
ch_status ch_file_bytes_of(const void *data, size_t size, const char *where, ch_file_bytes *bytes,
                           ch_error *error);
void ch_file_bytes_close(ch_file_bytes *bytes);

#endif

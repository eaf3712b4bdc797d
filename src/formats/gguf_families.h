/* The architectures of GGUF files that can be imported. */
#ifndef CH_FORMATS_GGUF_FAMILIES_H
#define CH_FORMATS_GGUF_FAMILIES_H

#include "formats/gguf_metadata.h"

/* Returns the name, as a constant, if it is one of theirs, else NULL. *turned: ch_gguf_turns_rows. */
const char *ch_gguf_family_named(const char *name, size_t size, bool *turned);
/* Reads the configuration from the metadata of such an architecture. */
ch_status ch_gguf_read_family(ch_metadata *m, ch_config *config);

#endif

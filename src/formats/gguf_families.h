/* GGUF's architectures of adopted families (config_file/adopted.h). gguf_config.c reads the others. */
#ifndef CH_FORMATS_GGUF_FAMILIES_H
#define CH_FORMATS_GGUF_FAMILIES_H

#include "formats/gguf_metadata.h"

/* Returns the architecture's name as a constant, or NULL if it is not supported. *turned: the result of
   ch_gguf_turns_rows. */
const char *ch_gguf_family_named(const char *name, size_t size, bool *turned);
/* Reads the configuration from the metadata of one of these architectures. */
ch_status ch_gguf_read_family(ch_metadata *m, ch_config *config);

#endif

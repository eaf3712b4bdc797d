/* Metadata of a GGUF file by their names without the architecture's prefix: "block_count" for
   "llama.block_count". */
#ifndef CH_FORMATS_GGUF_METADATA_H
#define CH_FORMATS_GGUF_METADATA_H

#include "config/config.h"
#include "formats/gguf.h"

/* The caller sets the first three members. */
typedef struct ch_metadata {
  const ch_gguf *file;
  const char *architecture;
  ch_error *error;
  char key[96]; /* the key that ch_metadata_key returned last */
} ch_metadata;

/* Returns the whole key of a name, valid until the next call. */
const char *ch_metadata_key(ch_metadata *m, const char *name);
/* These functions read values like ch_gguf_whole and ch_gguf_number. Numbers get the fewest digits that give the stored
   F32: 1e-06 for 9.99999997e-07. */
ch_status ch_metadata_whole(ch_metadata *m, const char *name, bool required, int64_t *value);
ch_status ch_metadata_number(ch_metadata *m, const char *name, bool required, double *value);
/* Returns the number with the fewest digits that rounds to the same F32. */
double ch_metadata_tidy(double value);
/* Reads a number, or a list of numbers, one per layer, which must be equal. */
ch_status ch_metadata_of_layers(ch_metadata *m, const char *name, bool required, int64_t *value);
/* Reads linear scaling and YaRN from the keys "rope.scaling.*", or linear scaling from the old "rope.scale_linear". */
ch_status ch_metadata_scaling(ch_metadata *m, ch_rope_scaling *scaling);

/* Reads the keys of latent attention and experts of architecture deepseek2. Defined in gguf_deepseek.c. */
ch_status ch_gguf_read_deepseek(ch_metadata *m, ch_config *config);

#endif

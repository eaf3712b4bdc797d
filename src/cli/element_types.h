/* Element types that commands write matrices in, by the names of --dtype. */
#ifndef CH_CLI_ELEMENT_TYPES_H
#define CH_CLI_ELEMENT_TYPES_H

#include "tensor/tensor.h"

/* f32, f16, bf16; NULL-terminated, for an option's choices. */
extern const char *const ch_element_type_names[];
/* The type of a name of that list; NULL where `name` is NULL or none of them. The result is static. */
const ch_dtype *ch_element_type(const char *name);
/* The name of a type of that list, or NULL. */
const char *ch_element_type_name(ch_dtype dtype);

/* --compute: what large products multiply is rounded to (ch_model.compute), and its row in a command's options. */
extern const char *const ch_compute_names[];
ch_dtype ch_compute_type(const char *name);
#define CH_COMPUTE_OPTION(arguments, member)                                                                 \
  {                                                                                                          \
    .name = "compute", .type = CH_OPTION_CHOICE, .offset = offsetof(arguments, member), .metavar = "TYPE",   \
    .default_value = "f32", .choices = ch_compute_names,                                                     \
    .help = "What products of many rows multiply: f32, or numbers rounded to bf16 with sums in f32, which "  \
            "is faster "                                                                                     \
            "where the processor has instructions for it."                                                   \
  }

#endif

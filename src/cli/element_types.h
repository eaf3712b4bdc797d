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

#endif

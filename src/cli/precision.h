/* Element types by the names of --dtype and --type, for the functions of the library. */
#ifndef CH_CLI_PRECISION_H
#define CH_CLI_PRECISION_H

#include <stddef.h>

#include <crosshead/common.h>

/* The names f32, f16 and bf16, NULL-terminated, for ch_option.choices. */
extern const char *const ch_element_type_names[];
/* Returns the precision of a name, also of "q8_0" and "f64"; CH_PRECISION_DEFAULT for NULL and for unknown names. */
ch_precision ch_precision_of(const char *name);

/* --compute: the arithmetic of large products, f32 or bf16, and its row in a command's options. */
extern const char *const ch_compute_names[];
#define CH_COMPUTE_OPTION(arguments, member, other)                                                          \
  CH_CHOICE_OPTION("compute", offsetof(arguments, member), "TYPE", ch_compute_names,                         \
                   "Arithmetic of large matrix products: f32, or bf16 with sums in f32, which is faster on " \
                   "processors with BF16 instructions.",                                                     \
                   .default_value = "f32", .alias = (other))

#endif

/* What keeping a dictionary of atoms in memory, instead of the matrices made of it, saves and costs. */
#ifndef CH_EVAL_DICTIONARY_COST_H
#define CH_EVAL_DICTIONARY_COST_H

#include "infer/model.h"

typedef struct ch_dictionary_cost {
  double slowdown;      /* a decoded token's time over that with matrices written out */
  double bytes;         /* of attention's weights as they are kept */
  double written_bytes; /* and as they would be */
} ch_dictionary_cost;

/* Measures single tokens of one sequence, both forms in turns. The matrices written out are stood in for by the atoms
   themselves: as many bytes to read, none to allocate. model: with "sharing.type" masa, in CH_FORM_INFERENCE. */
ch_status ch_dictionary_cost_measure(const ch_model *model, ch_dictionary_cost *cost, ch_error *error);

#endif

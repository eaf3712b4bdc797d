/* Mixture of experts: counts the choices of experts, sorts them by expert, and computes balancing's pull on
   each expert. */
#include "tensor/kernels/vector/variant.h"

void KERNEL(count_choices)(int64_t n, const int32_t *chosen, int64_t *load) {
  for (int64_t i = 0; i < n; i++) load[chosen[i]]++;
}

/* Sorts by counting. */
void KERNEL(sort_choices)(int64_t n, int64_t active, int64_t experts, const int32_t *chosen, int64_t *first,
                          int32_t *choice, int32_t *token, int32_t *place) {
  for (int64_t e = 0; e <= experts; e++) first[e] = 0;
  for (int64_t i = 0; i < n; i++) first[chosen[i] + 1]++;
  for (int64_t e = 0; e < experts; e++) first[e + 1] += first[e];
  for (int64_t i = 0; i < n; i++) {
    int32_t at = (int32_t)first[chosen[i]]++;
    choice[at] = (int32_t)i;
    token[at] = (int32_t)(i / active);
    place[i] = at;
  }
  /* Sorting advanced first[e] to the beginning of expert e + 1. */
  for (int64_t e = experts; e > 0; e--) first[e] = first[e - 1];
  first[0] = 0;
}

void KERNEL(balance_pulls)(int64_t sequences, int64_t n, int64_t experts, double unit, const int32_t *chosen,
                           void *pull) {
  for (int64_t s = 0; s < sequences; s++, chosen += n) {
    double pulls[CH_MAX_EXPERTS] = {0};
    for (int64_t i = 0; i < n; i++) pulls[chosen[i]] += unit;
    for (int64_t e = 0; e < experts; e++) ((real *)pull)[s * experts + e] = (real)pulls[e];
  }
}

/* Several products of one x: divides their rows of weights among threads. */
#ifndef CH_KERNELS_PRODUCTS_PRODUCTS_H
#define CH_KERNELS_PRODUCTS_PRODUCTS_H

#include "tensor/kernels/vector/variant.h"

/* Returns the number of a product's units. A unit is a row of weights or a group of `unit` rows; a product's
   last group may be shorter. Units are numbered through all products. */
static inline int64_t units_of_product(const ch_product *product, int64_t unit) {
  return (product->out + unit - 1) / unit;
}

static inline int64_t units_of_products(int count, const ch_product *products, int64_t unit) {
  int64_t units = 0;
  for (int p = 0; p < count; p++) units += units_of_product(&products[p], unit);
  return units;
}

/* Units first ... last - 1 of one product; `after`: the product whose first unit comes next, or NULL. */
typedef struct product_part {
  const ch_product *product, *after;
  int64_t first, last;
} product_part;

/* Finds the units from *first on, before `last`, that belong to one product. Moves *first past them.
   Returns false if there are none. */
static inline bool take_part(const ch_product *products, int64_t unit, int64_t *first, int64_t last,
                             product_part *part) {
  int64_t from = *first, to = last, units;
  if (from >= to) return false;
  for (; from >= (units = units_of_product(products, unit)); products++) from -= units, to -= units;
  *part = (product_part){products, to > units ? products + 1 : NULL, from, to < units ? to : units};
  *first += part->last - from;
  return true;
}

/* Returns true if the products are large enough for threads to share them. */
static inline bool share_products(int64_t rows, int64_t in, int count, const ch_product *products) {
  return rows * in * units_of_products(count, products, 1) >= CH_PARALLEL_ELEMENTS;
}

#endif

/* Python's random numbers (Mersenne Twister, MT19937): the same seed draws the same examples and resamples as the
 * harness. */
#ifndef CH_EVAL_TASKS_PYTHON_RANDOM_H
#define CH_EVAL_TASKS_PYTHON_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

enum { CH_PYTHON_STATE = 624 };

typedef struct ch_python_random {
  uint32_t state[CH_PYTHON_STATE];
  int next; /* index of the next word in `state` */
} ch_python_random;

/* Seeds as random.Random(seed). */
void ch_python_seed(ch_python_random *random, uint32_t seed);
/* Returns random.random(), uniform in [0, 1). */
double ch_python_uniform(ch_python_random *random);
/* Draws random.sample(range(population), count) into chosen [count]. Returns false when out of memory. */
bool ch_python_sample(ch_python_random *random, int64_t population, int64_t count, int64_t *chosen);
/* Returns random.randrange(bound), 0 < bound < 2^32, which random.choice draws too. */
int64_t ch_python_below(ch_python_random *random, int64_t bound);
/* Returns random.getrandbits(32), the next word. More bits are more words, the lowest first. */
uint32_t ch_python_word(ch_python_random *random);
/* Shuffles places [count] as random.shuffle. */
void ch_python_shuffle(ch_python_random *random, int64_t *places, int64_t count);

/* Seeds as numpy.random.RandomState(seed). */
void ch_numpy_seed(ch_python_random *random, uint32_t seed);
/* Returns RandomState.randint(low, high): low <= number < high. */
int64_t ch_numpy_randint(ch_python_random *random, int64_t low, int64_t high);

#endif

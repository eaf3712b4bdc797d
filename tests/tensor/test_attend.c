/* Tests streaming attention, forward, against naive attention in double, for all tables, shapes, masks and
 * state types. */
#include "tensor/attend_testing.h"

/* Attends over the keys in three spans. Each call continues the one before. */
static void forward_by_spans(const attend_data *d, ch_attend args, const ch_kernels *kernels) {
  test_scratch scratch;
  args.scratch = open_scratch(&scratch, kernels, &args, false, 3);
  const int64_t all = d->shape.past + args.queries, ends[] = {all / 3, all / 3 + 1 + all / 5, 0};
  for (int i = 0; i < 3; i++) {
    args.end_key = ends[i];
    args.continues = i > 0;
    kernels->attend_forward(&args);
    args.first_key = ends[i];
  }
  close_scratch(&scratch, describe(&d->shape));
}

/* Runs the case twice (once under a sanitizer) with each number of threads on each table. */
static void check_forward(ch_random *random, attend_case c) {
  attend_data *d = make_attend_data(random, c);
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    size_t size = ch_dtype_size(kernels->dtype);
    ch_attend args = make_attend_args(d, kernels);
    void *first = malloc((size_t)d->out_size * size);
    double *out_bound = bounds_on(d, kernels, d->out_size, d->out_bound, d->out_rounding),
           *lse_bound = bounds_on(d, kernels, d->lse_size, d->lse_bound, d->lse_rounding);
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      for (int run = 0; run < (SANITIZED ? 1 : 2); run++) {
        test_scratch scratch;
        args.scratch = open_scratch(&scratch, kernels, &args, false, (size_t)run * 5);
        memset(args.out, 0xff, (size_t)d->out_size * size);
        kernels->attend_forward(&args);
        close_scratch(&scratch, describe(&c));
        if (run == 0) memcpy(first, args.out, (size_t)d->out_size * size);
      }
      compare_values(describe(&c), kernels, threads, "out", d->out_size, args.out, d->out, out_bound);
      compare_values(describe(&c), kernels, threads, "lse", d->lse_size, args.lse, d->lse, lse_bound);
      if (memcmp(first, args.out, (size_t)d->out_size * size) != 0)
        fail_msg("%s, table %s, %d threads: two runs differ", describe(&c), kernels->name, threads);
      if (threads < MOST_THREADS || c.queries * (c.heads / c.kv_heads) <= 64) continue;
      forward_by_spans(d, args, kernels);
      compare_values(describe(&c), kernels, threads, "out by spans", d->out_size, args.out, d->out,
                     out_bound);
      compare_values(describe(&c), kernels, threads, "lse by spans", d->lse_size, args.lse, d->lse,
                     lse_bound);
    }
    free(first), free(out_bound), free(lse_bound);
    free_attend_args(&args);
  }
  omp_set_num_threads(usual_threads);
  free_attend_data(d);
}

static attend_case plain_case(int64_t sequences, int64_t queries, int64_t heads, int64_t kv_heads,
                              int64_t dim) {
  return (attend_case){.sequences = sequences,
                       .queries = queries,
                       .heads = heads,
                       .kv_heads = kv_heads,
                       .key_dim = dim,
                       .value_dim = dim,
                       .causal = true,
                       .state_type = {CH_F64, CH_F64}};
}

static void training_shapes_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 1, 0);
  check_forward(&random, plain_case(1, 1, 1, 1, 1));
  check_forward(&random, plain_case(2, 256, 2, 2, 64));
  check_forward(&random, plain_case(1, 130, 8, 2, 64));
  check_forward(&random, plain_case(1, 100, 6, 1, 128));
  check_forward(&random, plain_case(3, 65, 3, 3, 80));
  attend_case encoder = plain_case(2, 97, 4, 2, 32);
  encoder.causal = false;
  check_forward(&random, encoder);
}

static void decoding_shapes_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 2, 0);
  static const int64_t groups[] = {1, 2, 4, 6, 7, 12, 16};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    for (int64_t kv_heads = 1; kv_heads <= 12; kv_heads *= 12) {
      attend_case c = plain_case(1, 1, groups[i] * kv_heads, kv_heads, i % 2 ? 64 : 128);
      c.past = 200 + 37 * (int64_t)i;
      check_forward(&random, c);
      c.sequences = 5;
      c.queries = 1 + (int64_t)i % 3;
      check_forward(&random, c);
    }
}

/* Tests all numbers of query heads per key head that register tiles support. Heads are whole vectors or not, tiles are
   full or not, and dimensions have one piece or two. */
static void every_size_of_a_group_is_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 9, 0);
  static const ch_dtype types[] = {CH_F64, CH_BF16, CH_F16};
  static const int64_t dims[] = {32, 64, 52, 9};
  for (int64_t group = 2; group <= 16; group++)
    for (int n = 0; n < 3; n++) {
      int64_t kv_heads = n == 2 ? 3 : 1;
      attend_case c = plain_case(1, 1, group * kv_heads, kv_heads, dims[(group + n) % 4]);
      c.past = pick(&random, 0, 300);
      if (n == 1 && group % 4 == 0) c.key_dim = 576, c.past = 140;
      c.produced = n == 0 && group % 2 == 0;
      if (!c.produced) c.state_type[0] = types[(group + n) % 3], c.state_type[1] = types[(group + 2 * n) % 3];
      check_forward(&random, c);
    }
}

/* Tests keys whose last elements are in a separate tile: decoding with one or more query heads per key head, and
   prefill. */
static void keys_of_two_parts_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 10, 0);
  static const ch_dtype types[] = {CH_F64, CH_BF16, CH_F16};
  static const int64_t dims[][2] = {{64, 32}, {48, 32}, {37, 5}, {64, 48}, {144, 128}, {576, 64}, {17, 1}};
  for (int64_t n = 0; n < (SANITIZED ? 21 : 42); n++) {
    int64_t kv_heads = 1 + n % 3 * 2, group = 1 + n % 8, d = n % 7;
    attend_case c = plain_case(1, n % 4 == 3 ? 70 : 1, group * kv_heads, kv_heads, dims[d][0]);
    c.tail = dims[d][1];
    c.value_dim = pick(&random, 1, 70);
    c.past = pick(&random, 0, 300);
    c.state_type[0] = types[n % 3];
    c.state_type[1] = types[n / 3 % 3];
    if (n % 5 == 0) c.extra = 3, c.apart[1] = 2;
    check_forward(&random, c);
  }
}

/* Tests the absorbed form of latent attention: many query heads on one wide key head, whose first elements are the
   value. */
static void decoding_from_latents_is_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 7, 0);
  static const ch_dtype types[] = {CH_F64, CH_BF16, CH_F16};
  for (int n = 0; n < 12; n++) {
    attend_case c = plain_case(1 + n % 2, n < 6 ? 1 : pick(&random, 2, 40), n % 4 == 0 ? 16 : 12, 1, 320);
    c.value_dim = 256;
    c.shared = true;
    c.past = pick(&random, 0, 200);
    c.state_type[0] = c.state_type[1] = types[n % 3];
    check_forward(&random, c);
  }
}

/* Tests BF16 states that 8 to 16 query heads share. Keys have one or two parts; sizes need not be whole vectors. */
static void shared_states_of_16_bits_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 12, 0);
  static const int64_t dims[][2] = {{64, 0}, {66, 0}, {96, 32}, {50, 2}, {320, 64}};
  for (int n = 0; n < 36; n++) {
    int64_t kv_heads = 1 + n % 2, group = 8 + n % 9;
    attend_case c = plain_case(1 + n % 3, 1, group * kv_heads, kv_heads, dims[n % 5][0]);
    c.tail = dims[n % 5][1];
    c.value_dim = n % 4 == 3 ? 40 : 32 * pick(&random, 1, 5);
    c.past = pick(&random, 0, 300);
    c.documents = n % 7 == 0;
    c.state_type[0] = c.state_type[1] = CH_BF16;
    check_forward(&random, c);
  }
}

/* Tests key heads with one query head each: groups of four heads or tokens and remainders, sizes with special loops and
   others, several blocks, and every pair of types. */
static void heads_of_their_own_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 13, 0);
  static const ch_dtype types[] = {CH_F64, CH_BF16, CH_F16, CH_Q8_0, CH_Q4_0};
  static const int64_t heads[] = {1, 4, 6, 12, 3}, dims[] = {64, 128, 32, 96, 40, 52};
  for (int n = 0; n < 75; n++) {
    int64_t h = heads[n % 5];
    attend_case c = plain_case(1 + n % 2, 1, h, h, dims[n % 6]);
    c.past = n % 3 == 0 ? pick(&random, 0, 9) : pick(&random, 100, 400);
    c.state_type[0] = types[n % 5];
    c.state_type[1] = types[n / 5 % 5];
    bool blocks = is_block_quantised(c.state_type[0]) || is_block_quantised(c.state_type[1]);
    if (blocks && c.key_dim % 32 != 0) c.key_dim = 160;
    c.value_dim = n % 7 == 0 ? 32 : c.key_dim;
    if (n % 4 == 1) c.extra = blocks ? 32 : 5;
    if (n % 4 == 2) c.apart[1] = c.apart[2] = blocks ? 64 : 3;
    c.alibi = n % 6 == 3;
    if (n % 4 == 1) c.soft_cap = 1.5;
    c.documents = n % 8 == 5;
    if (n % 9 == 8) c.queries = 3;
    check_forward(&random, c);
  }
}

/* Tests block-quantised heads that several query heads share. */
static void shared_blocks_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 14, 0);
  static const ch_dtype types[] = {CH_Q8_0, CH_Q4_0, CH_BF16, CH_F64, CH_Q8_0};
  for (int n = 0; n < 40; n++) {
    int64_t kv_heads = 1 + n % 3, group = 2 + n % 15;
    attend_case c = plain_case(1 + n % 2, 1, group * kv_heads, kv_heads, n % 3 ? 96 : 320);
    c.value_dim = n % 2 ? 64 : c.key_dim;
    c.past = pick(&random, 0, 300);
    c.state_type[0] = types[n % 5];
    c.state_type[1] = types[n / 5 % 5];
    c.shared = n % 4 == 1;
    if (c.shared) c.state_type[1] = c.state_type[0];
    if (n % 6 == 4) c.extra = 32, c.apart[1] = 32;
    c.documents = n % 7 == 2;
    check_forward(&random, c);
  }
}

static void random_shapes_masks_and_types_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 3, 0);
  static const ch_dtype types[] = {CH_F64, CH_F64, CH_F16, CH_BF16};
  static const int64_t dims[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 33, 48, 64, 65, 96, 128, 257};
  enum { DIMS = sizeof dims / sizeof *dims };
  for (int n = 0; n < (SANITIZED ? 120 : 240); n++) {
    attend_case c = {.sequences = pick(&random, 1, 4),
                     .queries = pick(&random, 1,
                                     n % 3 == 0   ? 150
                                     : n % 3 == 1 ? 20
                                                  : 3),
                     .kv_heads = pick(&random, 1, 4),
                     .past = n % 2 ? pick(&random, 0, 200) : 0,
                     .causal = ch_random_below(&random, 4) > 0,
                     .alibi = ch_random_below(&random, 3) == 0,
                     .soft_cap = ch_random_below(&random, 3) == 0 ? 0.7 : 0,
                     .documents = ch_random_below(&random, 3) == 0,
                     .extra = pick(&random, 0, 2),
                     .q_scale = ch_random_below(&random, 4) == 0 ? 12 : 1};
    c.heads = c.kv_heads * pick(&random, 1, 5);
    c.key_dim = dims[ch_random_below(&random, DIMS)];
    c.value_dim = ch_random_below(&random, 2) ? c.key_dim : dims[ch_random_below(&random, DIMS)];
    for (int p = 0; p < 2; p++) c.state_type[p] = types[ch_random_below(&random, 4)];
    for (int i = 0; i < 3 && n % 4 == 0; i++) c.apart[i] = pick(&random, 0, 20);
    if (n % 5 == 0 && c.value_dim <= c.key_dim) {
      c.shared = true;
      c.state_type[1] = c.state_type[0];
    } else if (n % 5 == 1) {
      c.produced = true;
      c.state_type[0] = c.state_type[1] = CH_F64;
    }
    if (c.key_dim + c.value_dim > 130 && c.queries > 30) c.queries = 30;
    check_forward(&random, c);
  }
}

/* Tests products that may round their factors. The inputs are exact in BF16, so only the weights are rounded. Some
   dimensions and numbers of tokens are odd. States have both types, one part or two, and are produced or in place. */
static void rounded_products_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 13, 0);
  static const ch_dtype types[] = {CH_F64, CH_BF16};
  static const int64_t dims[][2] = {{64, 64}, {128, 64}, {192, 128}, {33, 17},
                                    {80, 80}, {1, 1},    {5, 31},    {96, 64}};
  for (int n = 0; n < 30; n++) {
    int64_t kv_heads = 1 + n % 3, d = n % 8;
    attend_case c =
        plain_case(1 + n % 2, pick(&random, 17, 150), kv_heads * (1 + n % 4), kv_heads, dims[d][0]);
    c.value_dim = dims[d][1];
    c.may_round = true;
    c.past = n % 3 == 2 ? pick(&random, 0, 200) : 0;
    c.causal = n % 7 != 3;
    c.documents = n % 5 == 1;
    c.alibi = n % 6 == 4;
    if (n % 4 == 1) c.soft_cap = 1.5;
    c.q_scale = n % 4 == 1 ? 8 : 1;
    c.produced = n % 9 == 5;
    if (n % 9 == 7) c.tail = (c.key_dim + 1) / 2;
    if (!c.produced) c.state_type[0] = types[n % 2], c.state_type[1] = types[n / 2 % 2];
    if (n % 10 == 9) c.apart[0] = 3, c.apart[1] = 5, c.extra = 1;
    check_forward(&random, c);
  }
}

static void a_query_that_sees_no_key_gets_zeros(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 4, 0);
  static const int64_t queries[] = {1, 5, 90};
  for (int n = 0; n < 3; n++) {
    attend_case c = plain_case(2, queries[n], 4, 2, 20);
    c.documents = true;
    attend_data *d = make_attend_data(&random, c);
    /* documents that begin after every key */
    for (int64_t i = 0; i < c.sequences * c.queries; i += 2) d->document_start[i] = 1000;
    if (n == 2) /* whole panels of queries without keys */
      for (int64_t i = 0; i < c.queries; i++) d->document_start[i] = 1000;
    expect_forward(d);
    for (int number = 0; number < TABLE_COUNT; number++) {
      const ch_kernels *kernels = table_number(number);
      if (!kernels) continue;
      ch_attend args = make_attend_args(d, kernels);
      test_scratch scratch;
      args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
      kernels->attend_forward(&args);
      close_scratch(&scratch, "unseeing queries");
      compare_values("unseeing queries", kernels, 0, "out", d->out_size, args.out, d->out, d->out_bound);
      compare_values("unseeing queries", kernels, 0, "lse", d->lse_size, args.lse, d->lse, d->lse_bound);
      free_attend_args(&args);
    }
    free_attend_data(d);
  }
}

/* Runs queries begin … end-1 of the case's only sequence, after the tokens before them, and writes their results to
   their places in `out`. */
static void run_chunk(const attend_data *d, const ch_kernels *kernels, const ch_attend *whole, int64_t begin,
                      int64_t end, char *out) {
  const attend_case *c = &d->shape;
  size_t size = ch_dtype_size(kernels->dtype);
  int32_t past = (int32_t)begin;
  ch_attend args = *whole;
  args.queries = end - begin;
  args.past = &past;
  args.q = (const char *)whole->q + (size_t)(begin * c->heads * c->key_dim) * size;
  args.out = out + (size_t)(begin * c->heads * c->value_dim) * size;
  args.lse = NULL;
  test_scratch scratch;
  args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
  kernels->attend_forward(&args);
  close_scratch(&scratch, "a chunk");
}

static void chunks_after_one_another_give_what_the_whole_gives(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 5, 0);
  attend_case c = plain_case(1, 150, 6, 3, 40);
  c.alibi = true;
  attend_data *d = make_attend_data(&random, c);
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(d, kernels);
    char *out = malloc((size_t)d->out_size * ch_dtype_size(kernels->dtype));
    static const int64_t cuts[] = {0, 1, 2, 5, 70, 71, 110, 149, 150};
    for (size_t i = 0; i + 1 < sizeof cuts / sizeof *cuts; i++)
      run_chunk(d, kernels, &args, cuts[i], cuts[i + 1], out);
    compare_values("chunks", kernels, 0, "out", d->out_size, out, d->out, d->out_bound);
    free(out);
    free_attend_args(&args);
  }
  free_attend_data(d);
}

static void a_nan_among_the_keys_reaches_the_output(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 6, 0);
  for (int64_t queries = 1; queries <= 70; queries += 69) {
    attend_case c = plain_case(1, queries, 2, 2, 64);
    c.past = 100;
    attend_data *d = make_attend_data(&random, c);
    d->state[0][50 * d->token_stride[0] + 70] = NAN; /* token 50, head 1 */
    for (int number = 0; number < TABLE_COUNT; number++) {
      const ch_kernels *kernels = table_number(number);
      if (!kernels) continue;
      ch_attend args = make_attend_args(d, kernels);
      test_scratch scratch;
      args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
      kernels->attend_forward(&args);
      close_scratch(&scratch, "a NaN");
      for (int64_t i = 0; i < d->out_size; i++)
        assert_true(isnan(real_at(kernels, args.out, i)) == (i / 64 % 2 == 1));
      free_attend_args(&args);
    }
    free_attend_data(d);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_shapes_are_right),
      cmocka_unit_test(decoding_shapes_are_right),
      cmocka_unit_test(every_size_of_a_group_is_right),
      cmocka_unit_test(keys_of_two_parts_are_right),
      cmocka_unit_test(decoding_from_latents_is_right),
      cmocka_unit_test(shared_states_of_16_bits_are_right),
      cmocka_unit_test(heads_of_their_own_are_right),
      cmocka_unit_test(shared_blocks_are_right),
      cmocka_unit_test(random_shapes_masks_and_types_are_right),
      cmocka_unit_test(rounded_products_are_right),
      cmocka_unit_test(a_query_that_sees_no_key_gets_zeros),
      cmocka_unit_test(chunks_after_one_another_give_what_the_whole_gives),
      cmocka_unit_test(a_nan_among_the_keys_reaches_the_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

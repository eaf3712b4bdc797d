/* Prints the results of `crosshead bench`: the machine, and a row for each measurement, as a table and as JSON. */
#ifndef CH_CLI_BENCH_TEXT_H
#define CH_CLI_BENCH_TEXT_H

#include <jansson.h>

#include <crosshead/bench.h>

typedef struct ch_bench_row {
  const char *what; /* kind of measurement: "prefill", "decode", "train" */
  ch_speed_settings settings;
  ch_speed speed;
} ch_bench_row;

/* Returns the steps of one repetition. A step is a whole prompt, one decoded token of every sequence, or a training
   step. */
double ch_bench_steps(const ch_bench_row *row);

/* Prints machine, model and the headings of the table. */
void ch_bench_print_head(const ch_speed_matrices *matrices, const ch_speed_limits *limits);
void ch_bench_print_row(const ch_bench_row *row);

/* ch_bench_machine_json and ch_bench_row_json return new objects, or NULL when out of memory. */
json_t *ch_bench_machine_json(const ch_speed_limits *limits);
json_t *ch_bench_row_json(const ch_bench_row *row);

#endif

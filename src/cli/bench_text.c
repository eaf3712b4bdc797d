/* Prints the rows of `crosshead bench` and the machine above them, and converts them to JSON. */
#include "cli/bench_text.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/output.h"

static bool is_decode(const ch_bench_row *row) {
  return strcmp(row->what, "decode") == 0;
}

double ch_bench_steps(const ch_bench_row *row) {
  return is_decode(row) ? (double)row->settings.tokens : 1;
}

/* Writes "1083 BF16", or "no BF16". */
static void print_peak(const char *before, double peak, const char *name) {
  if (peak > 0)
    printf("%s%.0f %s", before, peak / 1e9, name);
  else
    printf("%sno %s", before, name);
}

/* Returns the name of the limit that a row is compared with. */
static const char *limit_of(const ch_bench_row *row) {
  return is_decode(row) ? "memory and arithmetic" : row->speed.limit;
}

static void print_bandwidth(const char *before, double rate, const char *name) {
  if (rate > 0)
    printf("%s%.1f %s", before, rate / 1e9, name);
  else
    printf("%s%s not known", before, name);
}

void ch_bench_print_head(const ch_speed_matrices *matrices, const ch_speed_limits *limits) {
  char count[32];
  ch_machine machine;
  ch_machine_describe(&machine);
  printf("machine  %s, %lld %s\n", machine.kernels, (long long)machine.threads,
         ch_plural(machine.threads, "thread", "threads"));
  print_peak("limits   GFLOP/s: ", limits->fma_peak, "F32");
  print_peak(", ", limits->bf16_peak, "BF16 dot");
  print_peak(", ", limits->int8_peak, "INT8 dot");
  print_bandwidth("\n         GB/s read: ", limits->read_bandwidth, "memory");
  print_bandwidth(", ", limits->l3_bandwidth, "L3");
  print_bandwidth(", ", limits->l2_bandwidth, "L2");
  printf("\nmodel    %s parameters, mostly %s, %.1f MB of matrices read per decoded token\n\n",
         ch_format_count(matrices->parameters, count, sizeof count), matrices->type,
         matrices->bytes_decoded / 1e6);
  printf("%-8s %6s %7s %7s %11s %11s %9s\n", "", "batch", "tokens", "depth", "ms/step", "tokens/s",
         "of limit");
}

void ch_bench_print_row(const ch_bench_row *row) {
  printf("%-8s %6lld %7lld %7lld %11.3f %11.1f %8.1f%%", row->what, (long long)row->settings.batch,
         (long long)row->settings.tokens, (long long)row->settings.depth,
         1e3 * row->speed.seconds / ch_bench_steps(row), row->speed.tokens_per_second,
         100 * row->speed.share);
  if (row->speed.bandwidth > 0)
    printf("  at %.1f GB/s", row->speed.bandwidth / 1e9);
  else
    printf("  %s", limit_of(row));
  if (row->speed.memory > 0) printf("  %.0f MiB at most", (double)row->speed.memory / (1 << 20));
  putchar('\n');
  ch_output_put("", 0, true);
}

json_t *ch_bench_machine_json(const ch_speed_limits *limits) {
  ch_machine machine;
  ch_machine_describe(&machine);
  return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "kernels", machine.kernels, "threads",
                   (json_int_t)machine.threads, "fma_peak_flops", limits->fma_peak, "bf16_peak_flops",
                   limits->bf16_peak, "int8_peak_ops", limits->int8_peak, "read_bandwidth_bytes",
                   limits->read_bandwidth, "l3_bandwidth_bytes", limits->l3_bandwidth, "l2_bandwidth_bytes",
                   limits->l2_bandwidth);
}

json_t *ch_bench_row_json(const ch_bench_row *row) {
  json_t *object =
      json_pack("{s:I, s:I, s:I, s:f, s:f}", "batch", (json_int_t)row->settings.batch, "tokens",
                (json_int_t)row->settings.tokens, "depth", (json_int_t)row->settings.depth, "seconds",
                row->speed.seconds, "tokens_per_second", row->speed.tokens_per_second);
  json_object_set_new(object, "share_of_limit", json_real(row->speed.share));
  json_object_set_new(object, "limit", json_string(limit_of(row)));
  if (is_decode(row)) json_object_set_new(object, "read_bandwidth_bytes", json_real(row->speed.bandwidth));
  json_object_set_new(object, "flops", json_real(row->speed.flops));
  if (is_decode(row)) json_object_set_new(object, "bytes", json_real(row->speed.bytes));
  if (row->speed.memory > 0)
    json_object_set_new(object, "peak_memory_bytes", json_integer((json_int_t)row->speed.memory));
  return object;
}

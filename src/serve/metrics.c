/* Collects the metrics and writes them in the text format of Prometheus. */
#include "serve/metrics.h"

#include <stdio.h>
#include <unistd.h>

#include <crosshead/version.h>

#include "base/json.h"

static const double bounds[CH_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                          0.25,  0.5,    1,     2.5,  10,    60,   300};

/* The statuses that are counted separately. The last entry counts all others. */
static const unsigned codes[CH_CODES] = {200, 204, 400, 401, 403, 404, 405, 408,
                                         413, 415, 429, 431, 499, 500, 503, 0};

typedef struct metric {
  const char *name, *help;
} metric;

static const metric histograms[CH_HISTOGRAMS] = {
    {"crosshead_time_to_first_token_seconds", "Time from a request to its first token."},
    {"crosshead_time_per_output_token_seconds", "Mean time between the tokens of a sequence."},
    {"crosshead_request_seconds", "Time from a request to the end of its last sequence."},
    {"crosshead_queue_seconds", "Time that a sequence waited for a place."},
};

void ch_metrics_cancelled(ch_metrics *metrics) {
  pthread_mutex_lock(&metrics->lock);
  metrics->cancelled++;
  pthread_mutex_unlock(&metrics->lock);
}

void ch_metrics_observe(ch_metrics *metrics, ch_histogram histogram, double seconds) {
  int bucket = 0;
  while (bucket < CH_BUCKETS && seconds > bounds[bucket]) bucket++;
  pthread_mutex_lock(&metrics->lock);
  metrics->histograms[histogram].counts[bucket]++;
  metrics->histograms[histogram].sum += seconds;
  pthread_mutex_unlock(&metrics->lock);
}

void ch_metrics_request(ch_metrics *metrics, int endpoint, unsigned status) {
  int code = 0;
  while (code < CH_CODES - 1 && codes[code] != status) code++;
  pthread_mutex_lock(&metrics->lock);
  metrics->requests[endpoint][code]++;
  pthread_mutex_unlock(&metrics->lock);
}

/* --- the text ------------------------------------------------------------------------------------------- */

static void put_head(ch_text *text, const char *name, const char *type, const char *help) {
  ch_text_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_number(ch_text *text, const char *name, double value) {
  ch_text_printf(text, "%s ", name);
  ch_json_put_number(text, value);
  ch_text_puts(text, "\n");
}

static void put_counter(ch_text *text, const char *name, const char *help, double value) {
  put_head(text, name, "counter", help);
  put_number(text, name, value);
}

static void put_gauge(ch_text *text, const char *name, const char *help, double value) {
  put_head(text, name, "gauge", help);
  put_number(text, name, value);
}

/* Returns the resident bytes of this process; 0 without /proc. */
static double resident_bytes(void) {
  long long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (fscanf(file, "%lld %lld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void put_requests(const ch_metrics *metrics, const char *const *endpoints, int count, ch_text *text) {
  put_head(text, "crosshead_requests_total", "counter", "Requests by route and status.");
  for (int e = 0; e < count; e++)
    for (int c = 0; c < CH_CODES; c++) {
      if (metrics->requests[e][c] == 0) continue;
      ch_text_printf(text, "crosshead_requests_total{endpoint=\"%s\",code=\"", endpoints[e]);
      if (codes[c])
        ch_text_printf(text, "%u", codes[c]);
      else
        ch_text_puts(text, "other");
      ch_text_printf(text, "\"} %llu\n", (unsigned long long)metrics->requests[e][c]);
    }
}

static void put_histograms(const ch_metrics *metrics, ch_text *text) {
  for (int h = 0; h < CH_HISTOGRAMS; h++) {
    uint64_t sum = 0;
    put_head(text, histograms[h].name, "histogram", histograms[h].help);
    for (int b = 0; b < CH_BUCKETS; b++) {
      sum += metrics->histograms[h].counts[b];
      ch_text_printf(text, "%s_bucket{le=\"%g\"} %llu\n", histograms[h].name, bounds[b],
                     (unsigned long long)sum);
    }
    sum += metrics->histograms[h].counts[CH_BUCKETS];
    ch_text_printf(text, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", histograms[h].name, (unsigned long long)sum,
                   histograms[h].name);
    ch_json_put_number(text, metrics->histograms[h].sum);
    ch_text_printf(text, "\n%s_count %llu\n", histograms[h].name, (unsigned long long)sum);
  }
}

static void put_counts(const ch_generation_counts *counts, ch_text *text) {
  put_counter(text, "crosshead_prompt_tokens_total", "Prompt tokens that were computed.",
              (double)counts->prompt_tokens);
  put_counter(text, "crosshead_prompt_tokens_cached_total", "Prompt tokens whose states were reused.",
              (double)counts->cached_tokens);
  put_counter(text, "crosshead_generated_tokens_total", "Tokens that were sampled.",
              (double)counts->generated_tokens);
  put_counter(text, "crosshead_decode_steps_total", "Passes that decoded a token of every running sequence.",
              (double)counts->decode_steps);
  put_counter(text, "crosshead_prefill_seconds_total", "Seconds spent reading prompts.",
              counts->prefill_seconds);
  put_counter(text, "crosshead_decode_seconds_total", "Seconds spent decoding.", counts->decode_seconds);
}

static void put_gauges(const ch_gauges *now, ch_text *text) {
  put_gauge(text, "crosshead_requests_processing", "Sequences that have a place.",
            (double)now->counts.processing);
  put_gauge(text, "crosshead_requests_waiting", "Sequences that wait for a place.", (double)now->waiting);
  put_gauge(text, "crosshead_slots", "Sequences that are decoded together at most.", (double)now->slots);
  put_gauge(text, "crosshead_cache_tokens", "Tokens in the cache.", (double)now->counts.cache_tokens);
  put_gauge(text, "crosshead_cache_capacity_tokens", "Tokens that the cache has room for.",
            (double)now->cache_capacity);
  put_gauge(text, "crosshead_cache_bytes", "Bytes of the cache.", (double)now->cache_bytes);
  put_gauge(text, "process_resident_memory_bytes", "Bytes of the process in memory.", resident_bytes());
  put_gauge(text, "process_start_time_seconds", "Start of the process, in seconds since 1970.", now->start);
  put_head(text, "crosshead_build_info", "gauge", "The version that runs.");
  ch_text_puts(text, "crosshead_build_info{version=\"" CH_VERSION_STRING "\"} 1\n");
}

void ch_metrics_put(ch_metrics *metrics, const ch_gauges *gauges, const char *const *endpoints, int count,
                    ch_text *text) {
  pthread_mutex_lock(&metrics->lock);
  put_requests(metrics, endpoints, count, text);
  put_counter(text, "crosshead_requests_cancelled_total",
              "Requests whose client left before the answer was complete.", (double)metrics->cancelled);
  put_histograms(metrics, text);
  pthread_mutex_unlock(&metrics->lock);
  put_counts(&gauges->counts, text);
  put_gauges(gauges, text);
}

/* Counters and histograms of the server, for Prometheus. */
#ifndef CH_SERVE_METRICS_H
#define CH_SERVE_METRICS_H

#include <pthread.h>
#include <stdint.h>

#include <crosshead/generation.h>

#include "base/text.h"

typedef enum ch_histogram {
  CH_FIRST_TOKEN,
  CH_PER_TOKEN,
  CH_WHOLE_REQUEST,
  CH_IN_QUEUE,
  CH_HISTOGRAMS
} ch_histogram;

enum { CH_BUCKETS = 14, CH_ENDPOINTS = 24, CH_CODES = 16 };

/* Zero-initialise, and initialise the lock. */
typedef struct ch_metrics {
  pthread_mutex_t lock;
  uint64_t cancelled;
  struct {
    uint64_t counts[CH_BUCKETS + 1]; /* observations per bucket, not cumulative; the last one is +Inf */
    double sum;                      /* seconds */
  } histograms[CH_HISTOGRAMS];
  uint64_t requests[CH_ENDPOINTS][CH_CODES];
} ch_metrics;

/* Values that /metrics shows in addition to those in ch_metrics. */
typedef struct ch_gauges {
  ch_generation_counts counts;
  int64_t waiting, slots, cache_capacity;
  uint64_t cache_bytes;
  double start; /* start of the server, in seconds since 1970 */
} ch_gauges;

/* Counts a request whose client disconnected before the answer was complete. */
void ch_metrics_cancelled(ch_metrics *metrics);
void ch_metrics_observe(ch_metrics *metrics, ch_histogram histogram, double seconds);
/* Counts a request. `endpoint` is the result of ch_route_endpoint. */
void ch_metrics_request(ch_metrics *metrics, int endpoint, unsigned status);
/* Appends all metrics; `endpoints` [count] are the names of the routes. */
void ch_metrics_put(ch_metrics *metrics, const ch_gauges *gauges, const char *const *endpoints, int count,
                    ch_text *text);

#endif

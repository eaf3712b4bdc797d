/* Writes the events of profiles as a JSON trace, one event per line. */
#include "bench/speed_limits.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

enum { SPANS, OPERATIONS }; /* rows of a part in the trace viewer */

static const char *const kinds[] = {"forward", "backward", "span"};

/* Writes one event on a line. The first event of a file has no comma before it. */
static ch_status put_trace_event(ch_writer *writer, json_t *event, bool *first, ch_error *error) {
  char *line = event ? ch_json_dump(event, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
  json_decref(event);
  if (!line) return ch_no_memory(error);
  ch_status status = CH_OK;
  if (fprintf(writer->file, "%s%s", *first ? "\n" : ",\n", line) < 0)
    status = ch_writer_put(writer, "", 1, error); /* fails with the reason */
  *first = false;
  free(line);
  return status;
}

static json_t *named(const char *what, int process, int thread, const char *name) {
  return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", process, "tid", thread,
                   "args", "name", name);
}

static json_t *as_json(const ch_profile_event *event, double began, int process,
                       const ch_speed_limits *limits) {
  bool span = event->kind == CH_PROFILE_SPAN;
  char name[96];
  snprintf(name, sizeof name, "%s%s%s", event->name, event->matrix[0] ? " " : "", event->matrix);
  json_t *arguments = span ? NULL : json_pack("{s:f, s:f}", "flops", event->flops, "bytes", event->bytes);
  if (arguments && event->layer >= 0) json_object_set_new(arguments, "layer", json_integer(event->layer));
  if (arguments && limits && event->seconds > 0)
    json_object_set_new(
        arguments, "share_of_limit",
        json_real(ch_speed_least_seconds(limits, event->dtype, event->flops, event->bytes) / event->seconds));
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o*}", "name", name, "cat", kinds[event->kind], "ph",
                   "X", "ts", 1e6 * (event->start - began), "dur", 1e6 * event->seconds, "pid", process,
                   "tid", span ? SPANS : OPERATIONS, "args", arguments);
}

static double beginning(const ch_profile *profile) {
  double began = profile->event_count ? profile->events[0].start : 0;
  for (int64_t i = 0; i < profile->event_count; i++)
    if (profile->events[i].start < began) began = profile->events[i].start;
  return began;
}

static ch_status put_traced_part(ch_writer *writer, int process, const ch_trace_part *part,
                                 const ch_speed_limits *limits, bool *first, ch_error *error) {
  double began = part->from_zero ? 0 : beginning(part->profile);
  CH_TRY(put_trace_event(writer, named("process_name", process, SPANS, part->title), first, error));
  CH_TRY(put_trace_event(writer, named("thread_name", process, SPANS, "steps"), first, error));
  CH_TRY(put_trace_event(writer, named("thread_name", process, OPERATIONS, "operations"), first, error));
  for (int64_t i = 0; i < part->profile->event_count; i++)
    CH_TRY(put_trace_event(writer, as_json(&part->profile->events[i], began, process, limits), first, error));
  return CH_OK;
}

ch_status ch_trace_write(const char *path, int parts, const ch_trace_part *traced,
                         const ch_speed_limits *limits, ch_error *error) {
  static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", tail[] = "\n]}\n";
  ch_writer writer;
  bool first = true;
  for (int i = 0; i < parts; i++)
    if (traced[i].profile->full) return ch_no_memory(error);
  CH_TRY(ch_writer_open(&writer, path, error));
  ch_status status = ch_writer_put(&writer, head, sizeof head - 1, error);
  for (int i = 0; i < parts && status == CH_OK; i++)
    status = put_traced_part(&writer, i + 1, &traced[i], limits, &first, error);
  if (status == CH_OK) status = ch_writer_put(&writer, tail, sizeof tail - 1, error);
  if (status == CH_OK) status = ch_writer_commit(&writer, error);
  ch_writer_abort(&writer);
  return status;
}

/* Tables of candidates: sizes, training memory, then speeds on each device. Their JSON is here too. */
#include "report/capacity_text.h"

#include <string.h>

#include "base/table.h"

enum { SIZE = 32, NO_DEVICE = -1 };

static const ch_capacity_estimate *expected_at(const ch_capacity *c, int32_t device, int32_t index) {
  return &c->expected[device * CH_CAPACITY_MOST + index];
}

/* --- orders ------------------------------------------------------------------------------------------------------ */

/* Returns true if candidate a comes before b: in the table of sizes the smaller one, on a device the faster of those
 * that fit. Candidates without figures come last. */
static bool is_before(const ch_capacity *c, int32_t device, int32_t a, int32_t b) {
  const ch_capacity_candidate *of = c->candidates;
  if (!of[a].needed_bytes != !of[b].needed_bytes) return of[a].needed_bytes > 0;
  if (device != NO_DEVICE) {
    const ch_capacity_estimate *x = expected_at(c, device, a), *y = expected_at(c, device, b);
    if (!*x->excluded != !*y->excluded) return !*x->excluded;
    if (!*x->excluded && x->tokens_per_second > y->tokens_per_second) return true;
    if (!*x->excluded && x->tokens_per_second < y->tokens_per_second) return false;
  }
  if (of[a].needed_bytes != of[b].needed_bytes) return of[a].needed_bytes < of[b].needed_bytes;
  return a < b;
}

/* Fills order [count] by insertion; there are few candidates. */
static void put_in_order(const ch_capacity *c, int32_t device, int32_t order[CH_CAPACITY_MOST]) {
  for (int32_t i = 0; i < c->count; i++) {
    int32_t at = i;
    for (; at > 0 && is_before(c, device, i, order[at - 1]); at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

/* --- text -------------------------------------------------------------------------------------------------------- */

static void put_bytes_cell(double bytes, ch_table *table) {
  char size[SIZE];
  ch_table_cell(table, "%s", ch_format_bytes(bytes, size, sizeof size));
}

static void put_rate_cell(double rate, ch_table *table) {
  ch_table_cell(table, "%.*f", rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
}

static void put_seconds_cell(double seconds, ch_table *table) {
  char time[SIZE];
  if (seconds < 1)
    ch_table_cell(table, "%.*f ms", seconds < 0.01, 1e3 * seconds);
  else if (seconds < 60)
    ch_table_cell(table, "%.1f s", seconds);
  else
    ch_table_cell(table, "%s", ch_format_duration(seconds, time, sizeof time));
}

static void put_sizes(const ch_capacity *c, ch_text *text) {
  int32_t order[CH_CAPACITY_MOST] = {0};
  char size[SIZE];
  bool gates = false;
  put_in_order(c, NO_DEVICE, order);
  if (c->count < 1 || !c->candidates[order[0]].needed_bytes) return;
  for (int32_t i = 0; i < c->count; i++) gates = gates || c->candidates[i].gate_bytes > 0;
  enum { COLUMNS = 9 };
  const char *const above[COLUMNS] = {
      "", "", "", "cache per", "cache per", "cache of", gates ? "gate rows" : NULL, "work", NULL};
  const char *const below[COLUMNS] = {"candidate", "parameters",           "weights", "token", "user",
                                      "all users", gates ? "by id" : NULL, "memory",  "needed"};
  ch_table table = {.columns = gates ? "l9r11r10r11r10r10r11r10" : "l9r11r10r11r10", .gap = 1};
  ch_table_row(&table, above, COLUMNS);
  ch_table_row(&table, below, COLUMNS);
  for (int32_t i = 0; i < c->count; i++) {
    const ch_capacity_candidate *k = &c->candidates[order[i]];
    if (!k->needed_bytes) continue;
    ch_table_cell(&table, "%s", k->name);
    ch_table_cell(&table, "%s", ch_format_count((double)k->parameters, size, sizeof size));
    put_bytes_cell((double)k->weight_bytes, &table);
    put_bytes_cell((double)k->cache_bytes_per_token, &table);
    put_bytes_cell((double)k->cache_bytes_per_user, &table);
    put_bytes_cell((double)k->cache_bytes, &table);
    if (gates) put_bytes_cell((double)k->gate_bytes, &table);
    put_bytes_cell((double)k->work_bytes, &table);
    put_bytes_cell((double)k->needed_bytes, &table);
    ch_table_end_row(&table);
  }
  ch_text_puts(text, "\n");
  ch_table_write(&table, text);
}

/* Writes the memory of a rank in training. */
static void put_training(const ch_capacity *c, ch_text *text) {
  int32_t order[CH_CAPACITY_MOST] = {0};
  bool masters = false, exchange = false;
  put_in_order(c, NO_DEVICE, order);
  for (int32_t i = 0; i < c->count; i++) {
    masters = masters || c->candidates[i].training.masters > 0;
    exchange = exchange || c->candidates[i].training.exchange > 0;
  }
  if (c->ranks < 1) return;
  ch_text_printf(text, "\ntraining in %s over %d %s: memory of each\n",
                 c->training == CH_PRECISION_BF16 ? "bf16" : "f32", (int)c->ranks,
                 ch_plural(c->ranks, "rank", "ranks"));
  enum { COLUMNS = 8 };
  const char *const headings[COLUMNS] = {"candidate",   "weights",
                                         "gradients",   masters ? "masters" : NULL,
                                         "moments",     exchange ? "gate rows" : NULL,
                                         "activations", "needed"};
  ch_table table = {.columns = "l9r10", .gap = 1};
  ch_table_row(&table, headings, COLUMNS);
  for (int32_t i = 0; i < c->count; i++) {
    const ch_capacity_candidate *k = &c->candidates[order[i]];
    const ch_train_memory *t = &k->training;
    if (!t->total) continue;
    ch_table_cell(&table, "%s", k->name);
    put_bytes_cell((double)t->weights, &table);
    put_bytes_cell((double)t->gradients, &table);
    if (masters) put_bytes_cell((double)t->masters, &table);
    put_bytes_cell((double)t->moments, &table);
    if (exchange) put_bytes_cell((double)t->exchange, &table);
    put_bytes_cell((double)t->activations, &table);
    put_bytes_cell((double)t->total, &table);
    ch_table_end_row(&table);
  }
  ch_table_write(&table, text);
}

static void put_device(const ch_capacity *c, const ch_device *d, ch_text *text) {
  char memory[SIZE], flops[SIZE];
  ch_format_count(d->flops, flops, sizeof flops);
  ch_format_bytes((double)(c->memory ? c->memory : d->memory), memory, sizeof memory);
  ch_text_printf(text, "\n%s: ", d->name);
  if (strcmp(d->name, d->title) != 0) ch_text_printf(text, "%s; ", d->title);
  ch_text_printf(text, "%.4g GB/s, %sFLOP/s, %s to use\n", d->read_bandwidth / 1e9, flops, memory);
  ch_text_printf(text,
                 "source: %s; reached: %.0f %% of GB/s, %.0f %% of FLOP/s in prompts, %.0f %% in steps\n",
                 d->source, 100 * d->reading, 100 * d->computing, 100 * d->computing_step);
}

static void put_speeds(const ch_capacity *c, int32_t device, const int32_t *order, int32_t possible,
                       ch_text *text) {
  enum { COLUMNS = 7 };
  static const char *const above[COLUMNS] = {"",         "users",      "context", "tokens/s",
                                             "tokens/s", "prefill of", " most of"};
  static const char *const below[COLUMNS] = {"candidate", "that fit", "that fits", "of all",
                                             "each",      "a prompt", " a step"};
  ch_table table = {.columns = "l9r9r12r11r11r10l", .gap = 1};
  ch_table_row(&table, above, COLUMNS);
  ch_table_row(&table, below, COLUMNS);
  for (int32_t i = 0; i < possible; i++) {
    const ch_capacity_estimate *e = expected_at(c, device, order[i]);
    ch_table_cell(&table, "%s", c->candidates[order[i]].name);
    ch_table_cell(&table, "%lld", (long long)e->users);
    ch_table_cell(&table, "%lld", (long long)e->context);
    put_rate_cell(e->tokens_per_second, &table);
    put_rate_cell(e->user_tokens_per_second, &table);
    put_seconds_cell(e->prompt_seconds, &table);
    ch_table_cell(&table, " %s", e->bound);
    ch_table_end_row(&table);
  }
  ch_table_write(&table, text);
}

/* Writes "name: reason". Reasons that concern presets already begin with the name. */
static void put_excluded(const char *name, const char *reason, bool first, ch_text *text) {
  size_t length = strlen(name);
  bool named = strncmp(reason, name, length) == 0 && (reason[length] == ':' || reason[length] == ' ');
  ch_text_printf(text, "%s  %s%s%s\n", first ? "excluded\n" : "", named ? "" : name, named ? "" : ": ",
                 reason);
}

static void put_expected(const ch_capacity *c, int32_t device, ch_text *text) {
  int32_t order[CH_CAPACITY_MOST], possible = 0;
  put_in_order(c, device, order);
  while (possible < c->count && !*expected_at(c, device, order[possible])->excluded) possible++;
  put_device(c, &c->devices[device], text);
  if (possible)
    put_speeds(c, device, order, possible, text);
  else
    ch_text_puts(text, "No candidate is left.\n");
  for (int32_t i = possible; i < c->count; i++)
    put_excluded(c->candidates[order[i]].name, expected_at(c, device, order[i])->excluded, i == possible,
                 text);
}

void ch_capacity_write(const ch_capacity *c, ch_text *text) {
  ch_text_printf(text, "%lld %s of context for %s%lld %s; weights %s, cache %s\n", (long long)c->context,
                 ch_plural(c->context, "token", "tokens"), c->users > 1 ? "each of " : "",
                 (long long)c->users, ch_plural(c->users, "user", "users"), c->weights, c->cache);
  put_sizes(c, text);
  put_training(c, text);
  for (int32_t d = 0; d < c->device_count; d++) put_expected(c, d, text);
}

json_t *ch_train_memory_to_json(const ch_train_memory *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)m->weights, "gradients",
                   (json_int_t)m->gradients, "masters", (json_int_t)m->masters, "moments",
                   (json_int_t)m->moments, "gate_rows", (json_int_t)m->exchange, "activations",
                   (json_int_t)m->activations, "total", (json_int_t)m->total);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *candidate_json(const ch_capacity_candidate *k) {
  json_t *json =
      json_pack("{s:s, s:s, s:s}", "name", k->name, "attention_type", k->mechanism, "excluded", k->excluded);
  if (!k->needed_bytes) return json;
  const struct {
    const char *key;
    int64_t value;
  } counts[] = {{"layers", k->layers},
                {"hidden_size", k->hidden_size},
                {"intermediate_size", k->intermediate_size},
                {"parameters_total", k->parameters},
                {"weight_bytes", k->weight_bytes},
                {"weight_bytes_per_step", k->step_weight_bytes},
                {"cache_elements_per_token", k->cache_elements_per_token},
                {"cache_bytes_per_token", k->cache_bytes_per_token},
                {"cache_bytes_per_user", k->cache_bytes_per_user},
                {"cache_bytes", k->cache_bytes},
                {"gate_bytes", k->gate_bytes},
                {"work_bytes", k->work_bytes},
                {"needed_bytes", k->needed_bytes}};
  json_object_set_new(json, "weight_type", json_string(k->weights));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    json_object_set_new(json, counts[i].key, json_integer((json_int_t)counts[i].value));
  if (k->training.total)
    json_object_set_new(json, "training_bytes_per_rank", ch_train_memory_to_json(&k->training));
  json_object_set_new(json, "flops_per_prompt", json_real(k->prefill_flops));
  json_object_set_new(json, "flops_per_token_decode", json_real(k->decode_flops));
  return json;
}

static json_t *expected_json(const char *name, const ch_capacity_estimate *e) {
  json_t *json = json_pack("{s:s, s:s}", "name", name, "excluded", e->excluded);
  if (!*e->bound) return json;
  json_object_set_new(json, "users_that_fit", json_integer((json_int_t)e->users));
  json_object_set_new(json, "context_that_fits", json_integer((json_int_t)e->context));
  json_object_set_new(json, "seconds_per_step", json_real(e->step_seconds));
  json_object_set_new(json, "tokens_per_second", json_real(e->tokens_per_second));
  json_object_set_new(json, "tokens_per_second_per_user", json_real(e->user_tokens_per_second));
  json_object_set_new(json, "prompt_seconds", json_real(e->prompt_seconds));
  json_object_set_new(json, "most_of_a_step", json_string(e->bound));
  return json;
}

static json_t *device_json(const ch_capacity *c, int32_t device) {
  int32_t order[CH_CAPACITY_MOST];
  const ch_device *d = &c->devices[device];
  put_in_order(c, device, order);
  json_t *list = json_array();
  for (int32_t i = 0; i < c->count; i++)
    json_array_append_new(list,
                          expected_json(c->candidates[order[i]].name, expected_at(c, device, order[i])));
  json_t *rates = json_array();
  for (int32_t i = 0; i < d->rate_count; i++)
    json_array_append_new(
        rates, json_pack("{s:f, s:f}", "bytes", d->rates[i].bytes, "bytes_per_second", d->rates[i].rate));
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:o}", "name", d->name,
                   "title", d->title, "source", d->source, "read_bandwidth_bytes", d->read_bandwidth,
                   "peak_flops", d->flops, "reading_share", d->reading, "computing_share", d->computing,
                   "computing_share_step", d->computing_step, "seconds_per_layer", d->layer_seconds,
                   "memory_bytes", (json_int_t)d->memory, "memory_to_use_bytes",
                   (json_int_t)(c->memory ? c->memory : d->memory), "read_rates", rates, "candidates", list);
}

json_t *ch_capacity_to_json(const ch_capacity *c) {
  json_t *candidates = json_array(), *devices = json_array();
  for (int32_t i = 0; i < c->count; i++) json_array_append_new(candidates, candidate_json(&c->candidates[i]));
  for (int32_t d = 0; d < c->device_count; d++) json_array_append_new(devices, device_json(c, d));
  json_t *json = json_pack("{s:I, s:I, s:s, s:s, s:o, s:o}", "context", (json_int_t)c->context, "users",
                           (json_int_t)c->users, "weights", c->weights, "cache_dtype", c->cache, "candidates",
                           candidates, "devices", devices);
  if (c->ranks) json_object_set_new(json, "ranks", json_integer(c->ranks));
  return json;
}

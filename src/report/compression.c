/* report.json of a compression, and its lines for a terminal. Both say what was saved and what it cost;
 * compression_page.c has the HTML. */
#include "report/compression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *known_number(bool known, double value) {
  return known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *figures_json(const ch_compression_figures *f) {
  json_t *object = json_pack(
      "{sI sI sI sI sI so so so}", "parameters_total", (json_int_t)f->parameters, "parameters_attention",
      (json_int_t)f->parameters_attention, "cache_elements_per_token",
      (json_int_t)f->cache_elements_per_token, "cache_bytes_per_token", (json_int_t)f->cache_bytes_per_token,
      "weight_bytes", (json_int_t)f->weight_bytes, "loss", known_number(f->measured, f->loss), "perplexity",
      known_number(f->measured, f->perplexity), "decode_tokens_per_second",
      known_number(f->decode_tokens_per_second > 0, f->decode_tokens_per_second));
  if (object && f->cache_types) json_object_set_new(object, "cache_dtype", json_string(f->cache_types));
  return object;
}

/* Returns the figures of a model with unchanged weights and other types in its cache. */
static json_t *types_json(const ch_compression_figures *f) {
  return json_pack("{ss sI so so}", "cache_dtype", f->cache_types, "cache_bytes_per_token",
                   (json_int_t)f->cache_bytes_per_token, "loss", known_number(f->measured, f->loss),
                   "perplexity", known_number(f->measured, f->perplexity));
}

static json_t *profile_json(const ch_sensitivity *s) {
  if (!s) return json_null();
  json_t *rows = json_array();
  for (int64_t l = s->first; l <= s->last; l++)
    for (int c = 0; c < s->choices; c++)
      json_array_append_new(rows,
                            json_pack("{sI sI sf}", "layer", (json_int_t)l, "component_heads",
                                      (json_int_t)s->heads[c], "loss_change", s->change[l * s->choices + c]));
  return json_pack("{sf sI so}", "loss", s->loss, "tokens", (json_int_t)s->tokens, "layers", rows);
}

static json_t *matrices_json(const ch_compressed_model *compressed) {
  json_t *rows = json_array();
  for (int i = 0; i < compressed->matrix_count; i++) {
    const ch_compressed_matrix *m = &compressed->matrices[i];
    json_array_append_new(rows, json_pack("{si ss sI sI sI so so}", "layer", m->layer, "projection",
                                          m->projection, "parameters_before", (json_int_t)m->before,
                                          "parameters", (json_int_t)m->after, "rank", (json_int_t)m->rank,
                                          "error", known_number(true, m->error), "output_error",
                                          known_number(m->whitened_error >= 0, m->whitened_error)));
  }
  return rows;
}

static json_t *text_json(const char *file, int64_t tokens, json_t *more) {
  if (!file) {
    json_decref(more);
    return json_null();
  }
  json_t *object = json_pack("{ss sI}", "file", file, "tokens", (json_int_t)tokens);
  if (object && more) json_object_update(object, more);
  json_decref(more);
  return object;
}

static json_t *heads_json(const ch_compression_report *r) {
  if (!r->component_heads) return json_null();
  json_t *list = json_array();
  for (int64_t l = 0; l < r->layers; l++)
    json_array_append_new(list, json_integer((json_int_t)r->component_heads[l]));
  return list;
}

json_t *ch_compression_to_json(const ch_compression_report *r) {
  const ch_compressed_model *c = r->compressed;
  json_t *object = json_object();
  if (!object) return NULL;
  json_object_set_new(object, "method", json_string(r->method));
  json_object_set_new(object, "model", json_string(r->model));
  json_object_set_new(object, "out", json_string(r->out));
  json_object_set_new(object, "before", figures_json(&r->before));
  json_object_set_new(object, "after", figures_json(&r->after));
  if (r->eight_bit.cache_types) json_object_set_new(object, "eight_bit_cache", types_json(&r->eight_bit));
  if (r->goal > 0) {
    json_object_set_new(object, "cache_share_to_save", json_real(r->goal));
    json_object_set_new(object, "cache_dtype", json_string(r->cache_types));
    json_object_set_new(object, "cache_dtype_alone",
                        r->types_alone.cache_types ? types_json(&r->types_alone) : json_null());
  }
  json_object_set_new(object, "ratio", known_number(r->ratio > 0, r->ratio));
  json_object_set_new(object, "ratio_reached",
                      json_real(1 - (double)c->after / (double)(c->before > 0 ? c->before : 1)));
  if (r->ranks) json_object_set_new(object, "ranks", json_string(r->ranks));
  if (r->weighting) json_object_set_new(object, "weighting", json_string(r->weighting));
  json_object_set_new(object, "component_heads", heads_json(r));
  if (c->groups) json_object_set_new(object, "groups", json_integer((json_int_t)c->groups));
  if (c->atoms) json_object_set_new(object, "atoms", json_integer((json_int_t)c->atoms));
  json_object_set_new(
      object, "held_out",
      text_json(r->text, r->text_tokens, json_pack("{sb}", "of_calibration", r->text_kept_back)));
  json_object_set_new(
      object, "calibration",
      text_json(r->calibration, r->calibration_tokens, json_pack("{sf}", "loss", r->calibration_loss)));
  json_object_set_new(object, "profile", profile_json(r->sensitivity));
  json_object_set_new(object, "matrices", matrices_json(c));
  json_object_set_new(object, "dtype", json_string(r->dtype));
  json_object_set_new(object, "decode_depth", json_integer((json_int_t)r->decode_depth));
  json_object_set_new(object, "seconds", json_real(r->seconds));
  json_object_set_new(object, "command", json_string(r->command));
  json_object_set_new(object, "created", json_string(r->created));
  json_object_set_new(object, "version", json_string(r->version));
  return object;
}

/* --- words ------------------------------------------------------------------------------------------------------- */

static double change(double before, double after) {
  return 100 * (after - before) / (before > 0 ? before : 1);
}

/* Writes "the cache is 50.0 % smaller". */
static void put_cache(const ch_compression_report *r, ch_text *text) {
  ch_text_printf(text, "%s is %.1f %% smaller", r->cache_types ? "the cache in 8 bits" : "the cache",
                 -change((double)r->before.cache_bytes_per_token, (double)r->after.cache_bytes_per_token));
}

void ch_compression_sentence(const ch_compression_report *r, ch_text *text) {
  const ch_compression_figures *b = &r->before, *a = &r->after;
  bool cache = a->cache_elements_per_token != b->cache_elements_per_token;
  double attention = change((double)b->parameters_attention, (double)a->parameters_attention);
  if (r->cache_types && !cache) {
    ch_text_printf(text, "In %s the cache is %.1f %% smaller", r->cache_types,
                   -change((double)b->cache_bytes_per_token, (double)a->cache_bytes_per_token));
  } else {
    ch_text_printf(text, "Attention has %.1f %% %s parameters", fabs(attention),
                   attention > 0 ? "more" : "fewer");
    if (cache) ch_text_puts(text, " and ");
    if (cache) put_cache(r, text);
  }
  if (a->measured)
    ch_text_printf(text, "; perplexity goes from %.4g to %.4g (%+.2f %%)", b->perplexity, a->perplexity,
                   change(b->perplexity, a->perplexity));
  ch_text_puts(text, ".");
  if (r->cache_types || !r->eight_bit.cache_types || !cache) return;
  ch_text_printf(text, " Without compressing, a cache in %s saves %.1f %% of the cache",
                 r->eight_bit.cache_types,
                 -change((double)b->cache_bytes_per_token, (double)r->eight_bit.cache_bytes_per_token));
  if (r->eight_bit.measured)
    ch_text_printf(text, " at a perplexity of %.4g (%+.2f %%)", r->eight_bit.perplexity,
                   change(b->perplexity, r->eight_bit.perplexity));
  ch_text_puts(text, ".");
}

/* Returns an empty table of figures with fixed column widths. The table of the compressed model and those of narrower
 * cache types below it thus align. */
static ch_table figure_table(void) {
  return (ch_table){.columns = "l26r14r14r11", .gap = 1};
}

static void put_figure_row(ch_table *table, const char *what, double before, double after, int decimals) {
  ch_table_cell(table, "%s", what);
  ch_table_cell(table, "%.*f", decimals, before);
  ch_table_cell(table, "%.*f", decimals, after);
  ch_table_cell(table, "%+.2f %%", change(before, after));
  ch_table_end_row(table);
}

static void put_figures(const ch_compression_report *r, ch_text *text) {
  const ch_compression_figures *b = &r->before, *a = &r->after;
  ch_table table = figure_table(), *t = &table;
  ch_table_row(t, (const char *const[]){"", "before", "after"}, 3);
  put_figure_row(t, "parameters", (double)b->parameters, (double)a->parameters, 0);
  put_figure_row(t, "attention parameters", (double)b->parameters_attention, (double)a->parameters_attention,
                 0);
  put_figure_row(t, "cache elements per token", (double)b->cache_elements_per_token,
                 (double)a->cache_elements_per_token, 0);
  put_figure_row(t, "cache bytes per token", (double)b->cache_bytes_per_token,
                 (double)a->cache_bytes_per_token, 0);
  put_figure_row(t, "bytes of weights", (double)b->weight_bytes, (double)a->weight_bytes, 0);
  if (a->measured) put_figure_row(t, "perplexity", b->perplexity, a->perplexity, 4);
  if (a->decode_tokens_per_second > 0)
    put_figure_row(t, "decoded tokens/s", b->decode_tokens_per_second, a->decode_tokens_per_second, 1);
  ch_table_write(t, text);
}

/* Writes the figures of the original model before and after its cache gets a narrower type. */
static void put_types(const char *title, const ch_compression_figures *before,
                      const ch_compression_figures *f, ch_text *text) {
  ch_table table = figure_table();
  if (!f->cache_types) return;
  ch_text_printf(text, "\n%s: a cache in %s\n", title, f->cache_types);
  put_figure_row(&table, "cache bytes per token", (double)before->cache_bytes_per_token,
                 (double)f->cache_bytes_per_token, 0);
  if (f->measured) put_figure_row(&table, "perplexity", before->perplexity, f->perplexity, 4);
  ch_table_write(&table, text);
}

static int compare_sizes(const void *a, const void *b) {
  double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
  return (x > y) - (x < y);
}

double ch_compression_profile_end(const ch_sensitivity *s) {
  const double most = 3, beyond = 1.2;
  int64_t count = (s->last - s->first + 1) * s->choices;
  double *sizes = malloc((size_t)count * sizeof *sizes);
  if (!sizes) return 0;
  memcpy(sizes, s->change + s->first * s->choices, (size_t)count * sizeof *sizes);
  qsort(sizes, (size_t)count, sizeof *sizes, compare_sizes);
  double usual = beyond * fabs(sizes[count * 9 / 10]);
  double end = fabs(sizes[count - 1]) > most * usual ? usual : 0;
  free(sizes);
  return end;
}

/* Writes a bar of at most WIDTH characters for each change. A bar that ends in > is longer. */
static void put_profile(const ch_sensitivity *s, ch_text *text) {
  enum { WIDTH = 40 };
  double most = 1e-12, end = ch_compression_profile_end(s);
  for (int64_t i = 0; i < s->layers * s->choices; i++) most = fmax(most, fabs(s->change[i]));
  if (end > 0) most = end;
  ch_text_printf(text, "\nloss change of each layer alone (loss %.4f over %lld tokens)\n", s->loss,
                 (long long)s->tokens);
  for (int64_t l = s->first; l <= s->last; l++)
    for (int c = 0; c < s->choices; c++) {
      double value = s->change[l * s->choices + c];
      int signs = (int)lround(WIDTH * fmin(1, fabs(value) / most));
      ch_text_printf(text, "layer %3lld to %lld %s %+9.5f ", (long long)l, (long long)s->heads[c],
                     ch_plural(s->heads[c], "head ", "heads"), value);
      for (int i = 0; i < signs; i++) ch_text_puts(text, value < 0 ? "-" : "#");
      if (fabs(value) > most) ch_text_puts(text, ">");
      ch_text_puts(text, "\n");
    }
}

static void put_matrices(const ch_compressed_model *c, ch_text *text) {
  if (!c->matrix_count) return;
  ch_table table = {.columns = "r5l11r4r10r10l", .gap = 2};
  static const char *const headings[] = {"layer",   "projection", "rank",
                                         "weights", "outputs",    " (relative error)"};
  ch_table_row(&table, headings, sizeof headings / sizeof *headings);
  for (int i = 0; i < c->matrix_count; i++) {
    const ch_compressed_matrix *m = &c->matrices[i];
    ch_table_cell(&table, "%d", m->layer);
    ch_table_cell(&table, "%s", m->projection);
    ch_table_cell(&table, "%lld", (long long)m->rank);
    ch_table_cell(&table, "%.5f", m->error);
    if (m->whitened_error >= 0) ch_table_cell(&table, "%.5f", m->whitened_error);
    ch_table_end_row(&table);
  }
  ch_text_puts(text, "\n");
  ch_table_write(&table, text);
}

void ch_compression_write(const ch_compression_report *r, ch_text *text) {
  put_figures(r, text);
  bool fewer = r->after.cache_elements_per_token != r->before.cache_elements_per_token;
  if (fewer || r->types_alone.cache_types != r->eight_bit.cache_types)
    put_types("without compressing", &r->before, &r->eight_bit, text);
  if (fewer && r->types_alone.cache_types)
    put_types("without compressing", &r->before, &r->types_alone, text);
  if (r->sensitivity) put_profile(r->sensitivity, text);
  put_matrices(r->compressed, text);
  ch_text_puts(text, "\n");
  ch_compression_sentence(r, text);
  if (r->cache_types)
    ch_text_printf(text, "\nUse it with a cache in %s%s.", r->cache_types,
                   r->after.cache_elements_per_token == r->before.cache_elements_per_token
                       ? "; its weights are those of the model it comes from"
                       : "");
  ch_text_printf(text, "\n%s: the model, report.json and report.html\n", r->out);
}

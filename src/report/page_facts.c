/* Writes the facts of a comparison: data, training, machine, commands. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "report/page_private.h"

/* Writes a term and its value, printf-style, escaped. */
__attribute__((format(printf, 3, 4))) static void put_fact(ch_text *html, const char *term,
                                                           const char *format, ...) {
  char value[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  ch_text_printf(html, "<dt>%s</dt><dd>", term);
  ch_html_escape(value, html);
  ch_text_puts(html, "</dd>\n");
}

static void put_text_facts(const ch_comparison_data *data, ch_text *html) {
  char a[32], b[32];
  put_fact(html, "text", "%s, %s bytes", data->file, ch_format_count((double)data->bytes, a, sizeof a));
  put_fact(html, "tokenizer", "%s, %lld tokens", data->tokenizer, (long long)data->vocab_size);
  put_fact(html, "tokens", "%s for training, %s for validation",
           ch_format_count((double)data->train_tokens, a, sizeof a),
           ch_format_count((double)data->validation_tokens, b, sizeof b));
}

static void put_image_facts(const ch_comparison_data *data, ch_text *html) {
  char a[32], b[32];
  put_fact(html, "images", "%s (%s), %lld × %lld %s, %lld classes", data->file, data->format,
           (long long)data->image_size, (long long)data->image_size,
           data->channels == 1 ? "grey" : "in colour", (long long)data->classes);
  put_fact(html, "number", "%s for training, %s for validation",
           ch_format_count((double)data->train_tokens, a, sizeof a),
           ch_format_count((double)data->validation_tokens, b, sizeof b));
}

static void put_budget(const ch_comparison_training *training, bool images, ch_text *html) {
  char count[32];
  ch_format_count((double)training->tokens, count, sizeof count);
  if (images)
    put_fact(html, "budget", "%s images per model: %lld %s of %lld", count, (long long)training->steps,
             ch_plural(training->steps, "step", "steps"), (long long)training->batch);
  else
    put_fact(html, "budget", "%s tokens per model: %lld %s of %lld × %lld", count, (long long)training->steps,
             ch_plural(training->steps, "step", "steps"), (long long)training->batch,
             (long long)training->sequence);
  if (images && training->flip)
    put_fact(html, "augmentation", "mirrored, shifted by up to %lld %s", (long long)training->crop,
             ch_plural(training->crop, "pixel", "pixels"));
}

/* Writes the peak learning rate, or the range of rates if the models had different ones. */
static void put_rates(const ch_comparison *c, ch_text *html) {
  const ch_comparison_training *training = &c->training;
  double least = c->count ? INFINITY : training->lr, most = c->count ? 0 : training->lr;
  char rates[80];
  for (int i = 0; i < c->count; i++) {
    least = fmin(least, c->models[i].lr);
    most = fmax(most, c->models[i].lr);
  }
  snprintf(rates, sizeof rates, least < most ? "%.4g to %.4g, by mechanism" : "%.4g", least, most);
  put_fact(html, "learning rate", "%s, %s, %lld %s of warm-up", rates, training->schedule,
           (long long)training->warmup, ch_plural(training->warmup, "step", "steps"));
}

void ch_page_put_training(const ch_page *p, ch_text *html) {
  const ch_comparison_data *data = &p->comparison->data;
  const ch_comparison_training *training = &p->comparison->training;
  (data->images ? put_image_facts : put_text_facts)(data, html);
  put_budget(training, data->images, html);
  put_fact(html, "optimizer", "AdamW, weight decay %g", training->weight_decay);
  put_rates(p->comparison, html);
  if (p->summary->seeds > 1)
    put_fact(html, "seeds", "%llu to %llu; within a seed all models see the same batches in the same order",
             (unsigned long long)training->seed,
             (unsigned long long)training->seed + (unsigned long long)p->summary->seeds - 1);
  else
    put_fact(html, "seed", "%llu; all models see the same batches in the same order",
             (unsigned long long)training->seed);
}

/* Returns the text at the offset `member` of a run's ch_trained_on, or NULL. */
static const char *value_in(const ch_page_runs *runs, int run, size_t member) {
  const char *on = (const char *)runs->first + (size_t)run * runs->stride;
  return *(const char *const *)(const void *)(on + member);
}

/* Writes the values that a member of ch_trained_on has in the runs, each value once. Runs may come from different
 * machines. */
static void put_trained_on(const ch_page_runs *runs, const char *term, size_t member, ch_text *html) {
  ch_text values = {0};
  for (int i = 0; i < runs->count; i++) {
    const char *value = value_in(runs, i, member);
    bool seen = !value;
    for (int j = 0; j < i && !seen; j++) {
      const char *earlier = value_in(runs, j, member);
      seen = earlier && strcmp(earlier, value) == 0;
    }
    if (!seen) ch_text_printf(&values, "%s%s", values.size ? ", " : "", value);
  }
  if (values.size && !values.failed) put_fact(html, term, "%s", values.data);
  html->failed |= values.failed;
  ch_text_free(&values);
}

void ch_page_machine_facts(const ch_comparison *about, const ch_page_runs *runs, ch_text *html) {
  const ch_machine *machine = &about->machine;
  const bool native = about->engine == CH_ENGINE_NATIVE;
  put_fact(html, "engine", "%s, Crosshead %s", native ? "native" : "PyTorch", about->version);
  if (!native)
    put_fact(html, "trained on", "%s", about->device ? about->device : "the first GPU, else the CPU");
  put_trained_on(runs, "device", offsetof(ch_trained_on, device_name), html);
  put_trained_on(runs, "PyTorch", offsetof(ch_trained_on, torch), html);
  put_trained_on(runs, "Python", offsetof(ch_trained_on, python), html);
  if (machine->processor[0]) put_fact(html, "processor", "%s", machine->processor);
  put_fact(html, "cores", "%lld, %lld %s used", (long long)machine->cores, (long long)machine->threads,
           ch_plural(machine->threads, "thread", "threads"));
  if (machine->memory_bytes)
    put_fact(html, "memory", "%.1f GiB", (double)machine->memory_bytes / (1024.0 * 1024 * 1024));
  if (machine->system[0]) put_fact(html, "system", "%s", machine->system);
  if (machine->kernels[0]) put_fact(html, "arithmetic", "%s", machine->kernels);
}

void ch_page_put_machine(const ch_page *p, ch_text *html) {
  const ch_model_result *models = p->comparison->models;
  const ch_page_runs runs = {models ? &models->trained_on : NULL, sizeof *models, p->comparison->count};
  ch_page_machine_facts(p->comparison, &runs, html);
}

/* --- commands ---------------------------------------------------------------------------------------------------- */

static void put_pre(const char *before, const char *command, const char *after, ch_text *html) {
  ch_text_printf(html, "<p class=\"note\">%s</p>\n<pre tabindex=\"0\"><code>", before);
  ch_html_escape(command, html);
  ch_html_escape(after, html);
  ch_text_puts(html, "</code></pre>\n");
}

void ch_page_put_commands(const ch_page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  ch_text_puts(html, "<p class=\"note\">Made by Crosshead ");
  ch_html_escape(c->version, html);
  ch_text_puts(html, ". Run this command again to continue an interrupted comparison. With another "
                     "directory for its results it starts anew, and gives the same losses on the same "
                     "machine.</p>\n<pre tabindex=\"0\"><code>");
  ch_html_escape(c->command, html);
  ch_text_puts(html, "</code></pre>\n");
  if (!c->count) return;
  const char *model = p->summary->groups[0].runs[0]->directory;
  ch_text more = {0};
  ch_text_printf(&more, "crosshead info %s", model);
  if (!c->data.images) ch_text_printf(&more, "\ncrosshead bench %s", model);
  if (more.data)
    put_pre("To look at one model, in the directory of this page (<code>crosshead eval</code> and, for text, "
            "<code>crosshead generate</code> accept it too):",
            more.data, "", html);
  html->failed |= more.failed;
  ch_text_free(&more);
}

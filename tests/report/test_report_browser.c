/* Tests report pages in a real browser: nothing is fetched, there are no errors, and figures can be read,
 * reached by keyboard and saved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "report/browser.h"
#include "report/page.h"
#include "report/sample.h"

static browser chromium;
static char directory[64];

/* --- pages -------------------------------------------------------------------------------------------------- */

static const char *write_page(const char *name, const ch_text *html) {
  static char path[128];
  ch_error error;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  assert_int_equal(ch_write_file(path, html->data, html->size, &error), CH_OK);
  return path;
}

enum { SEEDS = 3, NAMES = 4 };

/* Writes a page with four mechanisms and three seeds, with everything that is measured. One mechanism has a hostile
   name. */
static const char *comparison_page(void) {
  static ch_curve_point depths[] = {{128, 9000}, {512, 7000}, {2048, 4000}, {8192, 1500}};
  static ch_model_result runs[SEEDS * NAMES];
  ch_comparison comparison;
  ch_text html = {0};
  ch_error error;
  sample_comparison(&comparison, NAMES);
  for (int i = 0; i < SEEDS * NAMES; i++) {
    ch_model_result *run = &runs[i];
    *run = comparison.models[i % NAMES];
    run->seed = (uint64_t)(1 + i / NAMES);
    run->validation_loss += 0.004 * (i / NAMES) + 0.001 * ((i * 7) % 5);
    run->decode_curve = depths;
    run->decode_points = 4;
    run->train_spread = 10; /* decoding was measured once */
    run->parameters_attention = 300000;
    run->parameters_feed_forward = 500000;
    run->parameters_embedding = 131072;
    run->flops = 1e6;
    run->flops_depth = 256;
    run->flops_projections = 5e5;
    run->flops_context = 2e5;
    run->flops_feed_forward = 8e5;
    run->flops_head = 3e5;
    if (i % NAMES == 3) run->name = "a, \"b\" </script><b>.json";
  }
  comparison.models = runs;
  comparison.count = comparison.planned = SEEDS * NAMES;
  assert_int_equal(ch_page_write(&comparison, &html, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  const char *path = write_page("comparison.html", &html);
  ch_text_free(&html);
  return path;
}

/* Writes a page with three heatmaps of different sizes on two scales, and a figure of two bars. */
static const char *heatmap_page(void) {
  ch_text html = {0};
  ch_page_head head = {"crosshead", "Matrices", "An answer.", "0", "2026-11-20T00:00:00Z"};
  json_t *large = json_array();
  for (int r = 0; r < 32; r++) {
    json_t *row = json_array();
    for (int c = 0; c < 32; c++) json_array_append_new(row, json_real(r == c ? 1.5 : -0.25));
    json_array_append_new(large, row);
  }
  ch_page_begin(&head, &html);
  ch_page_figure(
      json_pack("{s:s, s:s, s:s, s:[{s:s, s:i, s:i, s:s}, {s:s, s:i, s:i, s:s}], s:i, s:[{s:s, s:o}, {s:s, "
                "s:[[f, f], [f, f]], s:i}, {s:s, s:[[f]]}]}",
                "id", "heat", "kind", "heatmaps", "title", "Learned", "scales", "name", "clipped", "low", 0,
                "high", 1, "scheme", "viridis", "name", "gates", "low", -1, "high", 1, "scheme", "blueorange",
                "columns", 3, "panels", "title", "layer 0: v_knock.up", "values", large, "title",
                "layer 0: v_knock.gate", "values", 0.5, -0.5, 0.0, 1.0, "scale", 1, "title",
                "layer 0: v_knock.down, head 1", "values", 0.5),
      &html);
  ch_page_figure(json_pack("{s:s, s:s, s:s, s:{s:s}, s:[{s:s, s:i, s:f}, {s:s, s:i, s:f}]}", "id", "change",
                           "kind", "bars", "title", "Change", "x", "title", "change", "bars", "name", "less",
                           "colour", 0, "value", -0.25, "name", "more", "colour", 1, "value", 0.5),
                 &html);
  ch_page_end(&head, &html);
  assert_false(html.failed);
  const char *path = write_page("heatmaps.html", &html);
  ch_text_free(&html);
  return path;
}

/* Writes a page with two curves of sizes over widths that are nearly level, one of them on an axis of at
   least a decade. */
static const char *sizes_page(void) {
  ch_text html = {0};
  ch_page_head head = {"crosshead", "Sizes", "An answer.", "0", "2026-11-20T00:00:00Z"};
  ch_page_begin(&head, &html);
  for (int ratio = 1; ratio <= 10; ratio += 9)
    ch_page_small_figure(
        json_pack(
            "{s:s, s:s, s:s, s:{s:s, s:b, s:i}, s:{s:s, s:b, s:i, s:i}, s:[{s:s, s:i, s:s, s:[[i, f], [i, "
            "f]]}], s:[s, s]}",
            "id", ratio == 1 ? "free" : "decade", "kind", "lines", "title", "q_proj", "x", "title", "width",
            "log", true, "base", 2, "y", "title", "size", "log", true, "base", 10, "ratio", ratio, "series",
            "name", "step 0", "colour", 0, "style", "marks", "points", 64, 1.0, 256, 1.1, "on", "log-x",
            "log-y"),
        &html);
  ch_page_end(&head, &html);
  assert_false(html.failed);
  const char *path = write_page("sizes.html", &html);
  ch_text_free(&html);
  return path;
}

/* --- events ------------------------------------------------------------------------------------------------- */

static bool is(const json_t *event, const char *method) {
  const char *name = json_string_value(json_object_get(event, "method"));
  return name && strcmp(name, method) == 0;
}

/* Fails if the browser reported a complaint, or requested anything except the page itself, data: and blob: URLs. */
static void assert_quiet(const char *page) {
  size_t i;
  json_t *event;
  json_array_foreach(chromium.events, i, event) {
    const json_t *params = json_object_get(event, "params");
    const char *type = json_string_value(json_object_get(params, "type"));
    const char *level = json_string_value(json_object_get(json_object_get(params, "entry"), "level"));
    bool complaint = is(event, "Runtime.exceptionThrown") ||
                     (is(event, "Runtime.consoleAPICalled") && type && strcmp(type, "log") != 0) ||
                     (is(event, "Log.entryAdded") && level && strcmp(level, "verbose") != 0);
    if (complaint) fail_msg("%s", json_dumps(event, JSON_COMPACT));
    if (!is(event, "Network.requestWillBeSent")) continue;
    const char *url = json_string_value(json_object_get(json_object_get(params, "request"), "url"));
    if (strncmp(url, "data:", 5) == 0 || strncmp(url, "blob:", 5) == 0) continue;
    if (strncmp(url, "file://", 7) != 0 || strcmp(url + 7, page) != 0) fail_msg("the page asks for %s", url);
  }
}

/* --- tests -------------------------------------------------------------------------------------------------- */

static void pages_draw_every_figure_and_fetch_nothing(void **state) {
  (void)state;
  const char *page = comparison_page();
  browser_open(&chromium, page);
  assert_quiet(page);
  char *ids = browser_text(
      &chromium,
      "[...document.querySelectorAll('.figure')].filter((f) => f.querySelector('.plot[data-drawn] svg "
      "path')).map((f) => f.getAttribute('aria-labelledby').replace('-heading', '')).join(' ')");
  assert_string_equal(ids,
                      "quality seeds loss training-speed decoding-speed decoding-depth parameters flops");
  free(ids);
  /* Names are text everywhere. */
  assert_float_equal(browser_number(&chromium, "document.querySelectorAll('b').length"), 0, 0);
  char *labels = browser_text(
      &chromium,
      "document.querySelector('#quality-heading').closest('.figure').querySelector('svg').textContent");
  assert_non_null(strstr(labels, "a, \"b\" </script><b>.json"));
  free(labels);
  page = heatmap_page();
  browser_open(&chromium, page);
  assert_quiet(page);
  assert_float_equal(browser_number(&chromium, "document.querySelectorAll('svg image').length"), 1, 0);
  /* Bars of negative values extend to the left of zero. */
  char *widths = browser_text(
      &chromium, "[...document.querySelectorAll('#change-heading ~ .plot .mark-rect path')].map((p) => "
                 "p.getBoundingClientRect()).map((r, i, all) => [r.width, Math.abs(r.right - all[1].left)])"
                 ".map(([w, d], i, all) => i ? (w / all[0][0]).toFixed(1) : d < 2).join(' ')");
  assert_string_equal(widths, "true 2.0");
  free(widths);
  /* The image shows 1.5 as 1, the end of viridis. */
  char *colours = browser_text(
      &chromium, "(async () => { const image = new Image(); image.src = document.querySelector('svg "
                 "image').href.baseVal;"
                 " await image.decode(); const canvas = document.createElement('canvas'); canvas.width = "
                 "canvas.height = 32;"
                 " const c = canvas.getContext('2d'); c.drawImage(image, 0, 0);"
                 " const at = (x, y) => [...c.getImageData(x, y, 1, 1).data].slice(0, 3).join(',');"
                 " return at(3, 3) + ' ' + at(3, 4); })()");
  assert_string_equal(colours, "253,231,37 68,1,84");
  free(colours);
}

/* Returns the texts of a figure's marks or axis, top to bottom: "512 B|1 KiB|2 KiB". */
static char *texts(const char *figure, const char *of) {
  char script[512];
  snprintf(script, sizeof script,
           "[...document.querySelectorAll('#%s-heading ~ .plot %s text')].map((t) => "
           "[t.getBoundingClientRect().top, t.textContent]).sort((a, b) => a[0] - b[0]).map((t) => "
           "t[1]).join('|')",
           figure, of);
  return browser_text(&chromium, script);
}

static void curves_end_in_their_names_which_do_not_overlap(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  char *names = texts("loss", ".ends");
  assert_string_equal(names, "a, \"b\" </script><b>.json|gqa:2|gqa:4|mha");
  free(names);
  assert_true(
      browser_number(&chromium,
                     "(() => { const tops = [...document.querySelectorAll('#loss-heading ~ .plot .ends "
                     "text')].map((t) => t.getBoundingClientRect().top).sort((a, b) => a - b);"
                     " return Math.min(...tops.slice(1).map((top, i) => top - tops[i])); })()") >= 12);
  /* The range of the seeds is visible: an area that is not clipped. */
  assert_true(browser_number(&chromium,
                             "(() => { const area = document.querySelector('#loss-heading ~ .plot .mark-area "
                             "path').getBoundingClientRect(), group = "
                             "document.querySelector('#loss-heading ~ .plot .mark-line "
                             "path').getBoundingClientRect(); return area.width / group.width; })()") > 0.5);
  /* The steep fall of the first steps is cut off: the axis begins at the first validation. */
  char *labels = texts("loss", ".role-axis-label");
  assert_true(atof(labels) < 6);
  free(labels);
}

static void logarithmic_axes_span_the_ratio_they_are_given(void **state) {
  (void)state;
  const char *page = sizes_page();
  browser_open(&chromium, page);
  assert_quiet(page);
  /* The share of the plot's height that a curve from 1 to 1.1 spans: all of it, or log(1.1) / log(10) = 4 %. */
  static const char share[] =
      "(() => { const plot = document.querySelector('#%s-heading ~ .plot'), line = "
      "plot.querySelector('.mark-line "
      "path').getBoundingClientRect(); return line.height / plot.getBoundingClientRect().height; })()";
  char script[300];
  snprintf(script, sizeof script, share, "free");
  assert_true(browser_number(&chromium, script) > 0.5);
  snprintf(script, sizeof script, share, "decade");
  assert_true(browser_number(&chromium, script) < 0.06);
}

static void bytes_have_their_units_on_an_axis(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  char *labels =
      browser_text(&chromium, "[...document.querySelectorAll('#quality-heading ~ .plot .role-axis-label "
                              "text')].map((t) => t.textContent).filter((t) => / /.test(t)).join('|')");
  assert_string_equal(labels, "256 B|512 B|1 KiB|2 KiB");
  free(labels);
}

/* Clicks a download button of a figure. Returns the file's name, type and content, each on a new line. */
static char *saved(const char *figure, const char *kind) {
  char script[1024];
  snprintf(
      script, sizeof script,
      "(async () => { let blob, name; const kept = URL.createObjectURL; URL.createObjectURL = (b) => { blob "
      "= b; return kept.call(URL, b); };"
      " HTMLAnchorElement.prototype.click = function () { name = this.download; };"
      " const button = "
      "[...document.querySelector('#%s-heading').closest('.figure').querySelectorAll('button')].find((b) => "
      "b.textContent === '%s');"
      " button.click(); for (let i = 0; i < 200 && !name; i++) await new Promise((f) => setTimeout(f, 10));"
      " URL.createObjectURL = kept; return name + '\\n' + blob.type + '\\n' + await blob.text(); })()",
      figure, kind);
  return browser_text(&chromium, script);
}

static void figures_are_saved_as_csv_with_their_numbers(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  char *text = saved("quality", "CSV");
  assert_true(strncmp(text,
                      "quality.csv\ntext/csv\nname,KV cache per token at 16 bits,\"validation loss, "
                      "nats per token\",from,to\r\n",
                      94) == 0);
  assert_non_null(strstr(text, "\r\nmha,2048,3.40"));
  assert_non_null(strstr(text, "\r\n\"a, \"\"b\"\" </script><b>.json\",256,3.46"));
  free(text);
  text = saved("training-speed", "CSV");
  assert_non_null(strstr(text, "name,tokens per second,from,to\r\n"));
  assert_non_null(strstr(text, "\r\nmha,14210,14200,14220\r\n"));
  free(text);
  text = saved("decoding-speed", "CSV");
  assert_non_null(strstr(text, "name,tokens per second\r\n"));
  free(text);
  text = saved("decoding-depth", "CSV");
  assert_non_null(strstr(text, "\r\n2048,4000,4000,4000,4000\r\n"));
  free(text);
  text = saved("loss", "CSV");
  int lines = 0;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  assert_in_range(lines, SAMPLE_POINTS + 3, SAMPLE_POINTS + SAMPLE_EVALUATIONS + 3);
  free(text);
  text = saved("seeds", "CSV");
  assert_non_null(strstr(text, "name,seed 1,seed 2,seed 3,mean,standard deviation\r\nmha,3.4012,"));
  free(text);
}

static void figures_are_saved_as_svg_that_stands_alone(void **state) {
  (void)state;
  static const char *const figures[] = {"quality", "seeds", "loss", "training-speed", "parameters"};
  browser_open(&chromium, comparison_page());
  /* Saved figures are light, whatever the mode of the page is. */
  browser_do(&chromium, "Emulation.setEmulatedMedia",
             json_pack("{s:[{s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value", "dark"));
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    char *text = saved(figures[i], "SVG"), name[64];
    snprintf(name, sizeof name, "%s.svg\nimage/svg+xml\n<?xml", figures[i]);
    assert_true(strncmp(text, name, strlen(name)) == 0);
    assert_null(strstr(text, "var(--"));
    assert_null(strstr(text, "NaN"));
    assert_non_null(strstr(text, "fill=\"#ffffff\""));
    if (strcmp(figures[i], "loss") == 0) assert_non_null(strstr(text, "gqa:2")); /* the legend */
    json_t *string = json_string(strchr(strstr(text, "<?xml"), '>') + 1);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY), script[512];
    size_t room = strlen(quoted) + sizeof script;
    char *expression = malloc(room);
    snprintf(expression, room,
             "(() => { const d = new DOMParser().parseFromString(%s.trim(), 'image/svg+xml'); return "
             "d.querySelector('parsererror') ? -1 : "
             "d.querySelectorAll('path,text').length; })()",
             quoted);
    assert_true(browser_number(&chromium, expression) > 8);
    free(expression);
    free(quoted);
    json_decref(string);
    free(text);
  }
  browser_do(&chromium, "Emulation.setEmulatedMedia", json_pack("{s:[]}", "features"));
}

static void heatmaps_are_saved_with_their_pictures(void **state) {
  (void)state;
  browser_open(&chromium, heatmap_page());
  char *text = saved("heat", "SVG");
  assert_non_null(strstr(text, "data:image/png;base64,"));
  assert_non_null(strstr(text, "v_knock.gate"));
  free(text);
  text = saved("heat", "CSV");
  /* Values are not clipped. */
  assert_non_null(strstr(text, "matrix,row,column,value\r\nlayer 0: v_knock.up,0,0,1.5\r\n"));
  assert_non_null(strstr(text, "\r\nlayer 0: v_knock.gate,1,1,1\r\n"));
  free(text);
}

static void everything_is_reached_with_the_tab_key_and_shows_it(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  json_decref(browser_value(
      &chromium,
      "window.all = [...document.querySelectorAll('a[href],button,input,summary,[tabindex=\"0\"]')]"
      ".filter((e) => e.checkVisibility()); all.length"));
  int count = (int)browser_number(&chromium, "all.length"), reached = 0;
  assert_true(count > 40);
  for (int i = 0; i < count; i++) {
    browser_key(&chromium, "Tab", 9, NULL);
    char *seen = browser_text(
        &chromium,
        "(() => { const e = document.activeElement, s = getComputedStyle(e);"
        " const shown = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1;"
        " return all.indexOf(e) + (shown ? ' shown ' : ' hidden ') + e.outerHTML.slice(0, 80); })()");
    int index = atoi(seen);
    if (index != i || !strstr(seen, " shown ")) fail_msg("tab %d goes to %s", i, seen);
    reached++;
    free(seen);
  }
  assert_int_equal(reached, count);
}

static void keys_hide_curves_and_open_tables(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  const char *lines = "document.querySelectorAll('#loss-heading ~ .plot .mark-line path').length";
  double before = browser_number(&chromium, lines);
  json_decref(browser_value(&chromium, "document.querySelector('#loss-heading ~ .controls input').focus()"));
  browser_key(&chromium, " ", 32, " ");
  json_decref(browser_value(&chromium, "new Promise((f) => setTimeout(f, 200))"));
  assert_float_equal(browser_number(&chromium, lines), before - 1, 0); /* one model's validation is hidden */
  json_decref(browser_value(
      &chromium,
      "document.querySelector('#quality-heading').closest('.figure').querySelector('summary').focus()"));
  browser_key(&chromium, "Enter", 13, "\r");
  json_decref(browser_value(&chromium, "new Promise((f) => setTimeout(f, 200))"));
  assert_float_equal(browser_number(&chromium, "document.querySelector('#quality-heading').closest('.figure')"
                                               ".querySelectorAll('details tbody tr').length"),
                     NAMES, 0);
}

static const char *property(const json_t *node, const char *key) {
  const char *value = json_string_value(json_object_get(json_object_get(node, key), "value"));
  return value ? value : "";
}

static void screen_readers_find_a_name_for_everything(void **state) {
  (void)state;
  static const char *const roles[] = {
      "image", "img", "button", "checkbox", "region", "link", "DisclosureTriangle", "group"};
  browser_open(&chromium, comparison_page());
  json_t *tree = browser_call(&chromium, "Accessibility.getFullAXTree", NULL), *node;
  size_t i;
  int images = 0, buttons = 0;
  json_array_foreach(json_object_get(tree, "nodes"), i, node) {
    const char *role = property(node, "role"), *name = property(node, "name");
    if (json_is_true(json_object_get(node, "ignored"))) continue;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
      if (strcmp(role, roles[r]) == 0 && !*name && strcmp(role, "group") != 0)
        fail_msg("%s", json_dumps(node, JSON_COMPACT));
    images += strncmp(role, "im", 2) == 0 && strstr(name, "The table below has the numbers.") != NULL;
    buttons += strcmp(role, "button") == 0;
    if (strstr(role, "graphics") || strstr(role, "Graphics"))
      fail_msg("%s", json_dumps(node, JSON_COMPACT)); /* Vega's drawing must be one image with a name */
  }
  assert_int_equal(images, 8);
  assert_int_equal(buttons, 16);
  json_decref(tree);
  char *heading =
      browser_text(&chromium, "[...document.querySelectorAll('h1,h2,h3')].map((h) => h.tagName[1]).join('')");
  assert_true(heading[0] == '1' && !strchr(heading + 1, '1') && heading[1] == '2');
  free(heading);
}

/* A script that finds the text with the lowest contrast to its background. */
static const char *const contrast =
    "(() => { const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 && m[3] "
    "=== 0 ? null : m; };"
    " const light = (c) => { const f = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 "
    ": Math.pow((v + 0.055) / 1.055, 2.4); }); "
    "return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };"
    " const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) "
    "/ (y + 0.05); };"
    " const behind = (e) => { for (; e; e = e.parentElement) { const c = "
    "parse(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };"
    " let worst = 99, what = ''; for (const e of document.querySelectorAll('body *')) {"
    " const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()); if (!own || "
    "e.closest('script,style,.unseen,[hidden]')) continue;"
    " const s = getComputedStyle(e), inSvg = e.namespaceURI.includes('svg'), c = parse(inSvg ? s.fill : "
    "s.color); if (!c || !e.getClientRects().length) continue;"
    " const r = ratio(c, behind(e)); if (r < worst) { worst = r; what = e.outerHTML.slice(0, 120); } }"
    " return worst.toFixed(2) + ' ' + what; })()";

static void text_has_contrast_in_light_and_in_dark(void **state) {
  (void)state;
  static const char *const modes[] = {"light", "dark"};
  browser_open(&chromium, comparison_page());
  char *before = NULL;
  for (int i = 0; i < 2; i++) {
    browser_do(&chromium, "Emulation.setEmulatedMedia",
               json_pack("{s:[{s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value", modes[i]));
    json_decref(browser_value(&chromium, "new Promise((f) => setTimeout(f, 300))"));
    char *worst = browser_text(&chromium, contrast);
    if (atof(worst) < 4.5) fail_msg("%s: %s", modes[i], worst);
    free(worst);
    char *ink = browser_text(&chromium, "getComputedStyle(document.querySelector('.plot svg text')).fill + "
                                        "getComputedStyle(document.body).backgroundColor");
    if (before) assert_string_not_equal(ink, before);
    free(before);
    before = ink;
    /* Curves and bars have a contrast of at least three to one. */
    assert_true(browser_number(
                    &chromium,
                    "(() => { const light = (h) => { const f = [1, 3, 5].map((i) => parseInt(h.slice(i, i + "
                    "2), 16) / 255).map((v) => v <= 0.03928 ? v / 12.92 : Math.pow((v + "
                    "0.055) / 1.055, 2.4)); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };"
                    " const s = getComputedStyle(document.documentElement), v = (n) => "
                    "s.getPropertyValue(n).trim(), card = light(v('--card'));"
                    " return Math.min(...[...Array(14).keys()].map((i) => { const l = light(v('--series-' + "
                    "i)); return (Math.max(l, card) + 0.05) / (Math.min(l, card) + 0.05); })); })()") >= 3);
  }
  free(before);
  browser_do(&chromium, "Emulation.setEmulatedMedia", json_pack("{s:[]}", "features"));
}

static void pages_fit_a_phone(void **state) {
  (void)state;
  browser_open(&chromium, comparison_page());
  browser_do(
      &chromium, "Emulation.setDeviceMetricsOverride",
      json_pack("{s:i, s:i, s:i, s:b}", "width", 390, "height", 800, "deviceScaleFactor", 1, "mobile", true));
  json_decref(browser_value(&chromium, "new Promise((f) => setTimeout(f, 400))"));
  assert_true(browser_number(&chromium, "document.documentElement.scrollWidth") <= 390);
  assert_true(browser_number(&chromium, "Math.max(...[...document.querySelectorAll('.plot svg')].map((s) => "
                                        "s.getBoundingClientRect().right))") <= 390);
  assert_true(browser_number(&chromium, "Math.min(...[...document.querySelectorAll('.plot svg')].map((s) => "
                                        "s.getBoundingClientRect().width))") > 250);
  assert_quiet(comparison_page());
  browser_open(&chromium, heatmap_page());
  char *titles = browser_text(
      &chromium,
      "[...document.querySelectorAll('#heat-heading ~ .plot svg text')].map((t) => t.textContent).join('|')");
  assert_non_null(strstr(titles, "v_knock.down,head 1")); /* broken into lines, not cut off */
  free(titles);
  browser_do(&chromium, "Emulation.clearDeviceMetricsOverride", NULL);
}

static int start(void **state) {
  (void)state;
  strcpy(directory, "/tmp/crosshead-pages-XXXXXX");
  if (!mkdtemp(directory)) return -1;
  browser_start(&chromium);
  return 0;
}

static int stop(void **state) {
  char command[96];
  (void)state;
  browser_stop(&chromium);
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

int main(void) {
  if (!browser_path()) {
    puts("there is no Chromium here (Debian: chromium)");
    return 77; /* CTest counts it as skipped */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_draw_every_figure_and_fetch_nothing),
      cmocka_unit_test(curves_end_in_their_names_which_do_not_overlap),
      cmocka_unit_test(logarithmic_axes_span_the_ratio_they_are_given),
      cmocka_unit_test(bytes_have_their_units_on_an_axis),
      cmocka_unit_test(figures_are_saved_as_csv_with_their_numbers),
      cmocka_unit_test(figures_are_saved_as_svg_that_stands_alone),
      cmocka_unit_test(heatmaps_are_saved_with_their_pictures),
      cmocka_unit_test(everything_is_reached_with_the_tab_key_and_shows_it),
      cmocka_unit_test(keys_hide_curves_and_open_tables),
      cmocka_unit_test(screen_readers_find_a_name_for_everything),
      cmocka_unit_test(text_has_contrast_in_light_and_in_dark),
      cmocka_unit_test(pages_fit_a_phone),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

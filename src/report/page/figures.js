"use strict";
/* Finds the figures of a page, draws them, and gives each its legend, its table and its downloads.
 * report/figure.h describes the JSON of a figure. */
(function () {
  const kinds = { lines: chartLines, points: chartPoints, bars: chartBars.bars, dots: chartBars.dots, heatmaps: chartHeatmaps };
  const MOST_ROWS = 2000; /* of a table on the page; the CSV has all */

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /* --- downloads ------------------------------------------------------------------------------------------------- */

  function save(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = make("a", { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  function csv(table) {
    const field = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return [table.columns, ...table.rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
  }

  /* On paper: light whatever the page is, with the title and a legend inside. */
  async function svg(chart) {
    const paper = document.getElementById("paper"), colours = parts.theme(paper);
    const options = { colours, state: chart.state, width: 860, paper: true };
    options.height = chart.kind.height(options.width, chart.figure);
    const spec = chart.kind.spec(chart.figure, options);
    const names = legendOf(chart.figure).filter((entry) => !chart.state.hidden.has(entry.name));
    spec.background = colours.card;
    spec.title = { text: chart.title, anchor: "start", offset: 14 };
    if (names.length > 1 && chart.figure.kind === "lines") {
      spec.scales.push({ name: "names", type: "ordinal", domain: names.map((n) => n.name), range: names.map((n) => parts.colour(colours, n.colour)) });
      spec.scales.push({ name: "shapes", type: "ordinal", domain: names.map((n) => n.name), range: names.map((n) => parts.symbol(n.colour)) });
      spec.legends = [{ fill: "names", shape: "shapes", orient: "bottom", direction: "horizontal", columns: 6 }];
    }
    const view = new vega.View(vega.parse(spec), { renderer: "none" });
    const text = await view.toSVG();
    view.finalize();
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + text + "\n";
  }

  function downloads(chart) {
    const name = chart.figure.id, box = make("div", { class: "downloads" });
    const button = (label, act) => {
      const element = make("button", { type: "button", "aria-label": "Download “" + chart.title + "” as " + label }, label);
      element.addEventListener("click", act);
      return element;
    };
    box.append(
      button("SVG", async () => save(name + ".svg", "image/svg+xml", await svg(chart))),
      button("CSV", () => save(name + ".csv", "text/csv", csv(chart.kind.table(chart.figure)))),
    );
    return box;
  }

  /* --- the table behind a figure --------------------------------------------------------------------------------- */

  function tableOf(chart) {
    const box = make("details", { class: "numbers" }, make("summary", {}, "Numbers of this figure"));
    box.addEventListener("toggle", () => {
      if (!box.open || box.querySelector("table")) return;
      const { columns, rows } = chart.kind.table(chart.figure), body = make("tbody");
      for (const row of rows.slice(0, MOST_ROWS))
        body.append(make("tr", {}, ...row.map((value, i) => {
          const text = typeof value === "number" ? parts.plain(value) : value === null || value === undefined ? "" : value;
          return i ? make("td", {}, text) : make("th", { scope: "row" }, text);
        })));
      const table = make("table", {}, make("caption", { class: "unseen" }, chart.title),
        make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)))), body);
      box.append(make("div", { class: "scroll low", role: "region", "aria-label": "Numbers: " + chart.title, tabindex: "0" }, table));
      if (rows.length > MOST_ROWS) box.append(make("p", { class: "note" }, "The first " + MOST_ROWS + " of " + rows.length + " rows; the CSV has all."));
    });
    return box;
  }

  /* --- legend and switches --------------------------------------------------------------------------------------- */

  /* One entry per name; their order is that of the series. */
  function legendOf(figure) {
    const seen = new Map();
    for (const s of figure.series || []) if (!seen.has(s.name)) seen.set(s.name, { name: s.name, colour: s.colour });
    return [...seen.values()];
  }

  const groupsOf = (figure) => [...new Set((figure.series || []).map((s) => s.group || ""))].filter(Boolean);

  function box(label, checked, act, swatch) {
    const input = make("input", { type: "checkbox" });
    input.checked = checked;
    input.addEventListener("change", () => act(input.checked));
    return make("label", {}, input, ...(swatch ? [make("span", { class: "swatch", style: "--swatch:" + swatch })] : []), " " + label);
  }

  function switches(chart) {
    const { figure, state } = chart, names = legendOf(figure), groups = groupsOf(figure), list = [];
    const hide = (key) => (on) => {
      if (on) state.hidden.delete(key);
      else state.hidden.add(key);
      draw(chart);
    };
    const turn = (key) => (on) => {
      if (on) state.on.add(key);
      else state.on.delete(key);
      draw(chart);
    };
    const words = { "log-x": "logarithmic " + (figure.x ? figure.x.word || "axis" : ""), "log-y": "logarithmic " + (figure.y ? figure.y.word || "values" : ""), "second-half": "second half only" };
    if (names.length > 1)
      list.push(make("div", { class: "controls", role: "group", "aria-label": "Curves shown" },
        ...names.map((n) => box(n.name, true, hide(n.name), "var(--series-" + (n.colour % 14) + ")"))));
    const more = (groups.length > 1 ? groups.map((g) => box(g, !(figure.off || []).includes(g), hide("\u0000" + g))) : [])
      .concat((figure.switches || []).map((key) => box(words[key] || key, state.on.has(key), turn(key))));
    if (more.length) list.push(make("div", { class: "controls", role: "group", "aria-label": "How it is shown" }, ...more));
    return list;
  }

  /* --- drawing --------------------------------------------------------------------------------------------------- */

  /* Returns one sentence that says what a chart shows. */
  function summary(chart) {
    const table = chart.kind.table(chart.figure);
    const few = chart.figure.summary || (table.rows.length <= 16 && table.columns.length <= 4 ?
      table.rows.map((row) => row.map((v) => (typeof v === "number" ? parts.plain(v) : v)).join(" ")).join("; ") : table.rows.length + " rows of numbers");
    return chart.title + ". " + few + ". The table below has the numbers.";
  }

  let bubble;
  function showBubble(handler, event, item, text) {
    if (!bubble) document.body.append((bubble = make("div", { class: "bubble", "aria-hidden": "true" })));
    bubble.hidden = !text;
    if (!text) return;
    bubble.textContent = text;
    bubble.style.left = Math.max(4, Math.min(event.pageX + 12, document.documentElement.scrollWidth - bubble.offsetWidth - 8)) + "px";
    bubble.style.top = event.pageY + 14 + "px";
  }

  function draw(chart) {
    const width = Math.max(220, Math.floor(chart.plot.clientWidth));
    const options = { colours: parts.theme(document.documentElement), state: chart.state, width, height: chart.kind.height(width, chart.figure) };
    if (chart.view) chart.view.finalize();
    chart.width = width;
    chart.view = new vega.View(vega.parse(chart.kind.spec(chart.figure, options)), { renderer: "svg", container: chart.canvas, hover: true });
    chart.view.tooltip(showBubble);
    chart.ready = chart.view.runAsync().then(() => {
      chart.plot.dataset.drawn = "yes";
    });
  }

  function begin(section) {
    const figure = JSON.parse(section.querySelector("script.figure-data").textContent), kind = kinds[figure.kind];
    const chart = { figure, kind, section, title: section.querySelector("h2,h3").textContent, state: { hidden: new Set((figure.off || []).map((g) => "\u0000" + g)), on: new Set(figure.on || []) } };
    chart.canvas = make("div", { "aria-hidden": "true" }); /* the plot around it is the image, and has a name */
    chart.plot = make("div", { class: "plot", role: "img", "aria-label": summary(chart) }, chart.canvas);
    section.append(...switches(chart), chart.plot, make("div", { class: "under" }, tableOf(chart), downloads(chart)));
    draw(chart);
    return chart;
  }

  const charts = [...document.querySelectorAll(".figure")].filter((s) => s.querySelector("script.figure-data")).map(begin);
  const redraw = () => charts.forEach(draw);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", redraw);
  let waiting = false;
  window.addEventListener("resize", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      charts.filter((c) => Math.floor(c.plot.clientWidth) !== c.width && c.plot.clientWidth > 0).forEach(draw);
    });
  });
})();

"use strict";
(function () {
  const results = JSON.parse(document.getElementById("results").textContent);
  const seesImages = "images_trained" in (results.models[0] || {});
  const unit = seesImages ? "images" : "tokens";
  /* What is shown as quality, what is lower the better it is, and what it is bought with. */
  const quality = seesImages ? (m) => 100 * m.top1 : (m) => m.validation_loss;
  const badness = seesImages ? (m) => -m.top1 : (m) => m.validation_loss;
  const cost = seesImages ? (m) => m.parameters_attention : (m) => m.cache_bytes_per_token;
  const models = results.models.slice().sort((a, b) => badness(a) - badness(b) || a.validation_loss - b.validation_loss);
  if (!models.length || typeof Chart === "undefined") return;
  document.querySelectorAll("section.chart").forEach((section) => { section.hidden = false; });

  const shapes = ["circle", "rect", "triangle", "rectRot", "star", "crossRot", "rectRounded", "cross"];
  const charts = [];

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  const series = (index) => css("--series-" + (index % 14));

  /* Two digits after the point of the unit: 1.5 M, 820 k, 12. */
  function short(value) {
    const units = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];
    for (const [size, name] of units)
      if (Math.abs(value) >= size) return +(value / size).toPrecision(3) + name;
    return String(+value.toPrecision(3));
  }
  const whole = (value) => Math.round(value).toLocaleString("en-US");

  /* Ticks at 1, 2 and 5 times powers of ten, so that a narrow logarithmic axis has labels too. */
  function logTick(format) {
    return function (value) {
      const digits = value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
      return [1, 2, 5].some((d) => Math.abs(d - digits) < 1e-6) ? format(value) : "";
    };
  }

  function axis(title, format, log) {
    return {
      type: log ? "logarithmic" : "linear",
      title: { display: true, text: title, color: css("--quiet") },
      ticks: { color: css("--quiet"), maxRotation: 0, autoSkipPadding: 14, callback: log ? logTick(format) : (v) => format(v) },
      grid: { color: css("--line"), borderColor: css("--line") },
    };
  }

  function describe(id, text) {
    const canvas = document.getElementById(id);
    canvas.setAttribute("aria-label", text);
    canvas.textContent = text;
    return canvas;
  }

  function place(id, label, make) {
    const canvas = describe(id, label);
    let chart = new Chart(canvas, make());
    charts.push(function () {
      chart.destroy();
      chart = new Chart(canvas, make());
    });
    return charts[charts.length - 1];
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 13;
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.responsive = true;

  function legend() {
    return { labels: { color: css("--ink"), usePointStyle: true, boxHeight: 7, padding: 16 } };
  }

  /* --- quality against cache ------------------------------------------------------------------------------------ */

  const byCost = models.slice().sort((a, b) => cost(a) - cost(b) || badness(a) - badness(b));
  const front = [];
  for (const m of byCost)
    if (!front.length || badness(m) < badness(front[front.length - 1])) front.push(m);
  const best = models[0];
  const limit = seesImages ? quality(best) - 100 * results.tolerance : quality(best) * (1 + results.tolerance);
  const margin = +(100 * results.tolerance).toPrecision(3) + (seesImages ? (results.tolerance === 0.01 ? " point" : " points") + " of the highest accuracy" : " % of the lowest loss");
  const shown = (m) => (seesImages ? quality(m).toFixed(2) + " %" : quality(m).toFixed(4));

  /* Writes each model's name beside its point, on the side that has room; names that would overlap move up. */
  const names = {
    id: "names",
    afterDatasetsDraw(chart) {
      const context = chart.ctx, taken = [];
      context.save();
      context.font = "600 13px " + Chart.defaults.font.family;
      context.textBaseline = "middle";
      models.forEach((model, i) => {
        const point = chart.getDatasetMeta(i).data[0];
        if (!point || chart.getDatasetMeta(i).hidden) return;
        const width = context.measureText(model.name).width;
        const right = point.x + 12 + width < chart.chartArea.right;
        const x = right ? point.x + 12 : Math.max(chart.chartArea.left + 2, point.x - 12 - width);
        let y = point.y - (right ? 0 : 2);
        const hits = (box) => x < box.x + box.width && box.x < x + width && Math.abs(y - box.y) < 16;
        for (let tries = 0; tries < models.length && taken.some(hits); tries++) y -= 16;
        taken.push({ x, y, width });
        context.lineWidth = 4;
        context.strokeStyle = css("--card");
        context.strokeText(model.name, x, y);
        context.fillStyle = series(i);
        context.fillText(model.name, x, y);
      });
      context.restore();
    },
  };

  function cacheChart() {
    const qualities = models.map(quality).concat(limit);
    const span = Math.max(Math.max(...qualities) - Math.min(...qualities), Math.abs(quality(best)) * 0.002);
    const costs = models.map(cost);
    const least = Math.min(...costs) / 1.6, most = Math.max(...costs) * 1.6;
    const sets = models.map((m, i) => ({
      label: m.name, data: [{ x: cost(m), y: quality(m) }], pointStyle: shapes[i % shapes.length],
      backgroundColor: series(i), borderColor: series(i), borderWidth: 2, pointRadius: 7, pointHoverRadius: 9, order: 1,
    }));
    sets.push({
      label: "not beaten in both", type: "line", data: front.map((m) => ({ x: cost(m), y: quality(m) })),
      borderColor: css("--quiet"), borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0, fill: false, order: 3,
    });
    sets.push({
      label: "within " + margin, type: "line", data: [{ x: least, y: limit }, { x: most, y: limit }],
      borderColor: css("--accent"), borderDash: [6, 5], borderWidth: 1.25, pointRadius: 0, pointHitRadius: 0, order: 4,
      fill: { target: { value: seesImages ? Math.max(...qualities) + span : Math.min(...qualities) - span } }, backgroundColor: css("--accent-soft"),
    });
    const x = axis(seesImages ? "parameters of attention (logarithmic)" : "cache, bytes a token at 16 bits (logarithmic)", short, true);
    x.min = least;
    x.max = most;
    x.afterBuildTicks = (scale) => { scale.ticks = (seesImages ? roundTicks : powerTicks)(least, most); };
    x.ticks.callback = seesImages ? short : whole;
    x.ticks.autoSkip = true;
    const y = axis(seesImages ? "top-1 accuracy, %" : "validation loss, nats a token", (v) => +v.toFixed(4), false);
    y.suggestedMin = Math.min(...qualities) - span * 0.25;
    y.suggestedMax = Math.max(...qualities) + span * 0.25;
    return {
      type: "scatter", data: { datasets: sets }, plugins: [names],
      options: {
        scales: { x, y }, layout: { padding: { right: 8 } },
        plugins: {
          legend: { labels: Object.assign(legend().labels, { usePointStyle: false, boxWidth: 26, boxHeight: 1, filter: (item) => item.datasetIndex >= models.length }), onClick() {} },
          tooltip: {
            filter: (item) => item.datasetIndex < models.length,
            callbacks: { label: (item) => item.dataset.label + ": " + (seesImages ? "" : "loss ") + shown(models[item.datasetIndex]) + ", " + whole(item.parsed.x) + (seesImages ? " parameters of attention" : " bytes a token") },
          },
        },
      },
    };
  }

  /* 1, 2 and 5 times powers of ten between the limits. */
  function roundTicks(least, most) {
    const ticks = [];
    for (let p = Math.floor(Math.log10(least)); p <= Math.log10(most); p++)
      for (const digit of [1, 2, 5]) {
        const value = digit * Math.pow(10, p);
        if (value >= least && value <= most) ticks.push({ value });
      }
    return ticks;
  }

  /* Powers of two between the limits: the sizes caches have. */
  function powerTicks(least, most) {
    const ticks = [];
    for (let p = Math.ceil(Math.log2(least)); p <= Math.log2(most); p++) ticks.push({ value: Math.pow(2, p) });
    const step = Math.ceil(ticks.length / 9);
    return ticks.filter((tick, i) => i % step === 0);
  }

  /* --- loss while training -------------------------------------------------------------------------------------- */

  const checked = (id) => document.getElementById(id).checked;

  function curvesChart() {
    const logTokens = checked("log-tokens"), logLoss = checked("log-loss");
    const most = Math.max(...models.map((m) => m[unit + "_trained"])), from = checked("second-half") ? most / 2 : logTokens ? 1 : 0;
    const points = (curve) => curve.filter((p) => p[0] >= from).map((p) => ({ x: p[0], y: p[1] }));
    const sets = [];
    models.forEach((m, i) => {
      if (checked("show-validation"))
        sets.push({
          label: m.name, data: points(m.validation_curve), borderColor: series(i), backgroundColor: series(i), borderWidth: 2.25,
          pointStyle: shapes[i % shapes.length], pointRadius: m.validation_curve.length > 40 ? 0 : 3.5, pointHoverRadius: 6, order: 1,
        });
      if (checked("show-training"))
        sets.push({
          label: checked("show-validation") ? m.name + ", training" : m.name, data: points(m.curve), borderColor: series(i) + (checked("show-validation") ? "70" : ""),
          backgroundColor: series(i), borderWidth: 1.1, pointRadius: 0, pointHoverRadius: 4, pointStyle: "line", order: 2,
        });
    });
    const x = axis("training " + unit + (logTokens ? " (logarithmic)" : ""), short, logTokens);
    if (!logTokens) x.max = most;
    if (checked("second-half")) x.min = from;
    const y = axis("loss, nats " + (seesImages ? "an image" : "a token") + (logLoss ? " (logarithmic)" : ""), (v) => +v.toPrecision(3), logLoss);
    if (logLoss) y.ticks.callback = (v) => +v.toPrecision(3);
    return {
      type: "line", data: { datasets: sets },
      options: {
        parsing: false, scales: { x, y }, interaction: { mode: "nearest", axis: "x", intersect: false },
        plugins: {
          legend: Object.assign(legend(), { labels: Object.assign(legend().labels, { filter: (item) => !item.text.endsWith(", training") }), onClick: toggle }),
          tooltip: { callbacks: {
            title: (items) => items.length ? short(items[0].parsed.x) + " " + unit : "",
            label: (item) => item.dataset.label + ": " + item.parsed.y.toFixed(4),
          } },
        },
      },
    };
  }

  /* Hides or shows both curves of a model. */
  function toggle(event, item, shown) {
    const chart = shown.chart, visible = chart.isDatasetVisible(item.datasetIndex);
    chart.data.datasets.forEach((set, i) => {
      if (set.label === item.text || set.label === item.text + ", training") chart.setDatasetVisibility(i, !visible);
    });
    chart.update();
  }

  /* --- speed ---------------------------------------------------------------------------------------------------- */

  /* Writes each bar's value at its end. */
  const values = {
    id: "values",
    afterDatasetsDraw(chart) {
      const context = chart.ctx;
      context.save();
      context.font = "600 12px " + Chart.defaults.font.family;
      context.textBaseline = "middle";
      chart.getDatasetMeta(0).data.forEach((bar, i) => {
        const text = whole(chart.data.datasets[0].data[i]), width = context.measureText(text).width;
        const inside = bar.x + 8 + width > chart.chartArea.right;
        context.fillStyle = inside ? css("--card") : css("--ink");
        context.fillText(text, inside ? bar.x - width - 6 : bar.x + 6, bar.y);
      });
      context.restore();
    },
  };

  function speedChart(key) {
    const x = axis("", short, false), y = axis("", String, false);
    x.beginAtZero = true;
    x.title.display = y.title.display = false;
    x.grid.drawBorder = false;
    y.type = "category";
    y.grid.display = false;
    y.ticks = { color: css("--ink") };
    return {
      type: "bar",
      data: { labels: models.map((m) => m.name), datasets: [{ data: models.map((m) => m[key]), backgroundColor: models.map((m, i) => series(i)), borderRadius: 4, maxBarThickness: 26 }] },
      options: { indexAxis: "y", scales: { x, y }, plugins: { legend: { display: false }, tooltip: { callbacks: { label: (item) => whole(item.parsed.x) + " " + unit + "/s" } } } },
      plugins: [values],
    };
  }

  document.querySelectorAll(".bars").forEach((box) => { box.style.height = 44 + 38 * models.length + "px"; });

  const losses = models.map((m) => m.name + " " + m.validation_loss.toFixed(4)).join(", ");
  const trainingKey = "train_" + unit + "_per_second", secondKey = seesImages ? "predict_images_per_second" : "decode_tokens_per_second";
  place("cache-chart", (seesImages ? "Top-1 accuracy against parameters of attention: " : "Validation loss against cache bytes a token: ") + models.map((m) => m.name + (seesImages ? " " : " loss ") + shown(m) + " at " + whole(cost(m)) + (seesImages ? " parameters" : " bytes")).join(", ") + ".", cacheChart);
  const drawCurves = place("curves-chart", "Training and validation loss by training " + unit + ". Final validation loss: " + losses + ".", curvesChart);
  place("training-chart", "Training speed in " + unit + " a second: " + models.map((m) => m.name + " " + whole(m[trainingKey])).join(", ") + ".", () => speedChart(trainingKey));
  place("decoding-chart", (seesImages ? "Images told apart in a second: " : "Decoding speed in tokens a second: ") + models.map((m) => m.name + " " + whole(m[secondKey])).join(", ") + ".", () => speedChart(secondKey));

  for (const id of ["show-validation", "show-training", "second-half", "log-tokens", "log-loss"])
    document.getElementById(id).addEventListener("change", drawCurves);
  const redraw = () => charts.forEach((draw) => draw());
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    window.matchMedia(query).addEventListener("change", redraw);
})();

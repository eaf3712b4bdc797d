"use strict";
/* Kind "lines": curves over one axis, with bands and fitted laws. */
const chartLines = (function () {
  const visible = (series, state) => !state.hidden.has(series.name) && !state.hidden.has("\u0000" + (series.group || ""));

  function chosen(figure, state) {
    const points = figure.series.flatMap((s) => s.points.map((p) => p[0]));
    const most = Math.max(...points);
    const from = state.on.has("second-half") ? most / 2 : -Infinity;
    const logX = state.on.has("log-x"), logY = state.on.has("log-y");
    const fine = (p) => p[0] >= from && (!logX || p[0] > 0) && (!logY || p[1] > 0) && p[1] !== null && isFinite(p[1]);
    return figure.series.map((s, i) => ({ s, i })).filter(({ s }) => visible(s, state))
      .map(({ s, i }) => ({ s, i, points: s.points.filter(fine), band: (s.band || []).filter(fine) }));
  }

  function spec(figure, options) {
    const { colours, state } = options, logX = state.on.has("log-x"), logY = state.on.has("log-y");
    const shown = chosen(figure, state), lines = [], bands = [];
    const faint = shown.some(({ s }) => s.style === "marks");
    for (const { s, i, points, band } of shown) {
      const look = {
        series: i, name: s.name + (s.group ? ", " + s.group : ""), stroke: parts.colour(colours, s.colour), shape: parts.symbol(s.colour),
        strokeWidth: s.style === "thin" ? 1.1 : s.style === "dashed" ? 1.6 : 2.25, opacity: s.style === "thin" && faint ? 0.42 : 1,
        dash: s.style === "dashed" ? [6, 4] : [1, 0], marks: s.style === "marks",
      };
      for (const p of points) lines.push(Object.assign({ x: p[0], y: p[1] }, look));
      for (const p of band) bands.push({ x: p[0], low: p[1], high: p[2], series: i, fill: look.stroke });
    }
    const xs = lines.map((p) => p.x), ys = lines.map((p) => p.y).concat(bands.flatMap((b) => [b.low, b.high]));
    const x = parts.axis("x", Object.assign({}, figure.x, { log: logX }), parts.around(xs, logX ? 0.02 : 0, logX), options.width);
    const y = parts.axis("y", Object.assign({}, figure.y, { log: logY }), parts.around(ys, 0.04, logY), options.height);
    const marks = [
      { type: "group", from: { facet: { name: "band", data: "bands", groupby: "series" } }, marks: [{
        type: "area", from: { data: "band" }, clip: true,
        encode: { update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "low" }, y2: { scale: "y", field: "high" }, fill: { field: "fill" }, fillOpacity: { value: 0.2 } } },
      }] },
      { type: "group", from: { facet: { name: "line", data: "lines", groupby: "series" } }, marks: [{
        type: "line", from: { data: "line" }, encode: { update: {
          x: { scale: "x", field: "x" }, y: { scale: "y", field: "y" }, stroke: { field: "stroke" }, strokeWidth: { field: "strokeWidth" },
          strokeOpacity: { field: "opacity" }, strokeDash: { field: "dash" },
        } },
      }] },
      { type: "symbol", from: { data: "marked" }, encode: { update: {
        x: { scale: "x", field: "x" }, y: { scale: "y", field: "y" }, fill: { field: "stroke" }, shape: { field: "shape" }, size: { value: 34 },
        tooltip: { signal: "datum.name + ': ' + format(datum.y, '.4f') + ' at ' + crossheadShort(datum.x)" },
      } } },
    ];
    return parts.frame(options, options.height, {
      data: [{ name: "lines", values: lines }, { name: "bands", values: bands }, { name: "marked", source: "lines", transform: [{ type: "filter", expr: "datum.marks" }] }],
      scales: [x.scale, y.scale], axes: [x.shown, y.shown], marks,
    });
  }

  /* A column for every curve; a row for every place on the axis. */
  function table(figure) {
    const rows = new Map(), columns = [figure.x.title];
    figure.series.forEach((s, i) => {
      columns.push(s.name + (s.group ? ", " + s.group : ""));
      for (const p of s.points) {
        if (!rows.has(p[0])) rows.set(p[0], [p[0]].concat(Array(figure.series.length).fill(null)));
        rows.get(p[0])[i + 1] = p[1];
      }
    });
    return { columns, rows: [...rows.values()].sort((a, b) => a[0] - b[0]) };
  }

  return { spec, table, height: (width) => Math.max(300, Math.min(440, width * 0.46)) };
})();

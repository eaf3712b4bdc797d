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

  /* The values that the y axis spans. Beside curves with marks, others count from the first mark on: the steep fall of
     the first steps would leave no room for the differences. */
  function counted(shown) {
    const marked = shown.filter(({ s, points }) => s.style === "marks" && points.length);
    const from = marked.length && shown.length > marked.length ? Math.min(...marked.map(({ points }) => points[0][0])) : -Infinity;
    const all = shown.flatMap(({ points }) => points.filter((p) => p[0] >= from).map((p) => p[1]));
    const high = from > -Infinity ? Math.max(...marked.flatMap(({ points }) => points.map((p) => p[1]))) : Infinity;
    return all.filter((value) => value <= high);
  }

  /* Names at the right ends of the curves, one line of text apart; none where curves end elsewhere, or there is one.
     place: where the label stands, as a share of the height from below. */
  function endLabels(shown, { xDomain, yDomain, logX, logY }, options) {
    const share = (value, [low, high], log) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const ends = new Map(), none = { list: [], room: 0 };
    for (const { s, points } of shown) {
      const last = points[points.length - 1], known = ends.get(s.name);
      if (!last || s.style === "thin" || (known && known.last[0] >= last[0])) continue;
      ends.set(s.name, { s, last });
    }
    for (const { s, points } of shown)
      if (points.length && !ends.has(s.name)) ends.set(s.name, { s, last: points[points.length - 1] });
    const list = [...ends.values()].map(({ s, last }) => ({
      text: s.name, end: last[1], stroke: parts.colour(options.colours, s.colour), place: share(last[1], yDomain, logY), x: share(last[0], xDomain, logX),
    }));
    const apart = 15 / Math.max(60, options.height - 50);
    if (list.length < 2 || options.width < 420 || list.length * apart > 1 || list.some((label) => label.x < 0.95)) return none;
    list.sort((a, b) => a.place - b.place);
    list.forEach((label, i) => (label.place = Math.max(label.place, i ? list[i - 1].place + apart : 0)));
    for (let i = list.length - 1, roof = 1; i >= 0; roof = list[i--].place - apart) list[i].place = Math.min(list[i].place, roof);
    return { list, room: Math.min(options.width * 0.3, 28 + 8.6 * Math.max(...list.map((label) => label.text.length))) };
  }

  function spec(figure, options) {
    const { colours, state } = options, logX = state.on.has("log-x"), logY = state.on.has("log-y");
    const shown = chosen(figure, state), lines = [], bands = [];
    const faint = shown.some(({ s }) => s.style === "marks");
    for (const { s, i, points, band } of shown) {
      const look = {
        series: i, name: s.name + (s.group ? ", " + s.group : ""), stroke: parts.colour(colours, s.colour), shape: parts.symbol(s.colour),
        strokeWidth: s.style === "thin" ? 1 : s.style === "dashed" ? 1.5 : 2.5, opacity: s.style === "thin" && faint ? 0.3 : 1,
        dash: s.style === "dashed" ? [6, 4] : [1, 0], marks: s.style === "marks",
      };
      for (const p of points) lines.push(Object.assign({ x: p[0], y: p[1] }, look));
      for (const p of band) bands.push({ x: p[0], low: p[1], high: p[2], series: i, fill: look.stroke });
    }
    const xs = lines.map((p) => p.x), ys = counted(shown).concat(bands.flatMap((b) => [b.low, b.high]));
    const xDomain = parts.around(xs, logX ? 0.02 : 0, logX), yDomain = parts.atLeast(parts.around(ys, 0.04, logY), logY && figure.y.ratio);
    const labels = endLabels(shown, { xDomain, yDomain, logX, logY }, options);
    const x = parts.axis("x", Object.assign({}, figure.x, { log: logX }), xDomain, options.width - labels.room);
    const y = parts.axis("y", Object.assign({}, figure.y, { log: logY }), yDomain, options.height);
    const marks = [
      { type: "group", clip: true, from: { facet: { name: "band", data: "bands", groupby: "series" } }, encode: { update: { width: { signal: "width" }, height: { signal: "height" } } }, marks: [{
        type: "area", from: { data: "band" },
        encode: { update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "low" }, y2: { scale: "y", field: "high" }, fill: { field: "fill" }, fillOpacity: { value: 0.12 } } },
      }] },
      { type: "group", clip: true, from: { facet: { name: "line", data: "lines", groupby: "series" } }, encode: { update: { width: { signal: "width" }, height: { signal: "height" } } }, marks: [{
        type: "line", from: { data: "line" }, encode: { update: {
          x: { scale: "x", field: "x" }, y: { scale: "y", field: "y" }, stroke: { field: "stroke" }, strokeWidth: { field: "strokeWidth" },
          strokeOpacity: { field: "opacity" }, strokeDash: { field: "dash" },
        } },
      }] },
      { type: "symbol", from: { data: "marked" }, encode: { update: {
        x: { scale: "x", field: "x" }, y: { scale: "y", field: "y" }, fill: { field: "stroke" }, shape: { field: "shape" }, size: { value: 34 },
        tooltip: { signal: "datum.name + ': ' + format(datum.y, '.4f') + ' at ' + crossheadShort(datum.x)" },
      } } },
      { type: "rule", name: "leads", from: { data: "labels" }, encode: { update: {
        x: { signal: "width + 2" }, y: { scale: "y", field: "end" }, x2: { signal: "width + 16" }, y2: { signal: "(1 - datum.place) * height" },
        stroke: { field: "stroke" }, strokeWidth: { value: 1.25 },
      } } },
      { type: "text", name: "ends", from: { data: "labels" }, encode: { update: {
        x: { signal: "width + 20" }, y: { signal: "(1 - datum.place) * height" }, text: { field: "text" }, fill: { value: colours.ink }, fontSize: { value: 12 }, fontWeight: { value: 600 }, baseline: { value: "middle" },
        limit: { value: Math.max(20, labels.room - 20) },
      } } },
    ];
    return parts.frame(options, options.height, {
      data: [{ name: "lines", values: lines }, { name: "bands", values: bands }, { name: "labels", values: labels.list }, { name: "marked", source: "lines", transform: [{ type: "filter", expr: "datum.marks" }] }],
      scales: [x.scale, y.scale], axes: [x.shown, y.shown], marks,
    });
  }

  /* A column for every curve; a row for every position on the axis. */
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

"use strict";
/* Kind "points": one named point per model, the Pareto front, and the limit of what is good enough. */
const chartPoints = (function () {
  function spec(figure, options) {
    const { colours } = options, write = figure.x.unit === "bytes" ? parts.bytes : parts.short;
    const points = figure.points.map((p) => ({
      name: p.name, x: p.x, y: p.y, price: write(p.x), low: p.low === undefined ? p.y : p.low, high: p.high === undefined ? p.y : p.high,
      colour: parts.colour(colours, p.colour), shape: parts.symbol(p.colour), chosen: !!p.chosen,
    }));
    const limit = figure.limit;
    const ys = points.flatMap((p) => [p.low, p.high]).concat(limit ? [limit.y] : []);
    const xd = parts.around(points.map((p) => p.x), 0.18, figure.x.log), yd = parts.around(ys, 0.18, false);
    const x = parts.axis("x", figure.x, xd, options.width), y = parts.axis("y", figure.y, yd, options.height);
    const front = (figure.front || []).map((p) => ({ x: p[0], y: p[1] }));
    const marks = [], at = { x: { scale: "x", field: "x" }, y: { scale: "y", field: "y" } };
    if (limit) {
      const edge = limit.better === "high" ? { value: 0 } : { signal: "height" };
      marks.push({ type: "rect", encode: { update: { x: { value: 0 }, x2: { signal: "width" }, y: { scale: "y", value: limit.y }, y2: edge, fill: { value: colours["accent-soft"] } } } });
      marks.push({ type: "rule", name: "edge", encode: { update: { x: { value: 0 }, x2: { signal: "width" }, y: { scale: "y", value: limit.y }, stroke: { value: colours.accent }, strokeWidth: { value: 1.25 }, strokeDash: { value: [6, 5] } } } });
      /* In the margin that the axis leaves beyond the best point. */
      marks.push({ type: "text", name: "limit", encode: { update: {
        x: { signal: "width - 6" }, y: limit.better === "high" ? { value: 15 } : { signal: "height - 7" }, align: { value: "right" }, text: { value: limit.name }, fill: { value: colours.accent },
      } } });
    }
    marks.push({ type: "line", name: "joined", from: { data: "front" }, encode: { update: Object.assign({ stroke: { value: colours.quiet }, strokeWidth: { value: 1.5 } }, at) } });
    marks.push({ type: "rule", name: "ranges", from: { data: "points" }, encode: { update: { x: at.x, y: { scale: "y", field: "low" }, y2: { scale: "y", field: "high" }, stroke: { field: "colour" }, strokeWidth: { value: 1.5 } } } });
    marks.push({ type: "symbol", name: "rings", from: { data: "points" }, encode: { update: Object.assign({
      shape: { value: "circle" }, size: { value: 420 }, fill: { value: "transparent" }, stroke: { value: colours.accent }, strokeWidth: { value: 2.5 }, opacity: { signal: "datum.chosen ? 1 : 0" },
    }, at) } });
    marks.push({ type: "symbol", name: "marks", from: { data: "points" }, encode: { update: Object.assign({
      fill: { field: "colour" }, shape: { field: "shape" }, size: { value: 130 }, stroke: { value: colours.card }, strokeWidth: { value: 1 },
      tooltip: { signal: "datum.name + ': ' + format(datum.y, '.4f') + ', ' + datum.price" },
    }, at) } });
    marks.push({ type: "text", from: { data: "marks" }, encode: { enter: { text: { field: "datum.name" }, fill: { value: colours.ink }, fontSize: { value: 12 }, fontWeight: { signal: "datum.datum.chosen ? 700 : 500" } } },
      transform: [{ type: "label", sort: { field: "datum.datum.chosen", order: "descending" }, size: { signal: "[width, height]" }, anchor: ["right", "left", "top", "bottom", "top-right", "bottom-right", "top-left", "bottom-left"], offset: [8], padding: 4, avoidMarks: ["ranges"].concat(limit ? ["limit", "edge"] : []) }] });
    return parts.frame(options, options.height, {
      data: [{ name: "points", values: points }, { name: "front", values: front }], scales: [x.scale, y.scale], axes: [x.shown, y.shown], marks,
    });
  }

  function table(figure) {
    const ranged = figure.points.some((p) => p.low !== undefined);
    const columns = ["name", figure.x.title, figure.y.title].concat(ranged ? ["from", "to"] : []);
    return { columns, rows: figure.points.map((p) => [p.name, p.x, p.y].concat(ranged ? [p.low, p.high] : [])) };
  }

  return { spec, table, height: (width) => Math.max(260, Math.min(360, width * 0.34)) };
})();

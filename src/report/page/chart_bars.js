"use strict";
/* Kind "bars": one bar per model, whole or of parts. Kind "dots": the results of single runs of each model, and their mean. */
const chartBars = (function () {
  const limit = (options) => Math.max(90, options.width * 0.36); /* pixels of a name */
  const labels = (options) => ({
    orient: "left", scale: "names", domain: false, ticks: false, labelColor: options.colours.ink, labelLimit: limit(options), labelPadding: 8,
  });
  const names = (list) => ({ name: "names", type: "band", domain: list, range: "height", padding: 0.28 });

  function bars(figure, options) {
    const { colours } = options, stacked = figure.parts, cut = figure.cut || Infinity, named = figure.parts || figure.colours;
    const values = figure.bars.flatMap((b) => {
      let from = 0;
      return (stacked ? b.values : [b.value]).map((v, i) => {
        const to = from + v, end = Math.max(-cut, Math.min(cut, to));
        const one = {
          name: b.name, part: stacked ? figure.parts[i] : "", from, to, end, is_cut: end !== to, last: !stacked || i + 1 === b.values.length,
          low: b.low === undefined ? end : b.low, high: b.high === undefined ? end : b.high, colour: parts.colour(colours, stacked ? i : b.colour),
        };
        from += v;
        return one;
      });
    });
    /* From 0, with room for the numbers at the ends of the bars; below 0 on the left. */
    const high = Math.max(...values.map((v) => v.high), 0), low = Math.min(...values.map((v) => v.low), 0);
    const wide = 10 + 7.6 * Math.max(...values.filter((v) => v.last).map((v) => parts.short(v.to).length));
    const inside = options.width - 20 - Math.min(limit(options), 6.8 * Math.max(...figure.bars.map((b) => b.name.length)));
    const room = ((high - low || 1) * wide) / Math.max(40, inside - wide * (low < 0 && high > 0 ? 2 : 1));
    const x = parts.axis("x", figure.x, [low < 0 ? low - room : 0, high > 0 || low === 0 ? high + room : 0], options.width);
    if (!figure.x.title) delete x.shown.title;
    const middle = { scale: "names", field: "name", band: 0.5 };
    return parts.frame(options, options.height, {
      data: [{ name: "bars", values }],
      scales: [names(figure.bars.map((b) => b.name)), x.scale].concat(named ? [{ name: "parts", type: "ordinal", domain: named, range: named.map((p, i) => parts.colour(colours, i)) }] : []),
      axes: [x.shown, labels(options)],
      legends: named ? [{ fill: "parts", orient: "top", direction: "horizontal", symbolType: "square", columns: Math.max(1, Math.floor(options.width / 150)) }] : [],
      marks: [
        { type: "rect", from: { data: "bars" }, encode: { update: {
          x: { scale: "x", field: "from" }, x2: { scale: "x", field: "end" }, y: { scale: "names", field: "name" }, height: { scale: "names", band: 1 }, fill: { field: "colour" }, cornerRadius: { value: stacked ? 0 : 3 },
          tooltip: { signal: "datum.name + (datum.part ? ', ' + datum.part : '') + ': ' + format(datum.to - datum.from, ',.6~r')" },
        } } },
        /* Two gaps at the end of a bar that is longer than the axis. */
        ...(figure.cut ? [9, 15] : []).map((back) => ({ type: "rect", from: { data: "bars" }, encode: { update: {
          x: { scale: "x", field: "end", offset: { signal: "(datum.to < 0 ? 1 : -1) * " + back } }, width: { signal: "datum.is_cut ? 2.5 : 0" }, y: { scale: "names", field: "name" }, height: { scale: "names", band: 1 }, fill: { value: colours.card },
        } } })),
        { type: "rule", from: { data: "bars" }, encode: { update: { x: { scale: "x", field: "low" }, x2: { scale: "x", field: "high" }, y: middle, stroke: { value: colours.ink }, strokeWidth: { value: 1.5 } } } },
        { type: "text", from: { data: "bars" }, encode: { update: {
          x: { scale: "x", signal: "datum.to < 0 ? datum.low : datum.high", offset: { signal: "datum.to < 0 ? -5 : 5" } }, align: { signal: "datum.to < 0 ? 'right' : 'left'" }, y: middle, baseline: { value: "middle" }, text: { signal: "datum.last ? crossheadShort(datum.to) : ''" }, fill: { value: colours.ink }, fontWeight: { value: 600 },
        } } },
      ],
    });
  }

  function barsTable(figure) {
    const ranged = figure.bars.some((b) => b.low !== undefined);
    if (!figure.parts) return { columns: ["name", figure.x.title].concat(ranged ? ["from", "to"] : []), rows: figure.bars.map((b) => [b.name, b.value].concat(ranged ? [b.low, b.high] : [])) };
    return { columns: ["name"].concat(figure.parts, "all"), rows: figure.bars.map((b) => [b.name].concat(b.values, b.values.reduce((a, v) => a + v, 0))) };
  }

  function dots(figure, options) {
    const { colours } = options;
    const single = figure.dots.flatMap((d) => d.values.map((v, i) => ({ name: d.name, value: v, label: figure.runs[i], colour: parts.colour(colours, d.colour), shape: parts.symbol(i) })));
    const means = figure.dots.map((d) => ({ name: d.name, mean: d.mean, low: d.mean - d.deviation, high: d.mean + d.deviation, colour: parts.colour(colours, d.colour) }));
    const x = parts.axis("x", figure.x, parts.around(single.map((s) => s.value).concat(means.flatMap((m) => [m.low, m.high])), 0.06, false), options.width);
    const middle = { scale: "names", field: "name", band: 0.5 };
    return parts.frame(options, options.height, {
      data: [{ name: "single", values: single }, { name: "means", values: means }],
      scales: [names(figure.dots.map((d) => d.name)), x.scale], axes: [x.shown, labels(options)],
      marks: [
        { type: "rule", from: { data: "means" }, encode: { update: { x: { scale: "x", field: "low" }, x2: { scale: "x", field: "high" }, y: middle, stroke: { field: "colour" }, strokeWidth: { value: 7 }, strokeOpacity: { value: 0.25 } } } },
        { type: "rect", from: { data: "means" }, encode: { update: { x: { scale: "x", field: "mean", offset: -1.25 }, width: { value: 2.5 }, y: { scale: "names", field: "name", band: 0.12 }, height: { scale: "names", band: 0.76 }, fill: { field: "colour" } } } },
        { type: "symbol", from: { data: "single" }, encode: { update: {
          x: { scale: "x", field: "value" }, y: middle, shape: { field: "shape" }, fill: { field: "colour" }, size: { value: 55 }, stroke: { value: colours.card }, strokeWidth: { value: 0.75 },
          tooltip: { signal: "datum.name + ', ' + datum.label + ': ' + format(datum.value, '.4f')" },
        } } },
      ],
    });
  }

  function dotsTable(figure) {
    return { columns: ["name"].concat(figure.runs, "mean", "standard deviation"), rows: figure.dots.map((d) => [d.name].concat(d.values, d.mean, d.deviation)) };
  }

  const height = (list) => 56 + 30 * list.length;
  return {
    bars: { spec: bars, table: barsTable, height: (width, figure) => height(figure.bars) + (figure.parts || figure.colours ? 34 : 0) },
    dots: { spec: dots, table: dotsTable, height: (width, figure) => height(figure.dots) },
  };
})();

"use strict";
/* What all kinds of charts are made of: colours of the page, axes, ticks, words for numbers. */
const parts = (function () {
  const symbols = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"];
  const SERIES = 14;

  /* The colours that hold for an element: the page's, or those of light paper inside an element of class "light". */
  function theme(element) {
    const style = getComputedStyle(element), read = (name) => style.getPropertyValue("--" + name).trim();
    const colours = { font: getComputedStyle(document.body).fontFamily, series: [] };
    for (const name of ["ink", "quiet", "line", "card", "accent", "accent-soft"]) colours[name] = read(name);
    for (let i = 0; i < SERIES; i++) colours.series.push(read("series-" + i));
    return colours;
  }

  const colour = (colours, index) => (index === undefined || index === null ? colours.quiet : colours.series[index % SERIES]);
  const symbol = (index) => symbols[(index || 0) % symbols.length];

  /* 1.5M, 820k, 1,024, 12: three digits, but of whole numbers below ten thousand all. */
  function short(value) {
    const size = Math.abs(value);
    if (size < 1e4 && Number.isInteger(value)) return value.toLocaleString("en-US");
    for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= unit) return +(value / unit).toPrecision(3) + name;
    return String(+value.toPrecision(size < 1 ? 2 : 3));
  }
  /* As people write it: 1,234,567 or 3.4012. */
  function plain(value) {
    if (value === null || value === undefined || !isFinite(value)) return "";
    if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    return String(+value.toPrecision(5));
  }

  /* Ticks of a logarithmic axis: powers of two where that is asked for, else 1, 2 and 5 times powers of ten. */
  function logTicks(low, high, base) {
    const ticks = [];
    if (base === 2) {
      for (let p = Math.ceil(Math.log2(low)); p <= Math.log2(high); p++) ticks.push(Math.pow(2, p));
    } else {
      for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
        for (const digit of [1, 2, 5]) {
          const value = digit * Math.pow(10, p);
          if (value >= low * 0.9999 && value <= high * 1.0001) ticks.push(value);
        }
    }
    const step = Math.ceil(ticks.length / 9);
    return ticks.filter((tick, i) => i % step === 0);
  }

  /* A scale and its axis. what: {title, log, base}; domain: [low, high]. */
  function axis(name, what, domain, length) {
    const log = !!what.log && domain[0] > 0;
    const scale = { name, type: log ? "log" : "linear", domain, range: name === "x" ? "width" : "height", nice: false, zero: false };
    const shown = {
      orient: name === "x" ? "bottom" : "left", scale: name, title: what.title + (log ? " (logarithmic)" : ""), grid: true,
      labelOverlap: true, tickCount: Math.max(3, Math.min(9, Math.floor(length / (name === "x" ? 80 : 45)))),
      encode: { labels: { update: { text: { signal: "crossheadShort(datum.value)" } } } },
    };
    const ticks = log ? logTicks(domain[0], domain[1], what.base) : [];
    if (ticks.length > 1) shown.values = ticks;
    return { scale, shown };
  }

  /* The least and greatest of some numbers, with a margin: a share of their span, or of their ratio where logarithmic. */
  function around(values, share, log) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null || value === undefined || !isFinite(value) || (log && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) return log ? [1, 10] : [0, 1];
    if (log) {
      const factor = Math.pow(high / low > 1.0001 ? high / low : 4, share);
      return [low / factor, high * factor];
    }
    const margin = share * (high - low || Math.abs(high) * 0.01 || 1);
    return [low - margin, high + margin];
  }

  function config(colours) {
    return {
      font: colours.font, background: null,
      axis: {
        labelColor: colours.quiet, titleColor: colours.quiet, labelFont: colours.font, titleFont: colours.font, labelFontSize: 12, titleFontSize: 12,
        titleFontWeight: 400, titlePadding: 8, labelPadding: 5, gridColor: colours.line, domainColor: colours.line, tickColor: colours.line, aria: false,
      },
      legend: { labelColor: colours.ink, titleColor: colours.quiet, labelFont: colours.font, titleFont: colours.font, labelFontSize: 12, titleFontSize: 12, aria: false },
      title: { color: colours.ink, subtitleColor: colours.quiet, font: colours.font, subtitleFont: colours.font, fontSize: 16, aria: false },
      group: { stroke: null }, text: { font: colours.font, fontSize: 12 },
    };
  }

  /* The frame of every specification. */
  function frame(options, height, rest) {
    return Object.assign({
      width: options.width, height, padding: options.paper ? 16 : 4, autosize: { type: options.paper ? "pad" : "fit", contains: "padding" },
      config: config(options.colours),
    }, rest);
  }

  vega.expressionFunction("crossheadShort", short);
  return { theme, colour, symbol, short, plain, logTicks, axis, around, frame };
})();

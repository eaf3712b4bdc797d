"use strict";
/* Shared by all kinds of charts: colours of the page, axes, ticks, words for numbers. */
const parts = (function () {
  const symbols = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"];
  const SERIES = 14;

  /* The colours that apply to an element: the page's, or those of light paper inside an element of class "light". */
  function theme(element) {
    const style = getComputedStyle(element), read = (name) => style.getPropertyValue("--" + name).trim();
    const colours = { font: getComputedStyle(document.body).fontFamily, series: [] };
    for (const name of ["ink", "quiet", "line", "card", "accent", "accent-soft"]) colours[name] = read(name);
    for (let i = 0; i < SERIES; i++) colours.series.push(read("series-" + i));
    return colours;
  }

  const colour = (colours, index) => (index === undefined || index === null ? colours.quiet : colours.series[index % SERIES]);
  const symbol = (index) => symbols[(index || 0) % symbols.length];

  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  /* 1.5M, 820k, 1,024, 12: three digits, but of whole numbers below ten thousand all. */
  function short(value) {
    const size = Math.abs(value);
    if (size < 1e4 && Number.isInteger(value)) return value.toLocaleString("en-US");
    for (const [unit, name] of units)
      if (size >= unit) return +(value / unit).toPrecision(3) + name;
    return String(+value.toPrecision(size < 1 ? 2 : 3));
  }
  /* As people write it: 1,234,567 or 3.4012. */
  function plain(value) {
    if (value === null || value === undefined || !isFinite(value)) return "";
    if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    return String(+value.toPrecision(5));
  }

  /* 256 B, 1.5 KiB, 4 MiB. */
  function bytes(value) {
    for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
      if (value >= unit) return +(value / unit).toPrecision(4) + " " + name;
    return +value.toPrecision(4) + " B";
  }

  const MOST_TICKS = 9, FEWEST_TICKS = 3;
  const thinned = (ticks) => ticks.filter((tick, i) => i % Math.ceil(ticks.length / MOST_TICKS) === 0);

  /* Powers of two; where few lie on the axis, also halves, quarters, eighths between them. */
  function binaryTicks(low, high) {
    let ticks = [];
    for (const parts of [1, 2, 4, 8]) {
      ticks = [];
      for (let p = Math.floor(Math.log2(low)); p <= Math.log2(high); p++)
        for (let i = 0; i < parts; i++) {
          const value = Math.pow(2, p) * (1 + i / parts);
          if (value >= low * 0.9999 && value <= high * 1.0001) ticks.push(value);
        }
      if (ticks.length >= FEWEST_TICKS) break;
    }
    return thinned(ticks);
  }

  /* 1, 2 and 5 times powers of ten; where few lie on the axis, all digits. */
  function decimalTicks(low, high) {
    let ticks = [];
    for (const digits of [[1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      ticks = [];
      for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
        for (const digit of digits) {
          const value = digit * Math.pow(10, p);
          if (value >= low * 0.9999 && value <= high * 1.0001) ticks.push(value);
        }
      if (ticks.length >= FEWEST_TICKS) break;
    }
    return thinned(ticks);
  }

  /* Round numbers: a step of 1, 2 or 5 times a power of ten, about `count` of them. */
  function linearTicks(low, high, count) {
    const raw = (high - low) / Math.max(1, count), power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((s) => s >= raw * 0.9999), ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(+(i * step).toPrecision(12));
    return ticks;
  }

  /* The values of an axis, and a text for each: with enough digits that neighbours differ. */
  function ticksOf(what, domain, log, count) {
    let values = log ? (what.base === 2 ? binaryTicks : decimalTicks)(domain[0], domain[1]) : [];
    if (values.length < FEWEST_TICKS) values = linearTicks(domain[0], domain[1], count);
    if (log) return { values, texts: values.map(what.unit === "bytes" ? bytes : short) };
    const step = Math.min(...values.slice(1).map((value, i) => value - values[i]));
    const most = Math.max(...values.map(Math.abs)), [unit, name] = (most >= 1e4 && units.find(([size]) => most >= size)) || [1, ""];
    const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step / unit) + 1e-9)));
    const texts = values.map((value) => (value / unit).toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: unit > 1 ? 0 : digits }) + (value ? name : ""));
    return { values, texts };
  }

  /* A scale and its axis. what: {title, log, base, unit}; domain: [low, high]. */
  function axis(name, what, domain, length) {
    const log = !!what.log && domain[0] > 0;
    const scale = { name, type: log ? "log" : "linear", domain, range: name === "x" ? "width" : "height", nice: false, zero: false };
    const count = Math.max(FEWEST_TICKS, Math.min(MOST_TICKS, Math.floor(length / (name === "x" ? 75 : 45))));
    const { values, texts } = ticksOf(what, domain, log, count);
    const shown = {
      orient: name === "x" ? "bottom" : "left", scale: name, title: what.title + (log ? " (logarithmic)" : ""), grid: true,
      labelOverlap: true, values,
      encode: { labels: { update: { text: { signal: "crossheadTick(datum.value, " + JSON.stringify(values) + ", " + JSON.stringify(texts) + ")" } } } },
    };
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

  /* The same, widened on both sides to a ratio where there is one. */
  function atLeast([low, high], ratio) {
    const factor = ratio && high / low < ratio ? Math.sqrt((ratio * low) / high) : 1;
    return factor > 1 ? [low / factor, high * factor] : [low, high];
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
  vega.expressionFunction("crossheadTick", (value, values, texts) => texts[values.indexOf(value)] || short(value));
  return { theme, colour, symbol, short, plain, bytes, axis, around, atLeast, frame };
})();

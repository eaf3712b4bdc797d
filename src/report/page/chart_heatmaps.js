"use strict";
/* Kind "heatmaps": matrices side by side. Small ones are cells; large ones are a picture with one pixel per element. */
const chartHeatmaps = (function () {
  const MOST_CELLS = 400, GAP = 18, TITLE_SIZE = 11, TITLE_LINE = 14;

  /* The colour of a value on a scale of the figure: {low, high, scheme}; values outside get the colour of the nearer end. */
  function painter(scale) {
    const scheme = vega.scheme(scale.scheme);
    return (value) => scheme(Math.max(0, Math.min(1, (value - scale.low) / (scale.high - scale.low || 1))));
  }

  function picture(values, paint) {
    const canvas = document.createElement("canvas");
    canvas.width = values[0].length;
    canvas.height = values.length;
    const context = canvas.getContext("2d");
    values.forEach((row, r) => row.forEach((value, c) => {
      context.fillStyle = paint(value);
      context.fillRect(c, r, 1, 1);
    }));
    return canvas.toDataURL();
  }

  /* The lines of every title: one, or if that is too wide for some panel, one for each of its parts ("layer 0:", "v_knock.up,", "head 1"). */
  function titlesOf(panels, room) {
    const context = document.createElement("canvas").getContext("2d");
    context.font = TITLE_SIZE + "px " + getComputedStyle(document.body).fontFamily;
    const fits = panels.every((panel) => context.measureText(panel.title).width <= room);
    return new Map(panels.map((panel) => [panel, fits ? [panel.title] : panel.title.split(/(?<=[:,]) /)]));
  }

  /* Returns how many panels are in a row, and their size. A figure of few columns keeps them: each of its rows is a layer. */
  function layout(figure, width) {
    const wanted = Math.min(figure.columns || figure.panels.length, figure.panels.length);
    const fits = Math.max(1, Math.min(wanted, Math.floor((width + GAP) / (64 + GAP))));
    const side = Math.floor(Math.min(150, (width - 8 - GAP * (fits - 1)) / fits));
    const rows = [];
    for (let i = 0; i < figure.panels.length; i += wanted)
      for (let k = i; k < Math.min(i + wanted, figure.panels.length); k += fits) rows.push(figure.panels.slice(k, Math.min(k + fits, i + wanted)));
    const titles = titlesOf(figure.panels, side + GAP - 4);
    const head = 8 + TITLE_LINE * Math.max(...[...titles.values()].map((lines) => lines.length));
    const tall = rows.map((row) => head + Math.max(...row.map((p) => sideways(p, side).height)) + 12);
    return { rows, side, titles, head, tall, whole: tall.reduce((a, b) => a + b, 0) };
  }

  /* Wide matrices keep the width, tall ones are at most as high as that. */
  function sideways(panel, side) {
    const rows = panel.values.length, columns = panel.values[0].length;
    const cell = Math.min(side / columns, side * 1.2 / rows);
    return { width: Math.max(6, cell * columns), height: Math.max(6, cell * rows) };
  }

  function cells(panel, size, paint) {
    const rows = panel.values.length, columns = panel.values[0].length, list = [];
    panel.values.forEach((row, r) => row.forEach((value, c) => list.push({
      x: (c * size.width) / columns, y: (r * size.height) / rows, fill: paint(value), text: panel.title + ", row " + r + ", column " + c + ": " + parts.plain(value),
    })));
    return {
      data: [{ name: "cells", values: list }],
      marks: [{ type: "rect", from: { data: "cells" }, encode: { update: {
        x: { field: "x" }, y: { field: "y" }, width: { value: size.width / columns + 0.3 }, height: { value: size.height / rows + 0.3 }, fill: { field: "fill" }, tooltip: { field: "text" },
      } } }],
    };
  }

  function spec(figure, options) {
    const { colours } = options, paints = figure.scales.map(painter), plan = layout(figure, options.width), marks = [];
    let y = 0;
    plan.rows.forEach((row, r) => {
      row.forEach((panel, i) => {
        const size = sideways(panel, plan.side), paint = paints[panel.scale || 0];
        const small = panel.values.length * panel.values[0].length <= MOST_CELLS;
        const inside = small ? cells(panel, size, paint) : {
          marks: [{ type: "image", encode: { update: { url: { value: picture(panel.values, paint) }, width: { value: size.width }, height: { value: size.height }, aspect: { value: false }, smooth: { value: false } } } }],
        };
        marks.push(Object.assign({
          type: "group",
          encode: { update: { x: { value: i * (plan.side + GAP) }, y: { value: y + plan.head }, width: { value: size.width }, height: { value: size.height }, stroke: { value: colours.line } } },
        }, inside));
        const lines = plan.titles.get(panel);
        marks.push({ type: "text", encode: { update: { x: { value: i * (plan.side + GAP) }, y: { value: y + plan.head - 6 - TITLE_LINE * (lines.length - 1) }, text: { value: lines }, fill: { value: colours.quiet }, fontSize: { value: TITLE_SIZE }, lineHeight: { value: TITLE_LINE }, limit: { value: plan.side + GAP - 4 } } } });
      });
      y += plan.tall[r];
    });
    const scales = figure.scales.map((s, i) => ({ name: "scale" + i, type: "linear", domain: [s.low, s.high], range: { scheme: s.scheme } }));
    const legends = figure.scales.map((s, i) => ({ fill: "scale" + i, type: "gradient", orient: "bottom", direction: "horizontal", title: s.name, gradientLength: Math.min(200, options.width * 0.4), tickCount: 3, labelOverlap: true, titleLimit: options.width, padding: 10 }));
    return parts.frame(options, plan.whole, { autosize: { type: "pad" }, scales, legends, marks });
  }

  function table(figure) {
    return {
      columns: ["matrix", "row", "column", "value"],
      rows: figure.panels.flatMap((p) => p.values.flatMap((row, r) => row.map((value, c) => [p.title, r, c, value]))),
    };
  }

  return { spec, table, height: (width, figure) => layout(figure, width).whole };
})();

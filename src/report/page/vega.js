"use strict";
/* Replaces Vega's front module: joins all parts under one name and registers the transforms. */
const vega = (function () {
  const parts = ["vega-util", "vega-scale", "vega-scenegraph", "vega-functions", "vega-view", "vega-parser"].map(modules.require);
  const transforms = modules.require("vega-dataflow").transforms;
  for (const name of ["vega-transforms", "vega-view-transforms", "vega-encode", "vega-label"])
    Object.assign(transforms, modules.require(name));
  return Object.assign({}, ...parts);
})();

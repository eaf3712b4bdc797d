"use strict";
/* Vega comes as modules that ask for each other by name (CommonJS): each is kept here and made when first required. */
const modules = (function () {
  const sources = {}, made = {};
  function require(name) {
    if (made[name]) return made[name];
    if (!sources[name]) throw new Error("the page lacks the module " + name);
    const module = { exports: (made[name] = {}) };
    sources[name](module.exports, module, require);
    return made[name];
  }
  return { sources, require };
})();

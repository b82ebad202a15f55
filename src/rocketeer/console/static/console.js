// Charts from data attributes; drawn again when htmx puts a fresh part of the page in place.
"use strict";
function drawCharts() {
  for (const element of document.querySelectorAll("[data-chart]")) {
    if (element.dataset.drawn) continue;
    const data = JSON.parse(element.dataset.chart);
    const labels = JSON.parse(element.dataset.labels);
    if (data[0].length < 2) continue;
    element.dataset.drawn = "1";
    const style = getComputedStyle(document.documentElement);
    const colours = ["--first", "--second", "--third"].map((name) => style.getPropertyValue(name).trim());
    const text = style.getPropertyValue("--text").trim();
    const axis = { stroke: text, grid: { stroke: style.getPropertyValue("--line").trim() } };
    new uPlot({
      width: element.clientWidth, height: 200, axes: [axis, axis],
      series: [{}, ...labels.map((label, at) => ({ label, stroke: colours[at], width: 2 }))],
    }, data, element);
  }
}
document.addEventListener("DOMContentLoaded", drawCharts);
document.addEventListener("htmx:afterSwap", drawCharts);
// A dangerous action is confirmed once more with its own words.
document.addEventListener("submit", (event) => {
  const warning = event.target.closest(".dangerous")?.querySelector(".warning")?.textContent;
  if (warning && !window.confirm(warning)) event.preventDefault();
});

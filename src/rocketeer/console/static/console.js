// Charts from data attributes, drawn again when htmx puts a fresh part of the page in place; parts that refresh
// themselves wait while somebody is at work in them.
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
      width: element.clientWidth - 18, height: 190, axes: [axis, axis],
      series: [{ label: element.dataset.time }, ...labels.map((label, at) => ({ label, stroke: colours[at], width: 2 }))],
    }, data, element);
  }
}
document.addEventListener("DOMContentLoaded", () => {
  drawCharts();
  document.getElementById("said")?.focus(); // what an action did is the first thing to be read
});
document.addEventListener("htmx:afterSwap", drawCharts);

// A refresh would take away the focus, an opened form, or a choice: it waits. A page nobody sees asks for nothing.
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target;
  const busy = part.contains(document.activeElement) || part.querySelector("details[open], :checked");
  if (document.hidden || busy) event.preventDefault();
});
const notLive = () => document.getElementById("not-live");
document.addEventListener("htmx:sendError", () => { notLive().hidden = false; });
document.addEventListener("htmx:responseError", () => { notLive().hidden = false; });
document.addEventListener("htmx:afterOnLoad", () => { notLive().hidden = true; });

// The box in a table's head chooses all boxes of its form.
document.addEventListener("change", (event) => {
  const name = event.target.dataset?.checks;
  if (!name) return;
  for (const box of event.target.form.elements) if (box.name === name) box.checked = event.target.checked;
});

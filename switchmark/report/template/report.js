// Draws the figures in the colours of the theme, and sorts tables. No network, no storage.
"use strict";
(() => {
  const payloads = JSON.parse(document.getElementById("figures").textContent);
  const theme = /^@(series[0-7]|part[0-2]|muted|ink|line|card)$/;
  const drawn = new Set();
  const widths = new Map();
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.clientWidth && target.clientWidth !== widths.get(target)) draw(target);
    }
  });

  function colors() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue("--" + name).trim();
  }

  // "@series0" anywhere in a figure stands for the theme's colour of that name.
  function themed(value, color) {
    if (typeof value === "string") return theme.test(value) ? color(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((item) => themed(item, color));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, color)]));
    }
    return value;
  }

  function axis(given, color) {
    return Object.assign({
      gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"),
      tickcolor: color("line"), fixedrange: false,
    }, given);
  }

  function draw(element) {
    const color = colors();
    const { data, layout, height } = themed(payloads[Number(element.dataset.figure)], color);
    const narrow = element.clientWidth < 430;
    const full = Object.assign({
      height, width: element.clientWidth, margin: { l: 12, r: 14, t: 10, b: 12, pad: 4 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 13, color: color("ink") },
      hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { color: color("ink") } },
      colorway: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => color("series" + i)), dragmode: false,
    }, layout);
    full.xaxis = axis(layout.xaxis, color);
    full.yaxis = axis(layout.yaxis, color);
    Plotly.react(element, data, full, {
      displaylogo: false, displayModeBar: false,
    });
    drawn.add(element);
    widths.set(element, element.clientWidth);
    resized.observe(element);
  }

  function drawIn(root) {
    for (const element of root.querySelectorAll(".chart")) {
      const folded = element.closest("details:not([open])");
      if (!folded && !drawn.has(element)) draw(element);
    }
  }

  function redraw() {
    for (const element of drawn) draw(element);
  }

  function sortBy(table, column, header) {
    const descending = header.getAttribute("aria-sort") !== "descending";
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.sort ?? cell.textContent.trim();
      const number = Number.parseFloat(text.replace(/[,±]/g, ""));
      return Number.isNaN(number) ? text : number;
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => (typeof a === "number" && typeof b === "number"
      ? a - b : String(a).localeCompare(String(b))));
    if (descending) rows.reverse();
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      header.replaceChildren(button);
      button.addEventListener("click", () => sortBy(table, column, header));
    });
  }
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => details.open && drawIn(details));
  }
  // A link to what is folded opens it.
  function reveal() {
    let inside = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const target = inside;
    for (; inside; inside = inside.parentElement) if (inside.tagName === "DETAILS") inside.open = true;
    target?.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "print";
    redraw();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.theme;
    redraw();
  });
  drawIn(document);
  reveal();
})();

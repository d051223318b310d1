"use strict";
const complaints = [];
const complain = (where, what) => {
  const id = where.closest("[id]");
  complaints.push(`${id ? id.id : "page"}: ${what}`);
};
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

const fits = (when) => {
  const page = document.documentElement;
  if (page.scrollWidth > window.innerWidth) {
    complain(page, `${when}, the page is ${page.scrollWidth} wide in ${window.innerWidth}`);
  }
};

// The relative luminance of a colour, and the contrast of two (WCAG 2).
const luminance = (colour) => {
  const part = (value) =>
    value <= 0.04045 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4);
  const [r, g, b] = colour.match(/[\d.]+/g).map((text) => part(Number(text) / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const paper = getComputedStyle(document.body).backgroundColor;
const seen = (node, colour, least) => {
  const found = contrast(colour, paper);
  if (found < least) {
    complain(node, `a contrast of ${found.toFixed(2)} (${colour} on ${paper}), not ${least}`);
  }
};

const overlap = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 &&
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;

fits("closed");
all("details").forEach((details) => (details.open = true));
fits("opened");

for (const svg of all("svg")) {
  const { width, height } = svg.getBoundingClientRect();
  if (!(width > 0 && height > 0)) complain(svg, `a plot of ${width} by ${height}`);
}
let texts = 0;
for (const svg of all("svg.plot")) {
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  // The box of a text is as tall as the font; what is written is less.
  const told = all("text", svg).map((text) => {
    const { left, right, top, bottom, height } = text.getBoundingClientRect();
    return { text, left, right, top: top + height * 0.2, bottom: bottom - height * 0.2 };
  });
  texts += told.length;
  for (const one of told) {
    const size = parseFloat(getComputedStyle(one.text).fontSize) * scale;
    if (size < 9) complain(svg, `"${one.text.textContent}" is ${size.toFixed(1)} px tall`);
    if (
      one.left < box.left - 0.5 || one.right > box.right + 0.5 ||
      one.top < box.top - 0.5 || one.bottom > box.bottom + 0.5
    ) {
      complain(svg, `"${one.text.textContent}" is cut off`);
    }
    seen(svg, getComputedStyle(one.text).fill, 4.5);
  }
  for (const [index, one] of told.entries()) {
    for (const other of told.slice(index + 1)) {
      if (overlap(one, other)) {
        complain(svg, `"${one.text.textContent}" and "${other.text.textContent}" overlap`);
      }
    }
  }
  for (const line of all(".line", svg)) seen(svg, getComputedStyle(line).stroke, 3);
  for (const mark of all(".mark, .bar", svg)) seen(svg, getComputedStyle(mark).fill, 3);
}
for (const node of all("h1, h2, p, th, td, li, dd, dt, figcaption, summary, footer")) {
  if (!node.closest(".warning")) seen(node, getComputedStyle(node).color, 4.5);
}

const tell = (id, text) => {
  const pre = document.createElement("pre");
  pre.id = id;
  pre.textContent = text;
  document.body.append(pre);
};
const [plots, rows] = [all("svg.plot").length, all("table.brief tbody tr").length];
tell("looked-at", `${plots} plots, ${rows} rows, ${texts > 0 ? "texts" : "no texts"}, ` +
  `${window.innerWidth} px, ${luminance(paper) < 0.5 ? "dark" : "light"}`);
tell("complaints", complaints.join("\n"));

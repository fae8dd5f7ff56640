// Elements, scales and colours.
const SVG = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = 8;
const VALUE_COLOURS = ["#00204d", "#31446b", "#666970", "#958f78", "#cbba69", "#ffea46"];
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "4 4 1 4"];

const draw = (tag, attributes, parent, text) => {
  const node = document.createElementNS(SVG, tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const element = (tag, attributes, parent, text) => {
  const node = document.createElement(tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const plots = (name) => document.querySelectorAll(`[data-plot="${name}"]`);
const colour = (i) => `var(--c${i % COLOURS})`;
const linear = (from, to, low, high) => (value) => low + ((value - from) / (to - from || 1)) * (high - low);
const number = (value, digits = 4) => String(Number(value.toPrecision(digits)));
// Long names keep both ends: classes often differ in the last letters.
const clip = (name, most) => (name.length <= most ? name : `${name.slice(0, Math.ceil(most / 2))}…${name.slice(1 + Math.ceil(most / 2) - most)}`);
const percent = (share) => `${number(100 * share, 2)} %`;

// A drawing as wide as its place, in which one unit is one pixel.
const sheet = (place, label, height, width = Math.max(220, place.clientWidth)) => {
  place.replaceChildren();
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, place);
};

// Shapes of about the same area around the origin.
const polygon = (r, corners) => (scale) =>
  `M${corners.map(([x, y]) => `${(x * r * scale).toFixed(2)},${(y * r * scale).toFixed(2)}`).join("L")}Z`;
const arms = [[-0.4, -1.15], [0.4, -1.15], [0.4, -0.4], [1.15, -0.4], [1.15, 0.4], [0.4, 0.4], [0.4, 1.15], [-0.4, 1.15], [-0.4, 0.4], [-1.15, 0.4], [-1.15, -0.4], [-0.4, -0.4]];
const star = [...Array(10).keys()].map((k) => {
  const angle = (Math.PI * k) / 5, radius = k % 2 ? 0.6 : 1.35;
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
});
const SHAPES = [
  (s) => `M${-s},0a${s},${s} 0 1,0 ${2 * s},0a${s},${s} 0 1,0 ${-2 * s},0Z`,
  polygon(1, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
  polygon(1, [[0, -1.3], [1.2, 0.85], [-1.2, 0.85]]),
  polygon(1, [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]),
  polygon(1, arms),
  polygon(1, [[0, 1.3], [1.2, -0.85], [-1.2, -0.85]]),
  polygon(1, star),
  polygon(1, arms.map(([x, y]) => [(x - y) * 0.7071, (x + y) * 0.7071])),
];
// Colours repeat after eight classes, then with other shapes.
const shape = (i, size) => SHAPES[(i + Math.floor(i / COLOURS)) % SHAPES.length](size);

const mixed = (stops, share) => {
  const place = share * (stops.length - 1);
  const i = Math.min(Math.floor(place), stops.length - 2);
  return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (place - i)));
};
const rgb = (text) => {
  const probe = element("span", {}, document.body);
  probe.style.color = text;
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
};
const valueColour = (share) => {
  const stops = VALUE_COLOURS.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return `rgb(${mixed(stops, share)})`;
};

const bottomAxis = (svg, x, ticks, y, title, unit = "") => {
  const [left, right] = [x(ticks[0]), x(ticks[ticks.length - 1])];
  draw("line", { class: "frame", x1: left, x2: right, y1: y, y2: y }, svg);
  const every = Math.ceil((ticks.length * 46) / Math.max(right - left, 1));
  ticks.forEach((tick, i) => {
    if (i % every) return;
    draw("line", { class: "frame", x1: x(tick), x2: x(tick), y1: y, y2: y + 5 }, svg);
    draw("text", { class: "soft", x: x(tick), y: y + 19, "text-anchor": "middle" }, svg, number(tick) + unit);
  });
  draw("text", { x: (left + right) / 2, y: y + 39, "text-anchor": "middle" }, svg, title);
};
const niceTicks = (low, high, wanted) => {
  const rough = (high - low || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
};

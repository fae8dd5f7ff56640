// Histograms of pairs of points: filled for one class (or all pairs), outlined for two.
const drawBars = (svg, histogram, x, top, bottom) => {
  const { edges, groups } = histogram;
  const most = Math.max(...groups.flatMap((group) => group.bars), 1e-12);
  const y = linear(0, most, bottom, top);
  groups.forEach((group, k) => {
    const line = group.bars.map((bar, i) => `L${x(edges[i])},${y(bar)}L${x(edges[i + 1])},${y(bar)}`).join("");
    draw("path", { class: k ? "two" : "one", d: `M${x(edges[0])},${bottom}${line}L${x(edges[edges.length - 1])},${bottom}` }, svg);
  });
};
const barText = (histogram, i) => histogram.groups.map((group) => `${percent(group.bars[i])} of ${group.name}`).join("\n");

const pairsKey = (place, histogram) => {
  place.replaceChildren();
  const list = element("ul", { class: "key" }, place);
  histogram.groups.forEach((group, k) => {
    const item = element("span", { class: "item" }, element("li", {}, list));
    const svg = draw("svg", { width: 18, height: 12, "aria-hidden": "true" }, item);
    draw("rect", { class: k ? "two" : "one", x: 1, y: 1, width: 16, height: 10 }, svg);
    element("span", { class: "label" }, item, group.name);
  });
};

const drawPairs = (place, family) => {
  const svg = sheet(place, `How often pairs have which similarity under ${family.name}. Arrow keys move from bar to bar.`, 250);
  const { edges, groups } = family.similarities;
  const width = Number(svg.getAttribute("width"));
  const [low, high] = [edges[0], edges[edges.length - 1]];
  const x = linear(low, high, 12, width - 12);
  const bottom = 200;
  drawBars(svg, family.similarities, x, 8, bottom);
  const ticks = niceTicks(low, high, Math.min(6, width / 70));
  draw("line", { class: "frame", x1: 12, x2: width - 12, y1: bottom, y2: bottom }, svg);
  bottomAxis(svg, x, ticks, bottom, "similarity");
  const cursor = draw("line", { class: "cursor", y1: 8, y2: bottom, visibility: "hidden" }, svg);
  const at = (i) => x((edges[i] + edges[i + 1]) / 2);
  explore(svg, {
    count: groups[0].bars.length, reach: 40, vertical: false,
    at: (i) => [at(i), 60],
    text: (i) => `similarity ${number(edges[i])} to ${number(edges[i + 1])}\n${barText(family.similarities, i)}`,
    highlight: (i) => {
      cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i >= 0) { cursor.setAttribute("x1", at(i)); cursor.setAttribute("x2", at(i)); }
    },
  });
  pairsKey(place.parentElement.querySelector(".pairs-key"), family.similarities);
};

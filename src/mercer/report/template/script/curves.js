// Kernels against angle or distance, above the histogram of the data's own.
const drawCurves = (place) => {
  const index = Number(place.dataset.index);
  const figure = data.curves[index];
  const svg = sheet(place, `Kernels against the ${figure.title}, with the histogram of the data below. Arrow keys move along the curves.`, 390);
  const width = Number(svg.getAttribute("width"));
  const left = 36, right = width - 18, top = 10, middle = 230, bottom = 340;
  const x = linear(figure.x[0], figure.x[figure.x.length - 1], left, right);
  const values = figure.lines.flatMap((line) => line.y).filter((value) => value !== null);
  const least = Math.min(0, ...values), most = Math.max(1, ...values);
  const y = linear(least, most, middle, top);
  niceTicks(least, most, 4).forEach((tick) => {
    draw("line", { class: "rule", x1: left, x2: right, y1: y(tick), y2: y(tick) }, svg);
    draw("text", { class: "soft", x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, svg, number(tick));
  });
  figure.lines.forEach((line) => {
    const path = line.y.map((value, i) => (value === null ? "" : `${i ? "L" : "M"}${x(figure.x[i]).toFixed(1)},${y(value).toFixed(1)}`)).join("");
    draw("path", { d: path, fill: "none", stroke: familyColour(line.name), "stroke-width": 2.5, "stroke-dasharray": familyDash(line.name), "stroke-linejoin": "round" }, svg);
  });
  drawBars(svg, figure.histogram, x, middle + 22, bottom);
  bottomAxis(svg, x, figure.ticks, bottom, figure.title, figure.unit);
  const cursor = draw("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }, svg);
  const bins = figure.histogram.edges;
  explore(svg, {
    count: figure.x.length, reach: 30, vertical: false,
    at: (i) => [x(figure.x[i]), top + 40],
    text: (i) => {
      const bin = Math.min(bins.length - 2, Math.max(0, bins.findIndex((edge) => edge > figure.x[i]) - 1));
      const last = figure.x[i] >= bins[bins.length - 1] ? bins.length - 2 : bin;
      const lines = figure.lines.map((line) => `${line.name} ${line.y[i] === null ? "–" : number(line.y[i])}`);
      return `${figure.title} ${number(figure.x[i])}${figure.unit}\n${lines.join("\n")}\naround it: ${barText(figure.histogram, last)}`;
    },
    highlight: (i) => {
      cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i >= 0) { cursor.setAttribute("x1", x(figure.x[i])); cursor.setAttribute("x2", x(figure.x[i])); }
    },
  });
  const key = document.querySelector(`[data-curves="${index}"]`);
  key.replaceChildren();
  figure.lines.forEach((line) => {
    const item = element("span", { class: "item" }, element("li", {}, key));
    const sample = draw("svg", { width: 34, height: 8, "aria-hidden": "true" }, item);
    draw("line", { x1: 0, x2: 34, y1: 4, y2: 4, stroke: familyColour(line.name), "stroke-width": 2.5, "stroke-dasharray": familyDash(line.name) }, sample);
    element("span", { class: "label" }, item, line.name);
  });
  pairsKey(place.parentElement.querySelector(".pairs-key"), figure.histogram);
};
const familyIndex = (name) => data.families.findIndex((family) => family.name === name);
const familyColour = (name) => colour(familyIndex(name));
const familyDash = (name) => DASHES[familyIndex(name) % DASHES.length];

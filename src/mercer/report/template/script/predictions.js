// Counts or shares in the confusion matrix; predicted against true values.
const fillConfusion = (what) => {
  document.querySelectorAll("#confusion td[data-count]").forEach((cell) => {
    if (cell.dataset.count === "0") return;
    cell.textContent = what === "count" ? cell.dataset.count : `${cell.dataset.share}`;
  });
};

const drawScatter = (place) => {
  const { value: truth, names } = data.points, { predicted } = data.families[0], ticks = data.ticks;
  const width = Math.max(240, place.clientWidth), height = Math.min(width, 460);
  const svg = sheet(place, "Predicted against true values. Arrow keys move from point to point.", height + 10, width);
  const left = 52, bottom = height - 44;
  const ends = [ticks[0], ticks[ticks.length - 1]];
  const x = linear(...ends, left, width - 18), y = linear(...ends, bottom, 12);
  ticks.forEach((tick) => {
    draw("line", { class: "rule", x1: left, x2: width - 18, y1: y(tick), y2: y(tick) }, svg);
    draw("text", { class: "soft", x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, svg, number(tick));
  });
  bottomAxis(svg, x, ticks, bottom, "true");
  draw("text", { x: 12, y: (12 + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(12 + bottom) / 2})` }, svg, "predicted");
  draw("line", { class: "cursor", x1: x(ends[0]), y1: y(ends[0]), x2: x(ends[1]), y2: y(ends[1]), "stroke-dasharray": "5 4" }, svg);
  truth.forEach((value, i) => {
    const node = draw("path", { class: "point", d: SHAPES[0](4), transform: `translate(${x(value)},${y(predicted[i])})`, "fill-opacity": 0.75 }, svg);
    node.style.fill = "var(--mark)";
  });
  const cursor = draw("circle", { class: "cursor", r: 8, "stroke-width": 2, visibility: "hidden" }, svg);
  const at = (i) => [x(truth[i]), y(predicted[i])];
  explore(svg, {
    count: truth.length, reach: 16, at,
    text: (i) => `${names[i]}\ntrue ${number(truth[i])}, predicted ${number(predicted[i])}`,
    highlight: (i) => {
      cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i >= 0) { cursor.setAttribute("cx", at(i)[0]); cursor.setAttribute("cy", at(i)[1]); }
    },
  });
};

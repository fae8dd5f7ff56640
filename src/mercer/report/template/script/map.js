// Kernel PCA: points move when another kernel is chosen.
const chosenClasses = new Set();
let mapNodes = [];

const valueShare = () => {
  const known = data.points.value;
  const low = Math.min(...known), high = Math.max(...known);
  return { low, high, share: (value) => (high > low ? (value - low) / (high - low) : 0.5) };
};

const mapPlaces = (family, width, height) => {
  const { x, y } = family.map;
  const pad = 14;
  const scale = (values, from, to) => linear(Math.min(...values), Math.max(...values), from, to);
  const right = scale(x, pad, width - pad), up = scale(y, height - 30, pad);
  return x.map((value, i) => [right(value), up(y[i])]);
};

const drawMap = (place, family, moved) => {
  const width = Math.max(220, place.clientWidth), height = Math.min(430, Math.max(300, 0.9 * width));
  const places = mapPlaces(family, width, height);
  let svg = place.querySelector("svg");
  if (!svg || moved !== true) {
    svg = sheet(place, "", height, width);
    draw("g", {}, svg);
    mapNodes = places.map((_, i) => mapPoint(svg.firstChild, i));
    draw("circle", { class: "cursor", r: 9, "stroke-width": 2, visibility: "hidden" }, svg);
    draw("text", { class: "soft", x: width / 2, y: height - 4, "text-anchor": "middle" }, svg);
    explore(svg, {
      count: places.length, reach: 16,
      at: (i) => svg.places[i],
      text: (i) => mapText(i, svg.family),
      highlight: (i) => {
        const cursor = svg.querySelector("circle.cursor");
        cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
        if (i < 0) return;
        cursor.setAttribute("cx", svg.places[i][0]);
        cursor.setAttribute("cy", svg.places[i][1]);
      },
    });
  }
  svg.places = places;
  svg.family = family;
  svg.setAttribute("aria-label", `Map of ${places.length} points under ${family.name}. Arrow keys move from point to point.`);
  const [first, second] = family.map.shares;
  svg.querySelector("text").textContent = `axes hold ${percent(first)} and ${percent(second)} of the variance`;
  mapNodes.forEach((node, i) => { node.style.transform = `translate(${places[i][0].toFixed(1)}px,${places[i][1].toFixed(1)}px)`; });
  dressMap(family);
};

const mapPoint = (parent, i) => {
  const { code, value } = data.points;
  const size = data.points.names.length > 300 ? 4 : 5;
  if (code) {
    const node = draw("path", { class: "point", d: shape(code[i], size) }, parent);
    node.style.fill = colour(code[i]);
    return node;
  }
  return draw("path", { class: "point valued", d: SHAPES[0](size), fill: valueColour(valueShare().share(value[i])) }, parent);
};

const mapText = (i, family) => {
  const guess = family.predicted[i];
  if (!data.classes) return `${pointText(i)}\npredicted ${number(guess)}`;
  return `${pointText(i)}\n${guess === data.points.code[i] ? "predicted correctly" : `predicted ${data.classes[guess]}`}`;
};

// Classes that were not chosen fade; mistakes are ringed where that is asked for.
const dressMap = (family) => {
  const { code } = data.points;
  if (!code) return;
  const ringed = document.getElementById("mistakes").checked;
  mapNodes.forEach((node, i) => {
    node.classList.toggle("dim", chosenClasses.size > 0 && !chosenClasses.has(code[i]));
    node.classList.toggle("wrong", ringed && family.predicted[i] !== code[i]);
  });
};

const drawMapKey = (redress) => {
  const place = document.getElementById("map-key");
  if (!data.classes) {
    const { low, high } = valueShare();
    const scale = element("div", { class: "scale" }, place);
    element("span", {}, scale, number(low));
    element("i", { style: `background:linear-gradient(90deg,${VALUE_COLOURS})` }, scale);
    element("span", {}, scale, number(high));
    return;
  }
  const list = element("ul", { class: "key" }, place);
  data.classes.forEach((name, code) => {
    const button = element("button", { type: "button", "aria-pressed": "false", title: name }, element("li", {}, list));
    const svg = draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, button);
    draw("path", { d: shape(code, 4.6) }, svg).style.fill = colour(code);
    element("span", { class: "label" }, button, data.short[code]);
    button.addEventListener("click", () => {
      if (!chosenClasses.delete(code)) chosenClasses.add(code);
      button.setAttribute("aria-pressed", String(chosenClasses.has(code)));
      redress();
    });
  });
};

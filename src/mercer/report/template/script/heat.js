// The Gram matrix of some points, ordered by class or by target.
const drawHeat = (place, family) => {
  const { low, high, bytes } = family.heat;
  const levels = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
  const order = data.order, size = order.length;
  const level = (i, j) => levels[i >= j ? (i * (i + 1)) / 2 + j : (j * (j + 1)) / 2 + i];
  const width = Math.max(220, place.clientWidth);
  const groups = data.classes ? blocks(order) : [];
  // Names of the classes whose rows are high enough for a line of text, and no more than fit.
  const room = (group) => (group.count / size) * Math.min(width - 60, 460) >= 13;
  const named = groups.filter(room);
  const left = named.length ? Math.min(118, 16 + 8 * Math.max(...named.map((g) => data.short[g.code].length))) : 4;
  const side = Math.min(width - left - 6, 460), top = 4;
  const svg = sheet(place, `Gram matrix of ${size} points under ${family.name}. Arrow keys move from entry to entry.`, side + top + 6, width);

  const canvas = element("canvas", { width: size, height: size });
  const context = canvas.getContext("2d"), image = context.createImageData(size, size);
  const stops = [rgb("var(--heat-low)"), rgb("var(--heat-high)")];
  const palette = [...Array(256).keys()].map((k) => mixed(stops, k / 255));
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) image.data.set([...palette[level(i, j)], 255], 4 * (i * size + j));
  }
  context.putImageData(image, 0, 0);
  const picture = draw("image", { x: left, y: top, width: side, height: side, href: canvas.toDataURL() }, svg);
  picture.style.imageRendering = "pixelated";

  const unit = side / size;
  groups.forEach((group) => {
    const start = top + group.start * unit, middle = start + (group.count * unit) / 2;
    if (group.start) {
      draw("line", { class: "split", x1: left, x2: left + side, y1: start, y2: start }, svg);
      const across = left + group.start * unit;
      draw("line", { class: "split", x1: across, x2: across, y1: top, y2: top + side }, svg);
    }
    if (named.includes(group)) draw("text", { x: left - 8, y: middle + 4, "text-anchor": "end" }, svg, clip(data.short[group.code], 13));
  });
  draw("rect", { class: "frame", x: left, y: top, width: side, height: side }, svg);
  const cursor = draw("rect", { class: "cursor", width: unit + 4, height: unit + 4, "stroke-width": 1.5, visibility: "hidden" }, svg);
  const at = (k) => [left + ((k % size) + 0.5) * unit, top + (Math.floor(k / size) + 0.5) * unit];
  explore(svg, {
    count: size * size, reach: unit, at,
    text: (k) => {
      const i = Math.floor(k / size), j = k % size;
      const value = i === j ? "1, with itself" : `about ${number(low + (level(i, j) / 255) * (high - low), 2)}`;
      return `similarity ${value}\n${pointText(order[i])}${i === j ? "" : `\n${pointText(order[j])}`}`;
    },
    highlight: (k) => {
      cursor.setAttribute("visibility", k < 0 ? "hidden" : "visible");
      if (k < 0) return;
      const [x, y] = at(k);
      cursor.setAttribute("x", x - unit / 2 - 2);
      cursor.setAttribute("y", y - unit / 2 - 2);
    },
  });
  const scale = document.getElementById("heat-scale");
  scale.replaceChildren();
  element("span", {}, scale, number(low, 2));
  element("i", { style: "background:linear-gradient(90deg,var(--heat-low),var(--heat-high))" }, scale);
  element("span", {}, scale, number(high, 2));
};

// Runs of points of one class.
const blocks = (order) => {
  const found = [];
  order.forEach((point, place) => {
    const code = data.points.code[point], last = found[found.length - 1];
    if (last && last.code === code) last.count += 1;
    else found.push({ code, start: place, count: 1 });
  });
  return found;
};

const pointText = (i) => {
  const { names, code, value } = data.points;
  return `${names[i]}, ${code ? `class ${data.classes[code[i]]}` : `target ${number(value[i])}`}`;
};

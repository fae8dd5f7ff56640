// Scores over the kernel's parameter and C, as a table of coloured cells.
const LETTER = 7.6; // width of a digit, about

// A number in the room that there is, with fewer digits, or not at all.  Shares are rounded down: 100% is no mistake.
const fitted = (text, room) => {
  const value = parseFloat(text);
  const shorter = text.endsWith("%") ? [`${Math.floor(10 * value) / 10}%`, `${Math.floor(value)}%`] : [number(value, 2)];
  return [text, ...shorter, ""].find((form) => form.length * LETTER <= room);
};

// Colours for the better half: one bad corner would else make all good cells look the same.
const heatShare = (values) => {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const high = sorted[sorted.length - 1], middle = sorted[Math.floor(sorted.length / 2)];
  const low = middle === high ? sorted[0] : Math.max(sorted[0], 3 * middle - 2 * high);
  return (value) => (value === null ? 0 : high > low ? Math.max(0, (100 * (value - low)) / (high - low)) : 50);
};

const drawResponse = (place, family) => {
  const { rows, parameter, columns, knob, own, values, mean, text, spread, folds, best } = family.response;
  const width = Math.max(220, place.clientWidth);
  const left = Math.min(LETTER * Math.max(...rows.map((row) => row.length)) + 16, 0.4 * width);
  const top = parameter ? 26 : 6, gap = 3;
  const cell = (width - left) / columns.length, height = Math.min(46, Math.max(32, 300 / rows.length));
  const bottom = top + rows.length * height;
  const svg = sheet(place, `${data.metric} over the parameters of ${family.name}. Arrow keys move from cell to cell.`, bottom + 46, width);
  const share = heatShare(mean.flat());
  const cells = [];
  if (parameter) draw("text", { class: "soft", x: 0, y: 14 }, svg, `${parameter} ↓`);
  rows.forEach((label, i) => {
    const y = top + i * height;
    const name = draw("text", { x: left - 10, y: y + height / 2 + 3, "text-anchor": "end" }, svg, clip(label, Math.floor((left - 14) / LETTER)));
    draw("title", {}, name, label);
    mean[i].forEach((value, j) => {
      const heat = share(value), x = left + j * cell;
      if (text[i][j] === null) { // not tried
        draw("text", { class: "soft", x: x + (cell - gap) / 2, y: y + height / 2 + 3, "text-anchor": "middle" }, svg, "–");
        return;
      }
      const box = draw("rect", { x, y, width: cell - gap, height: height - gap, rx: 3 }, svg);
      box.style.fill = `color-mix(in srgb, var(--heat-high) ${heat.toFixed(1)}%, var(--heat-low))`;
      const level = heat < 50 ? "h0" : heat < 72 ? "h1" : "h2";
      const centre = x + (cell - gap) / 2, dots = folds[i][j];
      draw("text", { class: level, x: centre, y: y + height / 2 + (dots ? -1 : 3), "text-anchor": "middle" }, svg, fitted(text[i][j], cell - gap));
      if (dots) draw("text", { class: level, x: centre, y: y + height / 2 + 13, "text-anchor": "middle" }, svg, dots > 4 ? `• × ${dots}` : "•".repeat(dots));
      cells.push({ i, j, x: centre, y: y + height / 2, dots });
    });
  });
  draw("rect", { class: "cursor", x: left + best[1] * cell - 1.5, y: top + best[0] * height - 1.5, width: cell - gap + 3, height: height - gap + 3, rx: 4, "stroke-width": 2.5 }, svg);
  const every = Math.ceil((LETTER * Math.max(...columns.map((label) => label.length)) + 4) / cell);
  // In the middle, unless the text would be cut off on the right.
  const centred = (x, label) => Math.max(Math.min(x, width - (LETTER * label.length) / 2), (LETTER * label.length) / 2);
  columns.forEach((label, j) => {
    if (j % every === 0) draw("text", { class: "soft", x: centred(left + j * cell + (cell - gap) / 2, label), y: bottom + 16, "text-anchor": "middle" }, svg, label);
  });
  draw("text", { x: centred(left + (width - left) / 2, knob), y: bottom + 36, "text-anchor": "middle" }, svg, knob);
  const total = folds.flat().reduce((a, b) => a + b, 0);
  explore(svg, {
    count: cells.length, reach: Math.max(cell, height) / 1.6,
    at: (k) => [cells[k].x, cells[k].y],
    text: (k) => {
      const { i, j, dots } = cells[k];
      const kernel = parameter ? `${parameter} = ${rows[i]}` : rows[i];
      const setting = own ? `, ${own} = ${number(values[i][j])}` : "";
      return `${text[i][j]} (± ${spread[i][j]} over the folds)\n${kernel}${setting}\nchosen in ${dots} of ${total} outer folds`;
    },
  });
};

// Scores over the kernel's parameter and C, as a table of coloured cells.
const drawResponse = (place, family) => {
  const { rows, parameter, columns, knob, values, mean, text, spread, folds, best } = family.response;
  const longest = Math.max(...rows.map((row) => row.length), parameter.length + 2);
  const width = Math.max(280, place.clientWidth);
  const left = Math.min(8 * longest + 14, 0.42 * width), top = 8, gap = 3;
  const cell = (width - left) / columns.length;
  const height = Math.min(46, Math.max(30, 300 / rows.length));
  const bottom = top + rows.length * height;
  const svg = sheet(place, `${data.metric} over the parameters of ${family.name}. Arrow keys move from cell to cell.`, bottom + 48, width);
  const all = mean.flat().filter((value) => value !== null);
  // Colours for the better half: one bad corner would else make all good cells look the same.
  const sorted = [...all].sort((a, b) => a - b), high = sorted[sorted.length - 1];
  const middle = sorted[Math.floor(sorted.length / 2)];
  const low = middle === high ? sorted[0] : Math.max(sorted[0], 3 * middle - 2 * high);
  const cells = [];
  rows.forEach((label, i) => {
    const y = top + i * height;
    const room = Math.floor((left - 14) / 8);
    const name = draw("text", { x: left - 10, y: y + height / 2 + 4, "text-anchor": "end" }, svg, clip(label, room));
    draw("title", {}, name, label);
    mean[i].forEach((value, j) => {
      const share = value === null ? 0 : high > low ? Math.max(0, (100 * (value - low)) / (high - low)) : 50;
      const x = left + j * cell;
      const box = draw("rect", { x, y, width: cell - gap, height: height - gap, rx: 3 }, svg);
      box.style.fill = `color-mix(in srgb, var(--heat-high) ${share.toFixed(1)}%, var(--heat-low))`;
      const level = share < 50 ? "h0" : share < 72 ? "h1" : "h2";
      const centre = x + (cell - gap) / 2, dots = folds[i][j];
      draw("text", { class: level, x: centre, y: y + height / 2 + (dots ? -1 : 3), "text-anchor": "middle" }, svg, cell > 52 ? text[i][j] : text[i][j].replace(/\.\d+%/, "%"));
      if (dots) draw("text", { class: level, x: centre, y: y + height / 2 + 13, "text-anchor": "middle" }, svg, dots > 5 ? `• × ${dots}` : "•".repeat(dots));
      cells.push({ i, j, x: centre, y: y + height / 2, dots });
    });
  });
  const frame = draw("rect", { class: "cursor", x: left + best[1] * cell - 1.5, y: top + best[0] * height - 1.5, width: cell - gap + 3, height: height - gap + 3, rx: 4, "stroke-width": 2.5 }, svg);
  frame.classList.add("chosen");
  columns.forEach((label, j) => draw("text", { class: "soft", x: left + j * cell + (cell - gap) / 2, y: bottom + 16, "text-anchor": "middle" }, svg, label));
  const relative = columns[0].startsWith("×") ? ", relative to the middle" : "";
  draw("text", { x: left + (width - left) / 2, y: bottom + 36, "text-anchor": "middle" }, svg, knob + relative);
  if (parameter) draw("text", { class: "soft", x: left - 10, y: bottom + 16, "text-anchor": "end" }, svg, `↑ ${clip(parameter, Math.floor(left / 8) - 3)}`);
  explore(svg, {
    count: cells.length, reach: Math.max(cell, height) / 1.6,
    at: (k) => [cells[k].x, cells[k].y],
    text: (k) => {
      const { i, j, dots } = cells[k];
      const setting = knob ? `${knob} = ${number(values[i][j])}` : "";
      const kernel = parameter ? `${parameter} = ${rows[i]}` : rows[i];
      return `${text[i][j]} (± ${spread[i][j]} over the folds)\n${[kernel, setting].filter(Boolean).join(", ")}\nchosen in ${dots} of ${folds.flat().reduce((a, b) => a + b, 0)} outer folds`;
    },
  });
};

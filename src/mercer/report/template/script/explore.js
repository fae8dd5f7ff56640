// One tooltip for all figures; marks are found by pointer, by touch and by arrow keys.
const tip = document.getElementById("tip");
let anchor = null;
const hideTip = () => { tip.style.visibility = "hidden"; anchor = null; };
const placeTip = () => {
  const box = anchor.svg.getBoundingClientRect();
  const x = box.left + anchor.x, y = box.top + anchor.y;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x - width / 2), window.innerWidth - width - 8);
  const above = y - height - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 8 ? y + 18 : above}px`;
  tip.style.visibility = "visible";
};
const showTip = (text, svg, [x, y]) => {
  tip.textContent = text;
  anchor = { svg, x, y };
  placeTip();
};
// Under the keyboard a tip stays with its mark, under the pointer the mark is gone.
window.addEventListener("scroll", () => {
  if (!anchor) return;
  if (document.activeElement === anchor.svg) placeTip();
  else hideTip();
}, { passive: true });

// marks: count, at(i) -> [x, y], text(i), reach (pixels), and highlight(i), which gets -1 for none.
const explore = (svg, marks) => {
  let current = -1;
  const show = (i) => {
    current = i;
    if (marks.highlight) marks.highlight(i);
    if (i < 0) return hideTip();
    showTip(marks.text(i), svg, marks.at(i));
  };
  const best = (cost) => {
    let found = -1, least = Infinity;
    for (let i = 0; i < marks.count; i++) {
      const value = cost(...marks.at(i));
      if (value < least) [found, least] = [i, value];
    }
    return found;
  };
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const stretch = marks.vertical === false ? 0 : 1;
    return best((x, y) => {
      const distance = Math.hypot(x - px, stretch * (y - py));
      return distance <= marks.reach ? distance : Infinity;
    });
  };
  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", (event) => { const i = under(event); if (i !== current) show(i); });
  svg.addEventListener("pointerdown", (event) => show(under(event)));
  // A finger that is lifted leaves too, but its tip stays until the next tap.
  svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(-1); });
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(marks.count ? 0 : -1); });
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return show(-1);
    const way = directions[event.key];
    if (!way || !marks.count) return;
    event.preventDefault();
    if (current < 0) return show(0);
    const [fromX, fromY] = marks.at(current);
    const next = best((x, y) => {
      const along = way[0] * (x - fromX) + way[1] * (y - fromY);
      const across = Math.abs(way[1] * (x - fromX) - way[0] * (y - fromY));
      return along > 0.01 ? along + 3 * across : Infinity;
    });
    if (next >= 0) show(next);
  });
};

// What is chosen, and drawing anew when the width or the colours change.
document.documentElement.classList.add("live");
let family = data.families[0];
const each = (name, make) => plots(name).forEach((place) => make(place));

const drawFamily = (moved) => {
  document.getElementById("kernel").textContent = family.kernel;
  each("map", (place) => drawMap(place, family, moved));
  each("heat", (place) => drawHeat(place, family));
  each("response", (place) => drawResponse(place, family));
  each("pairs", (place) => drawPairs(place, family));
};
const drawAll = () => {
  document.body.classList.add("still");
  drawFamily(false);
  each("curves", drawCurves);
  each("scatter", drawScatter);
  requestAnimationFrame(() => document.body.classList.remove("still"));
};

document.querySelectorAll('input[name="family"]').forEach((input) =>
  input.addEventListener("change", () => { family = data.families[Number(input.value)]; drawFamily(true); }));
document.querySelectorAll('input[name="confusion"]').forEach((input) =>
  input.addEventListener("change", () => fillConfusion(input.value)));
const mistakes = document.getElementById("mistakes");
if (mistakes) mistakes.addEventListener("change", () => dressMap(family));

drawMapKey(() => dressMap(family));
drawAll();
let width = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; drawAll(); } });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
window.matchMedia("print").addEventListener("change", drawAll);

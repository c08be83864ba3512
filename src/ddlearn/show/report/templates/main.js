// All parts of the page, from top to bottom.
const N_CHECKED = 25;
// The library stops the elastic net at a small duality gap, with coefficients that are not exact to as many digits.
const LARGEST_DIFFERENCE = model.pursuit && "lasso" in model.pursuit ? 0.02 : 1e-5;

// Codes made here must be those of the library, which the page brings along for its samples. Where atoms do equally well,
// rounding decides between them: then both codes leave the same.
function compareCodes() {
  const nChecked = Math.min(N_CHECKED, data.samples.length);
  let [largest, nTies] = [0, 0];
  for (let place = 0; place < nChecked; place++) {
    const { code } = explain(data.samples[place]);
    const size = measureDifference(code, libraryCode(place));
    if (size > LARGEST_DIFFERENCE && leaveTheSame(data.samples[place], code, libraryCode(place))) nTies += 1;
    else largest = Math.max(largest, size);
  }
  return { nChecked, largest, nTies };
}

function libraryCode(place) {
  const { starts, atoms, values } = data.codes;
  const [start, end] = [starts[place], starts[place + 1]];
  return { atoms: atoms.slice(start, end), values: Array.from(values.slice(start, end)) };
}

function measureDifference(code, other) {
  const difference = new Float64Array(model.nAtoms);
  code.atoms.forEach((atom, t) => (difference[atom] += code.values[t]));
  other.atoms.forEach((atom, t) => (difference[atom] -= other.values[t]));
  return largestSize(difference) / (largestSize(other.values) || 1);
}

function leaveTheSame(sample, code, other) {
  const { scaled, known } = scaleSample(sample, findKnown(sample).isKnown);
  const [left, alsoLeft] = [code, other].map((one) => keptEnergy(measureResiduals(scaled, one), known));
  return Math.abs(left - alsoLeft) <= 1e-9 * dot(scaled, scaled);
}

function showComparison() {
  if (!data || !model.pursuit) return;
  const { nChecked, largest, nTies } = compareCodes();
  const isGood = largest <= LARGEST_DIFFERENCE;
  const verdict = isGood ? "agree with" : "differ from";
  const ties = nTies ? `; in ${nTies}, other atoms do equally well` : "";
  byId("check").textContent =
    `The codes that this page makes ${verdict} those of the library: the largest difference on ${nChecked} samples is ` +
    `${largest.toExponential(0)}${ties}.`;
  byId("check").classList.toggle("wrong", !isGood);
}

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

byId("theme").addEventListener("click", toggleTheme);
byId("dialog-close").addEventListener("click", closeDialog);
showSummary();
showExplorer();
showGallery();
showTraining();
setTimeout(showComparison);

// For the curious, and for tests: the same functions in the browser's console.
window.ddlearn = {
  model,
  data,
  pursue,
  explain,
  explainWithErrors,
  takeApart,
  renderStrokes,
  explorer,
  currentSample,
  compareCodes,
};

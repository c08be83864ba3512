// What the page makes of all its samples: compared with the library's predictions, and with atoms switched off.
const SLICE = 30; // milliseconds of work at a time, so that the page stays alive

// Explains samples one after another, and returns for each its label, probability and atoms.
async function explainAll(places, onProgress = () => {}) {
  const found = [];
  let start = performance.now();
  for (const place of places) {
    const explanation = explain(data.samples[place]);
    const { label, code } = explanation;
    found.push({ label, probability: probabilityOf(explanation), atoms: code.atoms });
    if (performance.now() - start > SLICE) {
      onProgress(found.length);
      await new Promise((resolve) => setTimeout(resolve));
      start = performance.now();
    }
  }
  return found;
}

// All samples with all atoms, explained once. Until then no atom can be switched off.
let baseline = null;

function explainBaseline() {
  const places = data.rows.map((_, place) => place);
  const show = (n) => (byId("check").textContent = `Checking predictions: ${n} of ${places.length}.`);
  baseline = baseline || explainAll(places, show);
  return baseline;
}

async function checkPredictions() {
  const found = await explainBaseline();
  const { labels, probability } = data.expected;
  const isSame = found.map(({ label }, place) => label === labels[place]);
  const isTie = isSame.map((flag, place) => !flag && leavesTheSame(place));
  const differences = found.map((one, place) => (isTie[place] ? 0 : Math.abs(one.probability - probability[place])));
  const count = (flags) => flags.filter((flag) => flag).length;
  return {
    nChecked: found.length,
    nAgreeing: count(isSame),
    nTies: count(isTie),
    largest: Math.max(...differences, 0),
  };
}

// Where a pursuit ends with nothing left, several atoms do equally well as the last one, and rounding decides.
function leavesTheSame(place) {
  const sample = data.samples[place];
  const { scaled } = scaleSample(sample, findKnown(sample).isKnown);
  const residuals = measureResiduals(scaled, explain(sample).code);
  return Math.abs(dot(residuals, residuals) - data.expected.left[place]) <= 1e-9 * dot(scaled, scaled);
}

async function showCheck() {
  if (!data || !model.pursuit) return;
  const { nChecked, nAgreeing, nTies, largest } = await checkPredictions();
  const isGood = nAgreeing + nTies === nChecked;
  const share = nAgreeing === nChecked ? `All ${nChecked.toLocaleString("en")}` : `${nAgreeing} of ${nChecked}`;
  const ties = nTies ? ` In ${nTies}, other atoms do equally well, and rounding decides.` : "";
  byId("check").textContent =
    `${share} predictions that this page makes of its samples agree with those of the library; probabilities differ ` +
    `by at most ${largest < 1e-12 ? "a rounding error" : largest.toExponential(0)}.${ties}`;
  byId("check").classList.toggle("wrong", !isGood);
}

// Atoms that are switched off are zero, so that no code uses them.
const switchedOff = new Set();
let effectOfSwitches = null; // on the predictions of all samples in the page

async function switchAtoms(numbers, isOff) {
  const before = data ? await explainBaseline() : [];
  for (const k of numbers) {
    if (isOff) switchedOff.add(k);
    else switchedOff.delete(k);
    const { scaled } = atoms[k];
    model.dictionary[k] = isOff ? new Float64Array(scaled.length) : scaled;
    model.squaredNorms[k] = dot(model.dictionary[k], model.dictionary[k]);
  }
  if (data || !isBlank()) update();
  effectOfSwitches = data && switchedOff.size ? await measureEffect(before) : null;
  showSwitched();
  return effectOfSwitches;
}

// Exact: a code in which an atom has no part stays the same without it, unless there are views with codes of their own.
async function measureEffect(before) {
  const isTouched = ({ atoms: used }) => model.views || used.some((k) => switchedOff.has(k));
  const places = data.rows.map((_, place) => place).filter((place) => isTouched(before[place]));
  const found = await explainAll(places);
  const labels = before.map(({ label }) => label);
  places.forEach((place, i) => (labels[place] = found[i].label));
  const isWrong = (label, place) => model.classes[label] !== data.classes[data.labels[place]];
  return {
    nSamples: labels.length,
    nChanged: labels.filter((label, place) => label !== before[place].label).length,
    nWrongBefore: data.labels && before.filter(({ label }, place) => isWrong(label, place)).length,
    nWrong: data.labels && labels.filter(isWrong).length,
  };
}

function describeEffect({ nSamples, nChanged, nWrongBefore, nWrong }) {
  const changed = `${nChanged} of ${nSamples.toLocaleString("en")} predictions change`;
  if (!data.labels) return `${changed}.`;
  const whose = nSamples < data.n_samples ? "the samples in this page" : "all samples";
  const errors = `${formatShare(nWrongBefore / nSamples, 2)} to ${formatShare(nWrong / nSamples, 2)}`;
  return `The error on ${whose} goes from ${errors} (${nWrongBefore} to ${nWrong} wrong); ${changed}.`;
}

function showSwitched() {
  const numbers = [...switchedOff].sort((a, b) => a - b);
  for (const button of document.querySelectorAll("#gallery .atom")) {
    button.classList.toggle("off", switchedOff.has(Number(button.dataset.atom)));
  }
  const text = `Switched off: atom ${numbers.join(", ")}. ${effectOfSwitches ? describeEffect(effectOfSwitches) : ""} `;
  const onclick = () => switchAtoms(numbers, false);
  const all = make("button", { type: "button", text: "Switch all on", onclick });
  byId("switched").hidden = numbers.length === 0;
  byId("switched").replaceChildren(...(numbers.length ? [make("span", { text }), all] : []));
}

// A button for the dialog of an atom, with what switching it off does.
function makeSwitch(number) {
  const effect = make("span", { class: "hint", id: "switch-effect", "aria-live": "polite" });
  const name = () => (switchedOff.has(number) ? "Switch it on again" : "Switch this atom off");
  const onclick = async () => {
    button.disabled = true;
    effect.textContent = "computing …";
    const found = await switchAtoms([number], !switchedOff.has(number));
    effect.textContent = found ? describeEffect(found) : "";
    button.textContent = name();
    button.disabled = false;
  };
  const button = make("button", { type: "button", id: "switch", text: name(), onclick });
  return make("p", { class: "tools" }, button, effect);
}

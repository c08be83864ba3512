// What the model makes of the sample on the pad.
const MOST_CLASSES = 12; // in charts: those of largest evidence
const MOST_COLUMNS = 10; // in tables
const CORRECTION_DELAY = 150; // milliseconds after the last change: looking for errors takes longer than a code

let correctionTimer = null;

// Paints the pad at once; codes at most once a frame, and looks for errors when the pen rests.
function update() {
  paintPad();
  markThumbnail();
  byId("sample-name").textContent = describeSample();
  byId("sample-link").hidden = explorer.place === null;
  if (explorer.place !== null) byId("sample-link").href = `#sample=${data.rows[explorer.place]}`;
  for (const id of ["results", "contributions", "features"]) byId(id).hidden = isBlank();
  byId("explorer-body").classList.toggle("is-blank", isBlank());
  byId("blank-hint").hidden = !isBlank();
  clearTimeout(correctionTimer);
  if (isBusy()) return;
  setBusy(true);
  requestAnimationFrame(() => {
    setBusy(false);
    if (!isBlank()) codeSample();
  });
}

function isBusy() {
  return byId("results").getAttribute("aria-busy") === "true";
}

function setBusy(flag) {
  byId("results").setAttribute("aria-busy", String(flag));
}

function codeSample() {
  const sample = currentSample();
  explorer.plain = explain(sample);
  explorer.corrected = null;
  showResults();
  if (!byId("robustness").open) announce();
  else
    correctionTimer = setTimeout(() => {
      explorer.corrected = explainWithErrors(sample, explorer.share);
      showResults();
      announce();
    }, CORRECTION_DELAY);
}

function showResults() {
  const { plain, corrected, isCorrected } = explorer;
  fillVerdict("plain", plain);
  fillVerdict("corrected", corrected);
  const shown = (isCorrected && corrected) || plain;
  showParts(shown);
  showFeatures(shown);
  showEvidence(shown);
  showContributions(shown);
}

// For those who hear the page: one sentence, once the pen rests.
function announce() {
  const { plain, corrected } = explorer;
  const other = corrected ? `; with gross errors left out, for ${model.classes[corrected.label]}` : "";
  byId("announcement").textContent = `Taken for ${model.classes[plain.label]}${describeTruth(plain)}${other}.`;
}

// Verdicts.

// Gross errors are looked for only where one asks for it: that takes longer than a code.
function prepareRobustness() {
  byId("robustness").open = model.uses_errors;
  byId("robustness").addEventListener("toggle", () => {
    if (!byId("robustness").open) explorer.isCorrected = false;
    update();
  });
  for (const id of ["plain", "corrected"]) {
    byId(`verdict-${id}`).addEventListener("click", () => {
      explorer.isCorrected = id === "corrected";
      showResults();
    });
  }
  const input = byId("budget");
  const show = () => (byId("budget-value").textContent = `Leave out at most ${input.value} % of the features`);
  input.value = String(Math.round(100 * explorer.share));
  input.addEventListener("input", () => {
    explorer.share = Number(input.value) / 100;
    show();
    update();
  });
  show();
}

function fillVerdict(id, explanation) {
  const button = byId(`verdict-${id}`);
  button.setAttribute("aria-pressed", String(explorer.isCorrected === (id === "corrected")));
  button.dataset.waiting = String(explanation === null);
  button.dataset.label = explanation ? model.classes[explanation.label] : "";
  const label = explanation ? makeClassChip(explanation.label) : "…";
  button.querySelector(".label").replaceChildren(label);
  const truth = explanation ? describeTruth(explanation) : "";
  button.querySelector(".truth").textContent = truth;
  button.querySelector(".truth").classList.toggle("wrong", truth.startsWith("wrong"));
  button.querySelector(".detail").textContent = explanation ? describeVerdict(id, explanation) : "looking for errors";
}

function describeTruth({ label }) {
  const truth = trueLabel();
  if (truth === null) return "";
  return truth === model.classes[label] ? "right" : `wrong: it is ${truth}`;
}

function describeVerdict(id, explanation) {
  const nWrong = explanation.isWrong ? explanation.isWrong.reduce((count, flag) => count + flag, 0) : 0;
  const nAtoms = explanation.code.atoms.length;
  const what = id === "plain" ? `${nAtoms} atoms` : `${nWrong} of ${model.nFeatures} features left out`;
  const calibrated = model.is_calibrated ? "" : ", not calibrated";
  return `probability ${formatProbability(probabilityOf(explanation))}${calibrated}; ${what}`;
}

function formatProbability(value) {
  return value > 0.9995 ? "above 99.9 %" : formatShare(value);
}

// The sample, taken apart.

function takeApart({ sample, size, code }) {
  const reconstruction = unscale(reconstruct(code), size, false);
  return { sample, reconstruction, residual: sample.map((value, f) => value - reconstruction[f]) };
}

function showParts(explanation) {
  const { sample, reconstruction, residual } = takeApart(explanation);
  const scale = model.table ? LARGEST_DEVIATION : Math.max(Math.abs(model.look.low), Math.abs(model.look.high)) || 1;
  const figures = [
    makePart("what the model sees", sample, { kind: "sample" }),
    makePart("its atoms together", reconstruction, { kind: "sample" }),
    makePart("what is left", residual, { kind: "signed", scale }),
  ];
  const { isWrong } = explanation;
  if (isWrong) figures.push(makePart("left out as wrong", sample, { kind: "sample", isWrong }));
  byId("parts").replaceChildren(...figures);
}

function makePart(text, values, options) {
  const picture = makePicture(values, { label: text, ...options });
  return make("figure", { class: "part" }, picture, make("figcaption", { text }));
}

// Classes.

// The classes of largest values, the largest first, and a further one in any case.
function rankClasses(values, also = -1, most = MOST_CLASSES) {
  const order = values.map((_, j) => j).sort((a, b) => values[b] - values[a]);
  const shown = order.slice(0, most);
  return also < 0 || shown.includes(also) ? shown : [...shown, also];
}

function makeClassBars(values, best, label) {
  const rows = rankClasses(values).map((j) => {
    return { name: model.classes[j], value: values[j], color: model.colors[j], isStrong: j === best };
  });
  return makeBars(rows, { label });
}

// Bars begin at the least evidence shown: only differences mean something.
function showEvidence({ evidence, label }) {
  const title = "Evidence for each class";
  const truth = model.classes.indexOf(trueLabel());
  const shown = rankClasses(evidence, truth);
  const least = Math.min(...shown.map((j) => evidence[j]));
  const rows = shown.map((j) => ({
    name: model.classes[j],
    value: evidence[j] - least,
    text: `${formatNumber(evidence[j])} · ${formatShare(probabilityOf({ evidence, label: j }))}`,
    color: model.colors[j],
    isStrong: j === label,
    mark: j === truth ? "true class" : "",
  }));
  byId("evidence").replaceChildren(
    make("h3", { text: title }),
    make("p", { class: "hint", text: describeMargin(evidence) }),
    makeBars(rows, { label: title }),
  );
}

// Evidence is a log-probability up to a constant.
function describeMargin(evidence) {
  const [first, second] = rankClasses(evidence);
  const margin = evidence[first] - evidence[second];
  const odds = margin < 7 ? `${formatNumber(Math.exp(margin))} times` : "more than 1,000 times";
  const views = model.views ? ` Mean of ${model.views.length + 1} views of the image.` : "";
  return (
    `Margin ${formatNumber(margin)} over ${model.classes[second]}: ${odds} as likely. Evidence is the logarithm of a ` +
    `probability, up to a constant.${views}`
  );
}

// What each atom adds to each score.

function showContributions({ code, contributions, scores, evidence, label }) {
  const classes = rankClasses(evidence, model.classes.indexOf(trueLabel()), MOST_COLUMNS);
  const order = code.atoms.map((_, t) => t).sort((a, b) => Math.abs(code.values[b]) - Math.abs(code.values[a]));
  const largest = Math.max(...classes.flatMap((j) => contributions[j].map(Math.abs)), 1e-300);
  const rows = order.map((t) =>
    makeAtomRow(
      code,
      t,
      classes.map((j) => contributions[j][t]),
      largest,
    ),
  );
  const sums = { intercept: model.intercept, "sum: the score": scores, evidence };
  for (const [name, values] of Object.entries(sums)) rows.push(makeSumRow(name, values, classes, label, largest));
  const head = ["atom", "coefficient", ...classes.map(makeClassChip)];
  const table = makeTable("What each atom adds to each score", head, rows, { class: "contributions", id: "code" });
  byId("contributions").replaceChildren(
    make("h3", { text: "Its atoms" }),
    make("p", { class: "hint", text: EXPLANATION }),
    table,
  );
}

const EXPLANATION =
  "An atom is a pattern that the model has learned; a sample is a sum of a few of them. The table shows what each atom adds " +
  "to the score of each class: its coefficient times a weight. Evidence is what the loss makes of a score, over the cost " +
  "of the class (gamma); the largest decides." +
  (model.image_shape && model.image_shape.length === 2 ? " Blue in a picture is negative." : "");

function makeAtomRow(code, t, values, largest) {
  const atom = make("th", { scope: "row" }, makeCodeAtom(code.atoms[t], code.values[t]));
  const cells = values.map((value) => {
    const cell = make("td", { class: value < 0 ? "against" : "for", text: formatEntry(value, largest) });
    cell.style.setProperty("--share", String(Math.abs(value) / largest));
    return cell;
  });
  return make("tr", {}, atom, make("td", { text: formatNumber(code.values[t]) }), ...cells);
}

function makeSumRow(name, values, classes, label, largest) {
  const cells = classes.map((j) =>
    make("td", { class: j === label ? "strong" : "", text: formatEntry(values[j], largest) }),
  );
  const head = make("th", { scope: "row", colspan: 2, text: name });
  return make("tr", { class: name.startsWith("sum") ? "total" : "" }, head, ...cells);
}

// As many digits as the largest entry of the table needs to have two or three.
function formatEntry(value, largest) {
  const digits = Math.max(0, Math.min(8, 2 - Math.floor(Math.log10(Math.max(largest, 1e-8)))));
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(digits);
}

function makeCodeAtom(number, coefficient) {
  const sign = Math.sign(coefficient) || 1;
  const values = atoms[number].values.map((value) => sign * value);
  const picture = makePicture(values, { kind: "signed", label: `atom ${number}` });
  const properties = { class: "atom", type: "button", title: `Atom ${number}` };
  const marks = { "data-atom": number, "data-coefficient": coefficient };
  const onclick = () => showAtom(atoms[number]);
  return make(
    "button",
    { ...properties, ...marks, onclick },
    picture,
    make("span", { class: "caption", text: number }),
  );
}

// A row of a table: every feature with its name, its value, which one can change, and how unusual it is.

const MOST_TOP_FEATURES = 10; // of an atom

// Changes are strokes without a pen: { tool, feature, value }, so that they can be taken back.
function editFeatures(base, changes) {
  const values = base.slice();
  for (const { feature, value } of changes) values[feature] = value;
  return values;
}

function nameFeature(f) {
  return model.feature_names[f] || `feature ${f}`;
}

// The table is made for each sample that is chosen; while one changes values, inputs stay where they are.
let shownPlace = NaN;

function showFeatures(explanation) {
  if (!model.table) return;
  const isNew = shownPlace !== explorer.place || explorer.strokes.length === 0;
  if (isNew) makeFeatureTable(explanation);
  shownPlace = explorer.place;
  byId("undo").hidden = explorer.strokes.length === 0;
  const { sample, reconstruction } = takeApart(explanation);
  const [deviations, rebuilt] = [sample, reconstruction].map((values) => standardise(values, "sample"));
  document.querySelectorAll("#features tbody tr").forEach((row, f) => {
    const isLeftOut = explanation.isWrong && explanation.isWrong[f];
    row.classList.toggle("left-out", Boolean(isLeftOut));
    row.querySelector(".deviation").replaceChildren(makeDeviation(deviations[f], rebuilt[f]));
    row.querySelector(".rebuilt").textContent = formatNumber(reconstruction[f]);
  });
}

function makeFeatureTable({ sample }) {
  const rows = Array.from(sample, (value, f) => {
    const input = make("input", { type: "number", step: "any", "aria-label": nameFeature(f), "data-feature": f });
    input.value = Number.isNaN(value) ? "" : String(Number(value.toPrecision(6)));
    input.addEventListener("change", () => changeFeature(f, input.value));
    const name = make("th", { scope: "row", text: nameFeature(f) });
    return make(
      "tr",
      {},
      name,
      make("td", {}, input),
      make("td", { class: "deviation" }),
      make("td", { class: "rebuilt" }),
    );
  });
  const undo = make("button", { type: "button", id: "undo", text: "Undo changes", onclick: () => restoreFeatures() });
  const hint =
    "Change a value and see what the model makes of it. Bars are standard deviations from the mean of the feature; the " +
    "line is where the atoms put it.";
  byId("features").replaceChildren(
    make("p", { class: "tools" }, undo),
    makeTable("Features of this sample", ["feature", "value", "deviation", "by its atoms"], rows),
    make("p", { class: "hint", text: hint }),
  );
}

function changeFeature(feature, text) {
  const value = text === "" ? NaN : Number(text);
  explorer.strokes.push({ tool: "feature", feature, value });
  update();
}

function restoreFeatures() {
  explorer.strokes = [];
  update();
}

function makeDeviation(value, rebuilt) {
  const track = make("span", { class: "track centred" });
  const toShare = (number) => 50 * (1 + Math.max(-1, Math.min(1, number / LARGEST_DEVIATION)));
  if (!Number.isNaN(value)) {
    const bar = make("span", { class: value < 0 ? "bar against" : "bar for" });
    const share = toShare(value);
    bar.style.left = `${Math.min(share, 50)}%`;
    bar.style.width = `${Math.abs(share - 50)}%`;
    track.append(bar);
  }
  const line = make("span", { class: "needle" });
  line.style.left = `${toShare(rebuilt)}%`;
  track.append(line);
  track.title = `${formatNumber(value)} standard deviations; by its atoms ${formatNumber(rebuilt)}`;
  return track;
}

// The features that an atom changes most, as it is mostly used, in standard deviations.
function rankFeatures({ values, mean }) {
  const scaled = standardise(values, "part").map((value) => (mean < 0 ? -value : value));
  const order = Array.from(scaled, (_, f) => f).sort((a, b) => Math.abs(scaled[b]) - Math.abs(scaled[a]));
  return order.map((f) => ({ name: nameFeature(f), value: scaled[f] }));
}

function listTopFeatures(atom) {
  const tops = rankFeatures(atom).slice(0, 3);
  return tops.map(({ name, value }) => `${name} ${value < 0 ? "low" : "high"}`).join(", ");
}

function makeTopFeatures(atom) {
  const rows = rankFeatures(atom)
    .slice(0, MOST_TOP_FEATURES)
    .map(({ name, value }) => ({ name, value, color: value < 0 ? "var(--against)" : "var(--for)" }));
  const title = make("h3", { text: "Top features, in standard deviations" });
  return make("div", {}, title, makeBars(rows, { label: "Top features" }));
}

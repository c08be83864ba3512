// The explorer's state: a sample that one chooses, draws or changes. What is made of it, is in results.js.
const explorer = {
  place: null, // of the sample that was chosen, null for a drawing
  strokes: [],
  stroke: null, // the one that is being drawn
  tool: "draw",
  shade: 1,
  pen: 1,
  isFitted: true,
  share: model.errors.budget,
  isCorrected: model.uses_errors, // which explanation is shown
  filter: "all",
  search: "",
  cursor: null, // of the keyboard, on the pad
  plain: null, // what the model makes of the sample
  corrected: null, // with gross errors left out; null while they are being looked for
};

function showExplorer() {
  byId("explorer-notes").replaceChildren(...model.notes.map((text) => make("p", { class: "hint", text })));
  if (!model.pursuit) {
    const text =
      "This model codes or describes samples in a way that runs in Python only: use explain() there.";
    byId("explorer-body").replaceChildren(make("p", { text }));
    return;
  }
  showChooser();
  if (model.table) byId("pad-frame").remove();
  else preparePad();
  prepareRobustness();
  explorer.place = data ? (placeInAddress() ?? firstPlace()) : null;
  window.addEventListener("hashchange", () => {
    const place = placeInAddress();
    if (place !== null && place !== explorer.place) visitSample(place);
  });
  update();
}

// A mistake, if there is one: of the most frequent kind, since kinds of mistakes come first in the page.
function firstPlace() {
  const wrong = data.labels ? data.rows.findIndex((_, place) => data.labels[place] !== data.predictions[place]) : -1;
  return Math.max(wrong, 0);
}

// The address of the page may end in #sample=17, the number of a row.
function placeInAddress() {
  const found = /^#sample=(\d+)$/.exec(location.hash);
  const place = found && data ? data.rows.indexOf(Number(found[1])) : -1;
  return place < 0 ? null : place;
}

function isBlank() {
  return explorer.place === null && !model.table && !explorer.strokes.some(({ tool }) => tool !== "erase");
}

function baseSample() {
  return explorer.place === null ? null : data.samples[explorer.place];
}

function currentSample() {
  if (model.image_shape) return renderStrokes(baseSample(), explorer.strokes, explorer.isFitted);
  if (model.table) return editFeatures(baseSample() || model.table.mean, explorer.strokes);
  return editCurve(baseSample() || new Float64Array(model.nFeatures), explorer.strokes);
}

// Curves are changed value by value: points are pairs of feature and value.
function editCurve(base, strokes) {
  const values = base.slice();
  const occluder = (shade) => model.look.low + shade * (model.look.high - model.look.low);
  for (const { tool, shade, points } of strokes) {
    points.forEach(([feature, value], i) => {
      const [before, valueBefore] = points[Math.max(i - 1, 0)];
      const [from, to] = [Math.round(Math.min(before, feature)), Math.round(Math.max(before, feature))];
      for (let f = Math.max(0, from); f <= Math.min(to, values.length - 1); f++) {
        const t = feature === before ? 1 : Math.min(1, Math.max(0, (f - before) / (feature - before)));
        if (tool === "draw") values[f] = valueBefore + t * (value - valueBefore);
        else values[f] = tool === "erase" ? base[f] : occluder(shade);
      }
    });
  }
  return strokes.length ? rescale(values) : values;
}

function describeSample() {
  const { place } = explorer;
  if (place === null) return isBlank() ? "an empty pad" : "your drawing"; // never nothing: the pad would move
  return `${nameSample(place)}${explorer.strokes.length ? ", changed by you" : ""}`;
}

// The label of the sample as it is in the data; null for what one has drawn or changed.
function trueLabel() {
  const isAsGiven = explorer.place !== null && explorer.strokes.length === 0 && data.labels;
  return isAsGiven ? data.classes[data.labels[explorer.place]] : null;
}

function startDrawing() {
  explorer.place = null;
  explorer.strokes = [];
  explorer.stroke = null;
  update();
}

function undoStroke() {
  explorer.strokes.pop();
  explorer.stroke = null;
  update();
}

function exploreSample(place) {
  explorer.place = place;
  explorer.strokes = [];
  explorer.stroke = null;
  update();
}

// From a dialog, one comes to the explorer from elsewhere on the page.
function visitSample(place) {
  closeDialog();
  exploreSample(place);
  byId("explorer").scrollIntoView();
  byId("explorer").focus({ preventScroll: true });
}

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
  isCorrected: false, // which explanation is shown
  filter: "all",
  cursor: null, // of the keyboard, on the pad
  plain: null, // what the model makes of the sample
  corrected: null, // with gross errors left out; null while they are being looked for
};

function showExplorer() {
  byId("explorer-notes").replaceChildren(...model.notes.map((text) => make("p", { class: "hint", text })));
  if (!model.pursuit) {
    const text = "This model codes samples by a coder of its own, which runs in Python only: use explain() there.";
    byId("explorer-body").replaceChildren(make("p", { text }));
    return;
  }
  showTools();
  showChooser();
  showBudget();
  preparePad();
  prepareVerdicts();
  if (data && !model.ink) explorer.place = firstPlace(); // else the pad is left empty for a drawing
  update();
}

function firstPlace() {
  const wrong = data.labels ? data.rows.findIndex((_, place) => data.labels[place] !== data.predictions[place]) : -1;
  return Math.max(wrong, 0);
}

function isBlank() {
  return explorer.place === null && !explorer.strokes.some(({ tool }) => tool !== "erase");
}

function baseSample() {
  return explorer.place === null ? null : data.samples[explorer.place];
}

function currentSample() {
  if (model.image_shape) return renderStrokes(baseSample(), explorer.strokes, explorer.isFitted);
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
  if (place === null) return isBlank() ? "nothing yet" : "your drawing";
  const label = data.labels ? `, its label is ${data.classes[data.labels[place]]}` : "";
  return `${nameSample(place)}${label}${explorer.strokes.length ? ", changed by you" : ""}`;
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

// The explorer: a sample that one chooses, draws or changes, and what the model makes of it.
const MOST_THUMBNAILS = 60;
const MOST_CLASSES = 12; // in tables and charts of one sample; those of largest evidence
const CORRECTION_DELAY = 150; // milliseconds after the last change: looking for errors takes longer than a code
const TOOLS = { draw: "Draw", erase: "Erase", occlude: "Occlude" };
const SHADES = [["1", "white"], ["0.5", "grey"], ["0", "black"]];
const TOOL_WIDTHS = { draw: 1, erase: 1.5, occlude: 2 };

const explorer = {
  place: null, // of the sample that was chosen, null for a drawing
  strokes: [],
  tool: "draw",
  shade: 1,
  pen: 1,
  isFitted: true,
  share: model.errors.budget,
  isCorrected: false,
  filter: "all",
  cursor: null,
  isPenDown: false,
  timer: null,
};

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
  for (const { tool, shade, points } of strokes) {
    points.forEach(([feature, value], i) => {
      const [before, valueBefore] = points[Math.max(i - 1, 0)];
      const [from, to] = [Math.min(before, feature), Math.max(before, feature)];
      for (let f = Math.max(0, Math.ceil(from)); f <= Math.min(to, values.length - 1); f++) {
        const t = feature === before ? 1 : (f - before) / (feature - before);
        if (tool === "draw") values[f] = valueBefore + t * (value - valueBefore);
        else values[f] = tool === "erase" ? base[f] : model.look.low + shade * (model.look.high - model.look.low);
      }
    });
  }
  return rescale(values);
}

function isBlank() {
  return explorer.place === null && explorer.strokes.length === 0;
}

function showExplorer() {
  byId("explorer-notes").replaceChildren(...model.notes.map((text) => make("p", { class: "hint", text })));
  if (!model.pursuit) {
    const text = "This model codes samples by a coder of its own, which runs in Python only: use explain() there.";
    byId("explorer-body").replaceChildren(make("p", { text }));
    return;
  }
  showTools();
  showChooser();
  preparePad();
  if (data && !model.ink && isBlank()) explorer.place = firstPlace(); // strokes can be drawn: the pad is left empty for one
  update();
}

function firstPlace() {
  const wrong = data.labels ? data.rows.findIndex((_, place) => data.labels[place] !== data.predictions[place]) : -1;
  return Math.max(wrong, 0);
}

function showTools() {
  const buttons = Object.entries(TOOLS).map(([tool, text]) => {
    const onclick = () => {
      explorer.tool = tool;
      showTools();
    };
    return make("button", { type: "button", text, "aria-pressed": String(explorer.tool === tool), id: `tool-${tool}`, onclick });
  });
  const clear = make("button", { type: "button", text: "Clear", id: "clear", onclick: startDrawing });
  const undo = make("button", { type: "button", text: "Undo", id: "undo", onclick: undoStroke });
  byId("tools").replaceChildren(...buttons, undo, clear, makePenField(), makeShadeField(), makeFitField() || "");
}

function makePenField() {
  const onchange = () => (explorer.pen = Number(input.value));
  const input = make("input", { type: "range", min: 0.5, max: 3, step: 0.25, id: "pen", onchange });
  input.value = explorer.pen;
  return make("label", { class: "field" }, make("span", { text: "Pen" }), input);
}

function makeShadeField() {
  if (explorer.tool !== "occlude") return "";
  const field = makeSelect("shade", "Occluder", SHADES, (value) => (explorer.shade = Number(value)));
  field.querySelector("select").value = String(explorer.shade);
  return field;
}

function makeFitField() {
  if (!model.ink) return null;
  const change = () => {
    explorer.isFitted = input.checked;
    update();
  };
  const input = make("input", { type: "checkbox", id: "fit", onchange: change });
  input.checked = explorer.isFitted;
  return make("label", { class: "field" }, input, make("span", { text: "size and place as in the data" }));
}

function startDrawing() {
  explorer.place = null;
  explorer.strokes = [];
  update();
}

function undoStroke() {
  explorer.strokes.pop();
  update();
}

function exploreSample(place) {
  closeDialog();
  explorer.place = place;
  explorer.strokes = [];
  update();
  byId("explorer").scrollIntoView({ behavior: "smooth" });
}

function listPlaces() {
  const { filter } = explorer;
  return data.rows
    .map((_, place) => place)
    .filter((place) => {
      if (filter === "all") return true;
      if (filter === "wrong") return data.labels[place] !== data.predictions[place];
      return (data.labels || data.predictions)[place] === Number(filter);
    });
}

function showChooser() {
  if (!data) {
    byId("chooser").replaceChildren();
    return;
  }
  const kinds = [["all", "all samples"], ...(data.labels ? [["wrong", "wrong ones"]] : []), ...data.classes.map((name, j) => [String(j), name])];
  const filter = makeSelect("sample-filter", "Samples", kinds, (value) => {
    explorer.filter = value;
    showThumbnails();
  });
  const step = (text, change) => make("button", { type: "button", text, onclick: () => stepSample(change) });
  byId("chooser").replaceChildren(
    make("div", { class: "tools" }, filter, step("Previous", -1), step("Next", 1), make("span", { id: "sample-count", class: "hint" })),
    make("div", { class: "strip one-line", id: "thumbnails", tabindex: 0 }),
  );
  showThumbnails();
}

function showThumbnails() {
  const places = listPlaces();
  const shown = places.slice(0, MOST_THUMBNAILS);
  byId("thumbnails").replaceChildren(...shown.map((place) => makeSampleButton(place, exploreSample)));
  const rest = data.n_samples > data.rows.length ? ` (of ${data.n_samples.toLocaleString("en")} in all)` : "";
  byId("sample-count").textContent = `${shown.length} shown; ${places.length} in this page${rest}`;
}

function stepSample(change) {
  const places = listPlaces();
  if (places.length === 0) return;
  const at = places.indexOf(explorer.place);
  exploreSample(places[(at + change + places.length) % places.length]);
}

// The pad.

function padScale() {
  const pad = byId("pad");
  const box = pad.getBoundingClientRect();
  if (model.image_shape) return [model.image_shape[1] / box.width, model.image_shape[0] / box.height];
  return [model.nFeatures / box.width, 1 / box.height];
}

function toPoint(event) {
  const box = byId("pad").getBoundingClientRect();
  const [scaleX, scaleY] = padScale();
  return placePoint((event.clientX - box.left) * scaleX, (event.clientY - box.top) * scaleY);
}

function placePoint(x, y) {
  if (model.image_shape) return [x, y];
  const [low, high] = curveRange("sample");
  return [x - 0.5, high - y * (high - low)];
}

function penWidth() {
  const side = model.image_shape ? Math.max(...model.image_shape.slice(0, 2)) : 1;
  const width = model.ink ? model.ink.thickness : Math.max(1, side / 14);
  return width * explorer.pen * TOOL_WIDTHS[explorer.tool];
}

function beginStroke(point) {
  const { tool, shade } = explorer;
  explorer.strokes.push({ tool, shade, width: penWidth(), points: [point] });
  update();
}

function extendStroke(point) {
  explorer.strokes[explorer.strokes.length - 1].points.push(point);
  update();
}

function preparePad() {
  const pad = byId("pad");
  let isDrawing = false;
  pad.onpointerdown = (event) => {
    event.preventDefault();
    pad.setPointerCapture(event.pointerId);
    pad.focus({ preventScroll: true });
    isDrawing = true;
    explorer.cursor = null;
    beginStroke(toPoint(event));
  };
  pad.onpointermove = (event) => {
    if (!isDrawing) return;
    const events = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
    (events.length ? events : [event]).slice(0, -1).forEach((one) => explorer.strokes[explorer.strokes.length - 1].points.push(toPoint(one)));
    extendStroke(toPoint(event));
  };
  pad.onpointerup = pad.onpointercancel = () => {
    isDrawing = false;
  };
  pad.onkeydown = usePadKey;
  pad.onblur = () => {
    explorer.cursor = null;
    explorer.isPenDown = false;
    paintPad();
  };
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function usePadKey(event) {
  const [height, width] = model.image_shape || [1, model.nFeatures];
  if (event.key === "z" && (event.ctrlKey || event.metaKey)) undoStroke();
  else if (event.key in MOVES) movePadCursor(MOVES[event.key], height, width);
  else if (event.key === " " || event.key === "Enter") togglePen(height, width);
  else return;
  event.preventDefault();
}

function movePadCursor([x, y], height, width) {
  const [stepX, stepY] = [width / 32, height / 32];
  const [oldX, oldY] = explorer.cursor || [width / 2, height / 2];
  explorer.cursor = [Math.min(width, Math.max(0, oldX + x * stepX)), Math.min(height, Math.max(0, oldY + y * stepY))];
  if (explorer.isPenDown) extendStroke(placePoint(...explorer.cursor));
  else paintPad();
}

function togglePen(height, width) {
  explorer.cursor = explorer.cursor || [width / 2, height / 2];
  explorer.isPenDown = !explorer.isPenDown;
  if (explorer.isPenDown) beginStroke(placePoint(...explorer.cursor));
  else paintPad();
}

function paintPad() {
  const pad = byId("pad");
  if (!model.image_shape) {
    paintPicture(pad, currentSample(), { kind: "sample" });
    paintCursor(pad, pad.width / model.nFeatures, pad.height);
    return;
  }
  const [height, width] = model.image_shape;
  const scale = Math.max(4, Math.ceil(560 / Math.max(height, width)));
  pad.width = width * scale;
  pad.height = height * scale;
  const context = pad.getContext("2d");
  const ground = document.createElement("canvas");
  paintPicture(ground, baseSample() || new Float64Array(model.nFeatures).fill(groundValue()), { kind: "sample" });
  context.imageSmoothingEnabled = false;
  context.drawImage(ground, 0, 0, pad.width, pad.height);
  context.lineCap = context.lineJoin = "round";
  context.setTransform(scale, 0, 0, scale, 0, 0);
  explorer.strokes.forEach((stroke) => traceStroke(context, stroke, strokeLevel(stroke)));
  context.setTransform(1, 0, 0, 1, 0, 0);
  paintCursor(pad, scale, scale);
}

function paintCursor(pad, scaleX, scaleY) {
  if (!explorer.cursor) return;
  const context = pad.getContext("2d");
  const [x, y] = [explorer.cursor[0] * scaleX, explorer.cursor[1] * scaleY];
  context.strokeStyle = explorer.isPenDown ? "#E69F00" : "#56B4E9";
  context.lineWidth = 4;
  context.beginPath();
  context.arc(x, y, 10, 0, 2 * Math.PI);
  context.stroke();
}

// What the model makes of it.

function update() {
  paintPad();
  byId("sample-name").textContent = describeSample();
  byId("results").hidden = isBlank();
  byId("blank-hint").hidden = !isBlank();
  clearTimeout(explorer.timer);
  if (isBlank()) return;
  const sample = currentSample();
  const plain = explain(sample);
  showResults({ plain, corrected: explorer.corrected || plain }, { isWaiting: true });
  explorer.timer = setTimeout(() => {
    explorer.corrected = explainWithErrors(sample, explorer.share);
    showResults({ plain, corrected: explorer.corrected }, { isWaiting: false });
  }, CORRECTION_DELAY);
}

function describeSample() {
  const { place, strokes } = explorer;
  if (place === null) return strokes.length ? "your drawing" : "nothing yet";
  const name = data.names ? data.names[place] : `sample ${data.rows[place]}`;
  const label = data.labels ? `, its label is ${data.classes[data.labels[place]]}` : "";
  return `${name}${label}${strokes.length ? ", changed by you" : ""}`;
}

function showResults({ plain, corrected }, { isWaiting }) {
  byId("verdicts").replaceChildren(
    makeVerdict("plain", "As it is", plain, false),
    makeVerdict("corrected", "Gross errors left out", corrected, isWaiting),
  );
  const shown = explorer.isCorrected ? corrected : plain;
  showParts(shown);
  showEvidence(shown);
  showContributions(shown);
}

function probabilityOf({ evidence, label }) {
  const total = evidence.reduce((sum, value) => sum + Math.exp(value - evidence[label]), 0);
  return 1 / total;
}

function makeVerdict(id, title, explanation, isWaiting) {
  const nWrong = explanation.isWrong ? explanation.isWrong.reduce((count, flag) => count + flag, 0) : 0;
  const detail = id === "corrected" && !isWaiting ? `${nWrong} of ${model.nFeatures} features left out` : `${explanation.code.atoms.length} atoms`;
  const isShown = explorer.isCorrected === (id === "corrected");
  const onclick = () => {
    explorer.isCorrected = id === "corrected";
    update();
  };
  return make(
    "button",
    { type: "button", class: "verdict", id: `verdict-${id}`, "aria-pressed": String(isShown), "data-label": model.classes[explanation.label], "data-waiting": String(isWaiting), onclick },
    make("span", { class: "hint", text: title }),
    make("span", { class: "label" }, makeClassChip(explanation.label)),
    make("span", { class: "hint", text: isWaiting ? "looking for errors …" : `${detail}; probability ${formatShare(probabilityOf(explanation))}, not calibrated` }),
  );
}

function showParts({ sample, code, isWrong }) {
  const reconstruction = reconstruct(code);
  const residual = sample.map((value, f) => value - reconstruction[f]);
  const scale = Math.max(Math.abs(model.look.low), Math.abs(model.look.high)) || 1;
  const part = (text, values, options) => make("figure", { class: "part" }, makePicture(values, { label: text, ...options }), make("figcaption", { text }));
  byId("parts").replaceChildren(
    part("what the model sees", sample, { kind: "sample" }),
    part("its atoms together", reconstruction, { kind: "sample" }),
    part("what is left", residual, { kind: "signed", scale }),
    isWrong ? part("left out as wrong", sample, { kind: "sample", isWrong }) : "",
  );
}

function rankClasses(evidence) {
  return evidence.map((_, j) => j).sort((a, b) => evidence[b] - evidence[a]).slice(0, MOST_CLASSES).sort((a, b) => a - b);
}

function showEvidence({ evidence, label }) {
  const rows = rankClasses(evidence).map((j) => ({ name: model.classes[j], value: evidence[j], color: model.colors[j], isStrong: j === label }));
  byId("evidence").replaceChildren(make("h3", { text: "Evidence for each class" }), makeBars(rows, { label: "Evidence for each class" }));
}

function showContributions({ code, contributions, scores, evidence, label }) {
  const classes = rankClasses(evidence);
  const order = code.atoms.map((_, t) => t).sort((a, b) => Math.abs(code.values[b]) - Math.abs(code.values[a]));
  const largest = Math.max(...classes.flatMap((j) => contributions[j].map(Math.abs)), 1e-300);
  const head = make("tr", {}, make("th", { scope: "col", text: "atom" }), make("th", { scope: "col", text: "coefficient" }), ...classes.map((j) => make("th", { scope: "col" }, makeClassChip(j))));
  const body = make("tbody");
  for (const t of order) {
    const cells = classes.map((j) => makeShadedCell(contributions[j][t], largest));
    body.append(make("tr", {}, make("th", { scope: "row" }, makeCodeAtom(code.atoms[t], code.values[t])), make("td", { text: formatNumber(code.values[t]) }), ...cells));
  }
  const line = (text, values, name) => make("tr", { class: name }, make("th", { scope: "row", colspan: 2, text }), ...values.map((value, i) => make("td", { class: classes[i] === label ? "strong" : "", text: formatEntry(value) })));
  body.append(line("intercept", classes.map((j) => model.intercept[j]), ""), line("sum: the score", classes.map((j) => scores[j]), "total"), line("evidence", classes.map((j) => evidence[j]), ""));
  const hint =
    "What each atom adds to the score of each class: its coefficient times the weight of the class. Evidence is what the " +
    "loss makes of a score, over the cost of the class; the largest decides. Blue in a picture is negative.";
  byId("contributions").replaceChildren(make("h3", { text: "Its atoms" }), make("p", { class: "hint", text: hint }), make("div", { class: "scroll", tabindex: 0 }, make("table", { class: "contributions", id: "code" }, make("thead", {}, head), body)));
}

function formatEntry(value) {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
}

function makeCodeAtom(number, coefficient) {
  const sign = Math.sign(coefficient) || 1;
  const picture = makePicture(model.dictionary[number].map((value) => sign * value), { kind: "signed", label: `atom ${number}` });
  return make("button", { class: "atom", type: "button", title: `Atom ${number}`, "data-atom": number, "data-coefficient": coefficient, onclick: () => showAtom(atoms[number]) }, picture, make("span", { class: "caption", text: number }));
}

function makeShadedCell(value, largest) {
  const cell = make("td", { class: value < 0 ? "against" : "for", text: formatEntry(value) });
  cell.style.setProperty("--share", String(Math.abs(value) / largest));
  return cell;
}

function showBudget() {
  const input = byId("budget");
  input.value = String(Math.round(100 * explorer.share));
  const show = () => (byId("budget-value").textContent = `${input.value} % of the features may be wrong`);
  input.oninput = () => {
    explorer.share = Number(input.value) / 100;
    show();
    update();
  };
  show();
}

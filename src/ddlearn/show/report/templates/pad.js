// The pad: strokes by mouse, finger or keyboard.
const TOOLS = { draw: "Draw", erase: "Erase", occlude: "Occlude" };
const TOOL_WIDTHS = { draw: 1, erase: 1.5, occlude: 2 };
const SHADES = [
  ["1", "white"],
  ["0.5", "grey"],
  ["0", "black"],
];
const KEYBOARD_STEPS = 32; // across the pad
const PAD_PIXELS = 560; // along the longer side, at least

function showTools() {
  const buttons = Object.entries(TOOLS).map(([tool, text]) => {
    return make("button", { type: "button", text, id: `tool-${tool}`, onclick: () => chooseTool(tool) });
  });
  const undo = make("button", { type: "button", text: "Undo", id: "undo", onclick: undoStroke });
  const clear = make("button", { type: "button", text: "New drawing", id: "clear", onclick: startDrawing });
  const shade = makeSelect("shade", "Occluder", SHADES, (value) => (explorer.shade = Number(value)));
  byId("tools").replaceChildren(...buttons, undo, clear, makePenField(), shade, makeFitField());
  chooseTool(explorer.tool);
}

function chooseTool(chosen) {
  explorer.tool = chosen;
  for (const tool of Object.keys(TOOLS)) byId(`tool-${tool}`).setAttribute("aria-pressed", String(tool === chosen));
  byId("shade").disabled = chosen !== "occlude";
}

function makePenField() {
  const input = make("input", { type: "range", min: 0.5, max: 3, step: 0.25, id: "pen" });
  input.addEventListener("input", () => (explorer.pen = Number(input.value)));
  input.value = explorer.pen;
  return make("label", { class: "field" }, make("span", { text: "Pen" }), input);
}

function makeFitField() {
  if (!model.ink) return "";
  const input = make("input", { type: "checkbox", id: "fit" });
  input.checked = explorer.isFitted;
  input.addEventListener("change", () => {
    explorer.isFitted = input.checked;
    update();
  });
  return make("label", { class: "field" }, input, make("span", { text: "size and place as in the data" }));
}

// Height and width of the pad in the units of strokes: pixels of the image, or features and a share of the height.
function padSize() {
  return model.image_shape || [1, model.nFeatures];
}

function toPoint(event) {
  const box = byId("pad").getBoundingClientRect();
  const [height, width] = padSize();
  return placePoint(
    ((event.clientX - box.left) * width) / box.width,
    ((event.clientY - box.top) * height) / box.height,
  );
}

function placePoint(x, y) {
  if (model.image_shape) return [x, y];
  const [low, high] = curveRange("sample");
  return [x - 0.5, high - y * (high - low)];
}

function penWidth() {
  const [height, width] = padSize();
  const usual = model.ink ? model.ink.thickness : Math.max(1, Math.max(height, width) / 14);
  return usual * explorer.pen * TOOL_WIDTHS[explorer.tool];
}

function beginStroke(point) {
  const { tool, shade } = explorer;
  explorer.stroke = { tool, shade, width: penWidth(), points: [point] };
  explorer.strokes.push(explorer.stroke);
  update();
}

function extendStroke(points) {
  if (!explorer.stroke) return;
  explorer.stroke.points.push(...points);
  update();
}

function endStroke() {
  explorer.stroke = null;
}

function preparePad() {
  showTools();
  const pad = byId("pad");
  let pointer = null; // the one that draws; a second finger does not
  pad.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button !== 0) return;
    event.preventDefault();
    pointer = event.pointerId;
    pad.setPointerCapture(pointer);
    pad.focus({ preventScroll: true });
    explorer.cursor = null;
    beginStroke(toPoint(event));
  });
  pad.addEventListener("pointermove", (event) => {
    if (!model.image_shape) showFeature(toPoint(event));
    if (event.pointerId !== pointer) return;
    const events = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
    extendStroke((events.length ? events : [event]).map(toPoint));
  });
  pad.addEventListener("lostpointercapture", (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    endStroke();
  });
  pad.addEventListener("keydown", usePadKey);
  pad.addEventListener("blur", () => {
    explorer.cursor = null;
    if (pointer === null) endStroke();
    paintPad();
  });
}

function showFeature([feature]) {
  const f = Math.min(model.nFeatures - 1, Math.max(0, Math.round(feature)));
  byId("feature").textContent = `${nameFeature(f)}: ${formatNumber(currentSample()[f])}`;
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function usePadKey(event) {
  if (event.key === "z" && (event.ctrlKey || event.metaKey)) undoStroke();
  else if (event.key in MOVES) movePadCursor(MOVES[event.key]);
  else if (event.key === " " || event.key === "Enter") togglePen();
  else return;
  event.preventDefault();
}

function padCursor() {
  const [height, width] = padSize();
  return explorer.cursor || [width / 2, height / 2];
}

function movePadCursor([x, y]) {
  const [height, width] = padSize();
  const [oldX, oldY] = padCursor();
  const newX = oldX + (x * width) / KEYBOARD_STEPS;
  const newY = oldY + (y * height) / KEYBOARD_STEPS;
  explorer.cursor = [Math.min(width, Math.max(0, newX)), Math.min(height, Math.max(0, newY))];
  if (explorer.stroke) extendStroke([placePoint(...explorer.cursor)]);
  else paintPad();
}

function togglePen() {
  explorer.cursor = padCursor();
  if (!explorer.stroke) beginStroke(placePoint(...explorer.cursor));
  else {
    endStroke();
    paintPad();
  }
}

function paintPad() {
  if (model.table) return;
  const pad = byId("pad");
  if (model.image_shape) paintImagePad(pad);
  else paintPicture(pad, currentSample(), { kind: "sample" });
  if (explorer.cursor) paintCursor(pad);
}

function paintImagePad(pad) {
  const [height, width] = model.image_shape;
  const scale = Math.max(4, Math.ceil(PAD_PIXELS / Math.max(height, width)));
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
}

function paintCursor(pad) {
  const [height, width] = padSize();
  const context = pad.getContext("2d");
  context.strokeStyle = explorer.stroke ? "#E69F00" : "#56B4E9";
  context.lineWidth = 4;
  context.beginPath();
  context.arc((explorer.cursor[0] * pad.width) / width, (explorer.cursor[1] * pad.height) / height, 10, 0, 2 * Math.PI);
  context.stroke();
}

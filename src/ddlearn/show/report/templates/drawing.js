// From strokes to a sample: pixels of strokes painted over an image, or over an empty ground. A drawing on an empty
// ground is given the size, the place and the pen that the images of the data have (ink.py).
const SUBPIXELS = 256; // along the longer side of the image, at least
const LARGEST_GROWTH = 4; // of a drawing; a dot stays a dot
const PENS = [0.4, 0.55, 0.7, 0.85, 1, 1.2, 1.45]; // tried, times the thickness of the data
const TOOLS_OF_INK = ["draw", "erase"];

// strokes: { tool, shade, width, points: [[x, y], ...] }, in pixels of the image from its upper left corner.
function renderStrokes(base, strokes, isFitted) {
  const ground = base || new Float64Array(model.nFeatures).fill(groundValue());
  if (strokes.length === 0) return ground;
  const placed = !base && isFitted && model.ink ? fitToData(strokes) : strokes;
  return rescale(blend(ground, paint(placed)));
}

function groundValue() {
  return model.ink ? model.ink.ground : model.look.low;
}

function inkValue() {
  return model.ink ? model.ink.ink : model.look.high;
}

function toLevel(value) {
  return Math.round((255 * (value - model.look.low)) / (model.look.high - model.look.low || 1));
}

function strokeLevel(stroke) {
  if (stroke.tool === "occlude") return Math.round(255 * stroke.shade);
  return toLevel(stroke.tool === "erase" ? groundValue() : inkValue());
}

const easel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Paints strokes on a fine grid; returns for each pixel how much of it is covered, and the mean level there.
function paint(strokes) {
  const [height, width] = model.image_shape;
  const scale = Math.max(4, Math.ceil(SUBPIXELS / Math.max(height, width)));
  easel.canvas.width = width * scale; // which also clears it
  easel.canvas.height = height * scale;
  easel.lineCap = "round";
  easel.lineJoin = "round";
  easel.setTransform(scale, 0, 0, scale, 0, 0);
  strokes.forEach((stroke) => traceStroke(easel, stroke, strokeLevel(stroke)));
  const { data: pixels } = easel.getImageData(0, 0, width * scale, height * scale);
  const cover = new Float64Array(height * width);
  const level = new Float64Array(height * width);
  for (let y = 0; y < height * scale; y++) {
    for (let x = 0; x < width * scale; x++) {
      const alpha = pixels[4 * (y * width * scale + x) + 3] / 255;
      const place = Math.floor(y / scale) * width + Math.floor(x / scale);
      cover[place] += alpha / scale ** 2;
      level[place] += (alpha * pixels[4 * (y * width * scale + x)]) / scale ** 2;
    }
  }
  return { cover, level };
}

function traceStroke(context, stroke, level) {
  const points = stroke.points;
  context.strokeStyle = `rgb(${level}, ${level}, ${level})`;
  context.lineWidth = stroke.width;
  context.beginPath();
  context.moveTo(...points[0]);
  if (points.length === 1) context.lineTo(points[0][0] + 1e-3, points[0][1]);
  for (let i = 1; i + 1 < points.length; i++) {
    const [[x, y], [nextX, nextY]] = [points[i], points[i + 1]];
    context.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
  }
  if (points.length > 1) context.lineTo(...points[points.length - 1]);
  context.stroke();
}

function blend(ground, { cover, level }) {
  const channels = ground.length / cover.length;
  const { low, high } = model.look;
  return ground.map((value, f) => {
    const place = Math.floor(f / channels);
    if (cover[place] === 0) return value;
    const known = Number.isNaN(value) ? low : value;
    return known * (1 - cover[place]) + low * cover[place] + ((high - low) * level[place]) / 255;
  });
}

// Where all samples of the data have one norm, so must this one.
function rescale(sample) {
  const norm = Math.sqrt(dot(sample, sample));
  return model.look.norm && norm > 0 ? sample.map((value) => (value * model.look.norm) / norm) : sample;
}

function fitToData(strokes) {
  const isInk = (stroke) => TOOLS_OF_INK.includes(stroke.tool);
  const ink = strokes.filter(isInk);
  if (!ink.some((stroke) => stroke.tool === "draw")) return strokes;
  const moved = choosePen(moveToCentre(scaleToSide(ink)));
  let next = 0;
  return strokes.map((stroke) => (isInk(stroke) ? moved[next++] : stroke));
}

function findBox(strokes) {
  const box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (const [x, y] of strokes.filter(({ tool }) => tool === "draw").flatMap(({ points }) => points)) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

function mapPoints(strokes, map) {
  return strokes.map((stroke) => ({ ...stroke, points: stroke.points.map(map) }));
}

function scaleToSide(strokes) {
  const { left, right, top, bottom } = findBox(strokes);
  const side = Math.max(right - left, bottom - top);
  const wanted = Math.max(1, model.ink.longest_side - model.ink.thickness);
  const scale = Math.min(wanted / Math.max(side, 1e-9), LARGEST_GROWTH);
  const [row, column] = model.ink.centre;
  const [x0, y0] = [(left + right) / 2, (top + bottom) / 2];
  const scaled = mapPoints(strokes, ([x, y]) => [column + (x - x0) * scale, row + (y - y0) * scale]);
  return scaled.map((stroke) => ({
    ...stroke,
    width: stroke.tool === "draw" ? model.ink.thickness : stroke.width * scale,
  }));
}

function moveToCentre(strokes) {
  if (!model.ink.is_centred_by_mass) return strokes;
  const [height, width] = model.image_shape;
  const ink = measureInk(strokes);
  let [mass, x, y] = [0, 0, 0];
  for (let f = 0; f < height * width; f++) {
    mass += ink[f];
    x += ink[f] * ((f % width) + 0.5);
    y += ink[f] * (Math.floor(f / width) + 0.5);
  }
  if (mass === 0) return strokes;
  const [row, column] = model.ink.centre;
  return mapPoints(strokes, (point) => [point[0] + column - x / mass, point[1] + row - y / mass]);
}

function measureInk(strokes) {
  const { cover, level } = paint(strokes);
  const [ground, ink] = [toLevel(groundValue()), toLevel(inkValue())];
  return cover.map((share, f) => (level[f] - share * ground) / (ink - ground));
}

// The pen whose strokes come out as thick as those of the data, by the same measure (ink.py).
function choosePen(strokes) {
  let [best, smallest] = [strokes, Infinity];
  for (const factor of PENS) {
    const width = factor * model.ink.thickness;
    const tried = strokes.map((stroke) => (stroke.tool === "draw" ? { ...stroke, width } : stroke));
    const difference = Math.abs(measureThickness(measureInk(tried)) - model.ink.thickness);
    if (difference < smallest) [best, smallest] = [tried, difference];
  }
  return best;
}

function measureThickness(ink) {
  const [height, width] = model.image_shape;
  const at = (y, x) => (y < 0 || x < 0 || y >= height || x >= width ? 0 : ink[y * width + x]);
  let [area, outline] = [0, 0];
  for (let y = -1; y < height; y++) {
    for (let x = -1; x < width; x++) {
      area += at(y, x);
      outline += Math.hypot(at(y + 1, x) - at(y, x), at(y, x + 1) - at(y, x));
    }
  }
  return (2 * area) / Math.max(outline, 1e-9);
}

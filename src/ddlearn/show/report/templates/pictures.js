// Pictures of samples and atoms: images as pixels, signals as curves, rows of tables as bars of standard deviations.
const LARGEST_DEVIATION = 3; // standard deviations that fit a picture of a sample
const MOST_POINTS = 1000; // of a curve
const ERROR_COLOR = [230, 159, 0];
const NEGATIVE_COLOR = [64, 144, 255];
const MISSING_COLOR = [96, 64, 112];
const CURVE_COLOR = "#2F7FC1"; // seen on light and on dark ground, on the screen and on paper
const ZERO_COLOR = "#8A93A0";

// kind "sample": on the scale of the data; "signed": from zero, negative values blue. isWrong marks features.
function makePicture(values, { kind = "sample", label = "", isWrong = null, scale = null } = {}) {
  const canvas = make("canvas", { class: "picture", role: "img", "aria-label": label });
  paintPicture(canvas, values, { kind, isWrong, scale });
  return canvas;
}

function paintPicture(canvas, values, { kind = "sample", isWrong = null, scale = null } = {}) {
  const shown = model.table ? standardise(values, kind) : values;
  const extent = model.table && kind === "sample" ? LARGEST_DEVIATION : scale || largestSize(shown) || 1;
  if (model.image_shape) paintImage(canvas, shown, kind, extent, isWrong);
  else paintCurve(canvas, shown, model.table ? "signed" : kind, extent, isWrong);
}

// Features of a table have units of their own: what is shown is how far they are from their means.
function standardise(values, kind) {
  const { mean, spread } = model.table;
  return values.map((value, f) => (value - (kind === "sample" ? mean[f] : 0)) / spread[f]);
}

function paintImage(canvas, values, kind, extent, isWrong) {
  const [height, width, channels = 1] = model.image_shape;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let place = 0; place < height * width; place++) {
    const parts = Array.from(values.subarray(place * channels, (place + 1) * channels));
    const isMarked = isWrong && isWrong.slice(place * channels, (place + 1) * channels).some((flag) => flag);
    image.data.set(isMarked ? ERROR_COLOR : toColor(parts, kind, extent), 4 * place);
    image.data[4 * place + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function toColor(parts, kind, extent) {
  const { low, high } = model.look;
  if (parts.some(Number.isNaN)) return MISSING_COLOR;
  if (kind === "signed" && parts.length === 1 && parts[0] < 0) {
    const size = Math.min(1, -parts[0] / extent);
    return NEGATIVE_COLOR.map((part) => size * part);
  }
  const shades = parts.map((value) => {
    const share = kind === "signed" ? value / extent : (value - low) / (high - low || 1);
    return 255 * Math.min(1, Math.max(0, parts.length > 1 && kind === "signed" ? (1 + share) / 2 : share));
  });
  return shades.length === 1 ? [shades[0], shades[0], shades[0]] : shades;
}

const CURVE_SIZE = [240, 120]; // the style scales it
const AGAINST_COLOR = "#D55E00";

function curveRange(kind, extent) {
  if (kind === "signed") return [-extent, extent];
  const margin = 0.15 * (model.look.high - model.look.low || 1);
  return [model.look.low - margin, model.look.high + margin];
}

function paintCurve(canvas, values, kind, extent, isWrong) {
  const [width, height] = CURVE_SIZE;
  const sharpness = 2;
  canvas.width = sharpness * width;
  canvas.height = sharpness * height;
  canvas.classList.add("curve");
  const context = canvas.getContext("2d");
  const [low, high] = curveRange(kind, extent);
  const toX = (f) => ((f + 0.5) * width) / values.length;
  const toY = (value) => height - ((value - low) / (high - low)) * height;
  context.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  context.strokeStyle = ZERO_COLOR;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, toY(0));
  context.lineTo(width, toY(0));
  context.stroke();
  if (isWrong) markFeatures(context, isWrong, width, height);
  context.strokeStyle = context.fillStyle = CURVE_COLOR;
  context.lineWidth = 1.5;
  if (model.table) paintBars(context, values, toX, toY, (0.7 * width) / values.length);
  else traceCurve(context, values, toX, toY);
}

function markFeatures(context, isWrong, width, height) {
  context.fillStyle = `rgba(${ERROR_COLOR.join(", ")}, 0.5)`;
  isWrong.forEach((flag, f) => {
    if (flag) context.fillRect((f * width) / isWrong.length, 0, width / isWrong.length, height);
  });
}

function paintBars(context, values, toX, toY, width) {
  values.forEach((value, f) => {
    context.fillStyle = value < 0 ? AGAINST_COLOR : CURVE_COLOR;
    if (!Number.isNaN(value)) context.fillRect(toX(f) - width / 2, toY(value), width, toY(0) - toY(value));
  });
}

function traceCurve(context, values, toX, toY) {
  context.beginPath();
  let isDown = false;
  for (const [f, value] of thinOut(values)) {
    if (Number.isNaN(value)) isDown = false;
    else if (isDown) context.lineTo(toX(f), toY(value));
    else {
      context.moveTo(toX(f), toY(value));
      isDown = true;
    }
  }
  context.stroke();
}

// Pairs of feature and value: all of them, or of each short stretch of a long curve the lowest and the highest, which
// is all that can be seen.
function thinOut(values) {
  const length = Math.ceil(values.length / MOST_POINTS);
  if (length === 1) return Array.from(values, (value, f) => [f, value]);
  const points = [];
  for (let start = 0; start < values.length; start += length) {
    let [low, high] = [start, start];
    for (let f = start; f < Math.min(start + length, values.length); f++) {
      if (!(values[f] >= values[low])) low = f;
      if (!(values[f] <= values[high])) high = f;
    }
    for (const f of low < high ? [low, high] : [high, low]) points.push([f, values[f]]);
  }
  return points;
}

function nameSample(place) {
  return data.names ? data.names[place] : `sample ${data.rows[place]}`;
}

// A sample as a button with its names under it.
function makeSampleButton(place, onclick) {
  const name = nameSample(place);
  const prediction = data.classes[data.predictions[place]];
  const isWrong = data.labels && data.labels[place] !== data.predictions[place];
  const text = isWrong ? `${data.classes[data.labels[place]]} → ${prediction}` : prediction;
  const picture = makePicture(data.samples[place], { label: `${name}, taken for ${prediction}` });
  const caption = make("span", { class: isWrong ? "caption wrong" : "caption", text });
  const properties = { class: "sample", type: "button", title: `${name}: ${text}`, "data-place": place };
  return make("button", { ...properties, onclick: () => onclick(place) }, picture, caption);
}

// Charts: bars of HTML, lines and histograms of SVG; colours that follow the theme come from the style sheet.

// rows: { name, value, color, isStrong, mark, text }; bars start at zero, which is in the middle if there are negative values.
function makeBars(rows, { label }) {
  const largest = Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-300);
  const hasNegative = rows.some(({ value }) => value < 0);
  const list = make("ul", { class: "bars", "aria-label": label });
  for (const { name, value, color, isStrong, mark, text } of rows) {
    const bar = make("span", { class: "bar" });
    const share = (Math.abs(value) / largest) * (hasNegative ? 50 : 100);
    bar.style.width = `${share}%`;
    bar.style.left = `${hasNegative ? (value < 0 ? 50 - share : 50) : 0}%`;
    bar.style.backgroundColor = color;
    const track = make("span", { class: hasNegative ? "track centred" : "track" }, bar);
    const tag = mark ? make("span", { class: "mark-of-bar", text: mark }) : null;
    const label = make("span", { class: "name", title: name }, name, tag);
    const number = make("span", { class: "number", text: text || formatNumber(value) });
    list.append(make("li", { class: isStrong ? "strong" : "" }, label, track, number));
  }
  return list;
}

const CHART = { width: 340, height: 200, left: 76, right: 18, top: 10, bottom: 42 };
const FEWEST_TICKS = 3;
const MOST_TICKS = 6; // along the horizontal axis, where numbers are wide

function scaleTo(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

// Round numbers that cover a range: steps of 1, 2 or 5 times a power of ten.
function listTicks(low, high, isWhole = false) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / FEWEST_TICKS));
  const fits = [5, 2, 1].map((factor) => factor * power).find((step) => span / step >= FEWEST_TICKS) || power;
  const step = isWhole ? Math.max(1, Math.round(fits)) : fits;
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: Math.max(last - first, 1) + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// As many digits as tell neighbouring ticks apart.
function formatTicks(ticks) {
  const largest = largestSize(ticks);
  const maximumSignificantDigits = Math.min(12, Math.ceil(Math.log10(largest / (ticks[1] - ticks[0]) + 1)) + 1);
  const style = largest >= 1e5 ? { notation: "compact" } : {};
  const format = new Intl.NumberFormat("en", { maximumSignificantDigits, ...style });
  return ticks.map((value) => format.format(value));
}

// Axes with titles and round ticks; returns the scales of both.
function makeAxes(svg, ticksX, ticksY, titleX, titleY) {
  const { width, height, left, right, top, bottom } = CHART;
  const toX = scaleTo(ticksX[0], ticksX[ticksX.length - 1], left, width - right);
  const toY = scaleTo(ticksY[0], ticksY[ticksY.length - 1], height - bottom, top);
  formatTicks(ticksY).forEach((text, i) => {
    const y = toY(ticksY[i]);
    const line = { class: "grid", x1: left, x2: width - right, y1: y, y2: y };
    svg.append(makeSvg("line", line), makeText(left - 6, y + 4, text, "end"));
  });
  const shown = ticksX.length > MOST_TICKS ? ticksX.filter((_, i) => i % 2 === 0) : ticksX;
  formatTicks(shown).forEach((text, i) => svg.append(makeText(toX(shown[i]), height - bottom + 16, text, "middle")));
  svg.append(makeText((left + width - right) / 2, height - 6, titleX, "middle"));
  const middle = (top + height - bottom) / 2;
  const title = makeText(12, middle, titleY, "middle");
  title.setAttribute("transform", `rotate(-90 12 ${middle})`);
  svg.append(title);
  return [toX, toY];
}

function makeText(x, y, text, anchor) {
  const element = makeSvg("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}

function makeChart(label) {
  const viewBox = `0 0 ${CHART.width} ${CHART.height}`;
  return makeSvg("svg", { class: "chart", viewBox, role: "img", "aria-label": label });
}

function makeFigure(title, svg, { hint = "", keys = [] } = {}) {
  const legend = keys.map(({ name, className }) => {
    const line = makeSvg("line", { class: `curve-line ${className}`, x1: 0, x2: 24, y1: 5, y2: 5 });
    return make("span", { class: "key" }, makeSvg("svg", { width: 24, height: 10, "aria-hidden": "true" }, line), name);
  });
  const caption = make("figcaption", {}, make("strong", { text: title }), ...legend);
  return make("figure", {}, caption, svg, hint ? make("p", { class: "hint", text: hint }) : "");
}

// series: { name, values, className }, one value for each step from 0 on; null is not drawn. mark: a step to point at.
function makeLines(title, series, { stepName, unit = "", isFromZero = false, hint, mark = null }) {
  const drawn = series.filter(({ values }) => values.some((value) => value !== null));
  const all = drawn.flatMap(({ values }) => values).filter((value) => value !== null);
  if (all.length === 0) return null;
  const ends = ({ name, values }) => {
    const known = values.filter((value) => value !== null);
    return `${name} ${formatNumber(known[0])} to ${formatNumber(known[known.length - 1])}`;
  };
  const svg = makeChart(`${title}: ${drawn.map(ends).join(", ")}`);
  const low = isFromZero ? 0 : Math.min(...all);
  const ticksX = listTicks(0, Math.max(drawn[0].values.length - 1, 1), true);
  const [toX, toY] = makeAxes(svg, ticksX, listTicks(low, Math.max(...all)), stepName, unit || title);
  if (mark !== null) {
    const line = { class: "mark", x1: toX(mark), x2: toX(mark), y1: CHART.top, y2: CHART.height - CHART.bottom };
    svg.append(makeSvg("line", line));
  }
  for (const { values, className } of drawn) {
    const points = values.flatMap((value, i) => (value === null ? [] : [`${toX(i)},${toY(value)}`]));
    svg.append(makeSvg("polyline", { class: `curve-line ${className}`, points: points.join(" ") }));
  }
  return makeFigure(title, svg, { hint, keys: drawn.length > 1 ? drawn : [] });
}

function makeHistogram(title, { counts, edges, floor, median }, hint) {
  const limit = floor > 0 ? `, floor ${formatNumber(floor)}` : "";
  const svg = makeChart(`${title}: median ${formatNumber(median)}${limit}`);
  const [first, last] = [edges[0], edges[edges.length - 1]];
  const ticksY = listTicks(0, Math.max(...counts), true);
  const [toX, toY] = makeAxes(svg, listTicks(first, last), ticksY, "sigma", "training samples");
  counts.forEach((count, i) => {
    const [x, next] = [toX(edges[i]), toX(edges[i + 1])];
    const size = { x, y: toY(count), width: Math.max(next - x - 0.5, 0.5), height: toY(0) - toY(count) };
    svg.append(makeSvg("rect", { class: "column", ...size }));
  });
  if (floor >= first && floor <= last) {
    const x = toX(floor);
    svg.append(makeSvg("line", { class: "floor", x1: x, x2: x, y1: CHART.top, y2: CHART.height - CHART.bottom }));
  }
  return makeFigure(title, svg, { hint });
}

// The reliability curve: how often predictions of a probability are right; a dot is as large as its share of samples.
function makeReliability({ n_samples: counts, probability, accuracy }, hint) {
  const title = "Reliability";
  const points = probability.map((value, i) => `${formatShare(value, 0)}: ${formatShare(accuracy[i], 0)} right`);
  const svg = makeChart(`${title}: ${points.join(", ")}`);
  const ticks = listTicks(Math.min(...probability, ...accuracy, 0.5), 1);
  const [toX, toY] = makeAxes(svg, ticks, ticks, "probability of the prediction", "share that is right");
  const perfect = `${toX(ticks[0])},${toY(ticks[0])} ${toX(1)},${toY(1)}`;
  svg.append(makeSvg("polyline", { class: "curve-line second", points: perfect }));
  const line = probability.map((value, i) => `${toX(value)},${toY(accuracy[i])}`).join(" ");
  svg.append(makeSvg("polyline", { class: "curve-line first faint", points: line })); // bins of few samples jump
  const largest = Math.max(...counts);
  counts.forEach((count, i) => {
    const r = 2 + 5 * Math.sqrt(count / largest);
    const dot = makeSvg("circle", { class: "dot-of-curve", cx: toX(probability[i]), cy: toY(accuracy[i]), r });
    const name = makeSvg("title");
    name.textContent = `${count} predictions, ${points[i]}`;
    dot.append(name);
    svg.append(dot);
  });
  const keys = [
    { name: "this model", className: "first" },
    { name: "perfect", className: "second" },
  ];
  return makeFigure(title, svg, { hint, keys });
}

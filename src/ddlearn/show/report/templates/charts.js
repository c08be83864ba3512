// Charts: bars of HTML, lines and histograms of SVG; colours that follow the theme come from the style sheet.

// rows: { name, value, color, isStrong }; bars start at zero, which is in the middle if there are negative values.
function makeBars(rows, { label, format = formatNumber } = {}) {
  const largest = Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-300);
  const hasNegative = rows.some(({ value }) => value < 0);
  const list = make("ul", { class: "bars", "aria-label": label });
  for (const { name, value, color, isStrong } of rows) {
    const bar = make("span", { class: "bar" });
    const share = (Math.abs(value) / largest) * (hasNegative ? 50 : 100);
    bar.style.width = `${share}%`;
    bar.style.left = `${hasNegative ? (value < 0 ? 50 - share : 50) : 0}%`;
    bar.style.backgroundColor = color;
    const track = make("span", { class: hasNegative ? "track centred" : "track" }, bar);
    const label = make("span", { class: "name", text: name, title: name });
    const number = make("span", { class: "number", text: format(value) });
    list.append(make("li", { class: isStrong ? "strong" : "" }, label, track, number));
  }
  return list;
}

const CHART = { width: 320, height: 170, left: 62, right: 12, top: 10, bottom: 30 };

function scaleTo(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

function makeAxes(svg, low, high, firstX, lastX, labelX) {
  const { width, height, left, right, top, bottom } = CHART;
  const toY = scaleTo(low, high, height - bottom, top);
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(
      makeSvg("line", { class: "grid", x1: left, x2: width - right, y1: toY(value), y2: toY(value) }),
      makeText(left - 6, toY(value) + 4, formatNumber(value), "end"),
    );
  }
  svg.append(makeText(left, height - 12, firstX, "start"), makeText(width - right, height - 12, lastX, "end"));
  svg.append(makeText((left + width - right) / 2, height - 12, labelX, "middle"));
  return toY;
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

// series: { name, values, className }, one value for each iteration; null is not drawn.
function makeLines(title, series, format = formatNumber) {
  const all = series.flatMap(({ values }) => values).filter((value) => value !== null);
  if (all.length === 0) return null;
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (low === high) [low, high] = [low - 1, high + 1];
  const ends = ({ name, values }) => `${name} ${format(values[0])} to ${format(values[values.length - 1])}`;
  const svg = makeChart(`${title}: ${series.map(ends).join(", ")}`);
  const last = series[0].values.length - 1;
  const toY = makeAxes(svg, low, high, "0", String(last), "iteration");
  const toX = scaleTo(0, last, CHART.left, CHART.width - CHART.right);
  for (const { values, className } of series) {
    const points = values.flatMap((value, i) => (value === null ? [] : [`${toX(i)},${toY(value)}`]));
    svg.append(makeSvg("polyline", { class: `curve-line ${className}`, points: points.join(" ") }));
  }
  const keys = series.map(({ name, className }) => make("span", { class: `key ${className}`, text: name }));
  const caption = make("figcaption", {}, make("strong", { text: title }), ...(series.length > 1 ? keys : []));
  return make("figure", {}, caption, svg);
}

function makeHistogram(title, { counts, edges, floor, median }) {
  const limit = floor > 0 ? `, floor ${formatNumber(floor)}` : "";
  const svg = makeChart(`${title}: median ${formatNumber(median)}${limit}`);
  const high = Math.max(...counts);
  const toY = makeAxes(svg, 0, high, formatNumber(edges[0]), formatNumber(edges[edges.length - 1]), "sigma");
  const toX = scaleTo(edges[0], edges[edges.length - 1], CHART.left, CHART.width - CHART.right);
  counts.forEach((count, i) => {
    const [x, next] = [toX(edges[i]), toX(edges[i + 1])];
    const size = { x, y: toY(count), width: Math.max(next - x - 0.5, 0.5), height: toY(0) - toY(count) };
    svg.append(makeSvg("rect", { class: "column", ...size }));
  });
  if (floor >= edges[0] && floor <= edges[edges.length - 1]) {
    const x = toX(floor);
    svg.append(makeSvg("line", { class: "floor", x1: x, x2: x, y1: CHART.top, y2: CHART.height - CHART.bottom }));
  }
  return make("figure", {}, make("figcaption", {}, make("strong", { text: title })), svg);
}

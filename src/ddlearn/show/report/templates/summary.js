// The summary: checks, errors, the classes one by one, the confusion matrix, and what probabilities are worth.
const MANY_CLASSES = 20; // with more, the worst come first and the rest on demand
const N_WORST = 10;

function showSummary() {
  showChecks(content.summary.checks);
  showSettings();
  if (!data || !data.errors) {
    byId("errors").replaceChildren(makeKnownError(content.summary));
    return;
  }
  const { errors } = data;
  byId("errors").replaceChildren(makeErrorLine(errors), makeClassTable(errors));
  byId("confusion").replaceChildren(make("h3", { text: "Confusion matrix" }), ...listConfusions(errors));
  byId("reliability").replaceChildren(makeReliability(errors.reliability, describeReliability(errors)));
}

const VERDICTS = { good: "✓ good", warning: "! look", unknown: "? not known" };

function showChecks(checks) {
  const rank = ["warning", "good", "unknown"];
  const rows = checks
    .slice()
    .sort((a, b) => rank.indexOf(a.verdict) - rank.indexOf(b.verdict))
    .map(({ name, verdict, finding, remedy }) => {
      const mark = make("span", { class: `mark-of-check ${verdict}`, text: VERDICTS[verdict] });
      const advice = remedy ? make("span", { class: "remedy", text: ` ${remedy}` }) : "";
      return make("li", {}, mark, make("strong", { text: name }), make("span", {}, finding, advice));
    });
  const nWarnings = checks.filter(({ verdict }) => verdict === "warning").length;
  const verdict = nWarnings ? `${nWarnings} to look at` : "nothing to worry about";
  byId("checks").replaceChildren(make("h3", { text: `Checks: ${verdict}` }), make("ul", { class: "checks" }, ...rows));
}

function showSettings() {
  const list = make("dl", { class: "facts" });
  const name = data && data.name ? `${data.name}, ` : "";
  const source = data ? { data: `${name}${data.n_samples.toLocaleString("en")} samples` } : {};
  for (const [key, value] of Object.entries({ ...source, ...model.settings })) {
    list.append(make("dt", { text: key }), make("dd", { text: value }));
  }
  byId("settings").replaceChildren(list);
}

function makeKnownError({ error, error_source: source }) {
  const line = error === null ? "The error was not measured." : `Error ${formatShare(error, 2)} ${source}.`;
  const hint = "This page was made without labelled samples: it cannot tell the error on new ones.";
  return make("div", {}, make("p", { class: "headline", text: line }), make("p", { class: "hint", text: hint }));
}

function makeErrorLine({ error, error_interval: [low, high], n_wrong: nWrong, n_samples: nSamples }) {
  const interval = `95 % interval of the error ${(100 * low).toFixed(2)} to ${formatShare(high, 2)}`;
  const whose = data.name ? ` of ${data.name}` : "";
  const counts = `${nWrong.toLocaleString("en")} of ${nSamples.toLocaleString("en")} samples${whose} are wrong`;
  const accuracy = make("span", { class: "hint", text: ` accuracy ${formatShare(1 - error, 2)}` });
  const button = make("button", { type: "button", id: "wrong-csv", text: "Wrong samples as CSV", onclick: saveWrong });
  return make(
    "div",
    {},
    make("p", { class: "headline" }, make("strong", { id: "error", text: `Error ${formatShare(error, 2)}` }), accuracy),
    make("p", { text: `${counts}; ${interval}.` }),
    nWrong ? make("p", {}, button) : "",
  );
}

// Every wrong sample, whether or not it is in the page.
function saveWrong() {
  const { rows, names, labels, predictions, probability } = data.wrong;
  const quote = (value) => `"${String(value).replaceAll('"', '""')}"`;
  const lines = rows.map((row, i) => {
    const classes = [labels[i], predictions[i]].map((j) => quote(data.classes[j]));
    return [row, ...(names ? [quote(names[i])] : []), ...classes, probability[i]].join(",");
  });
  const head = ["row", ...(names ? ["name"] : []), "label", "prediction", "probability"].join(",");
  saveFile("wrong_samples.csv", `${[head, ...lines].join("\n")}\n`);
}

const CLASS_COLUMNS = ["class", "samples", "error", "precision", "recall", "F1"];

// The classes, sorted by a click on a head; of many, the worst until one asks for all.
function makeClassTable(errors) {
  const rows = errors.classes.map((name, j) => {
    const recall = errors.recall[j];
    return [
      name,
      errors.n_samples_of_class[j],
      recall === null ? null : 1 - recall,
      errors.precision[j],
      recall,
      errors.f1[j],
    ];
  });
  const isMany = rows.length > MANY_CLASSES;
  const state = { column: isMany ? 2 : 0, isDescending: isMany, isAll: !isMany };
  const frame = make("div", { id: "classes" });
  const show = () => {
    const shown = sortRows(rows, state).slice(0, state.isAll ? rows.length : N_WORST);
    const heads = CLASS_COLUMNS.map((name, column) => makeSortHead(name, column, state, show));
    const table = makeTable("Classes", heads, shown.map(makeClassRow));
    const onclick = () => {
      state.isAll = true;
      show();
    };
    const more = make("button", {
      type: "button",
      id: "all-classes",
      text: `Show all ${rows.length} classes`,
      onclick,
    });
    const title = isMany ? make("h3", { text: state.isAll ? "All classes" : `The ${N_WORST} worst classes` }) : "";
    frame.replaceChildren(title, table, state.isAll ? "" : make("p", {}, more));
  };
  show();
  return frame;
}

function sortRows(rows, { column, isDescending }) {
  const sign = isDescending ? -1 : 1;
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  const isKnown = (row) => row[column] !== null;
  const known = rows.filter(isKnown).sort((a, b) => sign * compare(a[column], b[column]));
  return [...known, ...rows.filter((row) => !isKnown(row))];
}

function makeSortHead(name, column, state, show) {
  const isSorted = state.column === column;
  const arrow = isSorted ? (state.isDescending ? " ▾" : " ▴") : "";
  const onclick = () => {
    state.isDescending = isSorted ? !state.isDescending : column > 0;
    state.column = column;
    show();
    byId(`sort-${column}`).focus();
  };
  const label = `Sort by ${name}`;
  const properties = {
    type: "button",
    class: "plain",
    id: `sort-${column}`,
    title: label,
    "aria-pressed": String(isSorted),
  };
  return make("button", { ...properties, text: name + arrow, onclick });
}

function makeClassRow([name, nSamples, ...shares]) {
  const cells = [nSamples.toLocaleString("en"), ...shares.map((share) => formatShare(share))];
  const head = make("th", { scope: "row" }, makeChip(name, colorOf(name)));
  return make("tr", {}, head, ...cells.map((text) => make("td", { text })));
}

function colorOf(name) {
  return model.colors[model.classes.indexOf(name)];
}

// The matrix; with many classes the worst confusions first, and the matrix when it is asked for.
function listConfusions(errors) {
  if (errors.classes.length <= MANY_CLASSES) return [makeConfusion(errors)];
  const details = make("details", {}, make("summary", { text: `The whole matrix, ${errors.classes.length} classes` }));
  details.addEventListener("toggle", () => details.children.length < 2 && details.append(makeConfusion(errors)));
  return [makeWorstConfusions(errors), details];
}

function makeWorstConfusions({ classes, confusion }) {
  const cells = confusion.flatMap((row, i) => row.map((count, j) => ({ count, i, j })));
  const worst = cells.filter(({ count, i, j }) => i !== j && count > 0).sort((a, b) => b.count - a.count);
  const rows = worst.slice(0, N_WORST).map(({ count, i, j }) => {
    const total = confusion[i].reduce((sum, value) => sum + value, 0);
    const chips = [i, j].map((k) => makeChip(classes[k], colorOf(classes[k])));
    const share = make("td", { text: formatShare(count / total) });
    const [truth, prediction] = [make("th", { scope: "row" }, chips[0]), make("td", { class: "left" }, chips[1])];
    return make("tr", {}, truth, prediction, makeConfusionCell(classes, i, j, count, total), share);
  });
  const title = make("p", { text: `The ${rows.length} most frequent confusions. Click a number to see the samples.` });
  return make(
    "div",
    {},
    title,
    makeTable("Worst confusions", ["true class", "predicted", "samples", "of class"], rows),
  );
}

function makeConfusion({ classes, confusion }) {
  const rows = classes.map((name, i) => {
    const total = confusion[i].reduce((sum, count) => sum + count, 0);
    const cells = classes.map((_, j) => makeConfusionCell(classes, i, j, confusion[i][j], total));
    return make("tr", {}, make("th", { scope: "row" }, makeChip(name, colorOf(name))), ...cells);
  });
  const isLong = classes.some((name) => name.length > 3);
  const properties = { class: isLong ? "confusion upright" : "confusion" };
  const corner = make("span", { class: "axis", text: "true class ↓" });
  const frame = makeTable(
    "Confusion matrix",
    [corner, ...classes.map((text) => make("span", { text, title: text }))],
    rows,
    properties,
  );
  const across = make(
    "tr",
    {},
    make("td"),
    make("th", { class: "axis", colspan: classes.length, text: "predicted class →" }),
  );
  frame.querySelector("thead").prepend(across);
  const hint =
    "Each row is a true class, each column a prediction; right predictions are on the diagonal. Click a number to see the samples.";
  return make("div", {}, frame, make("p", { class: "hint", text: hint }));
}

function makeConfusionCell(classes, truth, prediction, count, total) {
  if (count === 0) return make("td", { class: "none", text: "·" });
  const label = `${count} samples of ${classes[truth]} taken for ${classes[prediction]}`;
  const onclick = () => showCell(classes, truth, prediction, label);
  const button = make("button", { type: "button", text: count, "aria-label": label, title: label, onclick });
  const cell = make("td", { class: truth === prediction ? "cell right" : "cell wrong" }, button);
  cell.style.setProperty("--share", String(Math.min(1, 0.15 + (truth === prediction ? 0.85 : 4) * (count / total))));
  return cell;
}

function showCell(classes, truth, prediction, label) {
  const places = data.rows.map((_, place) => place);
  const shown = places.filter((place) => data.labels[place] === truth && data.predictions[place] === prediction);
  const buttons = shown.map((place) => makeSampleButton(place, visitSample));
  const hint = `${shown.length} of them are in this page. Choose one to explore it.`;
  openDialog(label, make("p", { class: "hint", text: hint }), make("div", { class: "strip" }, ...buttons));
}

function describeReliability({ log_loss: logLoss, calibration_error: error }) {
  const how = model.is_calibrated ? "calibrated on held-out training samples" : "not calibrated";
  return (
    `Where the curve is below the diagonal, the model is too sure. Probabilities are off by ${formatShare(error)} on ` +
    `average (log-loss ${formatNumber(logLoss)}); they are ${how}.`
  );
}

// The summary: settings, errors, which class is taken for which, and the classes one by one.
function showSummary() {
  showSettings();
  if (!data || !data.errors) {
    byId("errors").replaceChildren(makeTrainingError());
    return;
  }
  byId("errors").replaceChildren(makeErrorLine(data.errors), makeClassTable(data.errors));
  byId("confusion").replaceChildren(make("h3", { text: "Which class is taken for which" }), makeConfusion(data.errors));
}

function showSettings() {
  const list = make("dl", { class: "facts" });
  const source = data ? { data: `${data.name}, ${data.n_samples.toLocaleString("en")} samples` } : {};
  const facts = { ...source, ...model.settings };
  for (const [name, value] of Object.entries(facts)) {
    list.append(make("dt", { text: name }), make("dd", { text: value }));
  }
  byId("settings").replaceChildren(list);
}

function makeTrainingError() {
  const { label_free_error: errors } = content.training.history;
  const line = `${formatShare(errors[errors.length - 1], 2)} of the training samples, coded as new ones are, are wrong.`;
  const hint = "This page was made without labelled samples: it cannot tell the error on new ones.";
  return make("div", {}, make("p", { class: "headline", text: line }), make("p", { class: "hint", text: hint }));
}

function makeErrorLine({ error, error_interval: [low, high], n_wrong: nWrong, n_samples: nSamples }) {
  const interval = `95 % interval ${(100 * low).toFixed(2)} to ${formatShare(high, 2)}`;
  const counts = `${nWrong.toLocaleString("en")} of ${nSamples.toLocaleString("en")} samples of ${data.name} are wrong`;
  return make(
    "div",
    {},
    make("p", { class: "headline" }, make("strong", { id: "error", text: `Error ${formatShare(error, 2)}` })),
    make("p", { text: `${interval}: ${counts}.` }),
  );
}

function makeClassTable(errors) {
  const rows = errors.classes.map((name, j) => {
    const recall = errors.recall[j];
    const shares = [recall === null ? null : 1 - recall, errors.precision[j], recall, errors.f1[j]];
    const cells = [errors.n_samples_of_class[j].toLocaleString("en"), ...shares.map((share) => formatShare(share))];
    const head = make("th", { scope: "row" }, makeChip(name, colorOf(name)));
    return make("tr", {}, head, ...cells.map((text) => make("td", { text })));
  });
  return makeTable("Classes", ["class", "samples", "error", "precision", "recall", "F1"], rows);
}

function colorOf(name) {
  return model.colors[model.classes.indexOf(name)];
}

function makeConfusion({ classes, confusion }) {
  const rows = classes.map((name, i) => {
    const total = confusion[i].reduce((sum, count) => sum + count, 0);
    const cells = classes.map((_, j) => makeConfusionCell(classes, i, j, confusion[i][j], total));
    return make("tr", {}, make("th", { scope: "row" }, makeChip(name, colorOf(name))), ...cells);
  });
  const isLong = classes.some((name) => name.length > 3);
  const properties = { class: isLong ? "confusion upright" : "confusion" };
  const heads = ["", ...classes.map((text) => make("span", { text, title: text }))];
  const table = makeTable("Which class is taken for which", heads, rows, properties);
  const hint = "A row for each class, a column for each prediction; click a number to see some of those samples.";
  return make("div", {}, make("p", { class: "hint", text: hint }), table);
}

function makeConfusionCell(classes, truth, prediction, count, total) {
  if (count === 0) return make("td", { class: "none", text: "·" });
  const label = `${count} samples of ${classes[truth]} taken for ${classes[prediction]}`;
  const onclick = () => showCell(classes, truth, prediction, label);
  const button = make("button", { type: "button", text: count, "aria-label": label, title: label, onclick });
  const cell = make("td", { class: truth === prediction ? "right" : "wrong" }, button);
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

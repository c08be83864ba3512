// How the fit went: refinement, the joint fit before it, noise, class costs, and the settings that were tried.
const MEANINGS = {
  sigma: "Sigma is the noise of a sample: how far it is from the sum of its atoms.",
  gamma: "Gamma is the cost of a class: the larger, the less its scores count, because they are often wrong.",
};

function showTraining() {
  const { history, converged, refinement, noise } = content.training;
  const n = history.iteration.length - 1;
  const end = converged ? "the objective settled" : "stopped before the objective settled";
  const joint = `${n} ${n === 1 ? "iteration" : "iterations"} of the joint fit; ${end}.`;
  byId("iterations").textContent = refinement ? describeRefinement(refinement) : joint;
  byId("refinement").replaceChildren(...(refinement ? listRefinementCharts(refinement) : []));
  byId("joint-title").textContent = refinement ? `Before refinement: ${joint}` : "The terms of the objective";
  byId("joint").open = !refinement;
  byId("convergence").replaceChildren(...listJointCharts(history));
  byId("noise").replaceChildren(
    noise ? makeHistogram("Noise of the training samples", noise, MEANINGS.sigma) : makeNoNoise(),
  );
  byId("costs").replaceChildren(makeCosts(content.training));
  showSearch(content.training.search);
}

function describeRefinement({ epoch, best }) {
  const n = epoch.length - 1;
  if (n === 0) return "Not refined: it did not help in trials.";
  return `Refined for ${n} ${n === 1 ? "epoch" : "epochs"}, of which the model after epoch ${best} was kept.`;
}

function toPercent(values) {
  return values.map((value) => (value === null ? null : 100 * value));
}

function listRefinementCharts(refinement) {
  const options = { stepName: "epoch", isFromZero: true, mark: refinement.best };
  const pair = (training, heldOut) => [
    { name: "training samples", values: training, className: "first" },
    { name: "held-out samples", values: heldOut, className: "second" },
  ];
  const errors = pair(toPercent(refinement.training_error), toPercent(refinement.validation_error));
  return [
    makeLines("Cost", pair(refinement.training_cost, refinement.validation_cost), {
      ...options,
      hint: "What refinement lowers: the mean classification cost of label-free codes. The dotted line is the epoch kept.",
    }),
    makeLines("Error", errors, { ...options, unit: "error, %", hint: "Each epoch passes once over all samples." }),
  ].filter((figure) => figure !== null);
}

function listJointCharts(history) {
  const one = (title, values, hint) =>
    makeLines(title, [{ name: title, values, className: "first" }], { stepName: "iteration (0 is the start)", hint });
  return [
    one("Objective", history.objective, "What the fit lowers: the sum of the following terms."),
    one("Representation", history.representation, "Squared distances of samples from the sums of their atoms."),
    one("Noise", history.log_noise, "Logarithms of sigma."),
    one("Classification", history.classification, "Losses of the classifiers, over gamma."),
    one("Class costs", history.log_class_cost, "Logarithms of gamma."),
    one("Priors", history.prior, "What the priors of sigma, gamma and the classifiers add."),
    makeErrorLines(history),
  ].filter((figure) => figure !== null);
}

function makeErrorLines(history) {
  const series = [
    { name: "codes that saw the labels", values: toPercent(history.training_error), className: "first" },
    { name: "label-free codes", values: toPercent(history.label_free_error), className: "second" },
  ];
  const hint = "New samples have label-free codes: the dashed curve is the one that counts.";
  return makeLines("Training error", series, { stepName: "iteration", unit: "error, %", isFromZero: true, hint });
}

function makeCosts({ class_cost: classCost, cost_floor: floor }) {
  const caption = make("figcaption", {}, make("strong", { text: "Class costs" }));
  const isSame = Math.max(...classCost) - Math.min(...classCost) <= 1e-9 * Math.max(...classCost);
  const nThere = classCost.filter((cost) => cost <= floor * (1 + 1e-6)).length;
  const atFloor = `${nThere} of ${classCost.length} are at their floor, ${formatNumber(floor)}. `;
  const hint = make("p", { class: "hint", text: (floor > 0 ? atFloor : "") + MEANINGS.gamma }); // proper priors need none
  if (isSame) return make("figure", {}, caption, make("p", { text: `${formatNumber(classCost[0])} for all.` }), hint);
  const order = classCost.map((_, j) => j).sort((a, b) => classCost[b] - classCost[a]);
  const rows = order.map((j) => ({ name: model.classes[j], value: classCost[j], color: model.colors[j] }));
  return make("figure", {}, caption, makeBars(rows.slice(0, 20), { label: "Class costs, the largest first" }), hint);
}

function makeNoNoise() {
  return make("p", { class: "hint", text: "The model file does not have the noise of the training samples." });
}

// Which settings were tried on held-out training samples; the last is the one that the model has.
function showSearch(search) {
  const n = search.error ? search.error.length : 0;
  byId("search").hidden = n === 0;
  if (n === 0) return;
  byId("search-title").textContent = `What was tried: ${n} settings, on held-out training samples`;
  const text = (values, i, digits = 3) => (values[i] === null ? "–" : String(Number(values[i].toPrecision(digits))));
  const rows = Array.from({ length: n }, (_, i) => n - 1 - i).map((i) => {
    const cells = [
      search.description[i],
      text(search.n_components, i),
      text(search.alpha, i),
      text(search.weight_decay, i),
      text(search.linear_decay, i),
      search.cost[i].replaceAll("_", "-"),
      text(search.epochs, i),
      text(search.mean_cost, i),
      text(search.log_loss, i),
      formatShare(search.error[i]),
    ];
    const head = make("th", { scope: "row", text: i === n - 1 ? "chosen" : String(i + 1) });
    return make("tr", { class: i === n - 1 ? "total" : "" }, head, ...cells.map((cell) => make("td", { text: cell })));
  });
  const heads = ["", "description", "atoms", "alpha", "weight decay", "linear decay", "cost function", "epochs", "cost"];
  byId("search-body").replaceChildren(
    makeTable("Settings that were tried", [...heads, "log-loss", "error"], rows),
    make("p", { class: "hint", text: SEARCH_HINT }),
  );
}

const SEARCH_HINT =
  "Settings with 0 epochs are compared by their cost, without refinement; the finalists are refined for a few epochs and " +
  "compared by their log-loss. Alpha is the penalty on codes, the decays are penalties on the classifiers.";

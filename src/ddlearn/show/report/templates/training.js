// How the fit went: the terms of the MAP objective, errors, noise, class costs.
function showTraining() {
  const { history, converged, noise } = content.training;
  const one = (title, values) => makeLines(title, [{ name: title, values, className: "first" }]);
  byId("convergence").replaceChildren(
    ...[
      one("Objective", history.objective),
      one("Representation", history.representation),
      one("Noise (log sigma)", history.log_noise),
      one("Classification", history.classification),
      one("Cost (log gamma)", history.log_class_cost),
      one("Priors", history.prior),
      makeErrorLines(history),
    ].filter((figure) => figure !== null),
  );
  const end = converged ? "the objective has settled" : "stopped before the objective had settled";
  byId("iterations").textContent = `${history.iteration.length - 1} iterations; ${end}.`;
  byId("noise").replaceChildren(noise ? makeHistogram("Noise of the training samples, sigma", noise) : makeNoNoise());
  byId("costs").replaceChildren(makeCosts(content.training));
}

function makeCosts({ class_cost: classCost, cost_floor: floor }) {
  const rows = classCost.map((value, j) => ({ name: model.classes[j], value, color: model.colors[j] }));
  const nThere = classCost.filter((cost) => cost <= floor * (1 + 1e-6)).length;
  const caption = make("figcaption", {}, make("strong", { text: "Class costs, gamma" }));
  const text = `${nThere} of ${classCost.length} are at their floor, ${formatNumber(floor)}.`;
  const hints = floor > 0 ? [make("p", { class: "hint", text })] : []; // proper priors need no floor
  return make("figure", {}, caption, makeBars(rows, { label: "Class costs" }), ...hints);
}

function makeNoNoise() {
  return make("p", { class: "hint", text: "The model file does not have the noise of the training samples." });
}

function makeErrorLines(history) {
  const toPercent = (values) => values.map((value) => (value === null ? null : 100 * value));
  return makeLines("Training error, %", [
    { name: "codes that saw the labels", values: toPercent(history.training_error), className: "first" },
    { name: "label-free codes", values: toPercent(history.label_free_error), className: "second" },
  ]);
}

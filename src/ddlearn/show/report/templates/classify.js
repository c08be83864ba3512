// From codes to classes: the fast rule (inference/rules.py).

// Odd, and tabulated from 0 on (packing.py); between two entries a cubic, beyond the last one a line.
function evidenceOf(score) {
  const { scores, values, slopes } = model.evidence;
  const size = Math.abs(score);
  const last = scores.length - 1;
  if (size >= scores[last]) return Math.sign(score) * (values[last] + (size - scores[last]) * slopes[last]);
  let [i, end] = [0, last];
  while (end - i > 1) {
    const middle = (i + end) >> 1;
    if (scores[middle] <= size) i = middle;
    else end = middle;
  }
  const width = scores[i + 1] - scores[i];
  const t = (size - scores[i]) / width;
  const value =
    values[i] * (1 + 2 * t) * (1 - t) ** 2 +
    width * slopes[i] * t * (1 - t) ** 2 +
    values[i + 1] * t * t * (3 - 2 * t) +
    width * slopes[i + 1] * t * t * (t - 1);
  return Math.sign(score) * value;
}

// What each atom of a code adds to the score of each class: contributions[j][t]; with the intercept they sum to it.
function classify(code) {
  const contributions = model.coef.map((weights) => code.atoms.map((atom, t) => code.values[t] * weights[atom]));
  const scores = contributions.map((parts, j) => parts.reduce((sum, part) => sum + part, model.intercept[j]));
  const evidence = scores.map((score, j) => evidenceOf(score) / model.classCost[j]);
  return { contributions, scores, ...decide(evidence) };
}

// Features that are missing are left out; what stands in their places does not matter.
function findKnown(sample) {
  const isKnown = Uint8Array.from(sample, (value) => (Number.isNaN(value) ? 0 : 1));
  const nKnown = isKnown.reduce((count, flag) => count + flag, 0);
  const known = nKnown === sample.length ? sample : sample.map((value, f) => (isKnown[f] ? value : 0));
  return { known, isKnown, nKnown };
}

// Codes a sample as the library's predict does.
function explain(sample) {
  const { known, isKnown, nKnown } = findKnown(sample);
  const { scaled, known: isKept, size } = scaleSample(known, isKnown);
  const isWhole = nKnown === sample.length;
  const code = pursue(scaled, isWhole ? null : isKept, model.n_nonzero_coefs);
  const found = { sample, size, code, isWrong: null, ...classify(code) };
  if (nKnown === 0) return { ...found, ...decide(model.prior_evidence) };
  return isWhole && model.views ? averageViews(found, scaled) : found;
}

function decide(evidence) {
  return { evidence, label: evidence.indexOf(Math.max(...evidence)) };
}

// Evidence is the mean of all views; atoms and scores stay those of the image itself.
function averageViews(found, scaled) {
  const evidence = found.evidence.slice();
  for (const field of model.views) {
    const view = classify(pursue(displace(scaled, field), null, model.n_nonzero_coefs));
    view.evidence.forEach((value, j) => (evidence[j] += value));
  }
  return { ...found, ...decide(evidence.map((total) => total / (model.views.length + 1))) };
}

function probabilityOf({ evidence, label }) {
  return 1 / evidence.reduce((sum, value) => sum + Math.exp(value - evidence[label]), 0);
}

// The same, with a share of the features allowed to be wrong.
function explainWithErrors(sample, share) {
  const { known, isKnown, nKnown } = findKnown(sample);
  const budget = Math.min(Math.floor(share * nKnown + 1e-9), nKnown - 1);
  if (budget < 1) return explain(sample);
  let { scaled, known: isKept, size } = scaleSample(known, isKnown);
  let { code, isWrong } = findErrors(scaled, isKept, budget);
  if (model.description.energy && isWrong.some((flag) => flag)) {
    // Without the wrong features, whose values the size must not depend on.
    const isRight = isKnown.map((flag, f) => (flag && !isWrong[f] ? 1 : 0));
    ({ size } = scaleSample(known, isRight));
    scaled = known.map((value) => value / size);
    ({ code, isWrong } = findErrors(scaled, isKnown, budget));
  }
  const found = { sample, size, code, isWrong: isWrong.slice(0, sample.length), ...classify(code) };
  const isWhole = nKnown === sample.length && !isWrong.some((flag) => flag);
  return isWhole && model.views ? averageViews(found, scaled) : found;
}

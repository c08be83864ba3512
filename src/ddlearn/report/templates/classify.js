// From codes to classes: the fast rule (inference.py).

// Odd, and tabulated from 0 on (evidence.py); between two entries a cubic, beyond the last one a line.
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
  const label = evidence.indexOf(Math.max(...evidence));
  return { contributions, scores, evidence, label };
}

// Codes a sample as the library's predict does, and with a share of its features allowed to be wrong.
function look(sample) {
  const isKnown = Uint8Array.from(sample, (value) => (Number.isNaN(value) ? 0 : 1));
  const isComplete = !isKnown.includes(0);
  const known = isComplete ? sample : sample.map((value) => (Number.isNaN(value) ? 0 : value));
  return { sample: known, isKnown, isComplete };
}

function explain(sample) {
  const seen = look(sample);
  const code = pursue(seen.sample, seen.isComplete ? null : seen.isKnown, model.n_nonzero_coefs);
  return { sample: seen.sample, code, isWrong: null, ...classify(code) };
}

function explainWithErrors(sample, share) {
  const seen = look(sample);
  const nKnown = seen.isKnown.reduce((count, flag) => count + flag, 0);
  const budget = Math.min(Math.floor(share * nKnown + 1e-9), nKnown - 1);
  if (budget < 1) return explain(sample);
  const { code, isWrong } = findErrors(seen.sample, seen.isKnown, budget);
  return { sample: seen.sample, code, isWrong, ...classify(code) };
}

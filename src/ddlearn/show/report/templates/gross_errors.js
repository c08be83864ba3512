// Features that are grossly wrong: the library's AlternatingErrors (coding/errors.py) for one sample. Code the features
// thought right, judge all features by their residuals, and again with more atoms.
const GROWTH = 1.5;
const ROUNDS_PER_SIZE = 2;
const ROUNDING_ERRORS = 100;

// isKnown: bytes of 0 and 1. Returns the code, and which features are wrong.
function findErrors(sample, isKnown, budget) {
  const { trim, threshold, max_iter: maxIter } = model.errors;
  let isKept = isKnown;
  for (const size of listSizes(model.n_nonzero_coefs, maxIter)) {
    const residuals = measureResiduals(sample, pursue(sample, isKept, size));
    const spread = measureSpread(residuals, sample, isKnown, budget);
    const isSmall = judge(residuals, isKnown, budget, trim * spread);
    const isSame = size === model.n_nonzero_coefs && isSmall.every((flag, f) => flag === isKept[f]);
    isKept = isSmall;
    if (isSame) break;
  }
  const code = pursue(sample, isKept, model.n_nonzero_coefs);
  const residuals = measureResiduals(sample, code);
  const isRight = judge(residuals, isKnown, budget, threshold * measureSpread(residuals, sample, isKnown, budget));
  return { code, isWrong: isKnown.map((known, f) => (known && !isRight[f] ? 1 : 0)) };
}

function listSizes(nNonzeroCoefs, maxIter) {
  const sizes = [];
  for (let size = 1; size < nNonzeroCoefs; size = Math.max(size + 1, Math.floor(size * GROWTH))) {
    for (let round = 0; round < ROUNDS_PER_SIZE; round++) sizes.push(size);
  }
  for (let round = 0; round < maxIter; round++) sizes.push(nNonzeroCoefs);
  return sizes;
}

function measureResiduals(sample, code) {
  const reconstruction = reconstruct(code);
  return sample.map((value, f) => value - reconstruction[f]);
}

function sortSizes(residuals, isKnown) {
  return residuals.map((value, f) => (isKnown[f] ? Math.abs(value) : Infinity)).sort();
}

function measureSpread(residuals, sample, isKnown, budget) {
  const nKnown = isKnown.reduce((count, flag) => count + flag, 0);
  const middle = Math.floor((nKnown - budget) / 2);
  const level = (middle + 0.5) / Math.max(nKnown, 1);
  const largest = sample.reduce((most, value, f) => (isKnown[f] ? Math.max(most, Math.abs(value)) : most), 0);
  const rounding = ROUNDING_ERRORS * EPSILON * largest;
  const spread = sortSizes(residuals, isKnown)[middle] / normalQuantile((1 + level) / 2);
  return Math.max(spread, rounding, model.errors.noise_scale);
}

function judge(residuals, isKnown, budget, limit) {
  const nKnown = isKnown.reduce((count, flag) => count + flag, 0);
  const largest = Math.max(sortSizes(residuals, isKnown)[nKnown - budget - 1], limit);
  return isKnown.map((known, f) => (known && Math.abs(residuals[f]) <= largest ? 1 : 0));
}

// The inverse of the normal distribution, for probabilities of at least a half: Newton's method from 0.
function normalQuantile(probability) {
  let x = 0;
  for (let step = 0; step < 60; step++) {
    const change = (normalProbability(x) - probability) / (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI));
    x -= Math.max(-1, Math.min(1, change));
    if (Math.abs(change) < 1e-14) break;
  }
  return x;
}

// A series whose terms are all positive: x + x^3/3 + x^5/(3 5) + ...
function normalProbability(x) {
  let [term, total] = [x, x];
  for (let k = 3; term > 1e-18 * total; k += 2) {
    term *= (x * x) / k;
    total += term;
  }
  return 0.5 + (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * total;
}

// Orthogonal matching pursuit on the features that are kept: the library's kernels/pursuit.py for one sample, with the
// matrix of the kept features in place of the Gram matrix. Each step takes the atom that promises to lower the error
// most; projections are the rows of inv(L) Q, with L the Cholesky factor of Q on the atoms chosen so far.
const EPSILON = 2 ** -52;
const RESIDUAL_FLOOR = 4 * EPSILON;
const CORRELATION_FLOOR = (100 * EPSILON) ** 2;
const PIVOT_FLOOR = 1e-10;

// isKept: bytes of 0 and 1, or null for all. Returns atoms in ascending order and their coefficients.
function pursue(sample, isKept, budget) {
  const { nAtoms, dictionary, squaredNorms, pursuit } = model;
  const kept = isKept ? sample.map((value, f) => (isKept[f] ? value : 0)) : sample;
  const correlation = multiply(dictionary, kept);
  const norms = isKept ? Float64Array.from(dictionary, (atom) => keptEnergy(atom, isKept)) : squaredNorms.slice();
  const inverse = norms.map((norm, k) => (norm > PIVOT_FLOOR * squaredNorms[k] ? 1 / norm : 0));
  const wholeNorms = norms.slice();
  const [support, steps, cholesky, projections] = [[], [], [], []];
  let residual = dot(kept, kept);
  const tolerance = Math.max(RESIDUAL_FLOOR * residual, pursuit.tol);
  let lowest = 0;
  while (support.length < Math.min(budget, nAtoms) && residual > tolerance) {
    const atom = findLargest(correlation, inverse);
    const norm = wholeNorms[atom];
    const squared = correlation[atom] ** 2;
    if (!(squared > lowest * norm)) break;
    if (support.length === 0) lowest = (CORRELATION_FLOOR * squared) / norm;
    const row = projections.map((projection) => projection[atom]);
    let pivot = row.reduce((rest, factor) => rest - factor * factor, norm);
    if (pivot <= PIVOT_FLOOR * Math.max(norm, squaredNorms[atom])) break;
    pivot = Math.sqrt(pivot);
    const step = correlation[atom] / pivot;
    support.push(atom);
    steps.push(step);
    cholesky.push([...row, pivot]);
    residual -= step * step;
    inverse[atom] = 0;
    norms[atom] = 0;
    const atomKept = isKept ? dictionary[atom].map((value, f) => (isKept[f] ? value : 0)) : dictionary[atom];
    const projection = multiply(dictionary, atomKept);
    for (let k = 0; k < nAtoms; k++) {
      let value = projection[k];
      for (let s = 0; s < row.length; s++) value -= row[s] * projections[s][k];
      value /= pivot;
      projection[k] = value;
      correlation[k] -= step * value;
      if (pursuit.uses_residual_norm) {
        norms[k] -= value * value;
        inverse[k] = norms[k] > PIVOT_FLOOR * squaredNorms[k] ? 1 / norms[k] : 0;
      }
    }
    projections.push(projection);
  }
  return sortCode(support, substituteBack(cholesky, steps));
}

function multiply(dictionary, vector) {
  const products = new Float64Array(dictionary.length);
  for (let k = 0; k < products.length; k++) products[k] = dot(dictionary[k], vector);
  return products;
}

function keptEnergy(atom, isKept) {
  let total = 0;
  for (let f = 0; f < atom.length; f++) if (isKept[f]) total += atom[f] * atom[f];
  return total;
}

function findLargest(correlation, inverse) {
  let best = 0;
  let largest = -1;
  for (let k = 0; k < correlation.length; k++) {
    const score = correlation[k] * correlation[k] * inverse[k];
    if (score > largest) {
      largest = score;
      best = k;
    }
  }
  return best;
}

function substituteBack(cholesky, steps) {
  const values = steps.slice();
  for (let t = values.length - 1; t >= 0; t--) {
    for (let s = t + 1; s < values.length; s++) values[t] -= cholesky[s][t] * values[s];
    values[t] /= cholesky[t][t];
  }
  return values;
}

function sortCode(support, values) {
  const order = support.map((_, t) => t).sort((a, b) => support[a] - support[b]);
  return { atoms: order.map((t) => support[t]), values: order.map((t) => values[t]) };
}

function reconstruct(code) {
  const total = new Float64Array(model.nFeatures);
  code.atoms.forEach((atom, t) => {
    const values = model.dictionary[atom];
    for (let f = 0; f < total.length; f++) total[f] += code.values[t] * values[f];
  });
  return total;
}

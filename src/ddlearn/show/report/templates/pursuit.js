// Orthogonal matching pursuit on the features that are kept, and replacement of atoms: the library's kernels/pursuit.py
// for one sample, with the matrix of the kept features in place of the Gram matrix. Each step takes the atom that
// promises to lower the error most; projections are the rows of inv(L) Q, with L the Cholesky factor of Q on the atoms
// chosen so far.
const EPSILON = 2 ** -52;
const RESIDUAL_FLOOR = 4 * EPSILON;
const CORRELATION_FLOOR = (100 * EPSILON) ** 2;
const PIVOT_FLOOR = 1e-10;
const SMALLEST_GAIN = 1e-6;

// isKept: bytes of 0 and 1, or null for all. Returns atoms in ascending order and their coefficients.
function pursue(sample, isKept, budget) {
  const { nAtoms, dictionary, squaredNorms, pursuit } = model;
  if ("lasso" in pursuit) return solveElasticNet(sample, isKept);
  const kept = isKept ? sample.map((value, f) => (isKept[f] ? value : 0)) : sample;
  const correlation = multiply(dictionary, kept);
  const first = correlation.slice();
  const norms = isKept ? Float64Array.from(dictionary, (atom) => keptEnergy(atom, isKept)) : squaredNorms.slice();
  const inverse = norms.map((norm, k) => (norm > PIVOT_FLOOR * squaredNorms[k] ? 1 / norm : 0));
  const wholeNorms = norms.slice();
  const [support, steps, cholesky, projections] = [[], [], [], []];
  const column = (atom) =>
    multiply(dictionary, isKept ? dictionary[atom].map((value, f) => (isKept[f] ? value : 0)) : dictionary[atom]);
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
    const projection = column(atom);
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
  const values = substituteBack(cholesky, steps);
  if (budget < 2 || pursuit.n_swaps === 0 || support.length === 0) return sortCode(support, values);
  return replaceAtoms(support, values, first, wholeNorms, column);
}

// Swaps one atom after another, each time the pair that lowers the error most. With V = inv(Q[S, S]) Q[S], q what of an
// atom lies off the support S and a its correlation with the residual, atom k brings a^2 / q, and to take atom i out then
// costs x_i^2 / (inv(Q[S, S])_ii + V_ik^2 / q), with the x_i that k has moved.
function replaceAtoms(support, values, correlation, norms, column) {
  const { nAtoms, squaredNorms, pursuit } = model;
  const columns = support.map(column);
  const smallest = SMALLEST_GAIN * Math.abs(support.reduce((sum, atom, t) => sum + correlation[atom] * values[t], 0));
  for (let nSwaps = 0; ; nSwaps++) {
    const inverse = invert(columns.map((products) => support.map((atom) => products[atom])));
    values = inverse.map((row) => row.reduce((sum, entry, t) => sum + entry * correlation[support[t]], 0));
    if (nSwaps === pursuit.n_swaps) break;
    let [best, atom, place] = [smallest, -1, -1];
    for (let k = 0; k < nAtoms; k++) {
      const part = inverse.map((row) => row.reduce((sum, entry, t) => sum + entry * columns[t][k], 0));
      const left = columns.reduce((rest, products, t) => rest - products[k] * values[t], correlation[k]);
      const norm = columns.reduce((rest, products, t) => rest - products[k] * part[t], norms[k]);
      if (!(norm > PIVOT_FLOOR * squaredNorms[k]) || support.includes(k)) continue;
      for (let t = 0; t < support.length; t++) {
        const moved = values[t] - (part[t] * left) / norm;
        const gain = (left * left) / norm - (moved * moved) / (inverse[t][t] + (part[t] * part[t]) / norm);
        if (gain > best) [best, atom, place] = [gain, k, t];
      }
    }
    if (atom < 0) break;
    support[place] = atom;
    columns[place] = column(atom);
  }
  return sortCode(support, values);
}

// The inverse of a positive definite matrix, by the elimination of Gauss and Jordan.
function invert(matrix) {
  const rows = matrix.map((row) => row.slice());
  for (let p = 0; p < rows.length; p++) {
    const pivot = rows[p][p];
    for (let j = 0; j < rows.length; j++) if (j !== p) rows[p][j] /= pivot;
    for (let i = 0; i < rows.length; i++) {
      if (i === p) continue;
      const factor = rows[i][p];
      for (let j = 0; j < rows.length; j++) if (j !== p) rows[i][j] -= factor * rows[p][j];
      rows[i][p] = -factor / pivot;
    }
    rows[p][p] = 1 / pivot;
  }
  return rows;
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
  const total = new Float64Array(model.dictionary[0].length);
  code.atoms.forEach((atom, t) => {
    const values = model.dictionary[atom];
    for (let f = 0; f < total.length; f++) total[f] += code.values[t] * values[f];
  });
  return total;
}

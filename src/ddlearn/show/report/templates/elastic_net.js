// The elastic net on the features that are kept: coordinate descent until atoms and signs have settled, for which the
// minimum is then one linear system. The library finds the same minimum in fewer steps (kernels/elastic_net.py), but one
// sample at a time needs no better.
const LEAST_CHANGE = 1e-10; // of the reconstruction, relative to the sample
const FIRST_CHANGE = 1e-3; // at which the linear system is tried
const MOST_PASSES = 3000;

// isKept: bytes of 0 and 1, or null for all. Returns atoms in ascending order and their coefficients.
function solveElasticNet(sample, isKept) {
  const { nAtoms, dictionary, squaredNorms, pursuit } = model;
  const { lasso, ridge, positive } = pursuit;
  const kept = Float64Array.from(sample, (value, f) => (!isKept || isKept[f] ? value : 0));
  const residual = kept.slice();
  const norms = isKept ? Float64Array.from(dictionary, (atom) => keptEnergy(atom, isKept)) : squaredNorms;
  const values = new Float64Array(nAtoms);
  const everything = Array.from(values, (_, k) => k);
  const size = Math.sqrt(dot(kept, kept));
  const move = (k, change) => {
    const atom = dictionary[k];
    values[k] += change;
    for (let f = 0; f < residual.length; f++) if (!isKept || isKept[f]) residual[f] -= change * atom[f];
  };
  // Moves the coefficients of some atoms, and returns the largest change of the reconstruction.
  const visit = (atoms) => {
    let largest = 0;
    for (const k of atoms) {
      if (!(norms[k] + ridge > 0)) continue;
      const slope = dot(dictionary[k], residual) + norms[k] * values[k];
      const excess = Math.max((positive ? slope : Math.abs(slope)) - lasso, 0);
      const change = (Math.sign(slope) * excess) / (norms[k] + ridge) - values[k];
      if (change === 0) continue;
      move(k, change);
      largest = Math.max(largest, Math.abs(change) * Math.sqrt(norms[k]));
    }
    return largest;
  };
  let enough = FIRST_CHANGE * size;
  for (let pass = 0; pass < MOST_PASSES && visit(everything) > LEAST_CHANGE * size; pass++) {
    const used = everything.filter((k) => values[k] !== 0);
    while (pass < MOST_PASSES && visit(used) > enough) pass++;
    const support = used.filter((k) => values[k] !== 0);
    const exact = solveOnSupport(
      support,
      support.map((k) => Math.sign(values[k])),
      kept,
      isKept,
    );
    if (exact) support.forEach((k, t) => move(k, exact[t] - values[k]));
    else enough = Math.max(enough / 10, LEAST_CHANGE * size); // atoms and signs have not settled
  }
  const atoms = everything.filter((k) => values[k] !== 0);
  return { atoms, values: atoms.map((k) => values[k]) };
}

// The minimum for given atoms and signs, or null if it has other signs.
function solveOnSupport(support, signs, kept, isKept) {
  const { dictionary, pursuit } = model;
  const chosen = support.map((k) =>
    isKept ? dictionary[k].map((value, f) => (isKept[f] ? value : 0)) : dictionary[k],
  );
  const matrix = chosen.map((atom, t) => chosen.map((other, s) => dot(atom, other) + (s === t ? pursuit.ridge : 0)));
  const right = chosen.map((atom, t) => dot(atom, kept) - pursuit.lasso * signs[t]);
  const values = invert(matrix).map((row) => row.reduce((sum, entry, t) => sum + entry * right[t], 0));
  return values.every((value, t) => value * signs[t] > 0) ? values : null;
}

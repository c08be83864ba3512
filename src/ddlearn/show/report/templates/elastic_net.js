// The elastic net by coordinate descent on the features that are kept: passes over the atoms in use until they settle,
// and one over all atoms to see whether others come in. The library finds the same minimum in fewer steps
// (kernels/elastic_net.py), but one sample at a time needs no better.
const LEAST_CHANGE = 1e-9; // of the reconstruction, relative to the sample
const MOST_PASSES = 3000;

// isKept: bytes of 0 and 1, or null for all. Returns atoms in ascending order and their coefficients.
function solveElasticNet(sample, isKept) {
  const { nAtoms, dictionary, squaredNorms, pursuit } = model;
  const { lasso, ridge, positive } = pursuit;
  const residual = Float64Array.from(sample, (value, f) => (!isKept || isKept[f] ? value : 0));
  const norms = isKept ? Float64Array.from(dictionary, (atom) => keptEnergy(atom, isKept)) : squaredNorms;
  const values = new Float64Array(nAtoms);
  const enough = LEAST_CHANGE * Math.sqrt(dot(residual, residual));
  const everything = Array.from(values, (_, k) => k);
  // Moves the coefficients of some atoms, and returns the largest change of the reconstruction.
  const visit = (atoms) => {
    let largest = 0;
    for (const k of atoms) {
      if (!(norms[k] + ridge > 0)) continue;
      const atom = dictionary[k];
      const slope = dot(atom, residual) + norms[k] * values[k];
      const size = Math.max((positive ? slope : Math.abs(slope)) - lasso, 0);
      const change = (Math.sign(slope) * size) / (norms[k] + ridge) - values[k];
      if (change === 0) continue;
      values[k] += change;
      for (let f = 0; f < residual.length; f++) if (!isKept || isKept[f]) residual[f] -= change * atom[f];
      largest = Math.max(largest, Math.abs(change) * Math.sqrt(norms[k]));
    }
    return largest;
  };
  for (let pass = 0; pass < MOST_PASSES && visit(everything) > enough; pass++) {
    const used = everything.filter((k) => values[k] !== 0);
    while (pass < MOST_PASSES && visit(used) > enough) pass++;
  }
  const atoms = everything.filter((k) => values[k] !== 0);
  return { atoms, values: atoms.map((k) => values[k]) };
}

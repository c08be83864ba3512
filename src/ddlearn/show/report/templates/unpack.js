// The content of the page: one JSON object, its arrays in base64 (packing.py).
const content = JSON.parse(document.getElementById("content").textContent);

const ARRAY_TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };

function unpack(packed) {
  const text = atob(packed.bytes);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAY_TYPES[packed.dtype](bytes.buffer);
}

// Rows of a matrix as arrays of their own, in double precision as all arithmetic here.
function unpackRows(packed) {
  const flat = unpack(packed);
  const [nRows, length] = packed.shape;
  return Array.from({ length: nRows }, (_, i) => Float64Array.from(flat.subarray(i * length, (i + 1) * length)));
}

function flattenRows([nRows, ...shape]) {
  return [nRows, shape.reduce((product, length) => product * length, 1)];
}

// Samples, which are bytes in steps from an offset where that loses nothing.
function unpackSamples(packed) {
  const rows = unpackRows(packed.values);
  if (!packed.step) return rows;
  const [offset, step] = [unpack(packed.offset), unpack(packed.step)];
  return rows.map((row, i) => row.map((count) => offset[i] + step[i] * count));
}

// What a description leaves out does nothing.
function unpackDescription({ mean, spread, constant, energy }, nFeatures) {
  return {
    mean: mean ? unpack(mean) : new Float64Array(nFeatures),
    spread: spread ? unpack(spread) : new Float64Array(nFeatures).fill(1),
    constant: constant ? unpack(constant) : [],
    energy: energy && unpack(energy),
  };
}

const model = {
  ...content.model,
  dictionary: unpackRows(content.model.dictionary),
  coef: unpackRows(content.model.coef),
  intercept: unpack(content.model.intercept),
  classCost: unpack(content.model.class_cost),
  description: unpackDescription(content.model.description, content.model.n_features),
  evidence: {
    scores: unpack(content.model.evidence.scores),
    values: unpack(content.model.evidence.values),
    slopes: unpack(content.model.evidence.slopes),
  },
  views: content.model.views && unpackRows({ ...content.model.views, shape: flattenRows(content.model.views.shape) }),
  table: content.model.table && {
    mean: unpack(content.model.table.mean),
    spread: unpack(content.model.table.spread),
  },
};
model.nAtoms = model.dictionary.length;
model.nFeatures = model.n_features;
model.squaredNorms = Float64Array.from(model.dictionary, (atom) => dot(atom, atom));

const data = content.data && {
  ...content.data,
  samples: unpackSamples(content.data.samples),
  expected: {
    labels: content.data.expected.labels,
    probability: unpack(content.data.expected.probability),
    left: unpack(content.data.expected.left),
  },
};

// Of arrays of doubles only: browsers compile it for one type of array.
function dot(a, b) {
  let total = 0;
  for (let f = 0; f < a.length; f++) total += a[f] * b[f];
  return total;
}

// The library's descriptions, as far as they are numbers, for one sample: what is coded, and back.

// isKnown: bytes of 0 and 1; what stands in the places of missing features does not matter.
function scaleSample(sample, isKnown) {
  const { mean, spread, constant } = model.description;
  const size = measureSize(sample, isKnown);
  const scaled = new Float64Array(sample.length + constant.length);
  const known = new Uint8Array(scaled.length).fill(1);
  for (let f = 0; f < sample.length; f++) {
    known[f] = isKnown[f];
    scaled[f] = isKnown[f] && spread[f] > 0 ? (sample[f] - mean[f]) / spread[f] / size : 0;
  }
  scaled.set(constant, sample.length);
  return { scaled, known, size };
}

// The norm, if samples are divided by it; that of missing features is estimated from their share in other samples.
function measureSize(sample, isKnown) {
  const { energy } = model.description;
  if (!energy) return 1;
  let [total, share, nKnown] = [0, 0, 0];
  for (let f = 0; f < sample.length; f++) {
    if (!isKnown[f]) continue;
    total += sample[f] ** 2;
    share += energy[f];
    nKnown++;
  }
  return Math.sqrt(total / (share > 0 && nKnown < sample.length ? Math.min(share, 1) : 1)) || 1;
}

// From scaled to shown: of a whole sample, or of a part of one, such as an atom, which has no mean.
function unscale(scaled, size, isPart) {
  const { mean, spread } = model.description;
  return Float64Array.from(mean, (offset, f) => scaled[f] * spread[f] * size + (isPart ? 0 : offset));
}

// Views of an image: the library's describe/jitter.py for one image. A pixel of a view shows the image at a displaced
// place, between pixels by the cubic convolution of Keys; outside its border an image is zero.
function displace(image, field) {
  const [height, width] = model.image_shape;
  const view = new Float64Array(image.length);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const place = row * width + column;
      view[place] = lookAt(image, row + field[place], column + field[height * width + place]);
    }
  }
  const [energy, seen] = [dot(image, image), dot(view, view)];
  return seen > 0 ? view.map((value) => value * Math.sqrt(energy / seen)) : view;
}

function lookAt(image, v, u) {
  const [height, width] = model.image_shape;
  const [top, left] = [Math.floor(v) - 1, Math.floor(u) - 1];
  const [weightsV, weightsU] = [weighNeighbours(v - Math.floor(v)), weighNeighbours(u - Math.floor(u))];
  let total = 0;
  for (let i = 0; i < 4; i++) {
    if (top + i < 0 || top + i >= height) continue;
    for (let j = 0; j < 4; j++) {
      if (left + j < 0 || left + j >= width) continue;
      total += weightsV[i] * weightsU[j] * image[(top + i) * width + left + j];
    }
  }
  return total;
}

function weighNeighbours(t) {
  const [square, cube] = [t * t, t * t * t];
  return [square - (cube + t) / 2, 1 + 1.5 * cube - 2.5 * square, 2 * square + (t - 3 * cube) / 2, (cube - square) / 2];
}

"""Images seen through displacement fields, in Numba.

Pixel (row v, column u) of the output shows the input at (v + dv, u + du).  Between pixels the image is the cubic
convolution of Keys (1981), also known as Catmull-Rom: it passes through the pixels, so that no displacement returns the
image itself, to the last bit, and hardly blurs.  Outside its border an image is zero.
"""

import numpy as np

from . import njit
from .codes import add_combination

BORDER = 4  # zeros around an image, as many as pixels that are combined


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(t):
    # Keys' kernel at -1 - t, -t, 1 - t and 2 - t.  Written without constants that would make float64 of float32.
    half_t = t / type(t)(2)
    square = t * t
    half_cube = half_t * square
    three_half_cubes = half_cube + half_cube + half_cube
    return (
        square - half_cube - half_t,
        three_half_cubes - square - square - square / type(t)(2) + type(t)(1),
        square + square - three_half_cubes + half_t,
        half_cube - square / type(t)(2),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _look_along_row(image, row, left, weights):
    return (
        weights[0] * image[row, left]
        + weights[1] * image[row, left + 1]
        + weights[2] * image[row, left + 2]
        + weights[3] * image[row, left + 3]
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _look(image, top, left, weights_v, weights_u):
    return (
        weights_v[0] * _look_along_row(image, top, left, weights_u)
        + weights_v[1] * _look_along_row(image, top + 1, left, weights_u)
        + weights_v[2] * _look_along_row(image, top + 2, left, weights_u)
        + weights_v[3] * _look_along_row(image, top + 3, left, weights_u)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def displace_rows(
    images,  # (n_rows, height, width)
    fields,  # (n_rows, 2, height, width) displacements along v and along u, in pixels
    framed,  # (height + 2 BORDER, width + 2 BORDER) zeros, of which the inside is overwritten
    displaced,  # out, (n_rows, height, width)
):
    """Show every image through its field, scaled to the norm that it had."""
    n_rows, height, width = images.shape
    for i in range(n_rows):
        energy = 0.0
        energy_seen = 0.0
        for row in range(height):
            for column in range(width):
                framed[row + BORDER, column + BORDER] = images[i, row, column]
        for row in range(height):
            for column in range(width):
                # Whole pixels are split off before they are added to the place, which would cost float32 digits.
                whole_v, whole_u = np.floor(fields[i, 0, row, column]), np.floor(fields[i, 1, row, column])
                weights_v = _weigh(fields[i, 0, row, column] - whole_v)
                weights_u = _weigh(fields[i, 1, row, column] - whole_u)
                # Beyond the frame everything is zero, as in its corners.
                top = min(max(row + int(whole_v) - 1 + BORDER, 0), height + BORDER)
                left = min(max(column + int(whole_u) - 1 + BORDER, 0), width + BORDER)
                value = _look(framed, top, left, weights_v, weights_u)
                displaced[i, row, column] = value
                energy += np.float64(images[i, row, column]) ** 2
                energy_seen += np.float64(value) ** 2
        if energy_seen > 0:  # else nothing is seen: the image is blank, or it has left the frame
            factor = images.dtype.type(np.sqrt(energy / energy_seen))
            for row in range(height):
                for column in range(width):
                    displaced[i, row, column] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def displace_columns(
    images,  # (height * width, n_images) one image per column
    field,  # (2, height, width) the displacements of all of them
    factors,  # (16,) of the pixels that are combined
    chosen,  # (16,) those pixels
    displaced,  # out, (height * width, n_images)
):
    """Show images through one field, not scaled: vector instructions over the images."""
    _, height, width = field.shape
    for row in range(height):
        for column in range(width):
            whole_v, whole_u = np.floor(field[0, row, column]), np.floor(field[1, row, column])
            weights_v = _weigh(field[0, row, column] - whole_v)
            weights_u = _weigh(field[1, row, column] - whole_u)
            n_chosen = 0
            for v in range(4):
                for u in range(4):
                    seen_row, seen_column = row + int(whole_v) - 1 + v, column + int(whole_u) - 1 + u
                    if 0 <= seen_row < height and 0 <= seen_column < width:
                        factors[n_chosen] = weights_v[v] * weights_u[u]
                        chosen[n_chosen] = seen_row * width + seen_column
                        n_chosen += 1
            pixel = row * width + column
            for i in range(images.shape[1]):
                displaced[pixel, i] = 0
            add_combination(factors, chosen, n_chosen, images, displaced[pixel])

"""Gradients of images by direction, averaged over cells, in Numba.

A pixel belongs to the cells around it by bilinear weights: along each axis, to a cell by 1 - share and to the next by
share.  Beyond its border an image goes on as it ends, so that an even brightness has no gradient.
"""

import numpy as np

from . import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _add_to_cells(value, down, share_down, right, share_right, cells):
    last_down, last_right = min(down + 1, cells.shape[0] - 1), min(right + 1, cells.shape[1] - 1)
    below, above = value * share_down, value - value * share_down
    cells[down, right] += above - above * share_right
    cells[down, last_right] += above * share_right
    cells[last_down, right] += below - below * share_right
    cells[last_down, last_right] += below * share_right


@njit(cache=True, nogil=True, error_model="numpy")
def _look_between_cells(cells, down, share_down, right, share_right):
    last_down, last_right = min(down + 1, cells.shape[0] - 1), min(right + 1, cells.shape[1] - 1)
    above = cells[down, right] + share_right * (cells[down, last_right] - cells[down, right])
    below = cells[last_down, right] + share_right * (cells[last_down, last_right] - cells[last_down, right])
    return above + share_down * (below - above)


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_slopes(image, slopes):
    # Sobel's filters: differences of the neighbours, smoothed across with 1, 2, 1.
    height, width = image.shape
    for row in range(height):
        above, below = max(row - 1, 0), min(row + 1, height - 1)
        for column in range(width):
            left, right = max(column - 1, 0), min(column + 1, width - 1)
            middle = image[row, right] - image[row, left]
            outer = image[above, right] - image[above, left] + image[below, right] - image[below, left]
            slopes[0, row, column] = middle + middle + outer
            middle = image[below, column] - image[above, column]
            outer = image[below, left] - image[above, left] + image[below, right] - image[above, right]
            slopes[1, row, column] = middle + middle + outer


@njit(cache=True, nogil=True, error_model="numpy")
def pool_gradients_rows(
    images,  # (n_rows, height, width)
    down,  # (height,) the first of the two cells that a row of pixels belongs to
    share_down,  # (height,) by how much it belongs to the second
    right,  # (width,) likewise for a column
    share_right,  # (width,)
    directions,  # (n_directions, 2) unit vectors at equal angles, along u and along v
    weights,  # (n_cells_down, n_cells_right) sums of the weights of all pixels
    least,  # how large the mean gradient around a pixel is at least, in units of that of the whole image
    slopes,  # workspace, (2, height, width)
    sizes,  # workspace, (n_cells_down, n_cells_right)
    pooled,  # out, (n_rows, n_directions, n_cells_down, n_cells_right), zeros
):
    """Add up gradients over cells, each divided by the mean size of gradients around it and split into directions.

    A gradient g is c u + c' u' for the two directions u and u' next to it, with c and c' not negative.
    """
    n_rows, height, width = images.shape
    n_directions = len(directions)
    cosine, sine = directions[1, 0], directions[1, 1]  # of the angle between neighbours
    for i in range(n_rows):
        _measure_slopes(images[i], slopes)
        sizes[:] = 0
        total = images.dtype.type(0)
        for row in range(height):
            for column in range(width):
                size = np.sqrt(slopes[0, row, column] ** 2 + slopes[1, row, column] ** 2)
                total += size
                _add_to_cells(size, down[row], share_down[row], right[column], share_right[column], sizes)
        if total == 0:
            continue  # a blank image
        floor = least * total / images.dtype.type(height * width)
        sizes /= weights
        for row in range(height):
            for column in range(width):
                place = down[row], share_down[row], right[column], share_right[column]
                unit = _look_between_cells(sizes, *place) + floor
                along_u, along_v = slopes[0, row, column] / unit, slopes[1, row, column] / unit
                nearest, along = 0, directions[0, 0] * along_u + directions[0, 1] * along_v
                for k in range(1, n_directions):
                    projection = directions[k, 0] * along_u + directions[k, 1] * along_v
                    if projection > along:
                        nearest, along = k, projection
                across = directions[nearest, 0] * along_v - directions[nearest, 1] * along_u
                step = 1 if across >= 0 else n_directions - 1
                of_next = np.abs(across) / sine
                _add_to_cells(along - cosine * of_next, *place, pooled[i, nearest])
                _add_to_cells(of_next, *place, pooled[i, (nearest + step) % n_directions])

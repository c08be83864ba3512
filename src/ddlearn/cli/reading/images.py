"""Image files: one, or a folder of them, with one sub-folder per class or none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .samples import DataError, Samples, check_size, require

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pbm", ".webp"})
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")  # Pillow's other decoders may run programs
_DEFAULT_SIZE = (32, 32)  # if sizes differ


def read_images(source: Path, size: tuple[int, int] | None, colour: bool, strict: bool) -> Samples:
    """Read images, scaled and cropped to one size."""
    require("PIL.Image", source, "cli")
    files, classes = _list_images(source)
    broken: dict[Path, str] = {}
    if size is None:
        sizes = {*_try_each(files, _measure_image, broken).values()}
        size = sizes.pop() if len(sizes) == 1 else _DEFAULT_SIZE
    check_size(source, (len(files), size[0] * size[1]), 12 if colour else 4, "give a smaller size")
    pixels = _try_each(
        [file for file in files if file not in broken], lambda file: _load_pixels(file, size, colour), broken
    )
    named = [(_relative(file, source), broken[file]) for file in files if file in broken]
    if named and (strict or not pixels or source.is_file()):
        listing = "; ".join(f"{name} ({reason})" for name, reason in named[:10])
        raise DataError(f"{source}: {len(named)} of {len(files)} images cannot be read: {listing}.")
    labels = None if classes is None else np.array([classes[file] for file in pixels])
    X = np.stack(list(pixels.values())).reshape(len(pixels), -1)
    return Samples(X, labels, None, (*size, 3) if colour else size, [_relative(file, source) for file in pixels], named)


def _list_images(source: Path) -> tuple[list[Path], dict[Path, str] | None]:
    """Return the image files in order, and the class of each if there are sub-folders."""
    if source.is_file():
        return [source], None
    alone = _find_images(source.iterdir())
    classes = {
        file: folder.name
        for folder in sorted(source.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
        for file in _find_images(_list_class(source, folder))
    }
    if alone and classes:
        raise DataError(
            f"{source} has images next to the sub-folders of its classes, such as {alone[0].name}: "
            "move them into a sub-folder, or elsewhere."
        )
    if not alone and not classes:
        raise DataError(f"{source} has no images: expected one sub-folder of images per class, or images.")
    return (list(classes), classes) if classes else (alone, None)


def _list_class(source: Path, folder: Path) -> Iterator[Path]:
    """Return what is in the folder of a class, which may be a link, but not to a folder around it."""
    if source.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{folder} is a link to {folder.resolve()}, which holds {source} itself: remove it.")
    return folder.rglob("*")


def _find_images(paths: Iterable[Path]) -> list[Path]:
    return sorted(
        path
        for path in paths
        if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def _try_each(files: list[Path], read: Callable[[Path], Any], broken: dict[Path, str]) -> dict[Path, Any]:
    """Return the result for each file; files that fail are added to the broken ones."""
    results = {}
    for file in files:
        try:
            results[file] = read(file)
        except Exception as error:  # decoders raise all kinds of errors for damaged files
            broken[file] = f"{type(error).__name__}: {error}"
    return results


def _measure_image(path: Path) -> tuple[int, int]:
    with _open_image(path) as image:
        return image.height, image.width


def _load_pixels(path: Path, size: tuple[int, int], colour: bool) -> NDArray[np.float32]:
    from PIL import ImageOps

    with _open_image(path) as image:
        if image.mode.startswith("I"):  # 16 bits per pixel; Pillow's own conversion clips at 255
            image = image.point(lambda value: value * (1 / 256)).convert("L")
        image = image.convert("RGB" if colour else "L")
        if (image.height, image.width) != size:
            image = ImageOps.fit(image, size[::-1])
        return np.asarray(image, np.float32) / np.float32(255)


@contextmanager
def _open_image(path: Path) -> Iterator[Any]:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path, formats=_FORMATS) as image:
            yield ImageOps.exif_transpose(image)


def _relative(file: Path, source: Path) -> str:
    return file.name if source.is_file() else file.relative_to(source).as_posix()

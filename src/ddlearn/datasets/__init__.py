"""Digits that come with scikit-learn, three public image sets (USPS, MNIST, Extended Yale B) and a planted problem.

Loaders search the folder named by the environment variable ``DDLEARN_DATA``, then the cache ``~/.cache/ddlearn`` (or
``$XDG_CACHE_HOME/ddlearn``), and otherwise download into the cache, which needs ``pip install "ddlearn[data]"``.
"""

from .files import CorruptDatasetError, DatasetNotFoundError, find_datasets
from .planted import make_planted
from .sets import load_digits_images, load_mnist, load_usps, load_yaleb

__all__ = [
    "CorruptDatasetError",
    "DatasetNotFoundError",
    "find_datasets",
    "load_digits_images",
    "load_mnist",
    "load_usps",
    "load_yaleb",
    "make_planted",
]

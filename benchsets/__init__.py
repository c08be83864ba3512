"""Three public image sets for benchmarks, the reproduction and examples: USPS, MNIST and Extended Yale B.

Loaders search the folder named by the environment variable ``DDLEARN_DATA``, then the cache ``~/.cache/ddlearn`` (or
``$XDG_CACHE_HOME/ddlearn``), and otherwise download into the cache, which needs ``pip install pooch``.
"""

from .files import CorruptDatasetError, DatasetNotFoundError, find_datasets
from .sets import load_mnist, load_usps, load_yaleb

__all__ = [
    "CorruptDatasetError",
    "DatasetNotFoundError",
    "find_datasets",
    "load_mnist",
    "load_usps",
    "load_yaleb",
]

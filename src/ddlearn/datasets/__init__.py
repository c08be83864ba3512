"""Data to learn from: digits that are always there, three public image sets, and a planted problem.

The public sets (USPS, MNIST, Extended Yale B) are files.  They are looked for in the folder that the environment
variable ``DDLEARN_DATA`` names, then in the cache folder, ``~/.cache/ddlearn`` (or ``$XDG_CACHE_HOME/ddlearn``).
Otherwise they are downloaded into the cache folder, which needs ``pip install "ddlearn[data]"``.  In a folder, a set is
either one NumPy archive or the files of its original distribution, and it is used only if its checksum is right.

In the order of their imports: ``errors``, ``formats`` (how original files are read), ``sources`` (which files there
are, and their checksums), ``files`` (found and verified), ``downloading``, ``images`` (what loaders share), ``digits``,
``faces`` and ``planted``.
"""

from .digits import load_digits_images, load_mnist, load_usps
from .errors import CorruptDatasetError, DatasetNotFoundError
from .faces import load_yaleb
from .files import find_datasets
from .planted import make_planted

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

"""What is said when a data set is not there, or not what it should be."""


class DatasetNotFoundError(FileNotFoundError):
    """A data set is in none of the folders and could not be downloaded; the message says what to put where.

    Examples
    --------
    >>> from ddlearn.datasets import DatasetNotFoundError
    >>> issubclass(DatasetNotFoundError, FileNotFoundError)
    True
    """


class CorruptDatasetError(OSError):
    """A file is not what its name says: damaged, cut short, or another version.

    Examples
    --------
    >>> from ddlearn.datasets import CorruptDatasetError
    >>> issubclass(CorruptDatasetError, OSError)
    True
    """

"""Where rows are worked on: on threads, in processes, or in parts that lie elsewhere.

The one place that knows of threads, processes and clusters (design.md, decision 4).
"""

from .dask import (
    DaskParts,
    LostClusterError,
    is_on_dask,
    pair_chunks,
    refuse_dask,
)
from .parts import PART_ROWS, LocalParts, Parts
from .processes import map_processes
from .quantiles import find_median, select_ranks
from .threads import (
    TILE_ROWS,
    effective_n_jobs,
    map_blocks,
    single_threaded_blas,
    split_rows,
)

__all__ = [
    "PART_ROWS",
    "TILE_ROWS",
    "DaskParts",
    "LocalParts",
    "LostClusterError",
    "Parts",
    "effective_n_jobs",
    "is_on_dask",
    "map_blocks",
    "map_processes",
    "pair_chunks",
    "refuse_dask",
    "single_threaded_blas",
    "split_rows",
]

"""Work on rows: on threads, in processes, or in parts that may be elsewhere.

Only this room knows threads, processes and clusters.
"""

from .dask import DaskParts as DaskParts
from .dask import LostClusterError as LostClusterError
from .dask import is_on_dask as is_on_dask
from .dask import pair_chunks as pair_chunks
from .dask import refuse_dask as refuse_dask
from .parts import PART_ROWS as PART_ROWS
from .parts import Parts as Parts
from .parts import add as add
from .parts import add_in_tree as add_in_tree
from .parts import find_median as find_median
from .parts import select_ranks as select_ranks
from .processes import map_processes as map_processes
from .threads import TILE_ROWS as TILE_ROWS
from .threads import effective_n_jobs as effective_n_jobs
from .threads import map_blocks as map_blocks
from .threads import single_threaded_blas as single_threaded_blas
from .threads import split_rows as split_rows
from .warn import warn_user as warn_user
